// One form for kernels that compute the same: axes, registers and symbols get numbers in the order of their use, so that equal
// kernels of different steps have equal text and are compiled once.
#pragma once
#include "loops/kernel.h"

namespace tenon {

struct CanonicalKernel {
  Kernel kernel;             // over the symbols n0, n1, ... with the bounds that code generation may use in their names
  std::vector<Expr> scalars; // what each of kernel.scalars stands for here: a symbol of the program
};

/// The kernel rebuilt in `pool`, which kernels to be compared share. The last `fixed` of its scalars keep name and place.
CanonicalKernel canonical(const Kernel& kernel, ExprPool& pool, size_t fixed = 0);

} // namespace tenon
