// integer_products: what quantize / dequantize pairs around a product mean for its integers. Weights are constant, with a scale
// for all or for each column of the product (of a convolution: each channel) and zero points of 0; activations have one scale and zero
// point, numbers or tensors, or those of a product one for each row. Views may stand between dequantization and product, as those of a
// linear layer on a sequence do. Sums of integers are exact, so the result is at least as near to the real one as a product of dequantized
// floats.
#include <cmath>
#include <numeric>

#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

// (q - zero) * scale; no `zero` stands for 0.
struct Dequantized {
  V q, zero, scale;
};

V operand(Builder& b, const Node& n, size_t i) { return b.wrap(n.args[i].get<ValueId>()); }

bool is_one_number(V v) { return is_const_int(product(v.builder().pool(), v.sizes()), 1); }

// What makes `v`, where that shows elements of another tensor and nothing else.
const Node* view_of(const Graph& g, ValueId v) {
  for (auto op : {edge::view, edge::permute, edge::expand, edge::slice_Tensor, edge::select_int})
    if (const Node* n = made_by(g, v, op)) return n;
  return nullptr;
}

constexpr int most_views = 8; // between dequantization and product
std::optional<Dequantized> dequantized(Builder& b, V v, int views = 0);

// One number, or one for each row of `of`.
bool is_by_rows(V x, V of) {
  std::vector<Expr> rows = of.sizes();
  if (!rows.empty()) rows.back() = x.builder().integer(1);
  return is_one_number(x) || x.sizes() == rows;
}

// A view of (q - zero) * scale as the same view of q. A scale or zero for each row goes with rows that stay whole.
std::optional<Dequantized> dequantized_view(Builder& b, V v, OpId op, ArgList args, int views) {
  V from = b.wrap(args[0].get<ValueId>());
  auto d = dequantized(b, from, views);
  if (!d) return std::nullopt;
  bool whole_rows = op == edge::view && v.rank() > 0 && from.rank() > 0 && v.sizes().back() == from.sizes().back();
  for (V* x : {&d->scale, &d->zero}) {
    if (!*x || is_one_number(*x)) continue;
    if (!whole_rows || !is_by_rows(*x, from)) return std::nullopt;
    std::vector<Expr> rows = v.sizes();
    rows.back() = b.integer(1);
    *x = b.reshape(*x, rows);
  }
  args[0] = Arg(d->q);
  d->q = b.call1(op, args);
  return d;
}

// The integers of `v`, where it is (q - zero) * scale with both broadcast, or a view of that.
std::optional<Dequantized> dequantized(Builder& b, V v, int views) {
  const Graph& g = b.graph();
  if (const Node* view = view_of(g, v.id))
    return views < most_views ? dequantized_view(b, v, view->op, view->args, views + 1) : std::nullopt;
  const Node* mul = made_by(g, v, edge::mul_Tensor);
  if (!mul || v.dtype() != DType::F32) return std::nullopt;
  Dequantized d;
  d.scale = operand(b, *mul, 1);
  V shifted = operand(b, *mul, 0);
  if (const Node* sub = made_by(g, shifted, edge::sub_Tensor)) {
    if (filled_with(g, sub->args[2].get<ValueId>()) != 1.0) return std::nullopt;
    d.zero = operand(b, *sub, 1);
    shifted = operand(b, *sub, 0);
  }
  const Node* cast = made_by(g, shifted, edge::_to_copy);
  if (!cast) return std::nullopt;
  d.q = operand(b, *cast, 0);
  bool whole = d.q.sizes() == v.sizes();
  return is_byte(d.q.dtype()) && whole ? std::optional(d) : std::nullopt;
}

// The same by the operators alone, in a graph as it is.
bool may_be_dequantized(const Graph& g, ValueId v) {
  for (int k = 0; k < most_views; k++)
    if (const Node* view = view_of(g, v)) v = view->args[0].get<ValueId>();
  const Node* mul = made_by(g, v, edge::mul_Tensor);
  if (!mul) return false;
  ValueId shifted = mul->args[0].get<ValueId>();
  return made_by(g, shifted, edge::sub_Tensor) || made_by(g, shifted, edge::_to_copy);
}

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
  for (auto op : {edge::view, edge::_to_copy, edge::permute, edge::expand})
    if (const Node* n = made_by(g, v, op)) return is_zero(g, n->args[0].get<ValueId>());
  return false;
}

