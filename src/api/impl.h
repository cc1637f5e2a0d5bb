// What stands behind the public handles.
#pragma once
#include <map>
#include <mutex>

#include "compile/build_plan.h"
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
  LoadedProgram program; // lowered
  std::vector<ArgInfo> inputs;
  std::vector<bool> is_fixed;          // per caller's input: a number fixed at export
  std::vector<double> fixed;           // its value
  std::map<std::string, Tensor> state; // mutated buffers, by qualified name
  std::mutex state_mutex;
  ExecutableStats stats;
  std::shared_ptr<const Compiled> compiled; // code that the runner's plan calls; null when interpreting
  std::unique_ptr<PlanRunner> runner;

  std::vector<NamedTensor> buffers();
  /// The archive's value of a buffer.
  const Tensor& initial(const std::string& name) const { return program.weights.at(name); }
  void set_buffer(const std::string& name, const Tensor& value);
  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs);
  size_t user_number(const std::string& name) const;
  std::vector<TensorView> user_inputs(std::span<const TensorView> inputs) const;
};

} // namespace tenon
