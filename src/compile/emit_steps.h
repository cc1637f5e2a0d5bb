// emit_steps: a plan's steps over its buffers, and the program that computes sizes.
#pragma once
#include "compile/select_kernels.h"
#include "ir/program.h"
#include "tenon/options.h"

namespace tenon {

struct EmittedPlan {
  Plan plan; // its buffers' lifetimes are not known yet
  std::vector<LibraryFn> library;
  std::vector<FallbackFn> fallbacks;
};

EmittedPlan emit_steps(const LoadedProgram& backend, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
                       const Options& options, const PlanTarget& target);

} // namespace tenon
