// BoundCall: bound to the plan that was best for its sizes when it last looked.
#include <chrono>

#include "api/impl.h"

namespace tenon {

static constexpr uint64_t look_each = 64; // calls

void BoundCall::Impl::choose_plan(std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  variant = executable->variants ? executable->variants->find(inputs) : nullptr;
  PlanRunner& runner = variant ? *variant->runner : *executable->runner;
  call = std::make_unique<PlanRunner::Call>(runner, inputs, outputs);
}

// Counts the calls since the last look, and changes over where there is another plan by now.
void BoundCall::Impl::look(double ns) {
  Variants& variants = *executable->variants;
  variants.note(call->inputs(), variant.get(), calls - noted, ns);
  noted = calls;
  if (variants.find(call->inputs()) == variant) return;
  std::shared_ptr<const Variant> old = std::move(variant);
  std::unique_ptr<PlanRunner::Call> before = std::move(call);
  choose_plan(before->inputs(), before->outputs());
  if (!call->status().ok()) call = std::move(before), variant = std::move(old); // memory was refused, say
}

Status BoundCall::Impl::run() {
  if (!executable->variants || ++calls % look_each != 0) return call->run();
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  Status status = call->run();
  double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  if (status.ok()) static_cast<void>(guarded([&] { return look(ns), true; }));
  return status;
}

} // namespace tenon
