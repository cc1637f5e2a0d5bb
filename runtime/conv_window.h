// Where the windows of a convolution lie: register tiles of output pixels, with pointers to the input pixels that each
// kernel position needs. What falls into the padding points at a row of it; where padding is 0, a position that is padding
// for the whole tile has a null pointer first, and the kernels skip it.
#pragma once
#include <cstdint>

#include "runtime/gemm_block.h"

namespace tenon {

/// Sizes of a convolution over (depth, height, width); 2-D has depth 1, 1-D has depth and height 1. Padding is what
/// lies before the first element; what is missing behind the last counts as padding too. Pixels of an image are dense
/// in (d, h, w) order.
struct ConvWindow {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  bool operator==(const ConvWindow&) const = default;

  int64_t positions() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
};

/// How output pixels are cut into units (what parallel items are made of), blocks of units, and tiles. Aligned, a tile
/// lies in one output row: its pointers are regular, and padding falls on whole positions or on its ends. That needs
/// rows which fill tiles well.
struct PixelCut {
  bool aligned;
  int tile_rows;
  int64_t pieces;      // units of an output row, if aligned
  int64_t width;       // of an output row
  int64_t pixels;      // of an image
  int64_t block_units; // units of a block

  int64_t units() const { return aligned ? pixels / width * pieces : (pixels + tile_rows - 1) / tile_rows; }
  /// First pixel of unit u.
  int64_t begin(int64_t u) const {
    if (!aligned) return u * tile_rows < pixels ? u * tile_rows : pixels;
    return u / pieces * width + u % pieces * width / pieces;
  }
};
PixelCut cut_pixels(const ConvWindow& w, int tile_rows, int tile_vectors);
/// Tiles of any pixels: for rows that are copied anyway.
PixelCut cut_freely(const ConvWindow& w, int tile_rows);
/// Pixels of a block at most.
inline constexpr int64_t max_block_pixels = 128;

/// Output pixels of an image; any_size where a size is.
int64_t known_pixels(const ConvWindow& w);
/// As tile_heights, for the tiles of all units.
uint64_t window_heights(const ConvWindow& w, int tile_rows, int tile_vectors);

/// The input, as tiles are to see it. Folded: a position is a (d, h) of the kernel and a row is kernel[2] adjacent
/// pixels, which needs dilation[2] == 1 and pixels without gaps; windows that cross the left or right border are then
/// copied into `copies`, at most max_block_pixels * positions * kernel[2] pixels.
struct WindowInput {
  const char* image;
  int64_t pixel;     // bytes from pixel to pixel
  const char* zeros; // a pixel of padding, folded: a row of the window
  int padding = 0;   // the value of its elements
  bool folded = false;
  char* copies = nullptr;
};

/// What the windows of output pixels [m0, m1) are the first to meet of an image, of so many bytes from pixel to pixel.
ReadNext first_met(const ConvWindow& w, const char* image, int64_t pixel, int64_t m0, int64_t m1);

/// Tiles of the block of units [u0, u1) for kernel positions [q0, q1). Pointers go to `pointers`, at most
/// max_block_pixels * (q1 - q0); returns the number of tiles.
int64_t cut_windows(const ConvWindow& w, const PixelCut& cut, const WindowInput& in, int64_t u0, int64_t u1, int64_t q0, int64_t q1,
                    const void** pointers, RowTile* tiles) noexcept;

} // namespace tenon
