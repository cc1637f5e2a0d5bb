// drop_definitions: delegates lose the sub-graphs that they stand for, and with them the weights that their backends have.
//   %y = prim::Delegate([%x], %bytes, [], "mine", "mm")  block0(%a): ... return (%b)   ->   the same without a block
#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

bool drop_definitions(LoadedProgram& program) {
  auto concerns = [](const Graph&, const Node& n) { return n.op == prim::Delegate && !n.blocks.empty(); };
  return rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) {
    std::vector<Type> types;
    std::vector<std::string> names;
    for (ValueId v : n.outputs) types.push_back(r.from.type(v)), names.push_back(r.from.value(v).name);
    NodeId now = r.to.append(r.builder.block(), {.op = n.op, .def = n.def, .args = r(n.args), .origin = n.origin}, types, names);
    return r.to.node(now).outputs;
  });
}

} // namespace tenon