// The second operand of a product, k x n: integers, constant, and a scale of sizes [n], or none.
struct IntegerWeights {
  V q;     // k x n
  V scale; // [n], or one number
  V sums;  // [n], I32: over k
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

std::optional<IntegerWeights> weights(Builder& b, V v) {
  const Graph& g = b.graph();
  const Node* view = made_by(g, v, edge::permute);
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
  return IntegerWeights{q, scale, column_sums(b, *w, transposed)};
}

// The integers' product, as the f32 that the floats' product is.
V integer_product(Builder& b, const Dequantized& x, const IntegerWeights& w) {
  V sums = b.call1(aten::mm_dtype, {x.q, w.q, DType::I32});
  auto number = [&](V v) { return is_one_number(v) ? b.reshape(v, {}) : v; };
  if (x.zero && !is_zero(b.graph(), x.zero)) sums = sums - w.sums * b.to(number(x.zero), DType::I32);
  V scale = w.scale * number(x.scale);
  return b.to(sums, DType::F32) * scale;
}

// Of a convolution: [out][in / groups][taps...], with a scale for all or for each of `out`. Not of a depthwise one: floats do as well
// there, with kernels of their own.
std::optional<IntegerWeights> conv_weights(Builder& b, const ArgList& args) {
  V v = b.wrap(args[1].get<ValueId>());
  auto d = dequantized(b, v);
  if (!d || d->q.dtype() != DType::I8 || args[6] != Arg(false) || is_const_int(v.size(1), 1)) return std::nullopt;
  const Tensor* w = b.graph().constant(d->q);
  if (!w || (d->zero && !is_zero(b.graph(), d->zero))) return std::nullopt;
  Tensor rows = w->contiguous();
  int64_t out = rows.sizes()[0], each = out ? rows.numel() / out : 0;
  std::vector<Expr> along(v.rank(), b.integer(1)), channel(v.rank() - 1, b.integer(1));
  along[0] = channel[0] = b.integer(out);
  bool one = is_one_number(d->scale);
  if (!one && d->scale.sizes() != along) return std::nullopt;
  Tensor sums(DType::I32, {out});
  auto* q = rows.data_as<int8_t>();
  for (int64_t o = 0; o < out; o++) sums.data_as<int32_t>()[o] = std::accumulate(q + o * each, q + (o + 1) * each, 0);
  return IntegerWeights{d->q, b.reshape(d->scale, one ? std::vector<Expr>() : channel), b.reshape(b.constant(std::move(sums)), channel)};
}

// Signed activations are shifted to unsigned ones, which is what fast kernels read; padding stands for 0.
std::vector<ValueId> integer_convolution(Builder& b, const Call& c, const ArgList& args, const Dequantized& x) {
  auto w = conv_weights(b, args);
  if (!w) return {};
  auto zero = x.zero ? filled_with(b.graph(), x.zero) : 0.0;
  if (!zero && x.zero && is_zero(b.graph(), x.zero)) zero = 0.0;
  bool is_signed = x.q.dtype() == DType::I8;
  int64_t low = is_signed ? -128 : 0;
  bool in_range = zero && *zero >= low && *zero <= low + 255 && *zero == std::floor(*zero);
  int64_t padding = in_range ? static_cast<int64_t>(*zero) - low : 0;
  if (!in_range && (zero || c.integers("padding") != std::vector<int64_t>(c.integers("padding").size(), 0))) return {};
  V shift = zero ? b.full({}, padding, DType::I32) : b.to(b.reshape(x.zero, {}), DType::I32) - low;
  V q = is_signed ? b.to(b.to(x.q, DType::I32) + int64_t{128}, DType::U8) : x.q;
  ArgList conv(args.begin(), args.begin() + 9);
  conv[0] = Arg(q), conv[1] = Arg(w->q);
  conv.push_back(DType::I32);
  conv.push_back(padding);
  V sums = b.call1(aten::convolution_dtype, conv);
  if (!zero || padding != 0) sums = sums - w->sums * shift;
  V scale = w->scale * b.reshape(x.scale, {});
  return {(b.to(sums, DType::F32) * scale).id};
}

} // namespace

bool integer_products(LoadedProgram& program) {
  auto concerns = [](const Graph& from, const Node& n) {
    bool product = n.op == edge::mm || n.op == edge::mm_dtype || n.op == edge::convolution;
    return product && from.type(n.outputs[0]).dtype == DType::F32 && may_be_dequantized(from, n.args[0].get<ValueId>());
  };
  bool any = rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    bool conv = n.op == edge::convolution;
    ArgList args = r(n.args);
    Builder& b = r.builder;
    auto x = dequantized(b, b.wrap(args[0].get<ValueId>()));
    if (!x) return {};
    bool one = is_one_number(x->scale) && (!x->zero || is_one_number(x->zero));
    if (!one && (conv || !is_by_rows(x->scale, x->q) || (x->zero && !is_by_rows(x->zero, x->q)))) return {};
    if (conv) return integer_convolution(b, Call(r.from, *n.def, n.args), args, *x);
    auto w = weights(b, b.wrap(args[1].get<ValueId>()));
    if (!w) return {};
    return {integer_product(b, *x, *w).id};
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
