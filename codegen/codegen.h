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
  std::shared_ptr<const Code> code; // owns the function, and those that were compiled with it
};

/// The C functions that compiled kernels call; give them to the Jit.
std::span<const Symbol> kernel_symbols();

/// The kernel as machine code. Reads the kernel only: creates no expressions.
CompiledKernel compile_kernel(const Kernel& kernel, Jit& jit, CodeText* text = nullptr);
/// The same for many kernels, by up to `threads` threads: one Code, and the results in the kernels' order. `texts`, one for each kernel,
/// are filled where given.
std::vector<CompiledKernel> compile_kernels(std::span<const Kernel* const> kernels, Jit& jit, int threads, std::span<CodeText> texts = {});

} // namespace tenon
