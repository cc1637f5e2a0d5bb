// Convolution of row-major images, of few channels in a group: every channel is a plane, and vectors lie along its lines.
#pragma once
#include <vector>

#include "runtime/conv_window.h"
#include "runtime/gemm_block.h"

namespace tenon {

struct Conv;
class Workers;

/// The decisions for one combination of sizes. Output lines are cut into bands of adjacent lines of a plane, lines into pieces, a
/// group's outputs into blocks; an item is a range of bands of some blocks. Where many outputs read lines with a step, an item parts the
/// lines under it first (LineKey::part); where elements are not f32, it copies them as f32 or as pairs. The blocks after it find them so.
struct LinePlan {
  struct Piece {
    int64_t x;            // its first output column
    int64_t masks;        // bytes into `masks`; -1: no window of it crosses the border
    LineFn kernels[2][2]; // of the smaller bands and of the larger ones; of blocks and of a group's last one
  };
  int lanes = 0;          // of a vector
  Tiles bands{0, 1};      // of a plane
  bool is_shared = false; // the lines of a band share input lines
  bool by_planes = false; // a range of bands lies in one plane
  int64_t part = 0;       // LineKey::part
  bool dot = false;       // LineKey::dot
  MoveFn widen = nullptr; // of reduced floats that become f32
  std::vector<Piece> pieces = {};
  std::vector<char> masks = {};
  int64_t blocks = 1, item_bands = 1;                         // of an item at most
  int64_t copied_lines = 0;                                   // under an item at most
  int64_t pointer_bytes = 0, sum_bytes = 0, copied_bytes = 0; // of one worker

  bool copies() const { return part || widen; }
  /// Of a line that is copied.
  int64_t line_elements(const ConvWindow& w) const { return part ? w.stride[2] * part : w.in[2]; }
  int64_t worker_bytes() const { return pointer_bytes + sum_bytes + copied_bytes; }
};

/// True if there are kernels for it: floats of at most 4 bytes, with weights that become f32 when packed, and short lines in its window.
bool has_line_kernels(const Conv& conv);
/// Whether pairs of channels are multiplied in bf16, where kernels of lines do it at all.
bool dots_lines(const KernelTable& kernels, const Conv& conv);
int64_t packed_line_bytes(const KernelTable& kernels, const Conv& conv);
void pack_line_weights(const KernelTable& kernels, const Conv& conv, void* to) noexcept;
LinePlan plan_lines(const KernelTable& kernels, int threads, const Conv& conv);
void run_lines(const Workers& workers, const LinePlan& plan, const Conv& conv, void* scratch) noexcept;

} // namespace tenon
