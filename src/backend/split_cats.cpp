// A cat that is copied becomes a loop for each operand, up to some number of them; beyond, each element would choose among all. So one of
// many becomes a cat of cats.
//   %c = edge::cat([%a ... %z], 0)   ->   %1 = edge::cat([%a ... %e], 0); ...; %c = edge::cat([%1 ... %6], 0)
#include <algorithm>
#include <cmath>

#include "backend/join.h"
#include "backend/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

class SplitCats {
public:
  explicit SplitCats(Graph& g) : g_(g) {}

  bool run(BlockId block) {
    bool changed = false;
    std::vector<NodeId> before = g_.block(block).nodes, after;
    for (NodeId id : before) {
      for (BlockId inner : std::vector(g_.node(id).blocks)) changed |= run(inner);
      if (g_.node(id).op == edge::cat) split(block, id, after);
      after.push_back(id);
    }
    changed |= after.size() > before.size();
    g_.block(block).nodes = std::move(after);
    return changed;
  }

private:
  bool is_plain(const std::vector<ValueId>& operands, const Type& whole) const {
    return whole.strides.empty() &&
           std::ranges::all_of(operands, [&](ValueId v) { return g_.type(v).rank() == whole.rank() && g_.type(v).dtype == whole.dtype; });
  }

  // What the cat joins now goes before it, into `nodes`.
  void split(BlockId block, NodeId id, std::vector<NodeId>& nodes) {
    Node n = g_.node(id);
    Call c(g_, *n.def, n.args);
    Type whole = g_.type(n.outputs[0]);
    std::vector<ValueId> operands = c.values("tensors");
    if (operands.size() <= most_joined || !is_plain(operands, whole)) return;
    int64_t dim = c.dim("dim", whole.rank());
    size_t together = static_cast<size_t>(std::ceil(std::sqrt(operands.size())));
    ArgList parts;
    for (size_t at = 0; at < operands.size(); at += together) {
      size_t end = std::min(at + together, operands.size());
      Type part = whole;
      Expr& size = part.sizes[static_cast<size_t>(dim)];
      size = g_.pool().integer(0);
      ArgList some;
      for (size_t k = at; k < end; k++) size = size + g_.type(operands[k]).sizes[static_cast<size_t>(dim)], some.push_back(operands[k]);
      NodeId inner = g_.append(block, {.op = n.op, .def = n.def, .args = {Arg(some), dim}, .origin = n.origin}, {part}, {""});
      nodes.push_back(inner);
      parts.push_back(g_.node(inner).outputs[0]);
    }
    g_.node(id).args = {Arg(parts), dim};
  }

  Graph& g_;
};

} // namespace

bool split_cats(LoadedProgram& program) { return SplitCats(program.graph).run(program.graph.top()); }

} // namespace tenon
