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
  std::unique_ptr<Jit> jit;         // only while the plan is built
  std::shared_ptr<const Code> code; // of the kernels
  std::unique_ptr<MicroKernels> micro_kernels;
  std::unique_ptr<ExprPool> pool; // of the kernels
  std::vector<Kernel> kernels;    // distinct ones
  std::vector<CodeText> texts;    // of the kernels, where asked for
  std::shared_ptr<const Plan> plan;
};

/// Packed weights go to `packed`.
Compiled build_plan(LoadedProgram backend, const Options& options, bool keep_texts = false, LargeMemory packed = {});

} // namespace tenon
