// Special functions. Those without a short formula are C functions of doubles, in expr/special.cpp.
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

template <Name N> Expr function1(const BodyArgs& a) { return special(N.text, a[0]); }
template <Name N> Expr function2(const BodyArgs& a) { return special(N.text, a[0], a[1]); }
// An incomplete gamma function, to what its type can tell.
template <Name N> Expr incomplete_gamma(const BodyArgs& a) {
  double precision = a[0]->type == DType::F64 ? std::numeric_limits<double>::epsilon() : 1e-10;
  return special(N.text, a[0], a[1], a[0]->pool->number(precision, DType::F64));
}
// Polynomials of degree n, evaluated by the recurrence named N.
template <Name N> Expr polynomial(const BodyArgs& a) {
  double limit = a["x"]->type == DType::F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return special(N.text, a["x"], a["n"], a["x"]->pool->number(limit, DType::F64));
}

// self * f(other), 0 where self is 0 and other is no NaN.
template <Op F> Expr x_times(const BodyArgs& a) {
  Expr x = a[0], y = a[1];
  return select(is_nan(y), y, select(eq(x, zero(x)), zero(x), x * unary(F, y)));
}

Expr entr(const BodyArgs& a) {
  Expr x = a[0];
  Expr positive = select(gt(x, zero(x)), -x * log(x), select(eq(x, zero(x)), zero(x), like(-INFINITY, x)));
  return select(is_nan(x), x, positive);
}

// log(e^x + e^y), with base 2 for F = Exp2. Equal infinities have no difference.
template <Op F> Expr log_add(const BodyArgs& a) {
  Expr x = a[0], y = a[1], top = max(x, y);
  Expr rest = log1p(unary(F, -abs(x - y)));
  if (F == Op::Exp2) rest = rest * (1 / M_LN2);
  return select(logical_and(eq(x, y), eq(abs(x), like(INFINITY, x))), x, top + rest);
}

Expr logit(const BodyArgs& a) {
  Expr x = a[0];
  if (a.call.has("eps")) {
    // The bounds are rounded to the dtype of the tensor: in bf16 the upper one is often 1.
    auto rounded = [&](Expr e) { return cast(cast(e, promotion_of(a.call.graph, a.call.def, a.call.args).output), x->type); };
    Expr lo = rounded(like(a.call.number("eps"), x)), hi = rounded(1.0 - lo);
    x = select(lt(x, lo), lo, select(gt(x, hi), hi, x));
  }
  return log(x / (1.0 - x));
}

Expr sinc(const BodyArgs& a) {
  Expr x = a[0], t = x * M_PI;
  return select(eq(x, zero(x)), like(1, x), unary(Op::Sin, t) / t);
}

Expr ndtr(const BodyArgs& a) { return unary(Op::Erfc, a[0] * -M_SQRT1_2) * 0.5; }

// Reflected below 1/2, in the operand's dtype as torch does: near a pole the rounding of pi x decides the value.
Expr trigamma(Expr x) {
  Expr reflect = lt(x, like(0.5, x)), s = unary(Op::Sin, x * M_PI);
  Expr value = special("trigamma", select(reflect, 1.0 - x, x));
  return select(reflect, like(M_PI * M_PI, x) / (s * s) - value, value);
}

// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n+1, x).
Expr polygamma(const BodyArgs& a) {
  int64_t n = a.call.integer("n");
  Expr x = a["self"];
  if (n < 0) a.call.fail("n must not be negative");
  if (n == 0) return special("digamma", x);
  if (n == 1) return trigamma(x);
  Expr wide = cast(x, DType::F64);
  Expr series = special("zeta", like(static_cast<double>(n + 1), wide), wide);
  return cast(series * ((n % 2 ? 1.0 : -1.0) * std::tgamma(static_cast<double>(n + 1))), x->type);
}

Expr mvlgamma(const BodyArgs& a) {
  int64_t p = a.call.integer("p");
  Expr x = a[0], sum = like(static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI), x);
  for (int64_t j = 0; j < p; j++) sum = sum + special("lgamma", x - static_cast<double>(j) / 2);
  return sum;
}

