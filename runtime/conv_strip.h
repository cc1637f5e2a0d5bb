// Windows of a convolution copied by rows of the image: an input row becomes a window's run for every output column, and output rows
// share what they have in common. Where output pixels follow each other, so do their rows in the strip, for each row of the window.
#pragma once
#include <cstdint>

#include "runtime/conv_parts.h"

namespace tenon {

/// How a block of `pixels` output pixels is copied. Input rows lie by their remainder modulo the stride, `rows` of each; a row is as many
/// runs as the output is wide, `stride` bytes apart.
struct ConvStrip {
  int64_t pixels = 0, rows = 0, stride = 0;
  int64_t width = 0; // of an output row

  bool used() const { return pixels > 0; }
  int64_t row_bytes() const { return width * stride; }
  int64_t bytes(const ConvWindow& w) const { return w.stride[1] * rows * row_bytes(); }
  /// Bytes from the strip's begin to what the output row that it starts with needs for row `position` of the window.
  int64_t offset(const ConvWindow& w, int64_t position) const {
    int64_t y = position * w.dilation[1];
    return (y % w.stride[1] * rows + y / w.stride[1]) * row_bytes();
  }
};

/// Not used where windows are no runs of rows (groups, 3-D, gaps between columns or pixels), where elements are converted, or where L2
/// does not hold a few rows.
ConvStrip choose_strip(const GemmFamily& family, const Caches& caches, const ConvLayout& layout, const Conv& conv);

/// Copies what output pixels [m0, m1) need; returns the bytes from the strip's begin to the runs of pixel m0, without `offset`.
int64_t fill_strip(const ConvStrip& strip, const ConvLayout::Part& part, const Conv& conv, const char* image, int64_t m0, int64_t m1,
                   char* to) noexcept;

} // namespace tenon
