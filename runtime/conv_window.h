// Where the windows of a convolution lie: pointers to the input pixels that each output pixel needs, position by position,
// for the row-pointer kernels. What falls into the padding points at a row of zeros.
#pragma once
#include <cstdint>

namespace tenon {

/// Sizes of a convolution over (depth, height, width); 2-D has depth 1, 1-D has depth and height 1. Padding is what lies
/// before the first element; what is missing behind the last counts as padding too. Pixels of one image are `pixel` elements apart
/// and dense in (d, h, w) order.
struct ConvWindow {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};

  int64_t positions() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
};

/// Pointers for output pixels [m0, m1) and kernel positions [q0, q1), tiles of `tile_rows` at most (see Tiles), per tile
/// [position][tile row].
struct WindowRows {
  const float* image;
  int64_t pixel;
  const float* zeros;
  int64_t m0, m1, q0, q1;
  int tile_rows;
};
void point_at_pixels(const ConvWindow& w, const WindowRows& r, const float** to) noexcept;

/// The same with the kernel's width folded into the depth: a position is a (d, h) of the kernel, a pointer leads to
/// kernel[2] adjacent pixels. Needs dilation[2] == 1 and pixels without gaps (pixel channels). Windows that cross the left or
/// right border are copied into `copies`, at most (m1 - m0) * (q1 - q0) * kernel[2] * pixel elements.
void point_at_pixel_runs(const ConvWindow& w, const WindowRows& r, const float** to, float* copies) noexcept;

} // namespace tenon
