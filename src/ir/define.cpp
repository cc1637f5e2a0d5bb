// definition_of: pointwise bodies get loads at their broadcast index, in the compute dtype.
#include "ir/define.h"

#include "ir/promote.h"

namespace tenon {

namespace {

// The operand's element at the output's axes: dims line up at the end, a dim of size 1 is read at 0.
Expr broadcast_load(const DefineArgs& d, const Type& t, int64_t operand) {
  std::vector<Expr> index(t.rank());
  size_t shift = d.axes.size() - t.rank();
  for (size_t k = 0; k < t.rank(); k++) index[k] = is_const_int(t.sizes[k], 1) ? d.integer(0) : d.i(k + shift);
  return d.pool.load(operand, t.dtype, std::move(index));
}

Compute pointwise(const Call& call, const Type& output) {
  DefineArgs d(call, output);
  Promotion p = promotion_of(call.graph, call.def, call.args);
  std::vector<Expr> operands(call.args.size());
  int64_t next = 0;
  for (size_t i = 0; i < call.args.size(); i++) {
    bool kept = is_kept(call.def, i);
    if (call.args[i].is<ValueId>()) {
      const Type& t = call.graph.type(call.args[i].get<ValueId>());
      Expr e = broadcast_load(d, t, next++);
      operands[i] = kept ? cast(e, compute_type(t.dtype)) : cast(cast(e, p.compute), compute_type(p.compute));
    } else if (call.def.signature.args[i].type == ArgType::Scalar || call.def.signature.args[i].type == ArgType::Tensor) {
      Expr e = to_expr(call.pool(), call.args[i]);
      if (e) operands[i] = kept ? e : cast(e, compute_type(p.compute));
    }
  }
  Expr body = call.def.body(BodyArgs(call, std::move(operands)));
  if (body->type != output.dtype) body = cast(body, output.dtype);
  return {.axes = d.axes, .body = body};
}

} // namespace

bool has_definition(const Node& n) { return n.def && (n.def->body || n.def->define); }

Compute definition_of(const Graph& graph, const Node& n) {
  Call call(graph, *n.def, n.args);
  const Type& output = graph.type(n.outputs.at(0));
  if (n.def->body) return pointwise(call, output);
  return n.def->define(DefineArgs(call, output));
}

} // namespace tenon
