// Casts of operands to the dtype in which a pointwise operator computes.
#include "edge/match.h"
#include "edge/passes.h"
#include "ir/promote.h"

namespace tenon {

namespace {

bool casts_implicitly(const Graph& g, const Node& n) {
  if (!n.def || n.def->kind != Kind::Pointwise) return false;
  DType compute = promotion_of(g, *n.def, n.args).compute;
  for (size_t i = 0; i < n.args.size(); i++)
    if (n.args[i].is<ValueId>() && !is_kept(*n.def, i) && g.type(n.args[i].get<ValueId>()).dtype != compute) return true;
  return false;
}

} // namespace

bool explicit_casts(LoadedProgram& program) {
  return rewrite_nodes(program, casts_implicitly, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    Values now = r.builder.call_full(*n.def, r(n.args));
    return {now.begin(), now.end()};
  });
}

} // namespace tenon
