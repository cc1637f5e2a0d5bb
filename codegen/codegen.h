// Loop IR to machine code: the one door of this folder for the plan. Knows kernels, never graphs.
#pragma once
#include <span>
#include <vector>

#include "base/cores.h"
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
/// The same for many kernels, by several threads: one Code, and the results in the kernels' order. `texts`, one for each kernel,
/// and `objects` are filled where given. Kernels that are `prebuilt` are compiled only for their texts.
std::vector<CompiledKernel> compile_kernels(std::span<const Kernel* const> kernels, Jit& jit, const Together& together,
                                            std::span<CodeText> texts = {}, std::span<CodeObject> objects = {},
                                            std::span<const std::shared_ptr<const CodeObject>> prebuilt = {});
/// Kernels that were compiled before, for the same target.
std::vector<CompiledKernel> link_kernels(std::span<const CodeObject> objects, const Target& target);

} // namespace tenon
