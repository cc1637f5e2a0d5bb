// Copies between strided and contiguous memory.
#pragma once
#include "tenon/tensor.h"

namespace tenon {

/// Whether strides address the elements of `sizes` in row-major order without gaps (dims of size 1 do not count).
bool is_contiguous_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides);
/// Whether strides are those of `want` (dims of size 1, and tensors without elements, do not count).
bool is_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, std::span<const int64_t> want);
/// Strides of dense memory with the dims in that order, outermost first; row-major where it is empty.
std::vector<int64_t> dense_strides(std::span<const int64_t> sizes, std::span<const int> order);
/// The tensor of which a contiguous `t` is the memory: its dims, in that order, are those of `t`.
Tensor out_of_order(const Tensor& t, std::span<const int> order);
/// Copies the elements of `from`, whatever its strides, to row-major memory at `to`.
void copy_strided(const TensorView& from, void* to);
/// Copies memory at `from`, dense in that order of dims (none: row-major), into the strided `to`.
void copy_to_strided(const void* from, const TensorView& to, std::span<const int> order = {});

} // namespace tenon
