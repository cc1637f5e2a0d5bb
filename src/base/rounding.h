// Sizes in whole units.
#pragma once
#include <cstdint>

namespace tenon {

/// The units of `b` that hold `a`. Both positive, or a is 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
constexpr int64_t round_down(int64_t a, int64_t b) { return a / b * b; }
/// Bytes in whole cache lines.
constexpr int64_t up64(int64_t bytes) { return round_up(bytes, 64); }

} // namespace tenon
