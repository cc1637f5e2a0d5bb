// Loop IR to machine code: the one door of this folder for the plan. Knows kernels, never graphs.
#pragma once
#include <span>
#include <vector>

#include "codegen/llvm/jit.h"
#include "loops/kernel.h"
#include "runtime/kernel_abi.h"

namespace tenon {

struct CompiledKernel {
  KernelFn function = nullptr;
  size_t code_bytes = 0; // the share of its module's pages; a guess where several threads compile
};

/// The C functions that compiled kernels call; give them to the Jit.
std::span<const Symbol> kernel_symbols();

/// The kernel as machine code owned by `jit`. Reads the kernel only: creates no expressions.
CompiledKernel compile_kernel(const Kernel& kernel, Jit& jit, CodeText* text = nullptr);
/// The same for many kernels, by up to `threads` threads; the results in the kernels' order.
std::vector<CompiledKernel> compile_kernels(std::span<const Kernel* const> kernels, Jit& jit, int threads);

} // namespace tenon
