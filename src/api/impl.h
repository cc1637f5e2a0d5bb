// What stands behind the public handles.
#pragma once
#include "compile/build_plan.h"
#include "interp/runner.h"
#include "ir/signature.h"
#include "runtime/collectives.h"
#include "runtime/executable.h"
#include "tenon/tenon.h"
#include "variants/variants.h"

namespace tenon {

/// Calls f; an exception becomes an Error.
template <class F> auto guarded(F f) -> Result<decltype(f())> {
  try {
    return f();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::BadInput, "out of memory");
  } catch (const std::exception& e) {
    return Error(ErrorKind::Internal, e.what());
  }
}

/// The program after a stage: aten, edge, backend, loops, llvm, asm, plan.
std::string dump_stage(const LoadedProgram& program, std::string_view stage, const Options& options);

struct Program::Impl {
  LoadedProgram loaded;
  Signature signature;
};

/// Of the elements, for fingerprints.
uint32_t checksum(const Tensor& tensor);

/// A program as the public handle shows it.
std::shared_ptr<const Program::Impl> describe(LoadedProgram loaded);

/// The program with what the backends take as delegates, one backend after the other; itself where there are none.
std::shared_ptr<const Program::Impl> to_backends(std::shared_ptr<const Program::Impl> program, const std::vector<std::string>& backends);

class Pending;

struct Executable::Impl {
  Impl();
  ~Impl();
  /// Waits for code where it is still being made. Throws what compiling threw.
  void finish();
  /// In whatever serves.
  Status run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs);
  Status run_into(std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  std::optional<std::vector<Tensor>> interpret(std::span<const TensorView> inputs);

  Options options;
  std::shared_ptr<const Collectives> collectives; // null: it communicates with nobody
  ExecutableStats stats;
  Signature signature;
  std::unique_ptr<PlanRunner> runner; // one of these two
  std::unique_ptr<InterpretedRunner> interpreter;
  Variants::Make make_variant;        // null: there are no others
  std::unique_ptr<Variants> variants; // of the runner; null: one plan serves all calls
  std::atomic<bool> is_ready = true;  // false: all of this is still being made
  std::unique_ptr<Pending> pending;   // null: it was there when the caller got the executable

  const std::vector<std::string>& state_names() const { return runner ? runner->plan().state_names : interpreter->state_names(); }
  std::vector<Tensor> state() const { return runner ? runner->state() : interpreter->state(); }
  const Tensor& initial_state(size_t i) const { return runner ? runner->plan().initial_state[i] : interpreter->initial_state(i); }
  void set_state(size_t i, const TensorView& value) const { runner ? runner->set_state(i, value) : interpreter->set_state(i, value); }
};

/// Gives the executable its runner, and variants where there may be any.
void start(Executable::Impl& impl, std::unique_ptr<PlanRunner> runner);
/// Makes all that runs by `impl.options`, which are set.
void compile_into(Executable::Impl& impl, const std::shared_ptr<const Program::Impl>& program);

struct BoundCall::Impl {
  std::shared_ptr<Executable::Impl> executable;
  std::shared_ptr<const Variant> variant; // null: the plan for all sizes
  std::unique_ptr<PlanRunner::Call> call;
  uint64_t calls = 0, noted = 0; // so far; those that the variants know of

  /// Runs, and looks now and then whether there is a better plan.
  Status run();
  void choose_plan(std::span<const TensorView> inputs, std::span<const TensorView> outputs);

private:
  void look(double ns);
};

} // namespace tenon
