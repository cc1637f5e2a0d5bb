// Kernels that differ in integer constants only (strides, offsets, extents, what a mean divides by) as one kernel that takes those as
// scalars: compiling costs some milliseconds a kernel. Which constants may differ depends on how long the kernels run (`Varying`).
#pragma once
#include "loops/kernel.h"

namespace tenon {

/// What a kernel is without its constants.
struct KernelShape {
  std::string text;               // equal for kernels that can be one
  std::vector<int64_t> constants; // in the order of the text
};

/// Which constants may differ: what is added to the whole offset of a load or store, be it 0, where an operand begins; and, unless those
/// are all, any other from `least` on that takes no part in a division of integers, the extent of the parallel loop, and divisors of floats
/// that are integers. A tile of the only row counts as one of rows that lie 0 apart.
struct Varying {
  int64_t least = INT64_MIN;
  bool only_beginnings = false;
  bool general = false; // for kernels of other programs: also those by which the number of an iteration of the parallel loop, or of a
                        // product, is divided, and strides of tiles, however small; what symbols are at most does not count
};

/// The last `fixed` scalars stay the last.
KernelShape shape_of(const Kernel& kernel, ExprPool& pool, Varying varying, size_t fixed);

/// The kernel over all constants of its shape, which are scalars of it in their order, before the fixed ones: every kernel of the shape is
/// this one.
Kernel general_kernel(const Kernel& kernel, ExprPool& pool, Varying varying, size_t fixed);

struct SharedKernel {
  Kernel kernel;
  std::vector<std::vector<int64_t>> scalars; // for each of the kernels: what it gives for the scalars before the fixed ones
};

/// One for all of `kernels`, which have one shape; constants that are the same for all of them stay constants.
SharedKernel share(std::span<const Kernel* const> kernels, std::span<const KernelShape> shapes, ExprPool& pool, Varying varying,
                   size_t fixed);

} // namespace tenon
