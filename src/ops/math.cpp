// Elementary functions of one or two floats: exponentials, logarithms, trigonometry, rounding, signs.
#include "ops/jvp.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// -1, 0 or 1; NaN gives 0, as torch's comparison of signs does.
Expr sign(const BodyArgs& a) {
  Expr x = a[0];
  if (x->type == DType::Bool) return x;
  Expr positive = select(gt(x, zero(x)), like(1, x), zero(x));
  if (x->type == DType::U8) return positive;
  return select(lt(x, zero(x)), like(-1, x), positive);
}

Expr angle(const BodyArgs& a) {
  Expr x = a[0];
  return select(is_nan(x), x, select(lt(x, zero(x)), like(M_PI, x), zero(x)));
}

Expr copysign(const BodyArgs& a) { return select(sign_bit(a[1]), -abs(a[0]), abs(a[0])); }

// The neighbour in the dtype of the result, which for f16 and bf16 is not the dtype of the operands here.
Expr nextafter(const BodyArgs& a) {
  switch (promotion_of(a.call.graph, a.call.def, a.call.args).output) {
  case DType::F16: return special("nextafter_f16", a[0], a[1]);
  case DType::BF16: return special("nextafter_bf16", a[0], a[1]);
  case DType::F32: return special("nextafterf", a[0], a[1]);
  default: return special("nextafter", a[0], a[1]);
  }
}

// Mantissa in [0.5, 1) and exponent, by the bits of f32 or f64; subnormal numbers are first multiplied by a power of two.
Values frexp(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  if (!is_float(self.dtype())) c.fail(fmt::format("does not take a tensor of {}", name_of(self.dtype())));
  V x = widen(self), size = b.call1("aten::abs", {x});
  bool f64 = x.dtype() == DType::F64;
  DType integer = f64 ? DType::I64 : DType::I32;
  int64_t mantissa = f64 ? 52 : 23, bias = f64 ? 1022 : 126, mask = f64 ? 0x7ff : 0xff, moved = mantissa + 1; // bias: 0.5 has this exponent
  V tiny = b.call1("aten::lt.Scalar", {size, std::ldexp(1.0, static_cast<int>(1 - bias))}),
    usable = b.call1("aten::logical_and", {b.call1("aten::isfinite", {x}), b.call1("aten::ne.Scalar", {x, 0})});
  V bits = b.call1("aten::view.dtype", {b.where(tiny, x * std::ldexp(1.0, static_cast<int>(moved)), x), integer});
  V e = b.call1("aten::bitwise_and.Scalar", {b.call1("aten::__rshift__.Scalar", {bits, mantissa}), mask});
  V e_moved = b.call1("aten::sub.Scalar", {e, bias}), e_tiny = b.call1("aten::sub.Scalar", {e, bias + moved});
  V rest = b.call1("aten::bitwise_and.Scalar", {bits, ~(mask << mantissa)});
  V m = b.call1("aten::view.dtype", {b.call1("aten::bitwise_or.Scalar", {rest, bias << mantissa}), x.dtype()});
  V none = b.call1("aten::zeros_like", {e});
  return Values{b.to(b.where(usable, m, x), self.dtype()), b.to(b.where(usable, b.where(tiny, e_tiny, e_moved), none), DType::I32)};
}

Expr round_decimals(const BodyArgs& a) {
  int64_t decimals = a.call.integer("decimals");
  if (decimals == 0 || !is_float(a[0]->type)) return round(a[0]);
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  return decimals > 0 ? round(a[0] * scale) / scale : round(a[0] / scale) * scale;
}

Expr frac(const BodyArgs& a) { return a[0] - trunc(a[0]); }

Expr heaviside(const BodyArgs& a) {
  Expr x = a[0];
  if (x->type == DType::Bool) return select(x, x, a[1]);
  return select(eq(x, zero(x)), a[1], select(gt(x, zero(x)), like(1, x), zero(x)));
}

