// Pointwise arithmetic: sums, products, quotients and their kinds of rounding, powers, extremes, interpolation.
#include "ops/jvp.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// alpha * x, in a dtype wide enough for `result`; x may be a number.
Arg times_alpha(Builder& b, const Arg& x, const Arg& alpha, DType result) {
  if (x.is<ValueId>()) return b.to(b.wrap(x.get<ValueId>()), compute_type(result)) * alpha;
  Expr p = to_expr(b.pool(), x), q = to_expr(b.pool(), alpha);
  DType t = is_float(p->type) || is_float(q->type) ? DType::F64 : DType::I64;
  return cast(p, t) * cast(q, t);
}

// x `op` alpha * y as torch computes it: one rounding for the reduced floats.
V with_alpha(Builder& b, std::string_view op, Arg x, Arg y, const Arg& alpha, DType result) {
  Arg scaled = times_alpha(b, y, alpha, result);
  if (is_reduced_float(result)) {
    for (Arg* a : {&x, &scaled})
      if (a->is<ValueId>()) *a = b.to(b.wrap(a->get<ValueId>()), DType::F32);
  }
  return b.to(b.call1(op, {x, scaled}), result);
}

bool is_one(const Call& c, std::string_view name) {
  Expr e = c.scalar(name);
  return e->is_const() && e->number() == 1;
}

// alpha * other becomes a product of its own, so that the Edge form has two operands.
template <Name N> Values split_alpha(Builder& b, const Call& c) {
  if (is_one(c, "alpha")) return {};
  return with_alpha(b, N.text, c["self"], c["other"], c["alpha"], promotion_of(c.graph, c.def, c.args).output);
}

Values add_relu(Builder& b, const Call& c) {
  return b.call("aten::relu", {b.call1("aten::add.Tensor", {c["self"], c["other"]}, {{"alpha", c["alpha"]}})});
}

Values rsub(Builder& b, const Call& c) {
  if (is_one(c, "alpha")) return b.call("aten::sub.Tensor", {c["other"], c["self"]});
  return with_alpha(b, "aten::sub.Tensor", c["other"], c["self"], c["alpha"], promotion_of(c.graph, c.def, c.args).output);
}

Expr divide_rounded(const BodyArgs& a) {
  if (a.call.text("rounding_mode") == "floor") return floor_div(a[0], a[1]);
  DType result = promotion_of(a.call.graph, a.call.def, a.call.args).output;
  // torch truncates the quotient after rounding it to f16 or bf16.
  if (is_reduced_float(result)) return trunc(cast(cast(a[0] / a[1], result), a[0]->type));
  return binary(Op::TruncDiv, a[0], a[1]);
}

Values div_mode(Builder& b, const Call& c) {
  std::string mode = c.text("rounding_mode");
  if (mode.empty()) return b.call("aten::div.Tensor", {c["self"], c["other"]});
  if (mode != "floor" && mode != "trunc") c.fail("rounding_mode is none of None, floor, trunc");
  return {};
}

std::vector<Type> div_mode_types(const Call& c) { // without rounding the result is a float
  return infer_types(c.graph, *find_op(c.text("rounding_mode").empty() ? "aten::div.Tensor" : "aten::mul.Tensor"), {c["self"], c["other"]});
}

Values floor_divide(Builder& b, const Call& c) {
  return b.call("aten::div.Tensor_mode", {c["self"], c["other"]}, {{"rounding_mode", "floor"}});
}

// Constant exponents that torch's kernel treats as products and roots.
Values pow_scalar(Builder& b, const Call& c) {
  Expr e = c.scalar("exponent");
  V self = b.input(c, "self");
  DType result = promotion_of(c.graph, c.def, c.args).output;
  double k = e->is_const() ? e->number() : NAN;
  V x = b.to(self, compute_type(result));
  auto done = [&](V y) { return b.to(y, result); };
  if (k == 1) return done(x);
  if (k == 2) return done(x * x);
  if (k == 3) return done(x * x * x);
  if (is_float(result)) {
    if (k == 0.5) return done(b.call1("aten::sqrt", {x}));
    if (k == -0.5) return done(b.call1("aten::rsqrt", {x}));
    if (k == -1) return done(b.call1("aten::reciprocal", {x}));
    if (k == -2) return done(b.call1("aten::reciprocal", {x * x}));
  }
  return b.call("aten::pow.Tensor_Tensor", {self, c["exponent"]});
}

