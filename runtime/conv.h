// f32 convolution over channels-last activations with sizes given at run time: any kernel, stride, padding, dilation
// and groups, in one to three dimensions. Depthwise convolution has kernels of its own, all else runs on the matrix
// kernels.
#pragma once
#include <cstdint>

#include "runtime/conv_window.h"
#include "runtime/matmul.h"

namespace tenon {

/// output[b][m][o] = bias[o] + sum over positions q and the group's channels i of input[b][window(m, q)][i] *
/// weight[o][i][q], plus what the output holds if `accumulate` (then without bias). m counts output pixels in (d, h, w)
/// order. Strides are in elements. The epilogue sees output pixels as rows and output channels as columns, of all
/// groups.
struct Conv {
  ConvWindow window;
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 0, out_channels = 0; // of all groups
  const float* input = nullptr;
  int64_t in_pixel = 0, in_batch = 0;
  const float* weights = nullptr; // from pack_conv_weights
  float* output = nullptr;
  int64_t out_pixel = 0, out_batch = 0;
  const float* bias = nullptr;
  bool accumulate = false;
  Epilogue epilogue = {};

  int64_t group_inputs() const { return in_channels / groups; }
  int64_t group_outputs() const { return out_channels / groups; }
  bool depthwise() const { return groups > 1 && group_inputs() == 1; }
};

/// Packing reads `conv`'s channels, groups and kernel only. Weights as PyTorch has them, [out][in / groups][d][h][w],
/// with the given element strides. Size in f32 elements.
int64_t packed_conv_size(const KernelTable& kernels, const Conv& conv);
void pack_conv_weights(const KernelTable& kernels, const Conv& conv, const float* weights, const int64_t strides[5],
                       float* to) noexcept;

/// Bytes of scratch run_conv needs, for all workers together; depends on sizes alone.
int64_t conv_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers,
                     const Conv& conv) noexcept;

/// Generates the micro-kernels that run_conv may call, so that no call has to: channels, groups and window are read; sizes in
/// and out that are not known are any_size.
void prepare_conv(const KernelTable& kernels, const Conv& conv);

/// scratch: 64-byte aligned, private to this call.
void run_conv(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Conv& conv,
              void* scratch) noexcept;

} // namespace tenon
