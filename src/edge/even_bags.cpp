// even_bags: embedding bags of one length are sums of the rows that a matrix of indices looks up, and those are loops.
//   %o = arange(0, n * 10, 10); %y, ... = _embedding_bag(%w, %i, %o)   ->   %y = sum(embedding(%w, view(%i, [n, 10])), [1])
#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

/// The length of the bags that start at `offsets`, where all of them have it: `indices` is of bags times so many.
std::optional<int64_t> bag_length(Builder& b, V indices, V offsets) {
  const Node* range = made_by(b.graph(), offsets.id, edge::arange_start_step);
  if (!range) return std::nullopt;
  ExprPool& pool = b.pool();
  Expr start = to_expr(pool, range->args[0]), step = to_expr(pool, range->args[2]);
  auto length = step ? const_int(step) : std::nullopt;
  bool even =
      start && is_const_int(start, 0) && length && *length >= 1 && offsets.size(0) * static_cast<double>(*length) == indices.size(0);
  return even ? length : std::nullopt;
}

} // namespace

bool even_bags(LoadedProgram& program) {
  auto uses = count_uses(program.graph);
  auto concerns = [](const Graph&, const Node& n) { return n.op == edge::_embedding_bag || n.op == edge::_embedding_bag_forward_only; };
  auto replace = [&](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    Builder& b = r.builder;
    ArgList args = r(n.args);
    Call c(b.graph(), *n.def, args);
    int64_t mode = c.integer("mode");
    if (mode > 1 || c.has("per_sample_weights") || c.flag("include_last_offset") || c.integer("padding_idx") >= 0) return {};
    V indices = b.input(c, "indices");
    auto length = bag_length(b, indices, b.input(c, "offsets"));
    for (size_t k = 1; k < n.outputs.size(); k++)
      if (!length || uses[n.outputs[k]] > 0) return {};
    V rows = b.call1(aten::embedding, {c["weight"], b.reshape(indices, {b.input(c, "offsets").size(0), b.integer(*length)})});
    std::vector<ValueId> out{b.call1(mode == 0 ? aten::sum_dim_IntList : aten::mean_dim, {rows, ArgList{1}}).id};
    for (size_t k = 1; k < n.outputs.size(); k++) { // nobody reads them
      const Type& t = r.from.type(n.outputs[k]);
      out.push_back(b.full(t.sizes, 0, t.dtype).id);
    }
    return out;
  };
  if (!rewrite_nodes(program, concerns, replace)) return false;
  remove_dead_code(program);
  return true;
}

} // namespace tenon