Values float_power(Builder& b, const Call& c) {
  Arg x = c["self"], y = c["exponent"];
  for (Arg* a : {&x, &y})
    if (a->is<ValueId>()) {
      V v = b.wrap(a->get<ValueId>());
      *a = b.to(v, is_complex(v.dtype()) ? DType::C128 : DType::F64);
    }
  if (x.is<ValueId>() && !y.is<ValueId>()) return b.call("aten::pow.Tensor_Scalar", {x, y});
  return b.call("aten::pow.Tensor_Tensor", {x, y});
}

// NaN in the value or in a bound gives NaN. Of a zero equal to a constant bound, torch keeps the sign.
Expr clamp(const BodyArgs& a) {
  auto bound = [](Op op, Expr x, Expr by) { return by->op == Op::Const ? binary(op, by, x) : binary(op, x, by); };
  Expr x = a["self"];
  if (Expr lo = a["min"]) x = bound(Op::Max, x, lo);
  if (Expr hi = a["max"]) x = bound(Op::Min, x, hi);
  return x;
}

template <Op O> Expr ignoring_nan(const BodyArgs& a) {
  return select(is_nan(a[0]), a[1], select(is_nan(a[1]), a[0], binary(O, a[0], a[1])));
}

// torch's form: exact at both ends.
Expr lerp(const BodyArgs& a) {
  Expr x = a["self"], y = a["end"], w = parameter(a, "weight", x), d = y - x;
  return select(lt(abs(w), like(0.5, w)), x + w * d, y - d * (1.0 - w));
}

Expr reciprocal(const BodyArgs& a) { return like(1, a[0]) / a[0]; }
Values square(Builder& b, const Call& c) { return b.call("aten::pow.Tensor_Scalar", {c["self"], 2}); }

// x * 2^n, in f64 and by two factors: 2^n alone may be out of range.
Expr ldexp(const BodyArgs& a) {
  Expr x = cast(a[0], DType::F64), n = cast(a[1], DType::F64), half = floor(n * 0.5);
  return cast(x * unary(Op::Exp2, half) * unary(Op::Exp2, n - half), a[0]->type);
}

template <Name Integer, bool Left> Values shift_operator(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_float(x.dtype())) return b.call(Integer.text, {x, c["other"]});
  Arg scale = c["other"];
  if (!scale.is<ValueId>()) scale = cast(c.scalar("other"), DType::F64);
  V factor = b.call1("aten::pow.Tensor_Tensor", {b.scalar(2.0, x.dtype()), scale});
  return Left ? x * factor : x / factor;
}

Expr shift_left(const BodyArgs& a) { return binary(Op::Shl, a[0], a[1]); }
Expr shift_right(const BodyArgs& a) { return binary(Op::Shr, a[0], a[1]); }

V jvp_quotient(Builder& b, const Tangents& d) {
  V out, above = d.t, below = d.of(d.call.args[1]);
  if (above) out = b.call1("aten::div.Tensor", {above, d.call.args[1]});
  if (!below) return out;
  V lost = -(d.y * below / b.input(d.call, "other"));
  return out ? out + lost : lost;
}

V jvp_power(Builder& b, const Tangents& d) {
  double e = d.call.number("exponent");
  return d.t * b.call1("aten::pow.Tensor_Scalar", {d.x, e - 1}) * Arg(e);
}

