// decompose_late: composites that to_edge left whole, by their parts. There is no kernel for a whole one today:
// attention is found among the parts (backend/attention.h), whoever wrote them.
#include "edge/match.h"
#include "edge/passes.h"

namespace tenon {

bool decompose_late(LoadedProgram& program) {
  auto concerns = [](const Graph&, const Node& n) { return n.def && n.def->is_composite(); };
  return rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    r.builder.keep_late(false);
    Values now = r.builder.call_full(*n.def, r(n.args));
    return {now.begin(), now.end()};
  });
}

} // namespace tenon
