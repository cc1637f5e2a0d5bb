// What rows see: operands of pointwise bodies, loads and axes of definitions.
#include "ir/op.h"

#include "ir/promote.h"

namespace tenon {

Expr BodyArgs::operator[](std::string_view name) const {
  int i = call.def.signature.find(name);
  require(i >= 0, "{} has no operand {}", call.def.signature.name, name);
  return operands_[static_cast<size_t>(i)];
}

DefineArgs::DefineArgs(const Call& call, const Type& output)
    : call(call), output(output), pool(call.pool()), next_axis_(static_cast<int64_t>(output.rank())) {
  for (size_t d = 0; d < output.rank(); d++) axes.push_back(pool.axis(static_cast<int64_t>(d), output.sizes[d]));
}

Expr DefineArgs::reduce_axis(Expr extent) const { return pool.axis(next_axis_++, extent); }

Expr DefineArgs::load(std::string_view name, std::vector<Expr> indices, size_t element) const {
  int at = call.def.signature.find(name);
  require(at >= 0, "{} has no operand {}", call.def.signature.name, name);
  int64_t operand = static_cast<int64_t>(element);
  for (int i = 0; i < at; i++)
    for_each_value(call.args[static_cast<size_t>(i)], [&](ValueId v) { operand += call.graph.type(v).is_tensor(); });
  std::vector<ValueId> values = call.values(name);
  require(element < values.size(), "{}: no operand {}", call.def.signature.name, name);
  const Type& t = call.graph.type(values[element]);
  require(t.rank() == indices.size(), "{}: {} indices for {}", call.def.signature.name, indices.size(), to_string(t));
  return pool.load(operand, t.dtype, std::move(indices));
}

Expr DefineArgs::load_wide(std::string_view name, std::vector<Expr> indices) const {
  Expr e = load(name, std::move(indices));
  return cast(e, compute_type(e->type));
}

} // namespace tenon
