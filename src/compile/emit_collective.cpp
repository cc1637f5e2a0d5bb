// StepEmitter: collectives, and waits for them. The operand and the result of a collective are in use until its wait; one that no single
// wait in its block could end is done when its step is.
#include "compile/step_emitter.h"
#include "ir/collective.h"
#include "runtime/collective_steps.h"

namespace tenon {

// The node that waits for the result, and alone reads it.
NodeId StepEmitter::wait_of(NodeId id) const {
  ValueId result = g_.node(id).outputs.at(0);
  if (auto uses = uses_.find(result); uses == uses_.end() || uses->second != 1) return {};
  const Block& block = g_.block(block_);
  for (NodeId at : block.nodes) {
    const Node& n = g_.node(at);
    if (!is_wait(n) || n.args[0] != Arg(result)) continue;
    bool has_place = parts_.contains(n.outputs[0]) || bound_.contains(n.outputs[0]);
    return has_place ? NodeId{} : at;
  }
  return {};
}

void StepEmitter::build_collective(NodeId id) {
  const Node& n = g_.node(id);
  LibraryStep step = n.def->library(Call(g_, *n.def, n.args, n.attributes));
  ValueId input = step.inputs.at(0), result = n.outputs.at(0);
  define(result);
  CollectiveStep s{.function = number_of(step.function),
                   .input = buffer_of(input),
                   .output = buffers_.at(result),
                   .ints = slots_of(step.ints),
                   .texts = step.texts,
                   .request = plan_.num_requests++,
                   .waits = true};
  if (NodeId wait = wait_of(id); wait.valid()) {
    s.waits = false;
    requests_[result] = {.request = s.request, .input = s.input, .output = s.output, .group = step.texts.at(0)};
  }
  append(id, std::move(s));
}

void StepEmitter::build_wait(NodeId id) {
  const Node& n = g_.node(id);
  auto from = n.args.at(0).get<ValueId>();
  if (auto at = requests_.find(from); at != requests_.end()) {
    buffers_[n.outputs[0]] = at->second.output;
    append(id, at->second);
    return;
  }
  define(n.outputs[0]);
  append(id, CopyStep{buffer_of(from), buffers_.at(n.outputs[0])});
}

} // namespace tenon
