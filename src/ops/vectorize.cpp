// Rules of operators on a batch that rows of several files share.
#include "ops/vectorize.h"

#include "ops/shape.h"

namespace tenon {

ArgList BatchedCall::operands(size_t rank) const {
  ArgList args = call.args;
  for (Arg& a : args) a = map_values(a, [&](ValueId v) { return operand(v, rank).id; });
  return args;
}

std::vector<Expr> BatchedCall::sizes(const Type& step) const { return ops::with(step.sizes, 0, length); }

Values BatchedCall::again(Builder& b, const ArgList& args) const {
  std::vector<Type> types = infer_types(b.graph(), call.def, args);
  NodeId made = b.graph().append(
      b.block(), Node{.op = node.op, .def = node.def, .args = args, .attributes = node.attributes, .origin = node.origin}, types);
  Values out;
  for (ValueId v : b.graph().node(made).outputs) out.push_back(b.wrap(v));
  return out;
}

namespace ops {

std::optional<Arg> moved_dims(const Arg& dims, size_t rank) {
  auto moved = [&](const Arg& dim) {
    int64_t d = dim.get<int64_t>();
    return 1 + (d < 0 ? d + static_cast<int64_t>(rank) : d);
  };
  if (dims.is<int64_t>()) return Arg(moved(dims));
  if (!dims.is<ArgList>()) return std::nullopt;
  ArgList out;
  for (const Arg& d : dims.get<ArgList>()) out.push_back(moved(d));
  return Arg(out);
}

static Values along(Builder& b, const BatchedCall& c, bool empty_is_all) {
  int k = std::max(c.call.def.signature.find("dim"), c.call.def.signature.find("dims"));
  size_t rank = c.call.graph.type(c.call.args[0].get<ValueId>()).rank();
  auto dims = rank == 0 ? std::nullopt : moved_dims(c.call.args[static_cast<size_t>(k)], rank);
  if (!dims) return {};
  ArgList args = c.operands(rank);
  if (empty_is_all && *dims == Arg(ArgList())) {
    ArgList all;
    for (size_t d = 0; d < rank; d++) all.push_back(static_cast<int64_t>(d) + 1);
    dims = Arg(all);
  }
  args[static_cast<size_t>(k)] = *dims;
  return c.again(b, args);
}

Values along_dims(Builder& b, const BatchedCall& c) { return along(b, c, true); }
Values along_named_dims(Builder& b, const BatchedCall& c) { return along(b, c, false); }

} // namespace ops
} // namespace tenon
