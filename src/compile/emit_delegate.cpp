// StepEmitter: delegates. The bytes of one are a constant of the plan, which its backend gets when the plan is linked.
#include "compile/step_emitter.h"

namespace tenon {

void StepEmitter::build_delegate(NodeId id) {
  const Node& n = g_.node(id);
  DelegateStep s{
      .backend = n.args[3].get<std::string>(), .operators = n.args[4].get<std::string>(), .inputs = {}, .outputs = {}, .sizes = {}};
  require(g_.stored_constant(n.args[1].get<ValueId>()) != nullptr, "the bytes of a delegate are no constant");
  s.bytes = plan_.buffers[static_cast<size_t>(buffer_of(n.args[1].get<ValueId>()))].index;
  for (const Arg& a : n.args[0].get<ArgList>()) s.inputs.push_back(buffer_of(a.get<ValueId>()));
  for (const Arg& a : n.args[2].get<ArgList>()) s.sizes.push_back(slot(to_expr(g_.pool(), a)));
  for (ValueId v : n.outputs) define(v), s.outputs.push_back(buffer_of(v));
  s.number = plan_.num_delegates++;
  append(id, s).what = "delegate: " + s.operators;
}

} // namespace tenon
