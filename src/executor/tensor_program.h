// A graph of ATen operators on tensors of given dtypes and sizes, ready to be called: interpreted while that costs less than native code.
#pragma once
#include <memory>
#include <mutex>

#include "interp/runner.h"
#include "ir/program.h"
#include "runtime/executable.h"

namespace tenon::executor {

class TensorProgram {
public:
  /// An ATen graph whose parameters are tensors, in-place operators on them included.
  explicit TensorProgram(LoadedProgram program);

  /// Parameters that operators write are written. Thread-safe. Throws Error.
  std::vector<Tensor> run(std::span<const TensorView> inputs);
  /// Elements that one call computes, those summed up counted singly; where they are not known, a guess.
  double work() const { return work_; }

private:
  void compile();

  LoadedProgram program_; // ATen
  double work_ = 0, interpreted_work_ = 0;
  std::mutex mutex_; // of what follows
  std::unique_ptr<InterpretedRunner> interpreter_;
  std::unique_ptr<PlanRunner> native_;
};

} // namespace tenon::executor
