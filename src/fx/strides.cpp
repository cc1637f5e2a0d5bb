// add_strides: a view's strides are how far the place that its definition reads moves with each of its axes.
#include "fx/strides.h"

#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "ir/call.h"
#include "ir/define.h"
#include "ir/dim_order.h"
#include "ir/strides.h"

namespace tenon {

namespace {

using Strides = std::optional<std::vector<Expr>>; // none: no strides describe it

bool is_view(const Node& n) { return !n.def->signature.returns.empty() && !n.def->signature.returns[0].alias.empty(); }

// By how much an index grows with an axis; none where that depends on where it is.
std::optional<Expr> step_of(Expr index, Expr axis) {
  Substitution next;
  next.set(axis, axis + 1.0);
  Expr step = next.apply(index) - index;
  return contains(step, [](const ExprNode& n) { return n.op == Op::Axis || n.op == Op::Load; }) ? std::nullopt : std::optional(step);
}

Strides strides_of_value(const Graph& g, ValueId v) {
  if (!g.value(v).node.valid()) return strides_of(g.pool(), g.type(v));
  const Node& n = g.node(g.value(v).node);
  if (!n.def || n.def->kind != Kind::View || !n.def->define || n.args.empty() || !n.args[0].is<ValueId>()) return std::nullopt;
  Compute c = definition_of(g, n);
  if (c.body->op != Op::Load || c.body->bits != 0) return std::nullopt;
  Strides source = strides_of_value(g, n.args[0].get<ValueId>());
  if (!source || source->size() != c.body->args.size()) return std::nullopt;
  std::vector<Expr> out;
  for (Expr axis : c.axes) {
    Expr stride = g.pool().integer(0);
    for (size_t d = 0; axis->op == Op::Axis && d < source->size(); d++) {
      auto step = step_of(c.body->args[d], axis);
      if (!step) return std::nullopt;
      stride = stride + *step * (*source)[d];
    }
    out.push_back(stride);
  }
  return out;
}

// Nothing where they are row-major; a dim of one element may have any.
std::vector<Expr> if_strided(ExprPool& pool, const Type& t, std::vector<Expr> strides) {
  std::vector<Expr> dense = strides_of(pool, Type::tensor(t.dtype, t.sizes));
  for (size_t d = 0; d < t.rank(); d++)
    if (strides[d] != dense[d] && !is_const_int(t.sizes[d], 1)) return strides;
  return {};
}

std::vector<int> rising(size_t rank) {
  std::vector<int> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// Of an operator that is given a memory format or a dim order: that memory, or, where it keeps the format, its operand's. None of others.
std::optional<std::vector<Expr>> strides_of_format(const Graph& g, const Node& n, const Type& result) {
  Call c(g, *n.def, n.args);
  const Schema& schema = n.def->signature;
  std::vector<int> order;
  if (schema.find("dim_order") >= 0 && c.has("dim_order")) {
    std::vector<int64_t> dims = c.integers("dim_order");
    if (!std::ranges::is_permutation(dims, rising(result.rank()))) c.fail("dim_order is no permutation of the dims");
    order.assign(dims.begin(), dims.end());
  } else if (int at = schema.find("memory_format"); at >= 0) {
    const Arg& format = n.args[static_cast<size_t>(at)];
    bool keeps = format.is_none() || format == Arg(Word{"preserve_format"});
    if (keeps) {
      if (schema.find("self") != 0 || !n.args[0].is<ValueId>()) return std::nullopt;
      const Type& self = g.type(n.args[0].get<ValueId>());
      if (self.sizes != result.sizes || (is_view(n) && self.dtype == result.dtype)) return std::nullopt; // self itself
      order = dim_order(self);
    } else if (format.is<Word>()) order = order_of_format(format.get<Word>().text, result.rank());
  } else return std::nullopt;
  if (order.size() != result.rank()) return std::vector<Expr>();
  return if_strided(g.pool(), result, strides_in_order(result.sizes, order));
}

// What is computed element by element lies in the order in which its operands of that size do, where they agree.
std::vector<Expr> pointwise_strides(const Graph& g, const Node& n, const Type& result) {
  const std::vector<Expr>* order = nullptr;
  for (const Arg& a : n.args) {
    if (!a.is<ValueId>() || g.type(a.get<ValueId>()).sizes != result.sizes) continue;
    const std::vector<Expr>& strides = g.type(a.get<ValueId>()).strides;
    if (strides.empty() || (order && *order != strides)) return {};
    order = &strides;
  }
  if (!order) return {};
  for (Expr s : *order)
    if (!const_int(s) || *const_int(s) < 1) return {};
  std::vector<int> dims = rising(result.rank());
  auto stride = [&](int d) { return (*order)[static_cast<size_t>(d)]->bits; };
  std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) { return stride(a) > stride(b); });
  return if_strided(g.pool(), result, strides_in_order(result.sizes, dims));
}

void add_view_strides(const Graph& g, const Node& n, std::vector<Type>& results) {
  Graph parts = written_out(g, *n.def, n.args);
  const ArgList& shown = parts.block(parts.top()).returns;
  for (size_t i = 0; i < std::min(results.size(), shown.size()); i++) {
    Strides strides = strides_of_value(parts, shown[i].get<ValueId>());
    if (strides && strides->size() == results[i].rank()) results[i].strides = if_strided(g.pool(), results[i], std::move(*strides));
  }
}

} // namespace

void add_strides(const Graph& g, const Node& n, std::vector<Type>& results) {
  if (!n.def || results.empty()) return;
  for (Type& t : results) t.strides.clear();
  if (auto strides = results.size() == 1 ? strides_of_format(g, n, results[0]) : std::nullopt) {
    results[0].strides = std::move(*strides);
    return;
  }
  bool in_place = functional_name(n.op) != n.op && !is_view(n);
  if (in_place && n.args[0].is<ValueId>() && g.type(n.args[0].get<ValueId>()).sizes == results[0].sizes)
    results[0].strides = g.type(n.args[0].get<ValueId>()).strides;
  else if (n.def->kind == Kind::Pointwise) results[0].strides = pointwise_strides(g, n, results[0]);
  else if (is_view(n)) add_view_strides(g, n, results);
}

} // namespace tenon
