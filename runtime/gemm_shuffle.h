// Rearrangements of small elements that packing consists of, in vectors of the compiler's own.
#pragma once
#include <cstdint>

namespace tenon {

/// The columns of a group of `group` rows woven together: to[j * group + g] = rows[g][j], for j < columns, zeros up to
/// `width`. Elements of 2 bytes by 2, or of 1 byte by 2 or 4; group after group: rows start `from_stride` bytes after each
/// other, results of groups `width * group` elements. Rows from `depth` on count as zeros; as many groups as hold `depth`.
void weave(const void* from, int64_t from_stride, int element_bytes, int group, int64_t depth, int64_t columns, int64_t width,
           void* to) noexcept;

/// to[c][r] = from[r][c] for r < rows, c < columns; elements of 1, 2 or 8 bytes, strides in bytes.
void transpose_elements(const void* from, int64_t from_stride, int element_bytes, int64_t rows, int64_t columns, void* to,
                        int64_t to_stride) noexcept;

} // namespace tenon
