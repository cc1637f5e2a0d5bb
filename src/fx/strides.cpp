// add_strides: a view's strides are how far the place that its definition reads moves with each of its axes.
#include "fx/strides.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/define.h"
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

// Of memory in which the dims lie in this order, the innermost last.
std::vector<Expr> packed_strides(ExprPool& pool, const Type& t, std::span<const size_t> dims) {
  std::vector<Expr> strides(t.rank());
  Expr inner = pool.integer(1);
  for (size_t k = dims.size(); k-- > 0; inner = inner * t.sizes[dims[k]]) strides[dims[k]] = inner;
  return if_strided(pool, t, std::move(strides));
}

// The memory format that a call asks for; "preserve_format" where it asks for none.
std::string memory_format(const Node& n) {
  int i = n.def->signature.find("memory_format");
  bool given = i >= 0 && static_cast<size_t>(i) < n.args.size() && n.args[static_cast<size_t>(i)].is<Word>();
  if (given) return n.args[static_cast<size_t>(i)].get<Word>().text;
  return n.op == "aten::contiguous.default" ? "contiguous_format" : "preserve_format";
}

// Row-major, or with channels last.
std::vector<Expr> strides_of_format(ExprPool& pool, const Type& t, std::string_view format) {
  if (!format.starts_with("channels_last") || t.rank() < 4) return {};
  std::vector<size_t> dims{0};
  for (size_t d = 2; d < t.rank(); d++) dims.push_back(d);
  dims.push_back(1);
  return packed_strides(pool, t, dims);
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
  std::vector<size_t> dims(result.rank());
  for (size_t d = 0; d < dims.size(); d++) dims[d] = d;
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) { return (*order)[a]->bits > (*order)[b]->bits; });
  return packed_strides(g.pool(), result, dims);
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
  Type& first = results[0];
  std::string format = memory_format(n);
  bool in_place = functional_name(n.op) != n.op && !is_view(n);
  if (in_place && n.args[0].is<ValueId>() && g.type(n.args[0].get<ValueId>()).sizes == first.sizes)
    first.strides = g.type(n.args[0].get<ValueId>()).strides;
  else if (format != "preserve_format") first.strides = strides_of_format(g.pool(), first, format);
  else if (n.def->kind == Kind::Pointwise || n.op == "aten::clone.default" || n.op == "aten::_to_copy.default")
    first.strides = pointwise_strides(g, n, first);
  else if (is_view(n)) add_view_strides(g, n, results);
}

} // namespace tenon