Expr spherical_bessel_j0(const BodyArgs& a) {
  Expr x = a[0], x2 = x * x;
  Expr series = 1.0 - x2 / 6.0 * (1.0 - x2 / 20.0 * (1.0 - x2 / 42.0 * (1.0 - x2 / 72.0)));
  Expr far = select(eq(abs(x), like(INFINITY, x)), zero(x), unary(Op::Sin, x) / x);
  return select(lt(abs(x), like(0.5, x)), series, far);
}

const OpRow special_ops[] = {
    with_vjp(float_function("aten::lgamma(Tensor self) -> Tensor", function1<"lgamma">), "self: grad * torch.digamma(self)"),
    renamed<"aten::lgamma">("aten::special_gammaln(Tensor self) -> Tensor"),
    with_vjp(float_function("aten::digamma(Tensor self) -> Tensor", function1<"digamma">), "self: grad * torch.polygamma(1, self)"),
    renamed<"aten::digamma">("aten::special_digamma(Tensor self) -> Tensor"),
    renamed<"aten::digamma">("aten::special_psi(Tensor self) -> Tensor"),
    with_vjp(float_function("aten::polygamma(int n, Tensor self) -> Tensor", polygamma), "self: grad * torch.polygamma(n + 1, self)"),
    renamed<"aten::polygamma">("aten::special_polygamma(int n, Tensor self) -> Tensor"),
    with_vjp(float_function("aten::mvlgamma(Tensor self, int p) -> Tensor", mvlgamma, {}, number_types & ~bool_type),
             "result: multivariate_lgamma(self, p)"),
    renamed<"aten::mvlgamma">("aten::special_multigammaln(Tensor self, int p) -> Tensor"),
    with_vjp(float_function("aten::igamma(Tensor self, Tensor other) -> Tensor", incomplete_gamma<"igamma">, {}, float_types),
             "self: not_known(grad); other: grad * torch.exp((self - 1) * torch.log(other) - other - torch.lgamma(self))"),
    renamed<"aten::igamma">("aten::special_gammainc(Tensor self, Tensor other) -> Tensor"),
    with_vjp(float_function("aten::igammac(Tensor self, Tensor other) -> Tensor", incomplete_gamma<"igammac">, {}, float_types),
             "self: not_known(grad); other: -(grad * torch.exp((self - 1) * torch.log(other) - other - torch.lgamma(self)))"),
    renamed<"aten::igammac">("aten::special_gammaincc(Tensor self, Tensor other) -> Tensor"),
    with_vjp(full_float_function("aten::special_zeta(Tensor self, Tensor other) -> Tensor", function2<"zeta">),
             "self: not_known(grad); other: -(grad * self * torch.special_zeta(self + 1, other))"),
    renamed<"aten::special_zeta">("aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::special_zeta">("aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor"),

    with_vjp(float_function("aten::erfinv(Tensor self) -> Tensor", function1<"erfinv">),
             "self: 0.886226925452758 * torch.exp(result * result) * grad"),
    renamed<"aten::erfinv">("aten::special_erfinv(Tensor self) -> Tensor"),
    renamed<"aten::erf">("aten::special_erf(Tensor self) -> Tensor"),
    renamed<"aten::erfc">("aten::special_erfc(Tensor self) -> Tensor"),
    with_vjp(full_float_function("aten::special_erfcx(Tensor self) -> Tensor", function1<"erfcx">),
             "self: (2.0 * self * result - 1.1283791670955126) * grad"),
    with_vjp(float_function("aten::special_ndtr(Tensor self) -> Tensor", ndtr),
             "self: grad * 0.3989422804014327 * torch.exp(-0.5 * self * self)"),
    with_vjp(full_float_function("aten::special_ndtri(Tensor self) -> Tensor", function1<"ndtri">),
             "self: grad * 2.5066282746310002 * (result * result * 0.5).exp()"),
    with_vjp(full_float_function("aten::special_log_ndtr(Tensor self) -> Tensor", function1<"log_ndtr">),
             "self: grad * 0.3989422804014327 * (-(result + self * self * 0.5)).exp()"),

    with_vjp(float_function("aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", x_times<Op::Log>),
             "broadcasts; self: torch.xlogy(grad, other).masked_fill((self == 0) & (other <= 0), 0); other: grad * self / other"),
    with_vjp(renamed<"aten::xlogy.Tensor">("aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor"),
             "self: grad * math.log(float(other))"),
    with_vjp(renamed<"aten::xlogy.Tensor">("aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor"), "other: grad * self / other"),
    renamed<"aten::xlogy.Tensor">("aten::special_xlogy(Tensor self, Tensor other) -> Tensor"),
    with_vjp(renamed<"aten::xlogy.Tensor">("aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor"),
             "self: grad * math.log(float(other))"),
    with_vjp(renamed<"aten::xlogy.Tensor">("aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor"),
             "other: grad * self / other"),
    with_vjp(float_function("aten::special_xlog1py(Tensor self, Tensor other) -> Tensor", x_times<Op::Log1p>),
             "broadcasts; self: grad * torch.log1p(other); other: grad * self / (other + 1)"),
    with_vjp(renamed<"aten::special_xlog1py">("aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor"),
             "self: grad * math.log1p(float(other))"),
    with_vjp(renamed<"aten::special_xlog1py">("aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor"),
             "other: grad * self / (other + 1)"),
    with_vjp(float_function("aten::special_entr(Tensor self) -> Tensor", entr), "self: grad * -(1 + self.log())"),
    with_vjp(float_function("aten::logaddexp(Tensor self, Tensor other) -> Tensor", log_add<Op::Exp>, {}, float_types),
             "broadcasts; self: grad / (1 + torch.exp(other - self)); other: grad / (1 + torch.exp(self - other))"),
    with_vjp(float_function("aten::logaddexp2(Tensor self, Tensor other) -> Tensor", log_add<Op::Exp2>, {}, float_types),
             "broadcasts; self: grad / (1 + torch.exp2(other - self)); other: grad / (1 + torch.exp2(self - other))"),
    with_vjp(float_function("aten::logit(Tensor self, float? eps=None) -> Tensor", logit), "self: logit_input(grad, self, eps)"),
    renamed<"aten::logit">("aten::special_logit(Tensor self, float? eps=None) -> Tensor"),
    renamed<"aten::sigmoid">("aten::special_expit(Tensor self) -> Tensor"),
    renamed<"aten::exp2">("aten::special_exp2(Tensor self) -> Tensor"),
    renamed<"aten::expm1">("aten::special_expm1(Tensor self) -> Tensor"),
    renamed<"aten::log1p">("aten::special_log1p(Tensor self) -> Tensor"),
    with_vjp(float_function("aten::sinc(Tensor self) -> Tensor", sinc),
             "self: grad * (math.pi * self * (math.pi * self).cos() - (math.pi * self).sin()).div(math.pi * self * self).masked_fill(self "
             "== 0, 0)"),
    renamed<"aten::sinc">("aten::special_sinc(Tensor self) -> Tensor"),

    with_vjp(float_function("aten::i0(Tensor self) -> Tensor", function1<"i0">), "self: grad * torch.special_i1(self)"),
    renamed<"aten::i0">("aten::special_i0(Tensor self) -> Tensor"),
    with_vjp(renamed<"aten::i0">("aten::special_modified_bessel_i0(Tensor self) -> Tensor"),
             "self: grad * torch.special_modified_bessel_i1(self)"),
    with_vjp(float_function("aten::special_i0e(Tensor self) -> Tensor", function1<"i0e">),
             "self: grad * (torch.special_i1e(self) - self.sign() * result)"),
    with_vjp(float_function("aten::special_i1(Tensor self) -> Tensor", function1<"i1">),
             "self: grad * torch.where(self == 0, 0.5, torch.i0(self) - result / self)"),
    with_vjp(renamed<"aten::special_i1">("aten::special_modified_bessel_i1(Tensor self) -> Tensor"),
             "self: grad * torch.where(self == 0, 0.5, torch.special_modified_bessel_i0(self) - result / self)"),
    with_vjp(float_function("aten::special_i1e(Tensor self) -> Tensor", function1<"i1e">),
             "self: grad * torch.where(self == 0, 0.5, torch.special_i0e(self) - result * (self.sign() + self.reciprocal()))"),
    with_vjp(full_float_function("aten::special_modified_bessel_k0(Tensor self) -> Tensor", function1<"k0">),
             "self: -(grad * torch.special_modified_bessel_k1(self))"),
    with_vjp(full_float_function("aten::special_modified_bessel_k1(Tensor self) -> Tensor", function1<"k1">),
             "self: -(grad * (torch.special_modified_bessel_k0(self) + result / self))"),
    full_float_function("aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor", function1<"k0e">),
    full_float_function("aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor", function1<"k1e">),
    with_vjp(full_float_function("aten::special_bessel_j0(Tensor self) -> Tensor", function1<"j0">),
             "self: -(grad * torch.special_bessel_j1(self))"),
    with_vjp(full_float_function("aten::special_bessel_j1(Tensor self) -> Tensor", function1<"j1">),
             "self: grad * torch.where(self == 0, 0.5, torch.special_bessel_j0(self) - result / self)"),
    with_vjp(full_float_function("aten::special_bessel_y0(Tensor self) -> Tensor", function1<"y0">),
             "self: -(grad * torch.special_bessel_y1(self))"),
    with_vjp(full_float_function("aten::special_bessel_y1(Tensor self) -> Tensor", function1<"y1">),
             "self: grad * (torch.special_bessel_y0(self) - result / self)"),
    full_float_function("aten::special_spherical_bessel_j0(Tensor x) -> Tensor", spherical_bessel_j0),
    full_float_function("aten::special_airy_ai(Tensor x) -> Tensor", function1<"airy_ai">),

    full_float_function("aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor", polynomial<"chebyshev_polynomial_t">),
    renamed<"aten::special_chebyshev_polynomial_t">("aten::special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_chebyshev_polynomial_t">("aten::special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor", polynomial<"chebyshev_polynomial_u">),
    renamed<"aten::special_chebyshev_polynomial_u">("aten::special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_chebyshev_polynomial_u">("aten::special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor", polynomial<"chebyshev_polynomial_v">),
    renamed<"aten::special_chebyshev_polynomial_v">("aten::special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_chebyshev_polynomial_v">("aten::special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor", polynomial<"chebyshev_polynomial_w">),
    renamed<"aten::special_chebyshev_polynomial_w">("aten::special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_chebyshev_polynomial_w">("aten::special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
                        polynomial<"shifted_chebyshev_polynomial_t">),
    renamed<"aten::special_shifted_chebyshev_polynomial_t">(
        "aten::special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_shifted_chebyshev_polynomial_t">(
        "aten::special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
                        polynomial<"shifted_chebyshev_polynomial_u">),
    renamed<"aten::special_shifted_chebyshev_polynomial_u">(
        "aten::special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_shifted_chebyshev_polynomial_u">(
        "aten::special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
                        polynomial<"shifted_chebyshev_polynomial_v">),
    renamed<"aten::special_shifted_chebyshev_polynomial_v">(
        "aten::special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_shifted_chebyshev_polynomial_v">(
        "aten::special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
                        polynomial<"shifted_chebyshev_polynomial_w">),
    renamed<"aten::special_shifted_chebyshev_polynomial_w">(
        "aten::special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_shifted_chebyshev_polynomial_w">(
        "aten::special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor", polynomial<"hermite_polynomial_h">),
    renamed<"aten::special_hermite_polynomial_h">("aten::special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_hermite_polynomial_h">("aten::special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor", polynomial<"hermite_polynomial_he">),
    renamed<"aten::special_hermite_polynomial_he">("aten::special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_hermite_polynomial_he">("aten::special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor", polynomial<"laguerre_polynomial_l">),
    renamed<"aten::special_laguerre_polynomial_l">("aten::special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_laguerre_polynomial_l">("aten::special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor"),
    full_float_function("aten::special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor", polynomial<"legendre_polynomial_p">),
    renamed<"aten::special_legendre_polynomial_p">("aten::special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor"),
    renamed<"aten::special_legendre_polynomial_p">("aten::special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor"),
};

} // namespace

std::span<const OpRow> special_rows() { return special_ops; }

} // namespace tenon::ops
