// The transforms of Winograd's F(2x2, 3x3), compiled for each instruction set. Elements are those of a 4x4 patch, row
// by row; `plane` counts floats from an element to the next.
#pragma once
#include <cstdint>

namespace tenon::library {

struct WinogradKernels {
  /// `count` 3x3 kernels side by side, whole vectors: tap q of kernel j is from[q * row + j], element e of its
  /// transform to[e * plane + j], computed in double. Whether all weights are below 1e18: sums of nine stay far from
  /// overflow.
  bool (*weights)(const float* from, int64_t row, int64_t count, float* to, int64_t plane);
  /// Channels [0, count) of the 16 pixels at `from`: to[e * plane + c] = element e. Writes whole vectors.
  void (*input)(const float* const* from, int64_t count, float* to, int64_t plane);
  /// Channels [0, count) of the 2x2 pixels at `to`, from their products; reads whole vectors. Whether all are finite.
  bool (*output)(const float* from, int64_t plane, int64_t count, float* const* to);
  /// The same 2x2 pixels by direct summation over `channels` of the 16 pixels at `from`: element e of the weights of
  /// channel i is weights[e * plane + i * width + c].
  void (*direct)(const float* const* from, int64_t channels, const float* weights, int64_t plane, int64_t width, int64_t count,
                 float* const* to);
};

namespace avx2 {
extern const WinogradKernels winograd_kernels;
}
namespace avx512 {
extern const WinogradKernels winograd_kernels;
}

} // namespace tenon::library
