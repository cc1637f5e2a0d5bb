#include "runtime/plan.h"

namespace tenon {

namespace {

void mark(std::vector<bool>& written, Slot s) {
  if (s >= 0) written[static_cast<size_t>(s)] = true;
}

} // namespace

std::vector<bool> written_slots(const Plan& plan) {
  std::vector<bool> written(plan.sizes.initial.size());
  for (auto& stage : plan.sizes.stages)
    for (auto& i : stage.instructions) mark(written, i.out);
  for (auto& in : plan.inputs) {
    mark(written, in.number_slot);
    for (auto& d : in.dims)
      if (d.kind == InputDim::Kind::Bind) mark(written, d.slot);
  }
  for_each_step(plan.steps, [&](const Step& s) {
    if (auto* i = std::get_if<ItemStep>(&s.run)) mark(written, i->slot);
    // Library steps whose sizes depend on data bind those of their outputs that are no constants.
    if (auto* l = std::get_if<LibraryStepCall>(&s.run); l && s.binds)
      for (int b : l->outputs)
        for (Slot d : plan.buffers[static_cast<size_t>(b)].sizes)
          if (plan.sizes.initial[static_cast<size_t>(d)] == 0) mark(written, d);
  });
  return written;
}

} // namespace tenon
