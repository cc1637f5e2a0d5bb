// What a recording (base/timeline.h) gets of a call: names of its steps, and the temporaries that are alive at each.
#include <fmt/core.h>

#include "runtime/frame.h"

namespace tenon {

static std::vector<int64_t> alive_by_step(const Frame& f) {
  std::vector<int64_t> bytes(static_cast<size_t>(f.plan->num_steps) + 1);
  for (const PlanBuffer& b : f.plan->buffers) {
    size_t n = 0;
    if (b.place != BufferPlace::Arena || !bytes_of(b, f, n)) continue;
    bytes[static_cast<size_t>(b.first)] += static_cast<int64_t>(n);
    bytes[static_cast<size_t>(b.last) + 1] -= static_cast<int64_t>(n);
  }
  for (size_t i = 1; i < bytes.size(); i++) bytes[i] += bytes[i - 1];
  return bytes;
}

void RecordedCall::begin() {
  f_.recording = Recording::current();
  if (!f_.recording) return;
  f_.observed = true;
  if (f_.recorded_for != f_.recording->id()) {
    f_.recorded_for = f_.recording->id();
    f_.step_names.assign(static_cast<size_t>(f_.plan->num_steps), 0);
    for_each_step(f_.plan->steps, [&](const Step& s) {
      f_.step_names[static_cast<size_t>(s.number)] = f_.recording->name(fmt::format("{} {}", s.number, s.what));
    });
  }
  f_.alive = alive_by_step(f_);
  name_ = f_.recording->name("run"), begin_ns_ = Recording::now();
}

void RecordedCall::end() {
  f_.recording->span(name_, begin_ns_, Recording::now());
  f_.recording = nullptr;
  f_.observed = f_.profiled;
}

} // namespace tenon
