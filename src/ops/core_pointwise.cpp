// Functions of one element in core ATen: by arithmetic, in f32 for the reduced floats, with one rounding, as the bodies of their rows have
// it.
#include "ops/core.h"
#include "ops/pointwise.h"

namespace tenon::ops {

namespace {

V clamped(V x, double lo, double hi) { return x.builder().call1("aten::clamp.default", {x, lo, hi}); }
V greater(V x, const Arg& than) { return x.builder().call1("aten::gt.Scalar", {x, than}); }
V at_most(V x, const Arg& than) { return x.builder().call1("aten::le.Scalar", {x, than}); }
V equals(V x, double value) { return x.builder().call1("aten::eq.Scalar", {x, value}); }

// A rule for floats: what F gives of the widened operand, rounded.
template <V (*F)(V, const Call&), Name Operand = "self"> Values of_floats(Builder& b, const Call& c) {
  V x = b.input(c, Operand.text);
  if (!is_float(x.dtype())) return {};
  return b.to(F(widen(x), c), x.dtype());
}

V silu(V x, const Call&) { return x * call("aten::sigmoid.default", x); }
V hardsigmoid(V x, const Call&) { return clamped(x + Arg(3.0), 0, 6) / Arg(6.0); }
V hardswish(V x, const Call&) { return x * clamped(x + Arg(3.0), 0, 6) / Arg(6.0); }
V log_sigmoid(V x, const Call&) {
  V smallest = x.builder().call1("aten::clamp.default", {x, {}, 0.0});
  return smallest - call("aten::log1p.default", call("aten::exp.default", -call("aten::abs.default", x)));
}
V softplus_of(V x, const Arg& beta, const Arg& threshold) {
  V scaled = x * beta;
  return x.builder().where(greater(scaled, threshold), x, call("aten::log1p.default", call("aten::exp.default", scaled)) / beta);
}
V softplus(V x, const Call& c) { return softplus_of(x, c["beta"], c["threshold"]); }
V mish(V x, const Call&) { return x * call("aten::tanh.default", softplus_of(x, 1.0, 20.0)); }
V hardshrink(V x, const Call& c) {
  V inside = at_most(call("aten::abs.default", x), c["lambd"]);
  return x.builder().where(inside, x.builder().scalar(0, x.dtype()), x);
}
V threshold(V x, const Call& c) { return x.builder().where(at_most(x, c["threshold"]), x.builder().scalar(c["value"], x.dtype()), x); }
V degrees_to_radians(V x, const Call&) { return x * Arg(M_PI / 180); }
V radians_to_degrees(V x, const Call&) { return x * Arg(180 / M_PI); }
V fraction(V x, const Call&) { return x - call("aten::trunc.default", x); }

Values selu(Builder& b, const Call& c) {
  return b.call("aten::elu.default", {c["self"], 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0});
}
Values celu(Builder& b, const Call& c) {
  if (!c.scalar("alpha")->is_const()) return {};
  return b.call("aten::elu.default", {c["self"], c["alpha"], 1.0, 1 / c.number("alpha")});
}
Values relu6(Builder& b, const Call& c) { return b.call("aten::hardtanh.default", {c["self"], 0, 6}); }

Values prelu_kernel(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.where(greater(x, 0), x, b.input(c, "weight") * x);
}

// Of integers they are constant.
template <bool Negative> Values is_infinity(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_float(x.dtype())) return {};
  return equals(x, Negative ? -HUGE_VAL : HUGE_VAL);
}
Values isfinite(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_float(x.dtype())) return {};
  V infinite = b.call1("aten::isinf.default", {x}), unknown = b.call1("aten::isnan.default", {x});
  V neither = call("aten::logical_not.default", b.call1("aten::logical_or.default", {infinite, unknown}));
  return neither;
}

