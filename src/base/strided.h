// Copies between strided and contiguous memory.
#pragma once
#include "tenon/tensor.h"

namespace tenon {

/// Whether strides address the elements of `sizes` in row-major order without gaps (dims of size 1 do not count).
bool is_contiguous_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides);
/// Copies the elements of `from`, whatever its strides, to row-major memory at `to`.
void copy_strided(const TensorView& from, void* to);
/// Copies row-major memory at `from` into the strided `to`.
void copy_to_strided(const void* from, const TensorView& to);

} // namespace tenon
