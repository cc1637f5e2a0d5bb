// What stands behind the public handles.
#pragma once
#include "compile/build_plan.h"
#include "interp/runner.h"
#include "runtime/executable.h"
#include "tenon/tenon.h"

namespace tenon {

/// The program after a stage: aten, edge, backend, loops, llvm, asm, plan.
std::string dump_stage(const LoadedProgram& program, std::string_view stage, const Options& options);

struct Program::Impl {
  LoadedProgram loaded;
  std::vector<ArgInfo> inputs, outputs;
};

struct Executable::Impl {
  Options options;
  ExecutableStats stats;
  std::shared_ptr<const Compiled> compiled; // code that the plan calls
  std::unique_ptr<PlanRunner> runner;       // one of these two
  std::unique_ptr<InterpretedRunner> interpreter;

  const std::vector<std::string>& state_names() const { return runner ? runner->plan().state_names : interpreter->state_names(); }
  std::vector<Tensor> state() const { return runner ? runner->state() : interpreter->state(); }
  const Tensor& initial_state(size_t i) const { return runner ? runner->plan().initial_state[i] : interpreter->initial_state(i); }
  void set_state(size_t i, const TensorView& value) const { runner ? runner->set_state(i, value) : interpreter->set_state(i, value); }
};

struct BoundCall::Impl {
  std::shared_ptr<Executable::Impl> executable;
  std::unique_ptr<PlanRunner::Call> call;
};

} // namespace tenon
