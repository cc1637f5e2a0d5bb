// Windows of a convolution copied to rows of a matrix, in the type and to the multiples of k that the kernels read.
#pragma once
#include <span>

#include "runtime/conv_parts.h"

namespace tenon {

/// What tiles of windows point at: a position is `pieces` runs of adjacent elements, one pointer each.
struct WindowRows {
  const ConvLayout::Part& part;
  int64_t pieces;
  DType type;
  int64_t first;       // bytes from the pointers on
  const char* padding; // its pointers are used as they are
};

/// Copies the rows of `tiles`, `positions` of the part's positions each, one below the other, `stride` bytes apart.
void copy_windows(const KernelTable& kernels, const GemmFamily& family, const WindowRows& from, std::span<const RowTile> tiles,
                  int64_t positions, char* to, int64_t stride) noexcept;

} // namespace tenon
