// Rows of f16 and bf16 as f32, and back.
#pragma once
#include <type_traits>

#include "base/numeric.h"

namespace tenon::library {

template <class T> inline constexpr bool is_half_v = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

/// Whether the machine converts f16, as every one with AVX2 does.
bool has_f16c();

void widen_row(const F16* from, float* to, int64_t n);
void widen_row(const BF16* from, float* to, int64_t n);
/// To nearest even.
void narrow_row(const float* from, F16* to, int64_t n);
void narrow_row(const float* from, BF16* to, int64_t n);
/// sum += scale * from
void add_row(const F16* from, float scale, float* sum, int64_t n);
void add_row(const BF16* from, float scale, float* sum, int64_t n);

} // namespace tenon::library
