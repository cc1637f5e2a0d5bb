// The gradient of a convolution's weights, as products whose sums run over output pixels.
#pragma once
#include "runtime/conv_window.h"
#include "runtime/parallel.h"

namespace tenon {

/// out[g][o][i][tap] = sum over images and output pixels of grad[image][g][o][pixel] * input[image][g][i][pixel's place under the tap].
/// All of them row-major, of `type`: F32, F64, BF16 or F16. Sums are F64 for F64, else F32.
struct ConvGradient {
  ConvWindow window;
  int64_t batch = 1, groups = 1, inputs = 1, outputs = 1; // channels of a group
  DType type = DType::F32;
  const void* input = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;
};

/// The family whose kernels compute such sums; -1: none does.
int conv_gradient_family(const KernelTable& kernels, DType type);

/// Whether copies of lines are of a size that memory may hold: padding and dilation are whatever a program says.
bool may_be_products(const ConvGradient& gradient);

/// `family` as conv_gradient_family gives it. Allocates memory for packed gradients and for each worker's rows; throws std::bad_alloc.
void run_conv_gradient(const KernelTable& kernels, const Caches& caches, const Workers& workers, int family, const ConvGradient& gradient);

} // namespace tenon
