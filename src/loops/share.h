// Kernels that differ in integer constants only (strides, offsets, extents) as one kernel that takes those as scalars. Compiling
// costs some milliseconds a kernel, so this is for kernels that run shortly, and for long series of them.
#pragma once
#include "loops/kernel.h"

namespace tenon {

/// What a kernel is without its constants.
struct KernelShape {
  std::string text;               // equal for kernels that can be one
  std::vector<int64_t> constants; // in the order of the text
};

/// Constants below `least` belong to the shape, as do those that take part in divisions. The last `fixed` scalars stay the last.
KernelShape shape_of(const Kernel& kernel, ExprPool& pool, int64_t least, size_t fixed);

struct SharedKernel {
  Kernel kernel;
  std::vector<std::vector<int64_t>> scalars; // for each of the kernels: what it gives for the scalars before the fixed ones
};

/// One for all of `kernels`, which have one shape; constants that are the same for all of them stay constants.
SharedKernel share(std::span<const Kernel* const> kernels, std::span<const KernelShape> shapes, ExprPool& pool, int64_t least,
                   size_t fixed);

} // namespace tenon
