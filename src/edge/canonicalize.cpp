// canonicalize: rewrites that leave less to do, as a table. A rule sees a call whose operands are already rewritten, and gives
// the value that stands for its result, or none. What it gives must have the same dtype and sizes, or it is not taken.
#include <numeric>

#include "edge/match.h"
#include "edge/passes.h"
#include "edge/transposed_convolution.h"
#include "ops/names.h"

namespace tenon {

namespace {

struct Match {
  Builder& b;
  const Node& node;    // the old node
  const ArgList& args; // over the new graph

  const Graph& g() const { return b.graph(); }
  V arg(size_t i) const { return b.wrap(args[i].get<ValueId>()); }
  bool is_value(size_t i) const { return i < args.size() && args[i].is<ValueId>(); }
  /// The node that makes operand i, where it is `op`.
  const Node* made_by(size_t i, OpId op) const { return is_value(i) ? tenon::made_by(g(), args[i].get<ValueId>(), op) : nullptr; }
  V operand(const Node& n, size_t i = 0) const { return b.wrap(n.args[i].get<ValueId>()); }
  std::optional<double> filled(size_t i) const { return is_value(i) ? filled_with(g(), args[i].get<ValueId>()) : std::nullopt; }
  bool is_filled(size_t i, double v) const {
    auto f = filled(i);
    return f && *f == v && std::signbit(*f) == std::signbit(v);
  }
  const Type& type() const { return *type_; }
  const Type* type_;
};

V permute_twice(Match& m) {
  const Node* inner = m.made_by(0, edge::permute);
  if (!inner) return {};
  V x = m.operand(*inner);
  auto dims = [&](const ArgList& list, size_t k) { return wrap_dim(list[k].get<int64_t>(), x.rank(), "permute"); };
  const ArgList &p = inner->args[1].get<ArgList>(), &q = m.args[1].get<ArgList>();
  std::vector<int64_t> order;
  for (size_t k = 0; k < q.size(); k++) order.push_back(dims(p, static_cast<size_t>(dims(q, k))));
  return m.b.permute(x, order);
}

// The row's own knowledge of calls that change nothing: a slice of the whole, a view to the same sizes ...
V identity_view(Match& m) {
  if (!m.node.def->decompose || !m.is_value(0)) return {};
  Values out = m.node.def->decompose(m.b, Call(m.g(), *m.node.def, m.args));
  return out.size() == 1 && out[0].id == m.args[0].get<ValueId>() ? out[0] : V();
}

V view_twice(Match& m) {
  const Node* inner = m.made_by(0, edge::view);
  return inner ? m.b.reshape(m.operand(*inner), m.type().sizes) : V();
}

// unsqueeze, squeeze and view keep the order of elements: back to the sizes they came from, they are nothing.
V reshape_back(Match& m) {
  for (auto op : {edge::view, edge::unsqueeze, edge::squeeze_dims})
    if (const Node* inner = m.made_by(0, op); inner && m.operand(*inner).sizes() == m.type().sizes) return m.operand(*inner);
  return {};
}

V expand_twice(Match& m) {
  const Node* inner = m.made_by(0, edge::expand);
  return inner ? m.b.expand(m.operand(*inner), m.type().sizes) : V();
}

V same_dtype(Match& m) { return m.arg(0).dtype() == m.type().dtype ? m.arg(0) : V(); }

// Whether every value of `a` is one of `b`.
bool widens(DType a, DType b) {
  if (a == b || a == DType::Bool) return true;
  if (is_complex(a) || is_complex(b) || a == DType::U64 || b == DType::U64 || b == DType::Bool) return false;
  if (is_float8(a) || is_float8(b)) return is_float8(a) && is_float(b);
  if (is_float(a)) return is_float(b) && size_of(b) > size_of(a);
  if (is_float(b)) return b == DType::F64 ? size_of(a) <= 4 : b == DType::F32 ? size_of(a) <= 2 : size_of(a) == 1;
  return is_unsigned(a) ? size_of(b) > size_of(a) : !is_unsigned(b) && size_of(b) >= size_of(a);
}

V cast_twice(Match& m) {
  const Node* inner = m.made_by(0, edge::_to_copy);
  if (!inner) return {};
  V x = m.operand(*inner);
  return widens(x.dtype(), m.arg(0).dtype()) ? m.b.to(x, m.type().dtype) : V();
}

V cast_of_full(Match& m) {
  auto v = m.filled(0);
  auto now = v ? round_to(*v, m.type().dtype) : std::nullopt;
  if (!now || (*now != *v && !is_float(m.type().dtype))) return {};
  return m.b.full(m.type().sizes, fill_value(*now, m.type().dtype), m.type().dtype);
}

V view_of_full(Match& m) {
  auto v = m.filled(0);
  return v ? m.b.full(m.type().sizes, fill_value(*v, m.type().dtype), m.type().dtype) : V();
}

// x + 0: of floats only where -0 stays -0.
V add_zero(Match& m) {
  bool integers = is_int(m.type().dtype);
  if (!m.is_filled(2, 1)) return {};
  if (m.is_filled(1, integers ? 0.0 : -0.0)) return m.arg(0);
  return m.is_filled(0, integers ? 0.0 : -0.0) ? m.arg(1) : V();
}
V sub_zero(Match& m) { return m.is_filled(2, 1) && m.is_filled(1, 0.0) ? m.arg(0) : V(); }
V mul_one(Match& m) {
  if (m.is_filled(1, 1)) return m.arg(0);
  return m.is_filled(0, 1) ? m.arg(1) : V();
}
V div_one(Match& m) { return m.is_filled(1, 1) ? m.arg(0) : V(); }

V undo_itself(Match& m) {
  const Node* inner = m.made_by(0, m.node.op);
  return inner ? m.operand(*inner) : V();
}

V where_known(Match& m) {
  auto c = m.filled(0);
  if (!c) return {};
  return m.arg(*c != 0 ? 1 : 2);
}

// x @ w, where w was widened without a change of value, or is a view of such: the product widens what it reads.
V narrow_weights(Match& m) {
  if (!m.is_value(1)) return {};
  const Node* view = m.made_by(1, edge::permute);
  const Node* wide = view ? made_by(m.g(), view->args[0].get<ValueId>(), edge::_to_copy) : m.made_by(1, edge::_to_copy);
  if (!wide) return {};
  V w = m.operand(*wide), x = m.arg(0);
  bool narrower = w.dtype() == DType::I8 || (is_reduced_float(w.dtype()) && x.dtype() == DType::F32);
  if (!narrower || !(x.dtype() == DType::F32 || is_reduced_float(x.dtype())) || !widens(w.dtype(), x.dtype())) return {};
  if (view) {
    std::vector<int64_t> order;
    for (const Arg& d : view->args[1].get<ArgList>()) order.push_back(d.get<int64_t>());
    w = m.b.permute(w, order);
  }
  return m.b.call1(x.rank() == 2 ? aten::mm_dtype : aten::bmm_dtype, {x, w, m.type().dtype});
}

V transposed_convolution(Match& m) {
  ArgList args(m.args.begin(), m.args.begin() + 9);
  return without_transposition(m.b, m.arg(0), m.arg(1), args, m.type());
}

// A product of few columns of few terms, as a sum of pointwise products: these fill vectors whose lanes a matrix kernel leaves empty, take
// terms that lie apart as they are, and join what stands around them.
V short_sums(Match& m) {
  constexpr int64_t most = 8, most_in_rows = 32, few_rows = 16; // which a matrix kernel takes at once
  V x = m.arg(0), w = m.arg(1), sum;
  if (auto rows = const_int(x.size(-2)); rows && *rows <= few_rows) return {};
  auto terms = const_int(w.size(-2)), columns = const_int(w.size(-1));
  bool floats = (x.dtype() == DType::F32 || x.dtype() == DType::F64) && w.dtype() == x.dtype() && m.type().dtype == x.dtype();
  if (!floats || !terms || !columns || *terms < 1 || *terms > most || *columns > most) return {};
  if (const Node* view = x.rank() == 2 ? m.made_by(0, edge::view) : nullptr)
    if (V whole = m.operand(*view); whole.rank() > 2 && is_const_int(whole.size(-1), *terms)) x = whole;
  std::vector<int64_t> order(x.rank()), back(x.rank());
  std::iota(order.begin(), order.end(), 0);
  if (const Node* permuted = made_by(m.g(), x.id, edge::permute)) { // terms stay where they are
    for (size_t d = 0; d < order.size(); d++)
      order[d] = wrap_dim(permuted->args[1].get<ArgList>()[d].get<int64_t>(), order.size(), "permute");
    x = m.operand(*permuted);
  }
  if (order.back() + 1 == static_cast<int64_t>(order.size()) && *terms * *columns > most_in_rows) return {};
  for (size_t d = 0; d < order.size(); d++) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  std::vector<Expr> row(order.size(), m.b.integer(1));
  if (w.rank() == 3) row[0] = w.size(0);
  row.back() = w.size(-1);
  for (int64_t k = 0; k < *terms; k++) {
    V factor = m.b.permute(m.b.reshape(m.b.slice(w, -2, m.b.integer(k), m.b.integer(1)), row), back);
    V term = m.b.slice(x, order.back(), m.b.integer(k), m.b.integer(1)) * factor;
    sum = sum ? sum + term : term;
  }
  return m.b.reshape(m.b.permute(sum, order), m.type().sizes);
}

struct Rule {
  std::string_view name;
  OpId op;
  V (*apply)(Match&);
};

const Rule rules[] = {
    {"permute_twice", edge::permute, permute_twice},
    {"identity_permute", edge::permute, identity_view},
    {"identity_view", edge::view, identity_view},
    {"identity_expand", edge::expand, identity_view},
    {"identity_slice", edge::slice_Tensor, identity_view},
    {"identity_squeeze", edge::squeeze_dims, identity_view},
    {"view_twice", edge::view, view_twice},
    {"view_back", edge::view, reshape_back},
    {"unsqueeze_back", edge::unsqueeze, reshape_back},
    {"squeeze_back", edge::squeeze_dims, reshape_back},
    {"expand_twice", edge::expand, expand_twice},
    {"same_dtype", edge::_to_copy, same_dtype},
    {"cast_twice", edge::_to_copy, cast_twice},
    {"cast_of_full", edge::_to_copy, cast_of_full},
    {"view_of_full", edge::view, view_of_full},
    {"expand_of_full", edge::expand, view_of_full},
    {"permute_of_full", edge::permute, view_of_full},
    {"slice_of_full", edge::slice_Tensor, view_of_full},
    {"unsqueeze_of_full", edge::unsqueeze, view_of_full},
    {"squeeze_of_full", edge::squeeze_dims, view_of_full},
    {"add_zero", edge::add_Tensor, add_zero},
    {"sub_zero", edge::sub_Tensor, sub_zero},
    {"mul_one", edge::mul_Tensor, mul_one},
    {"div_one", edge::div_Tensor, div_one},
    {"neg_twice", edge::neg, undo_itself},
    {"logical_not_twice", edge::logical_not, undo_itself},
    {"bitwise_not_twice", edge::bitwise_not, undo_itself},
    {"where_known", edge::where_self, where_known},
    {"narrow_weights", edge::mm, narrow_weights},
    {"narrow_weights", edge::mm_dtype, narrow_weights},
    {"narrow_weights", edge::bmm, narrow_weights},
    {"narrow_weights", edge::bmm_dtype, narrow_weights},
    {"short_sums", edge::mm, short_sums},
    {"short_sums", edge::bmm, short_sums},
    {"transposed_convolution", edge::convolution, transposed_convolution},
    {"transposed_convolution", edge::convolution_dtype, transposed_convolution},
};

bool same(const Type& a, const Type& b) {
  return a.is_tensor() && b.is_tensor() && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
}

} // namespace

bool canonicalize(LoadedProgram& program) {
  bool any = false;
  auto concerns = [](const Graph&, const Node& n) { return n.outputs.size() == 1 && n.blocks.empty() && n.def != nullptr; };
  Replace replace = [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    ArgList args;
    for (const Rule& rule : rules) {
      if (rule.op != n.op) continue;
      if (args.empty()) args = r(n.args);
      Match m{.b = r.builder, .node = n, .args = args, .type_ = &r.from.type(n.outputs[0])};
      V now = rule.apply(m);
      if (now && same(now.type(), m.type())) return {now.id};
    }
    return {};
  };
  while (rewrite_nodes(program, concerns, replace)) any = true;
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
