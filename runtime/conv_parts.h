// A convolution as regular ones, and how their weights lie in packed form. A transposed convolution with stride s is s
// regular ones in every dimension, one for each residue of the output's coordinate: each sees some of the kernel's taps.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/conv_window.h"
#include "tenon/tensor.h"

namespace tenon {

struct Conv;

/// The outputs first + i * step of a convolution, as a regular one. Position i of its window is tap + i * tap_step of the
/// kernel.
struct ConvPart {
  ConvWindow window;
  int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1};
  int64_t tap[3] = {0, 0, 0}, tap_step[3] = {1, 1, 1};
  bool is_empty = false; // no tap falls on its outputs, which are 0

  bool is_strided() const { return step[0] != 1 || step[1] != 1 || step[2] != 1; }
};

/// The regular convolutions that make up `conv`; their number and their taps do not depend on the image's sizes.
std::vector<ConvPart> conv_parts(const Conv& conv);

/// How windows meet the kernels of a family, and where the packed weights are: for every part, group and panel rows of k in
/// the order [position][depth], then a row of what stands in the padding. Depends on what is known of `conv` when its
/// weights are packed: types, channels, groups, kernel, stride, padding and dilation.
struct ConvLayout {
  struct Part : ConvPart {
    bool folded;                   // a position is a row of the window: as many elements as `run`
    int64_t positions, run, depth; // depth: run with padding up to a whole k_step
    int64_t weights;               // bytes before its first panel
  };
  int family = -1;
  bool copied = false; // rows cannot be read where they are: type, k_step or tile registers
  std::vector<Part> parts;
  Panels panels = {};  // of one group
  int64_t padding = 0; // bytes before the row of padding
  int64_t bytes = 0;

  int64_t panel_rows(const Part& p) const { return p.positions * p.depth; }
  /// Bytes of one group's panels.
  int64_t group_bytes(const Part& p) const { return panels.padded() * panel_rows(p) * panels.element_bytes; }
};
ConvLayout conv_layout(const KernelTable& kernels, const Conv& conv);

/// Multiplies rows of `width` floats by a factor for each of the first columns.
void scale_columns(float* rows, int64_t count, int64_t width, const float* factors, int64_t columns);
/// Whether pack_windows multiplies by scales of output channels.
bool windows_pack_scaled(const KernelTable& kernels, const ConvLayout& layout, const Conv& conv);
/// Packs panels [begin, end) of all parts and groups, in this order, and with the first one the row of padding.
void pack_windows(const KernelTable& kernels, const ConvLayout& layout, const Conv& conv, int64_t begin, int64_t end, void* to) noexcept;
int64_t num_panels(const ConvLayout& layout, const Conv& conv);

} // namespace tenon
