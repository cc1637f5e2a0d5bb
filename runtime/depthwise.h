// The depthwise part of convolution: groups of one input channel, or of so few that vectors hold several groups (conv.h
// dispatches here).
#pragma once
#include "runtime/conv.h"

namespace tenon {

/// True if the depthwise kernels compute it, in f32: one input channel in a group, or 2, 4 or 8 and as many outputs.
bool has_depthwise_kernels(const KernelTable& kernels, const Conv& conv);
int64_t packed_depthwise_bytes(const KernelTable& kernels, const Conv& conv);
void pack_depthwise_weights(const KernelTable& kernels, const Conv& conv, float* to) noexcept;
/// Bytes of scratch of one worker; generates the micro-kernels.
int64_t plan_depthwise(const KernelTable& kernels, int threads, const Conv& conv);
/// reads_ahead: ConvPlan's.
void run_depthwise(const KernelTable& kernels, const Workers& workers, const Conv& conv, bool reads_ahead, void* scratch) noexcept;

/// Rows of an image, of `in_pixel` elements a pixel, in a ring: row r at (r - first) % count.
struct RowRing {
  const char* data;
  int64_t first, count;
};
/// True if square windows are computed row by row.
bool fits_plane(const Conv& conv);
void prepare_planes(const KernelTable& kernels, const Conv& conv);
/// Bytes of the sums of some rows, where the epilogue alone takes them.
int64_t plane_sum_bytes(const KernelTable& kernels, const Conv& conv);
/// Output rows [y0, y1) of an image. `to`: row y0 if conv.output is given, else room for plane_sum_bytes.
void run_depthwise_rows(const KernelTable& kernels, const Conv& conv, int64_t batch, int64_t y0, int64_t y1, const RowRing& image,
                        float* to) noexcept;

} // namespace tenon
