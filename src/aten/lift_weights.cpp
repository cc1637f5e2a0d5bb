// Parameters, buffers and constants that nothing writes are known now: they become prim::Constant nodes.
#include "aten/passes.h"

#include <algorithm>

namespace tenon {

bool lift_weights(LoadedProgram& program) {
  auto written = [&](const std::string& target) {
    return std::any_of(program.outputs.begin(), program.outputs.end(), [&](auto& o) { return o.writes_state() && o.target == target; });
  };
  auto is_lifted = [&](const ProgramInput& in) {
    bool stored = in.kind == InputKind::Parameter || in.kind == InputKind::Buffer || in.kind == InputKind::Constant;
    return in.value.valid() && stored && !written(in.target);
  };
  if (std::none_of(program.inputs.begin(), program.inputs.end(), is_lifted)) return false;
  Rewriter r(program.graph, false);
  const Graph& from = program.graph;
  for (uint32_t i = 0; i < from.num_tensors(); i++) r.to.add_tensor(from.tensor(TensorId{i}));
  for (auto& in : program.inputs) {
    if (!in.value.valid()) continue;
    if (is_lifted(in)) {
      r.set(in.value, r.builder.constant(program.weights.at(in.target), in.name));
      in.value = {};
    } else in.value = r.add_param(in.value, r.to.top());
  }
  r.copy_block(from.top(), r.to.top());
  program.graph = std::move(r.to);
  return true;
}

} // namespace tenon
