// An executable whose code is still being made: calls run in the interpreter until it is there.
#pragma once
#include "api/impl.h"

namespace tenon {

class Pending {
public:
  /// Starts compiling `program` into `impl`, which must outlive this.
  Pending(Executable::Impl& impl, std::shared_ptr<const Program::Impl> program);

  /// For so long at most, until there is code.
  void wait_for(double ms) { background_.wait_for(ms); }
  /// Until there is code. Throws what compiling threw.
  void finish();
  /// What a call gives in the interpreter; empty as soon as there is code. Programs with state wait for it. Throws what either throws.
  std::optional<std::vector<Tensor>> interpret(std::span<const TensorView> inputs);

private:
  bool compile();
  InterpretedRunner& interpreter();

  Executable::Impl& impl_;
  std::shared_ptr<const Program::Impl> program_;
  std::atomic<bool> is_done_{false}; // with code, or a failure
  std::optional<Error> failure_;
  std::mutex mutex_;                               // of compiling in a caller, and of the interpreter's making
  std::unique_ptr<InterpretedRunner> interpreter_; // made by the first call
  Background background_;                          // ends before the rest does
};

} // namespace tenon
