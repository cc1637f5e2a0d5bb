// Backend graph to Plan: one step for each region, buffers for values, kernels compiled and weights packed.
#pragma once
#include "base/large_memory.h"
#include "codegen/llvm/jit.h"
#include "codegen/x86/micro_kernels.h"
#include "ir/program.h"
#include "loops/kernel.h"
#include "runtime/plan.h"
#include "tenon/options.h"

namespace tenon {

/// What a Plan's code lives in, and what was compiled.
struct Compiled {
  std::unique_ptr<Jit> jit;
  std::unique_ptr<MicroKernels> micro_kernels;
  std::unique_ptr<ExprPool> pool; // of the kernels
  std::vector<Kernel> kernels;    // distinct ones
  std::vector<CodeText> texts;    // of the kernels, where asked for
  Plan plan;
  std::shared_ptr<const LoadedProgram> program; // the Backend graph
};

/// `original` gives the caller's inputs, numbers fixed at export included. `backend` loses its weights, and its graph the constants that
/// no step reads from there. Packed
/// weights go to `packed`.
Compiled build_plan(std::shared_ptr<LoadedProgram> backend, const std::vector<ProgramInput>& original, const Options& options,
                    bool keep_texts = false, LargeMemory packed = {});

} // namespace tenon
