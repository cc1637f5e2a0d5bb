// Backend graph to Plan: one step for each region, buffers for values, kernels compiled and weights packed.
#pragma once
#include "base/large_memory.h"
#include "codegen/llvm/jit.h"
#include "codegen/x86/micro_kernels.h"
#include "ir/program.h"
#include "loops/kernel.h"
#include "runtime/linked_plan.h"
#include "tenon/options.h"

namespace tenon {

struct Compiled {
  std::shared_ptr<const LinkedPlan> plan;
  std::unique_ptr<ExprPool> pool;  // of the kernels
  std::vector<Kernel> kernels;     // distinct ones
  std::vector<CodeText> texts;     // of the kernels, where asked for
  std::vector<CodeObject> objects; // the same
  Target target;
  bool has_narrow = false; // products of less than 32 bits
  size_t own_bytes = 0;    // of code, packed weights and folded constants, without those of the plan that it shares with
};

/// What is kept of compiling, besides code that runs.
struct Keep {
  bool texts = false, objects = false;
};

/// Packed weights go to `packed`. What `shared`, a plan of the same program, has packed or holds as a constant serves here too.
Compiled build_plan(LoadedProgram backend, const Options& options, Keep keep = {}, LargeMemory packed = {},
                    std::shared_ptr<const LinkedPlan> shared = nullptr);

} // namespace tenon
