// integer_products: what quantize / dequantize pairs around a product mean for its integers. Weights are constant, with a scale
// for all or for each column of the product and zero points of 0; activations have one scale and zero point, numbers or tensors.
// Sums of integers are exact, so the result is at least as near to the real one as a product of dequantized floats.
#include "edge/match.h"
#include "edge/passes.h"

namespace tenon {

namespace {

// (q - zero) * scale; no `zero` stands for 0.
struct Dequantized {
  V q, zero, scale;
};

bool is_byte(DType t) { return t == DType::I8 || t == DType::U8; }

V operand(Builder& b, const Node& n, size_t i) { return b.wrap(n.args[i].get<ValueId>()); }

// The integers of `v`, where it is (q - zero) * scale with both broadcast.
std::optional<Dequantized> dequantized(Builder& b, V v) {
  const Graph& g = b.graph();
  const Node* mul = made_by(g, v, "edge::mul.Tensor");
  if (!mul || v.dtype() != DType::F32) return std::nullopt;
  Dequantized d;
  d.scale = operand(b, *mul, 1);
  V shifted = operand(b, *mul, 0);
  if (const Node* sub = made_by(g, shifted, "edge::sub.Tensor")) {
    if (filled_with(g, sub->args[2].get<ValueId>()) != 1.0) return std::nullopt;
    d.zero = operand(b, *sub, 1);
    shifted = operand(b, *sub, 0);
  }
  const Node* cast = made_by(g, shifted, "edge::_to_copy.default");
  if (!cast) return std::nullopt;
  d.q = operand(b, *cast, 0);
  bool whole = d.q.sizes() == v.sizes();
  return is_byte(d.q.dtype()) && whole ? std::optional(d) : std::nullopt;
}

bool is_one_number(V v) { return is_const_int(product(v.builder().pool(), v.sizes()), 1); }

// All elements 0: a constant, or views and conversions of one.
bool is_zero(const Graph& g, ValueId v) {
  if (auto f = filled_with(g, v)) return *f == 0;
  if (const Tensor* t = g.constant(v)) {
    Tensor c = t->contiguous();
    return dispatch(c.dtype(), [&]<class T>(T) {
      for (int64_t i = 0; i < c.numel(); i++)
        if constexpr (!is_complex_v<T>)
          if (convert<double>(c.data_as<T>()[i]) != 0) return false;
      return !is_complex(c.dtype());
    });
  }
  for (auto op : {"edge::view.default", "edge::_to_copy.default", "edge::permute.default", "edge::expand.default"})
    if (const Node* n = made_by(g, v, op)) return is_zero(g, n->args[0].get<ValueId>());
  return false;
}

// The second operand of a product, k x n: integers, constant, and a scale of sizes [n], or none.
struct Weights {
  V q;       // k x n
  V scale;   // [n], or one number
  V sums;    // [n], I32: over k
};

V column_sums(Builder& b, const Tensor& w, bool transposed) { // w: [k, n], or [n, k] where transposed
  Tensor c = w.contiguous();
  int64_t rows = c.sizes()[0], columns = c.sizes()[1], n = transposed ? rows : columns;
  Tensor sums(DType::I32, {n});
  auto* to = sums.data_as<int32_t>();
  std::fill_n(to, n, 0);
  dispatch(c.dtype(), [&]<class T>(T) {
    if constexpr (sizeof(T) == 1)
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[transposed ? i : j] += convert<int32_t>(c.data_as<T>()[i * columns + j]);
  });
  return b.constant(std::move(sums));
}

std::optional<Weights> weights(Builder& b, V v) {
  const Graph& g = b.graph();
  const Node* view = made_by(g, v, "edge::permute.default");
  if (view && v.rank() != 2) return std::nullopt;
  V inner = view ? operand(b, *view, 0) : v;
  auto d = dequantized(b, inner);
  if (!d || d->q.dtype() != DType::I8) return std::nullopt;
  const Tensor* w = g.constant(d->q);
  if (!w || w->rank() != 2 || (d->zero && !is_zero(g, d->zero))) return std::nullopt;
  // The scale varies along the product's columns alone: dim 0 of [n, k], dim 1 of [k, n].
  bool transposed = view != nullptr;
  Expr n = v.size(1);
  V scale = d->scale;
  if (!is_one_number(scale)) {
    std::vector<Expr> along = transposed ? std::vector<Expr>{n, b.integer(1)} : std::vector<Expr>{b.integer(1), n};
    if (scale.sizes() != along && (transposed || scale.sizes() != std::vector<Expr>{n})) return std::nullopt;
    scale = b.reshape(scale, {n});
  } else scale = b.reshape(scale, {});
  V q = transposed ? b.permute(d->q, {1, 0}) : d->q;
  return Weights{q, scale, column_sums(b, *w, transposed)};
}

// The integers' product, as the f32 that the floats' product is.
V integer_product(Builder& b, const Dequantized& x, const Weights& w) {
  V sums = b.call1("aten::mm.dtype", {x.q, w.q, DType::I32});
  if (x.zero && !is_zero(b.graph(), x.zero)) sums = sums - w.sums * b.to(b.reshape(x.zero, {}), DType::I32);
  return b.to(sums, DType::F32) * (w.scale * b.reshape(x.scale, {}));
}

} // namespace

bool integer_products(LoadedProgram& program) {
  bool any = rewrite_nodes(program, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    if (n.op != "edge::mm.default" && n.op != "edge::mm.dtype") return {};
    ArgList args = r(n.args);
    Builder& b = r.builder;
    auto x = dequantized(b, b.wrap(args[0].get<ValueId>()));
    if (!x || !is_one_number(x->scale) || (x->zero && !is_one_number(x->zero)) || r.from.type(n.outputs[0]).dtype != DType::F32) return {};
    auto w = weights(b, b.wrap(args[1].get<ValueId>()));
    if (!w) return {};
    return {integer_product(b, *x, *w).id};
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