V scaled(V x, const Call& c) {
  Expr value = c.scalar("value");
  return value->is_const() && value->number() == 1 ? x : x * c["value"];
}
// Operands of other dtypes are promoted by the operators.
template <bool Divide> Values add_scaled(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "tensor1"), z = b.input(c, "tensor2");
  DType t = x.dtype();
  if (!is_float(t) || y.dtype() != t || z.dtype() != t) return {};
  V product = scaled(widen(y), c);
  return b.to(widen(x) + (Divide ? product / widen(z) : product * widen(z)), t);
}

Values lerp(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "end");
  if (!is_float(x.dtype()) || !c["weight"].is<ValueId>()) return {};
  V wx = widen(x), w = widen(b, c, "weight"), d = widen(y) - wx;
  V near = b.call1("aten::lt.Scalar", {call("aten::abs.default", w), 0.5});
  V far = widen(y) - d * (b.scalar(1, w.dtype()) - w);
  return b.to(b.where(near, wx + w * d, far), x.dtype());
}

Values lerp_number(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "end");
  Expr w = c.scalar("weight");
  if (!is_float(x.dtype()) || !w->is_const()) return {};
  V d = widen(y) - widen(x);
  return b.to(std::abs(w->number()) < 0.5 ? widen(x) + d * Arg(w->number()) : widen(y) - d * Arg(1 - w->number()), x.dtype());
}

Values gelu_backward(Builder& b, const Call& c) {
  if (c.text("approximate") != "none") return {};
  V x = widen(b, c, "self"), g = widen(b, c, "grad_output");
  V below = (call("aten::erf.default", x * Arg(M_SQRT1_2)) + Arg(1.0)) * Arg(0.5);
  V density = call("aten::exp.default", x * x * Arg(-0.5)) * Arg(M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return b.to(g * (below + x * density), c.type("grad_output").dtype);
}

Values sigmoid_backward(Builder& b, const Call& c) {
  V g = widen(b, c, "grad_output"), y = widen(b, c, "output");
  return b.to(g * (b.scalar(1, y.dtype()) - y) * y, c.type("grad_output").dtype);
}
Values tanh_backward(Builder& b, const Call& c) {
  V g = widen(b, c, "grad_output"), y = widen(b, c, "output");
  return b.to(g * (b.scalar(1, y.dtype()) - y * y), c.type("grad_output").dtype);
}
Values threshold_backward(Builder& b, const Call& c) {
  V g = b.input(c, "grad_output");
  return b.where(at_most(b.input(c, "self"), c["threshold"]), b.scalar(0, g.dtype()), g);
}

const CoreRule core_pointwise_rule_table[] = {
    {"aten::silu.default", of_floats<silu>},
    {"aten::hardsigmoid.default", of_floats<hardsigmoid>},
    {"aten::hardswish.default", of_floats<hardswish>},
    {"aten::log_sigmoid.default", of_floats<log_sigmoid>},
    {"aten::softplus.default", of_floats<softplus>},
    {"aten::mish.default", of_floats<mish>},
    {"aten::hardshrink.default", of_floats<hardshrink>},
    {"aten::threshold.default", of_floats<threshold>},
    {"aten::deg2rad.default", of_floats<degrees_to_radians>},
    {"aten::rad2deg.default", of_floats<radians_to_degrees>},
    {"aten::frac.default", of_floats<fraction>},
    {"aten::selu.default", selu},
    {"aten::celu.default", celu},
    {"aten::relu6.default", relu6},
    {"aten::_prelu_kernel.default", prelu_kernel},
    {"aten::isposinf.default", is_infinity<false>},
    {"aten::isneginf.default", is_infinity<true>},
    {"aten::isfinite.default", isfinite},
    {"aten::addcmul.default", add_scaled<false>},
    {"aten::addcdiv.default", add_scaled<true>},
    {"aten::lerp.Tensor", lerp},
    {"aten::lerp.Scalar", lerp_number},
    {"aten::gelu_backward.default", gelu_backward},
    {"aten::sigmoid_backward.default", sigmoid_backward},
    {"aten::tanh_backward.default", tanh_backward},
    {"aten::threshold_backward.default", threshold_backward},
};

} // namespace

std::span<const CoreRule> core_pointwise_rules() { return core_pointwise_rule_table; }

} // namespace tenon::ops
