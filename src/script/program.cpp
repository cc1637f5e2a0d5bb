#include "script/program.h"

#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::script {

namespace {

class Modernizer {
public:
  explicit Modernizer(Graph& g) : g_(g) {}

  void block(BlockId id) {
    Block& b = g_.block(id);
    keep(b.params);
    std::vector<NodeId> nodes;
    for (NodeId n : b.nodes) {
      if (g_.node(n).op == prim::LoadWorld || g_.node(n).op == prim::StoreWorld) continue;
      node(g_.node(n));
      nodes.push_back(n);
    }
    b.nodes = std::move(nodes);
    keep(b.returns);
  }

private:
  bool is_world(ValueId v) const { return g_.type(v).is(TypeKind::World); }

  void keep(std::vector<ValueId>& values) {
    std::erase_if(values, [&](ValueId v) { return is_world(v); });
    for (uint32_t i = 0; i < values.size(); i++) g_.value(values[i]).index = i;
  }
  void keep(ArgList& args) {
    std::erase_if(args, [&](const Arg& a) { return a.is<ValueId>() && is_world(a.get<ValueId>()); });
  }

  void node(Node& n) {
    keep(n.args);
    keep(n.outputs);
    if (n.op == call::select && n.args.size() == 2 && n.args[0].is<ValueId>() && g_.type(n.args[0].get<ValueId>()).is(TypeKind::List))
      n.op = call::op_getitem;
    for (BlockId b : n.blocks) block(b);
  }

  Graph& g_;
};

} // namespace

void modernize(Graph& graph) { Modernizer(graph).block(graph.top()); }

ScriptProgram program_of_text(std::string_view text, std::vector<std::string> weights) {
  return program_of_graph(parse_script(text).graph, std::move(weights));
}

ScriptProgram program_of_graph(Graph graph, std::vector<std::string> weights) {
  modernize(graph);
  ScriptProgram p{.graph = std::move(graph), .params = {}, .weights = std::move(weights)};
  const std::vector<ValueId>& inputs = p.graph.block(p.graph.top()).params;
  require_input(p.weights.size() <= inputs.size(), "{} weights are named, the graph has {} inputs", p.weights.size(), inputs.size());
  for (size_t i = 0; i + p.weights.size() < inputs.size(); i++)
    p.params.push_back({p.graph.value(inputs[i]).name, p.graph.type(inputs[i])});
  return p;
}

} // namespace tenon::script
