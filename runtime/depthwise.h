// The depthwise part of convolution: groups of one input channel, or of so few that vectors hold several groups (conv.h
// dispatches here).
#pragma once
#include "runtime/conv.h"

namespace tenon {

/// True if the depthwise kernels compute it: one input channel in a group, or 2, 4 or 8 and as many outputs.
bool has_depthwise_kernels(const KernelTable& kernels, const Conv& conv);
int64_t packed_depthwise_bytes(const KernelTable& kernels, const Conv& conv);
void pack_depthwise_weights(const KernelTable& kernels, const Conv& conv, float* to) noexcept;
/// Bytes of scratch of one worker; generates the micro-kernels.
int64_t plan_depthwise(const KernelTable& kernels, int threads, const Conv& conv);
void run_depthwise(const KernelTable& kernels, const Workers& workers, const Conv& conv, void* scratch) noexcept;

} // namespace tenon
