// Parameters, buffers and constants that nothing writes are known now: they become prim::Constant nodes.
#include "aten/passes.h"

namespace tenon {

bool lift_weights(LoadedProgram& program) {
  auto written = [&](const std::string& target) {
    return std::any_of(program.outputs.begin(), program.outputs.end(),
                       [&](auto& o) { return o.kind == OutputKind::BufferMutation && o.target == target; });
  };
  Rewriter r(program.graph, false);
  const Graph& from = program.graph;
  for (uint32_t i = 0; i < from.num_tensors(); i++) r.to.add_tensor(from.tensor(TensorId{i}));
  bool changed = false;
  for (auto& in : program.inputs) {
    if (!in.value.valid()) continue;
    bool stored = in.kind == InputKind::Parameter || in.kind == InputKind::Buffer || in.kind == InputKind::Constant;
    if (stored && !written(in.target)) {
      r.set(in.value, r.builder.constant(program.weights.at(in.target), in.name));
      in.value = {};
      in.kind = InputKind::Fixed;
      changed = true;
    } else {
      ValueId now = r.to.add_param(r.to.top(), from.type(in.value), from.value(in.value).name);
      r.set(in.value, now);
      in.value = now;
    }
  }
  if (!changed) return false;
  r.copy_block(from.top(), r.to.top());
  program.graph = std::move(r.to);
  return true;
}

} // namespace tenon