double largest(DType t) {
  switch (t) {
  case DType::F16: return 65504;
  case DType::BF16: return 0x1.fep127;
  case DType::F32: return 0x1.fffffep127;
  default: return 0x1.fffffffffffffp1023;
  }
}

Expr nan_to_num(const BodyArgs& a) {
  Expr x = a[0];
  if (!is_float(x->type)) return x;
  double limit = largest(a.call.type("self").dtype);
  auto given = [&](std::string_view name, double otherwise) { return like(a.call.has(name) ? a.call.number(name) : otherwise, x); };
  Expr finite = select(eq(x, like(INFINITY, x)), given("posinf", limit), select(eq(x, like(-INFINITY, x)), given("neginf", -limit), x));
  return select(is_nan(x), given("nan", 0), finite);
}

Expr gcd(const BodyArgs& a) { return binary(Op::Gcd, a[0], a[1]); }
// The product of narrow integers is C's: it only wraps after abs.
Expr lcm(const BodyArgs& a) {
  DType t = a[0]->type, wide = t == DType::I64 ? t : DType::I32;
  Expr g = cast(gcd(a), wide);
  return cast(select(eq(g, zero(g)), g, abs(binary(Op::TruncDiv, cast(a[0], wide), g) * cast(a[1], wide))), t);
}

V one_minus(V x) { return x.builder().call1("aten::rsub.Scalar", {x, 1}); }

template <Op O> constexpr OpRow elementary(std::string_view schema, Jvp jvp = nullptr) {
  return with_jvp(float_function(schema, unary_body<O>), jvp);
}
template <Op O> constexpr OpRow rounding(std::string_view schema) {
  return pointwise(schema, unary_body<O>, Promote::Default, {}, real_types | u64_type);
}

