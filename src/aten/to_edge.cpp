// ATen to Edge: every call goes through a Builder in edge mode, which decomposes and promotes.
#include "aten/passes.h"

#include <fmt/ranges.h>

namespace tenon {

namespace {

// The row's idea of a result must be what torch recorded, or a later stage would compute something else.
void check_types(const Graph& from, const Node& n, const Values& now) {
  require(now.size() >= n.outputs.size(), "{} gives {} results, torch recorded {}", n.op, now.size(), n.outputs.size());
  for (size_t i = 0; i < n.outputs.size(); i++) {
    const Type& want = from.type(n.outputs[i]);
    if (!want.is_tensor()) continue;
    const Type& got = now[i].type();
    bool same = got.dtype == want.dtype && got.rank() == want.rank();
    for (size_t d = 0; same && d < want.rank(); d++)
      same = !(const_int(got.sizes[d]) && const_int(want.sizes[d])) || got.sizes[d] == want.sizes[d];
    require(same, "{} gives {}, torch recorded {}", n.op, to_string(got), to_string(want));
  }
}

bool is_edge(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (auto& op = g.node(NodeId{i}).op; !op.starts_with("edge::") && !op.starts_with("prim::") && !op.starts_with("tenon::")) return false;
  return true;
}

} // namespace

bool to_edge(LoadedProgram& program) {
  const Graph& from = program.graph;
  if (is_edge(from)) return false;
  if (auto missing = missing_operators(from); !missing.empty()) unsupported("{}", fmt::join(missing, ", "));
  Rewriter r(from, true);
  r.node = [&](NodeId id) {
    const Node& n = from.node(id);
    if (n.op.starts_with("prim::")) return r.copy_node(id);
    std::vector<Type> hint;
    for (ValueId v : n.outputs) hint.push_back(from.type(v));
    Values now = r.builder.call_full(*n.def, r(n.args), &hint);
    check_types(from, n, now);
    for (size_t i = 0; i < n.outputs.size(); i++) r.set(n.outputs[i], now[i]);
  };
  Graph out = r.run();
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = r[in.value];
  program.graph = std::move(out);
  return true;
}

} // namespace tenon
