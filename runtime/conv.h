// f32 convolution over channels-last activations with sizes given at run time: any kernel, stride, padding, dilation
// and groups, in one to three dimensions. Depthwise convolution has kernels of its own, all else runs on the matrix
// kernels.
#pragma once
#include <cstdint>

#include "runtime/conv_window.h"
#include "runtime/matmul.h"

namespace tenon {

/// output[b][m][o] = sum over positions q and the group's channels i of input[b][window(m, q)][i] *
/// weight[o][i][q], plus what the output holds if `accumulate`. m counts output pixels in (d, h, w)
/// order. Strides are in elements. The epilogue sees output pixels as rows and output channels as columns, of all
/// groups.
struct Conv {
  ConvWindow window;
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 0, out_channels = 0; // of all groups
  const float* input = nullptr;
  int64_t in_pixel = 0, in_batch = 0;
  const float* weights = nullptr; // from pack_conv_weights
  float* output = nullptr; // null: the sums go to the epilogue alone
  int64_t out_pixel = 0, out_batch = 0;
  bool accumulate = false; // needs output
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

/// Every decision for one combination of sizes.
struct ConvPlan {
  enum class Kind : uint8_t { Depthwise, Product, Windows } kind = Kind::Windows;
  MatmulPlan product = {}; // 1x1 without stride or padding
  // Windows:
  int family = -1;
  bool folded = false, direct = true;
  int64_t positions = 0, depth = 0; // as the kernels see them
  Panels panels = {};               // of one group
  TileKernels kernels = {};
  PixelCut cut = {};
  int64_t block_positions = 0, group_panels = 0; // panels of a SumTile
  Splits splits = {};
  int64_t c_stride = 0; // elements of a row of sums in scratch
  int64_t pointer_bytes = 0, copy_bytes = 0, sum_bytes = 0;
  int64_t depthwise_bytes = 0; // of one worker

  int64_t worker_bytes() const {
    if (kind == Kind::Product) return product.worker_bytes();
    return kind == Kind::Depthwise ? depthwise_bytes : pointer_bytes + copy_bytes + sum_bytes;
  }
};
/// Generates the micro-kernels that plans for such a convolution may need; sizes in and out that are not known are any_size.
void prepare_conv(const KernelTable& kernels, const Conv& conv);

/// Of `conv`, what pointers hold is not read, only which are given. Generates the micro-kernels that are missing.
ConvPlan plan_conv(const KernelTable& kernels, const Caches& caches, int threads, const Conv& conv);

/// scratch: plan.worker_bytes() for each of the workers' threads, 64-byte aligned, private to this call.
void run_conv(const KernelTable& kernels, const Workers& workers, const ConvPlan& plan, const Conv& conv,
              void* scratch) noexcept;

} // namespace tenon