const OpRow arithmetic_ops[] = {
    {.schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .kind = Kind::Pointwise,
     .keep = "alpha",
     .body = binary_body<Op::Add>,
     .decompose = split_alpha<"aten::add.Tensor">,
     .dtypes = real_types | bool_type,
     .jvp = jvp_linear,
     .vjp = "self: grad; other: scaled(grad, alpha)"},
    renamed<"aten::add.Tensor">("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    {.schema = "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .kind = Kind::Pointwise,
     .keep = "alpha",
     .body = binary_body<Op::Sub>,
     .decompose = split_alpha<"aten::sub.Tensor">,
     .dtypes = real_types,
     .jvp = jvp_linear,
     .vjp = "self: grad; other: -scaled(grad, alpha)"},
    renamed<"aten::sub.Tensor">("aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    renamed<"aten::sub.Tensor">("aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    renamed<"aten::sub.Tensor">("aten::subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    {.schema = "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .keep = "alpha",
     .decompose = rsub,
     .vjp = "broadcasts; self: -scaled(grad, alpha); other: grad"},
    {.schema = "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .keep = "alpha",
     .decompose = rsub,
     .vjp = "self: -scaled(grad, alpha)"},
    with_vjp(with_jvp(pointwise("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Mul>), jvp_product),
             "self: grad * other; other: grad * self"),
    renamed<"aten::mul.Tensor">("aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::mul.Tensor">("aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::mul.Tensor">("aten::multiply.Scalar(Tensor self, Scalar other) -> Tensor"),

    with_vjp(with_jvp(float_function("aten::div.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Div>), jvp_quotient),
             "self: grad / other; other: -(grad * (self / other) / other)"),
    renamed<"aten::div.Tensor">("aten::div.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::div.Tensor">("aten::divide.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::div.Tensor">("aten::divide.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::div.Tensor">("aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::div.Tensor">("aten::true_divide.Scalar(Tensor self, Scalar other) -> Tensor"),
    {.schema = "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
     .kind = Kind::Pointwise,
     .body = divide_rounded,
     .infer = div_mode_types,
     .decompose = div_mode,
     .dtypes = real_types,
     .vjp = "self: quotient_left(grad, other, rounding_mode); other: quotient_right(grad, self, other, rounding_mode)"},
    renamed<"aten::div.Tensor_mode">("aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"),
    renamed<"aten::div.Tensor_mode">("aten::divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"),
    renamed<"aten::div.Tensor_mode">("aten::divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"),
    with_vjp(composite("aten::floor_divide(Tensor self, Tensor other) -> Tensor", floor_divide), "none"),
    with_vjp(composite("aten::floor_divide.Tensor(Tensor self, Tensor other) -> Tensor", floor_divide),
             "none"), // of floor_divide_.Tensor; so are the next ones
    with_vjp(composite("aten::float_power.Tensor(Tensor self, Tensor exponent) -> Tensor", float_power),
             "result: torch.pow(self.double(), exponent.double())"),
    renamed<"aten::pow.Tensor_Tensor">("aten::pow.Tensor(Tensor self, Tensor exponent) -> Tensor"),
    renamed<"aten::ldexp.Tensor">("aten::ldexp(Tensor self, Tensor other) -> Tensor"),
    with_vjp(composite("aten::_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add_relu),
             "broadcasts; self: grad * (result > 0); other: scaled(grad * (result > 0), alpha)"),
    with_vjp(composite("aten::_add_relu.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", add_relu),
             "self: grad * (result > 0)"),
    with_vjp(composite("aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", floor_divide), "none"),
    with_vjp(
        pointwise("aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Mod>, Promote::Default, {}, real_types),
        "self: grad; other: -(grad * torch.div(self, other, rounding_mode=\"floor\"))"),
    renamed<"aten::remainder.Tensor">("aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor"),
    with_vjp(renamed<"aten::remainder.Tensor">("aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
             "other: -(grad * torch.div(self * torch.ones_like(other), other, rounding_mode=\"floor\"))"),
    with_vjp(pointwise("aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Fmod>, Promote::Default, {}, real_types),
             "self: grad; other: -(grad * torch.div(self, other, rounding_mode=\"trunc\"))"),
    renamed<"aten::fmod.Tensor">("aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor"),
    with_vjp(with_jvp(float_function("aten::reciprocal(Tensor self) -> Tensor", reciprocal),
                      [](Builder&, const Tangents& d) { return -(d.t * d.y * d.y); }),
             "self: -(grad * result * result)"),

    with_vjp(pointwise("aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", binary_body<Op::Pow>, Promote::Default, {},
                       real_types),
             "self: power_base(grad, self, exponent); exponent: power_exponent(grad, self, exponent, result)"),
    {.schema = "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
     .decompose = pow_scalar,
     .jvp = jvp_power,
     .vjp = "self: power_of_number(grad, self, exponent)"},
    with_vjp(renamed<"aten::pow.Tensor_Tensor">("aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor"),
             "exponent: number_power(grad, self, exponent, result)"),
    with_vjp(composite("aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", float_power),
             "result: torch.pow(self.double(), exponent.double())"),
    with_vjp(composite("aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", float_power),
             "result: torch.pow(self.double(), float(exponent))"),
    with_vjp(composite("aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", float_power),
             "result: torch.pow(float(self), exponent.double())"),
    {.schema = "aten::square(Tensor self) -> Tensor",
     .decompose = square,
     .jvp = [](Builder&, const Tangents& d) { return d.t * d.x * Arg(2); },
     .vjp = "self: 2 * grad * self"},
    with_vjp(float_function("aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor", ldexp),
             "broadcasts; self: grad * torch.pow(2.0, other); other: grad * result * 0.6931471805599453"),

    with_vjp(pointwise("aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp, Promote::Default, {},
                       real_types | u64_type),
             "self: clamped(grad, self, min, max)"),
    with_vjp(pointwise("aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp),
             "broadcasts; self: clamped(grad, self, min, max); min: grad * clamped_to_least(self, min, max); max: grad * "
             "clamped_to_most(self, min, max)"),
    renamed<"aten::clamp">("aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"),
    renamed<"aten::clamp.Tensor">("aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"),
    with_vjp(renamed<"aten::clamp">("aten::clamp_min(Tensor self, Scalar min) -> Tensor"), "self: grad * (self >= min)"),
    with_vjp(renamed<"aten::clamp.Tensor">("aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"),
             "broadcasts; self: extreme_share(grad, self, min, self > min); min: extreme_share(grad, self, min, self < min)"),
    with_vjp(renamed<"aten::clamp">("aten::clamp_max(Tensor self, Scalar max) -> Tensor"), "self: grad * (self <= max)"),
    with_vjp(renamed<"aten::clamp.Tensor">("aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"),
             "broadcasts; self: extreme_share(grad, self, max, self < max); max: extreme_share(grad, self, max, self > max)"),
    with_vjp(pointwise("aten::maximum(Tensor self, Tensor other) -> Tensor", binary_body<Op::Max>),
             "self: extreme_share(grad, self, other, self > other); other: extreme_share(grad, self, other, self < other)"),
    with_vjp(pointwise("aten::minimum(Tensor self, Tensor other) -> Tensor", binary_body<Op::Min>),
             "self: extreme_share(grad, self, other, self < other); other: extreme_share(grad, self, other, self > other)"),
    with_vjp(renamed<"aten::maximum">("aten::max.other(Tensor self, Tensor other) -> Tensor"),
             "broadcasts; self: extreme_share(grad, self, other, self > other); other: extreme_share(grad, self, other, self < other)"),
    with_vjp(renamed<"aten::minimum">("aten::min.other(Tensor self, Tensor other) -> Tensor"),
             "broadcasts; self: extreme_share(grad, self, other, self < other); other: extreme_share(grad, self, other, self > other)"),
    with_vjp(pointwise("aten::fmax(Tensor self, Tensor other) -> Tensor", ignoring_nan<Op::Max>),
             "broadcasts; self: extreme_share(grad, self, other, (self > other) | other.isnan()); other: extreme_share(grad, self, other, "
             "(self < other) | (self.isnan() & ~other.isnan()))"),
    with_vjp(pointwise("aten::fmin(Tensor self, Tensor other) -> Tensor", ignoring_nan<Op::Min>),
             "broadcasts; self: extreme_share(grad, self, other, (self < other) | other.isnan()); other: extreme_share(grad, self, other, "
             "(self > other) | (self.isnan() & ~other.isnan()))"),

    with_vjp(pointwise("aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp, Promote::Default, {}, float_types),
             "broadcasts; self: grad * (1 - weight); end: grad * weight; weight: grad * (end - self)"),
    with_vjp(
        pointwise("aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp, Promote::Default, "weight", float_types),
        "broadcasts; self: grad * (1 - weight); end: grad * weight"),
    with_vjp(pointwise(
                 "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
                 [](const BodyArgs& a) { return a[0] + parameter(a, "value", a[0]) * a[1] * a[2]; }, Promote::Default, "value", real_types),
             "broadcasts; self: grad; tensor1: grad * tensor2 * value; tensor2: grad * tensor1 * value"),
    with_vjp(pointwise(
                 "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
                 [](const BodyArgs& a) { return a[0] + parameter(a, "value", a[0]) * a[1] / a[2]; }, Promote::Float, "value", float_types),
             "broadcasts; self: grad; tensor1: grad * value / tensor2; tensor2: -(grad * value * tensor1 / (tensor2 * tensor2))"),

    pointwise("aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", shift_left, Promote::Default, {}, int_types),
    renamed<"aten::bitwise_left_shift.Tensor">("aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_left_shift.Tensor">("aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    pointwise("aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", shift_right, Promote::Default, {}, int_types),
    renamed<"aten::bitwise_right_shift.Tensor">("aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_right_shift.Tensor">("aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    composite("aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor", shift_operator<"aten::bitwise_left_shift.Tensor", true>),
    composite("aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor", shift_operator<"aten::bitwise_left_shift.Tensor", true>),
    composite("aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor", shift_operator<"aten::bitwise_right_shift.Tensor", false>),
    composite("aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor", shift_operator<"aten::bitwise_right_shift.Tensor", false>),
};

} // namespace

std::span<const OpRow> arithmetic_rows() { return arithmetic_ops; }

} // namespace tenon::ops
