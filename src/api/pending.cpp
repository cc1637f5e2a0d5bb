#include "api/pending.h"

#include <algorithm>

#include "base/stop_point.h"
#include "compile/compile.h"
#include "ir/collective.h"

namespace tenon {

static bool has_state(const LoadedProgram& program) {
  return std::ranges::any_of(program.outputs, [](const ProgramOutput& o) { return o.writes_state(); });
}

Pending::Pending(Executable::Impl& impl, std::shared_ptr<const Program::Impl> program)
    : impl_(impl), program_(std::move(program)), background_(Background::Priority::Usual) {
  impl_.is_ready = false;
  background_.start([this] { return compile(); });
}

// False: nothing is left to do.
bool Pending::compile() {
  try {
    compile_into(impl_, program_);
    impl_.is_ready = true;
  } catch (const Stopped&) {
    throw;
  } catch (const Error& e) {
    failure_ = e;
  } catch (const std::exception& e) {
    failure_ = Error(dynamic_cast<const std::bad_alloc*>(&e) ? ErrorKind::BadInput : ErrorKind::Internal, e.what());
  }
  is_done_ = true;
  return false;
}

void Pending::finish() {
  background_.wait();
  if (!is_done_) { // there was no thread, or it ran in the process that this one was forked from
    std::scoped_lock lock(mutex_);
    if (!is_done_) compile();
  }
  if (failure_) throw *failure_;
}

InterpretedRunner& Pending::interpreter() {
  std::scoped_lock lock(mutex_);
  if (!interpreter_) {
    LoadedProgram program = program_->loaded;
    lower(program, "edge", impl_.options);
    interpreter_ = std::make_unique<InterpretedRunner>(std::move(program), impl_.options.seed);
  }
  return *interpreter_;
}

std::optional<std::vector<Tensor>> Pending::interpret(std::span<const TensorView> inputs) {
  try {
    Stoppable until_done([&] { return is_done_.load(); });
    if (!is_done_ && !has_state(program_->loaded) && !has_collectives(program_->loaded.graph)) return interpreter().run(inputs);
  } catch (const Stopped&) {}
  finish();
  return std::nullopt;
}

} // namespace tenon
