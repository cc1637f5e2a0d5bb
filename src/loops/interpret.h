// Runs a kernel one value at a time with the operators of expr/eval.h: what generated code is compared with.
#pragma once
#include "loops/kernel.h"
#include "runtime/kernel_abi.h"

namespace tenon {

/// Iterations [begin, end) of the kernel's parallel loop. Loops run in order, lanes like other iterations.
void interpret(const Kernel& kernel, const KernelArgs& args, int64_t begin, int64_t end);

} // namespace tenon
