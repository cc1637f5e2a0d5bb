// A program that runs in the interpreter, call by call, with its state: what Options::interpret gives.
#pragma once
#include <mutex>

#include "ir/program.h"
#include "runtime/collectives.h"
#include "tenon/error.h"

namespace tenon {

class InterpretedRunner {
public:
  /// An Edge graph. `collectives`: null where nothing communicates.
  InterpretedRunner(LoadedProgram program, uint64_t seed, std::shared_ptr<const Collectives> collectives = {});

  /// Calls take turns. Throws Error.
  std::vector<Tensor> run(std::span<const TensorView> inputs);
  const std::vector<std::string>& state_names() const { return names_; }
  /// The buffers that live between calls.
  std::vector<Tensor> state();
  void set_state(size_t i, const TensorView& value);
  /// The archive's value of one.
  const Tensor& initial_state(size_t i) const { return program_.weights.at(names_[i]); }
  /// Another runner of the same program, with a state of its own that starts as this one's is now.
  std::unique_ptr<InterpretedRunner> copy();

private:
  std::vector<Tensor> run_in_turn(std::span<const TensorView> inputs);
  std::vector<TensorView> without_fixed(std::span<const TensorView> inputs);
  size_t number_of(const std::string& input) const;
  Tensor& state_of(const std::string& name);

  LoadedProgram program_;
  uint64_t seed_;
  std::shared_ptr<const Collectives> collectives_;
  std::mutex mutex_; // of what follows, and of the graph's expressions
  std::vector<std::string> names_;
  std::vector<Tensor> state_; // replaced by a run, never written
};

} // namespace tenon
