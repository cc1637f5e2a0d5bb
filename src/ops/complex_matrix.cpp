// Reductions, products and indexed writes of complex tensors.
#include "ops/body.h"
#include "ops/complex.h"

namespace tenon::ops {

namespace {

V argument(Builder& b, const Call& c, size_t i) { return b.wrap(c.args[i].get<ValueId>()); }

// The same operator on the moduli.
Values of_moduli(Builder& b, const Call& c) {
  ArgList args = c.args;
  args[0] = modulus(parts(b.wrap(args[0].get<ValueId>())));
  for (Arg& a : args)
    if (a.is<DType>()) a = part_type(a.get<DType>());
  return b.call_full(c.def, args);
}

// Additive in the operand: each part by itself.
Values complex_linear(Builder& b, const Call& c) {
  std::optional<DType> to = c.def.signature.find("dtype") >= 0 ? c.dtype("dtype") : std::nullopt;
  ArgList args = c.args;
  if (to) args[0] = b.to(b.wrap(args[0].get<ValueId>()), *to);
  return b.by_parts(c.def, args);
}

// alpha * source is added up, part by part.
Values index_add(Builder& b, const Call& c) {
  ArgList re = c.args;
  V source = b.wrap(c.args[3].get<ValueId>());
  if (c["alpha"] != Arg(1)) source = source * c["alpha"];
  re[4] = Arg(1);
  ArgList im = re;
  re[0] = b.real(argument(b, c, 0)), re[3] = b.real(source);
  im[0] = b.imag(argument(b, c, 0)), im[3] = b.imag(source);
  return whole({b.call_full(c.def, re).at(0), b.call_full(c.def, im).at(0)});
}

V scaled(V x, const Arg& by) { return by == Arg(1) ? x : x * by; }
// beta * self + alpha * (the product of the next two); nothing of self where beta is 0.
template <Name Product, bool Summed> Values add_product(Builder& b, const Call& c) {
  V xy = b.call1(Product.text, {c.args[1], c.args[2]});
  if (Summed) xy = b.sum(xy, {0}, false);
  xy = scaled(xy, c["alpha"]);
  if (c["beta"] == Arg(0)) return b.expand(xy, broadcast(b.pool(), xy.sizes(), argument(b, c, 0).sizes(), c.def.signature.name));
  return scaled(argument(b, c, 0), c["beta"]) + xy;
}

// The first vector is conjugated.
Values conjugated_product(Builder& b, const Call& c) {
  ArgList args = c.args;
  args[0] = b.call1("aten::_conj.default", {args[0]});
  V x = b.wrap(args[0].get<ValueId>()), y = argument(b, c, 1);
  if (c.def.signature.find("dim") < 0) return b.call("aten::dot.default", {x, y});
  return b.call("aten::sum.dim_IntList", {x * y, {c.dim("dim", std::max(x.rank(), y.rank()))}});
}

// Halves are multiplied until one factor is left; a lone last factor waits for the next round.
V product_along(V x, int64_t dim, bool keepdim) {
  Builder& b = x.builder();
  auto size = const_int(x.size(dim));
  if (!size) unsupported("a product of complex numbers over {} elements", to_string(x.size(dim)));
  int64_t n = *size;
  if (n == 0) {
    std::vector<Expr> sizes = x.sizes();
    sizes[static_cast<size_t>(dim)] = b.integer(1);
    x = b.full(sizes, std::complex<double>(1, 0), x.dtype());
  }
  for (; n > 1; n = n - n / 2) {
    auto part = [&](int64_t begin, int64_t length) { return b.slice(x, dim, b.integer(begin), b.integer(length)); };
    V pairs = part(0, n / 2) * part(n / 2, n / 2);
    x = n % 2 ? b.call1("aten::cat.default", {ArgList{pairs, part(n - 1, 1)}, dim}) : pairs;
  }
  return keepdim ? x : b.squeeze(x, dim);
}
template <bool All> Values multiply_up(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (auto t = c.dtype("dtype")) x = b.to(x, *t);
  if (!is_complex(x.dtype())) return {};
  if (!All) return x.rank() == 0 ? x : product_along(x, c.dim("dim", x.rank()), c.flag("keepdim"));
  Expr n = b.integer(1);
  for (Expr s : x.sizes()) n = n * s;
  return product_along(b.reshape(x, {n}), 0, false);
}

Values convolution(Builder& b, const Call& c) {
  Parts x = parts(argument(b, c, 0)), w = parts(argument(b, c, 1)), bias;
  if (c.has("bias")) bias = parts(argument(b, c, 2));
  auto of = [&](V p, V q, V add) {
    ArgList args = c.args;
    args[0] = p, args[1] = q, args[2] = add ? Arg(add) : Arg();
    return b.call_full(c.def, args).at(0);
  };
  return whole({of(x.re, w.re, bias.re) - of(x.im, w.im, {}), of(x.re, w.im, bias.im) + of(x.im, w.re, {})});
}

Values complex_prod(Builder& b, const Call& c) {
  Parts x = parts(b.input(c, "self")), y = parts(b.input(c, "mat2"));
  auto times = [&](V p, V q) { return b.call_full(c.def, {p, q}).at(0); };
  return whole({times(x.re, y.re) - times(x.im, y.im), times(x.re, y.im) + times(x.im, y.re)});
}

// The variance is that of both parts together.
template <bool Root, Name Real> Values spread(Builder& b, const Call& c) {
  Parts z = parts(b.input(c, "self"));
  const OpDef* variance = find_op(Real.text);
  auto of = [&](V x) {
    ArgList args = c.args;
    args[0] = x;
    return b.call_full(*variance, args).at(0);
  };
  V v = of(z.re) + of(z.im);
  return Root ? call("aten::sqrt.default", v) : v;
}

template <bool Root, Name Variance, Name Mean> Values spread_and_mean(Builder& b, const Call& c) {
  ArgList rest = {c["self"]};
  if (c.def.signature.find("dim") >= 0) rest.insert(rest.end(), {c["dim"], c["keepdim"]});
  return {spread<Root, Variance>(b, c)[0], b.call1(Mean.text, rest)};
}

// Random numbers for both parts; a normal complex number has its variance from both.
template <bool Normal> Values random_like(Builder& b, const Call& c) {
  ArgList args = c.args;
  args[0] = b.call1("aten::view_as_real.default", {args[0]});
  if (Normal) args[1] = Arg(0.0);
  V z = b.call1("aten::view_as_complex.default", {b.call_full(c.def, args).at(0)});
  return Normal ? z * Arg(M_SQRT1_2) + c["mean"] : z;
}
template <bool Normal> Values random(Builder& b, const Call& c) {
  ArgList args = c.args;
  std::vector<Expr> sizes = c.syms("size");
  sizes.push_back(b.integer(2));
  args[0] = Arg(sizes);
  for (Arg& a : args)
    if (a.is<DType>()) a = part_type(a.get<DType>());
  V z = b.call1("aten::view_as_complex.default", {b.call_full(c.def, args).at(0)});
  return Normal ? z * Arg(M_SQRT1_2) : z;
}

// Pairs of parts are joined whole, so that rows stay together.
Values join(Builder& b, const Call& c) {
  std::vector<ValueId> tensors = c.values("tensors");
  size_t rank = b.wrap(tensors[0]).rank();
  ArgList pairs;
  for (ValueId v : tensors) {
    V x = b.wrap(v);
    if (rank == 0 || x.rank() != rank || x.dtype() != b.wrap(tensors[0]).dtype()) return {}; // refused, empty, of other types
    pairs.push_back(b.call1("aten::view_as_real.default", {x}));
  }
  return b.call1("aten::view_as_complex.default", {b.call1("aten::cat.default", {pairs, c.dim("dim", rank)})});
}

const ComplexRule complex_matrix_rule_table[] = {
    {"aten::cat.default", join},
    {"aten::rand.default", random<false>},
    {"aten::randn.default", random<true>},
    {"aten::uniform.default", random_like<false>},
    {"aten::normal_functional.default", random_like<true>},
    {"aten::normal.default", random_like<true>},
    {"aten::linalg_vector_norm.default", of_moduli},
    {"aten::norm.Scalar", of_moduli},
    {"aten::norm.ScalarOpt_dim", of_moduli},
    {"aten::norm.ScalarOpt_dim_dtype", of_moduli},
    {"aten::norm.ScalarOpt_dtype", of_moduli},
    {"aten::sum.dim_IntList", complex_linear},
    {"aten::trace.default", complex_linear},
    {"aten::cumsum.default", complex_linear},
    {"aten::index_put.default", complex_linear},
    {"aten::masked_scatter.default", complex_linear},
    {"aten::mm.default", complex_prod},
    {"aten::bmm.default", complex_prod},
    {"aten::var.correction", spread<false, "aten::var.correction">},
    {"aten::std.correction", spread<true, "aten::var.correction">},
    {"aten::var.dim", spread<false, "aten::var.dim">},
    {"aten::std.dim", spread<true, "aten::var.dim">},
    {"aten::var.default", spread<false, "aten::var.default">},
    {"aten::std.default", spread<true, "aten::var.default">},
    {"aten::index_add.default", index_add},
    {"aten::index_copy.default", complex_linear},
    {"aten::index_fill.int_Scalar", complex_linear},
    {"aten::scatter.src", complex_linear},
    {"aten::scatter.value", complex_linear},
    {"aten::scatter_add.default", complex_linear},
    {"aten::nan_to_num.default", complex_linear},
    {"aten::addmm.default", add_product<"aten::mm.default", false>},
    {"aten::baddbmm.default", add_product<"aten::bmm.default", false>},
    {"aten::addbmm.default", add_product<"aten::bmm.default", true>},
    {"aten::addmv.default", add_product<"aten::mv.default", false>},
    {"aten::addr.default", add_product<"aten::outer.default", false>},
    {"aten::vdot.default", conjugated_product},
    {"aten::linalg_vecdot.default", conjugated_product},
    {"aten::prod.default", multiply_up<true>},
    {"aten::prod.dim_int", multiply_up<false>},
    {"aten::convolution.default", convolution},
    {"aten::var_mean.correction", spread_and_mean<false, "aten::var.correction", "aten::mean.dim">},
    {"aten::std_mean.correction", spread_and_mean<true, "aten::var.correction", "aten::mean.dim">},
    {"aten::var_mean.dim", spread_and_mean<false, "aten::var.dim", "aten::mean.dim">},
    {"aten::std_mean.dim", spread_and_mean<true, "aten::var.dim", "aten::mean.dim">},
    {"aten::var_mean.default", spread_and_mean<false, "aten::var.default", "aten::mean.default">},
    {"aten::std_mean.default", spread_and_mean<true, "aten::var.default", "aten::mean.default">},
};

} // namespace

std::span<const ComplexRule> complex_matrix_rules() { return complex_matrix_rule_table; }

} // namespace tenon::ops
