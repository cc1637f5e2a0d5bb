// The depthwise part of convolution: one input channel per group (conv.h dispatches here).
#pragma once
#include "runtime/conv.h"

namespace tenon {

int64_t packed_depthwise_bytes(const KernelTable& kernels, const Conv& conv);
void pack_depthwise_weights(const KernelTable& kernels, const Conv& conv, float* to) noexcept;
/// Bytes of scratch of one worker; generates the micro-kernels.
int64_t plan_depthwise(const KernelTable& kernels, int threads, const Conv& conv);
void run_depthwise(const KernelTable& kernels, const Workers& workers, const Conv& conv, void* scratch) noexcept;

} // namespace tenon