const OpRow math_ops[] = {
    with_vjp(elementary<Op::Exp>("aten::exp(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t * d.y; }),
             "self: grad * result"),
    with_vjp(elementary<Op::Exp2>("aten::exp2(Tensor self) -> Tensor"), "self: grad * result * 0.6931471805599453"),
    with_vjp(elementary<Op::Expm1>("aten::expm1(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t * (d.y + Arg(1)); }),
             "self: grad * (result + 1)"),
    with_vjp(elementary<Op::Log>("aten::log(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t / d.x; }),
             "self: grad / self"),
    with_vjp(elementary<Op::Log2>("aten::log2(Tensor self) -> Tensor"), "self: grad / (self * 0.6931471805599453)"),
    with_vjp(elementary<Op::Log10>("aten::log10(Tensor self) -> Tensor"), "self: grad / (self * 2.302585092994046)"),
    with_vjp(elementary<Op::Log1p>("aten::log1p(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t / (d.x + Arg(1)); }),
             "self: grad / (self + 1)"),
    with_vjp(elementary<Op::Sqrt>("aten::sqrt(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t / (d.y * Arg(2)); }),
             "self: grad / (2 * result)"),
    with_vjp(elementary<Op::Rsqrt>("aten::rsqrt(Tensor self) -> Tensor",
                                   [](Builder&, const Tangents& d) { return d.t * d.y * d.y * d.y * Arg(-0.5); }),
             "self: -0.5 * grad * result.pow(3)"),
    with_vjp(elementary<Op::Sin>("aten::sin(Tensor self) -> Tensor",
                                 [](Builder& b, const Tangents& d) { return d.t * b.call1("aten::cos", {d.x}); }),
             "self: grad * self.cos()"),
    with_vjp(elementary<Op::Cos>("aten::cos(Tensor self) -> Tensor",
                                 [](Builder& b, const Tangents& d) { return -(d.t * b.call1("aten::sin", {d.x})); }),
             "self: -(grad * self.sin())"),
    with_vjp(
        elementary<Op::Tan>("aten::tan(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t * (d.y * d.y + Arg(1)); }),
        "self: grad * (1 + result * result)"),
    with_vjp(elementary<Op::Asin>("aten::asin(Tensor self) -> Tensor"), "self: grad * (1 - self * self).rsqrt()"),
    with_vjp(elementary<Op::Acos>("aten::acos(Tensor self) -> Tensor"), "self: -(grad * (1 - self * self).rsqrt())"),
    with_vjp(
        elementary<Op::Atan>("aten::atan(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t / (d.x * d.x + Arg(1)); }),
        "self: grad / (self * self + 1)"),
    with_vjp(elementary<Op::Sinh>("aten::sinh(Tensor self) -> Tensor",
                                  [](Builder& b, const Tangents& d) { return d.t * b.call1("aten::cosh", {d.x}); }),
             "self: grad * self.cosh()"),
    with_vjp(elementary<Op::Cosh>("aten::cosh(Tensor self) -> Tensor",
                                  [](Builder& b, const Tangents& d) { return d.t * b.call1("aten::sinh", {d.x}); }),
             "self: grad * self.sinh()"),
    with_vjp(
        elementary<Op::Tanh>("aten::tanh(Tensor self) -> Tensor", [](Builder&, const Tangents& d) { return d.t * one_minus(d.y * d.y); }),
        "self: torch.tanh_backward(grad, result)"),
    with_vjp(elementary<Op::Asinh>("aten::asinh(Tensor self) -> Tensor"), "self: grad * (self * self + 1).rsqrt()"),
    with_vjp(elementary<Op::Acosh>("aten::acosh(Tensor self) -> Tensor"), "self: grad * (self * self - 1).rsqrt()"),
    with_vjp(elementary<Op::Atanh>("aten::atanh(Tensor self) -> Tensor"), "self: grad / (1 - self * self)"),
    with_vjp(
        elementary<Op::Erf>("aten::erf(Tensor self) -> Tensor",
                            [](Builder& b, const Tangents& d) { return d.t * b.call1("aten::exp", {-(d.x * d.x)}) * Arg(M_2_SQRTPI); }),
        "self: 1.1283791670955126 * torch.exp(-(self * self)) * grad"),
    with_vjp(elementary<Op::Erfc>("aten::erfc(Tensor self) -> Tensor"), "self: -1.1283791670955126 * torch.exp(-(self * self)) * grad"),
    with_vjp(elementary<Op::Sigmoid>("aten::sigmoid(Tensor self) -> Tensor",
                                     [](Builder&, const Tangents& d) { return d.t * d.y * one_minus(d.y); }),
             "self: torch.sigmoid_backward(grad, result)"),
    renamed<"aten::asin">("aten::arcsin(Tensor self) -> Tensor"),
    renamed<"aten::acos">("aten::arccos(Tensor self) -> Tensor"),
    renamed<"aten::atan">("aten::arctan(Tensor self) -> Tensor"),
    renamed<"aten::asinh">("aten::arcsinh(Tensor self) -> Tensor"),
    renamed<"aten::acosh">("aten::arccosh(Tensor self) -> Tensor"),
    renamed<"aten::atanh">("aten::arctanh(Tensor self) -> Tensor"),
    with_vjp(float_function("aten::atan2(Tensor self, Tensor other) -> Tensor", binary_body<Op::Atan2>),
             "self: grad * other / (self * self + other * other); other: -(grad * self / (self * self + other * other))"),
    renamed<"aten::atan2">("aten::arctan2(Tensor self, Tensor other) -> Tensor"),
    with_vjp(float_function("aten::angle(Tensor self) -> Tensor", angle), "none"),
    with_vjp(float_function("aten::deg2rad(Tensor self) -> Tensor", [](const BodyArgs& a) { return a[0] * (M_PI / 180); }),
             "self: grad * 0.017453292519943295"),
    with_vjp(float_function("aten::rad2deg(Tensor self) -> Tensor", [](const BodyArgs& a) { return a[0] * (180 / M_PI); }),
             "self: grad * 57.29577951308232"),
    with_vjp(float_function(
                 "aten::hypot(Tensor self, Tensor other) -> Tensor", [](const BodyArgs& a) { return special("hypot", a[0], a[1]); }, {},
                 float_types),
             "self: grad * (self / result); other: grad * (other / result)"),

    with_vjp(with_jvp(pointwise("aten::abs(Tensor self) -> Tensor", unary_body<Op::Abs>, Promote::Default, {}, real_types),
                      [](Builder& b, const Tangents& d) { return d.t * b.call1("aten::sign", {d.x}); }),
             "self: grad * self.sign()"),
    renamed<"aten::abs">("aten::absolute(Tensor self) -> Tensor"),
    with_vjp(with_jvp(pointwise("aten::neg(Tensor self) -> Tensor", unary_body<Op::Neg>, Promote::Default, {}, real_types), jvp_linear),
             "self: -grad"),
    renamed<"aten::neg">("aten::negative(Tensor self) -> Tensor"),
    with_vjp(pointwise("aten::sign(Tensor self) -> Tensor", sign, Promote::Default, {}, real_types | bool_type),
             "self: torch.zeros_like(grad)"),
    with_vjp(renamed<"aten::sign">("aten::sgn(Tensor self) -> Tensor"), "self: torch.zeros_like(grad)"),
    with_vjp(float_function("aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", copysign),
             "self: grad * (result / self).masked_fill(self == 0, 0)"),
    with_vjp(renamed<"aten::copysign.Tensor">("aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor"),
             "self: grad * (result / self).masked_fill(self == 0, 0)"),
    with_vjp(pointwise("aten::nextafter(Tensor self, Tensor other) -> Tensor", nextafter, Promote::Default, {}, float_types), "none"),
    with_vjp(composite("aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", frexp), "self: grad / result1.exp2()"),
    with_vjp(pointwise("aten::heaviside(Tensor self, Tensor values) -> Tensor", heaviside, Promote::Default, {}, real_types | bool_type),
             "self: torch.zeros_like(grad)"),
    with_vjp(pointwise("aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", nan_to_num),
             "self: grad * self.isfinite()"),
    with_vjp(pointwise("aten::gcd(Tensor self, Tensor other) -> Tensor", gcd, Promote::Default, {}, int_types), "none"),
    with_vjp(pointwise("aten::lcm(Tensor self, Tensor other) -> Tensor", lcm, Promote::Default, {}, int_types), "none"),

    with_vjp(rounding<Op::Floor>("aten::floor(Tensor self) -> Tensor"), "self: torch.zeros_like(grad)"),
    with_vjp(rounding<Op::Ceil>("aten::ceil(Tensor self) -> Tensor"), "self: torch.zeros_like(grad)"),
    with_vjp(rounding<Op::Trunc>("aten::trunc(Tensor self) -> Tensor"), "self: torch.zeros_like(grad)"),
    with_vjp(rounding<Op::Round>("aten::round(Tensor self) -> Tensor"), "self: torch.zeros_like(grad)"),
    renamed<"aten::trunc">("aten::fix(Tensor self) -> Tensor"),
    with_vjp(pointwise("aten::round.decimals(Tensor self, *, int decimals) -> Tensor", round_decimals, Promote::Default, {}, float_types),
             "self: torch.zeros_like(grad)"),
    with_vjp(renamed<"aten::round.decimals">("aten::special_round(Tensor self, *, int decimals=0) -> Tensor"),
             "self: torch.zeros_like(grad)"),
    with_vjp(pointwise("aten::frac(Tensor self) -> Tensor", frac, Promote::Default, {}, float_types), "self: grad"),
};

} // namespace

std::span<const OpRow> math_rows() { return math_ops; }

} // namespace tenon::ops
