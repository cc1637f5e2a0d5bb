// Derivatives of pointwise operators, as exported training graphs hold them.
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

Expr sigmoid_backward(const BodyArgs& a) { return a[0] * (1.0 - a[1]) * a[1]; }
Expr tanh_backward(const BodyArgs& a) { return a[0] * (1.0 - a[1] * a[1]); }

Expr threshold_backward(const BodyArgs& a) { return select(le(a["self"], parameter(a, "threshold", a["self"])), zero(a[0]), a[0]); }

Expr leaky_relu_backward(const BodyArgs& a) {
  return select(gt(a["self"], zero(a["self"])), a[0], a[0] * parameter(a, "negative_slope", a[0]));
}

Expr hardtanh_backward(const BodyArgs& a) {
  Expr x = a["self"];
  Expr outside = logical_or(le(x, parameter(a, "min_val", x)), ge(x, parameter(a, "max_val", x)));
  return select(outside, zero(x), a[0]);
}

Expr hardsigmoid_backward(const BodyArgs& a) {
  Expr x = a["self"];
  return select(logical_and(gt(x, like(-3, x)), lt(x, like(3, x))), a[0] / 6.0, zero(x));
}

Expr hardswish_backward(const BodyArgs& a) {
  Expr x = a["self"];
  return select(le(x, like(-3, x)), zero(x), select(lt(x, like(3, x)), a[0] * (x / 3.0 + 0.5), a[0]));
}

Expr silu_backward(const BodyArgs& a) {
  Expr s = sigmoid(a["self"]);
  return a[0] * s * (1.0 + a["self"] * (1.0 - s));
}

Expr gelu_backward(const BodyArgs& a) {
  Expr x = a["self"];
  if (a.call.text("approximate") == "tanh") {
    double k = M_SQRT2 * M_2_SQRTPI * 0.5;
    Expr t = tanh((x + x * x * x * 0.044715) * k);
    return a[0] * (0.5 * (1.0 + t) + x * 0.5 * (1.0 - t * t) * (x * x * (3 * 0.044715) + 1.0) * k);
  }
  Expr cdf = (erf(x * M_SQRT1_2) + 1.0) * 0.5, pdf = exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return a[0] * (cdf + x * pdf);
}

Expr elu_backward(const BodyArgs& a) {
  Expr x = a["self_or_result"], alpha = parameter(a, "alpha", x), scale = parameter(a, "scale", x),
       input_scale = parameter(a, "input_scale", x);
  Expr negative = a.call.flag("is_result") ? input_scale * (x + alpha * scale) : input_scale * alpha * scale * exp(x * input_scale);
  return select(le(x, zero(x)), a[0] * negative, a[0] * scale);
}

Expr softplus_backward(const BodyArgs& a) {
  Expr x = a["self"], t = x * parameter(a, "beta", x);
  return select(gt(t, parameter(a, "threshold", x)), a[0], a[0] * sigmoid(t));
}

Expr mish_backward(const BodyArgs& a) {
  Expr x = a["self"], t = tanh(select(gt(x, like(20, x)), x, log1p(exp(x))));
  return a[0] * (t + x * sigmoid(x) * (1.0 - t * t));
}

// Of hardshrink and softshrink.
template <Name Grad> Expr shrink_backward(const BodyArgs& a) {
  Expr x = a["self"], edge = parameter(a, "lambd", x);
  return select(logical_and(ge(x, -edge), le(x, edge)), zero(x), a[Grad.text]);
}

Expr logit_backward(const BodyArgs& a) {
  Expr x = a["self"], slope = a[0] / (x * (1.0 - x));
  if (!a.call.has("eps")) return select(logical_or(lt(x, zero(x)), gt(x, like(1, x))), like(NAN, x), slope);
  DType result = promotion_of(a.call.graph, a.call.def, a.call.args).output; // the ends are rounded to it
  auto rounded = [&](Expr e) { return cast(cast(e, result), x->type); };
  Expr low = rounded(like(a.call.number("eps"), x)), high = rounded(1.0 - low);
  return select(logical_or(lt(x, low), gt(x, high)), zero(x), slope);
}

Values log_sigmoid_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.to(widen(b, c, "grad_output") * b.call1("aten::sigmoid", {-widen(x)}), x.dtype());
}

Values glu_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self"), grad = widen(b, c, "grad_output");
  auto dim = c.dim("dim", x.rank());
  Values halves = b.call("aten::chunk", {widen(x), 2, dim});
  V gate = b.call1("aten::sigmoid", {halves.at(1)}), passed = grad * gate;
  return b.to(b.call1("aten::cat", {ArgList{passed, passed * halves[0] * (-gate + Arg(1.0))}, dim}), x.dtype());
}

Values prelu_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self"), grad = b.input(c, "grad_output"), weight = b.input(c, "weight"), none = b.scalar(0, x.dtype());
  V positive = b.call1("aten::gt.Scalar", {x, 0});
  return {b.where(positive, grad, weight * grad), b.where(positive, none, x * grad)};
}

Values rrelu_backward(Builder& b, const Call& c) {
  if (c.flag("training") && c.number("upper") - c.number("lower") > 1e-6) return b.call("aten::mul.Tensor", {c["grad_output"], c["noise"]});
  double slope = (c.number("lower") + c.number("upper")) / 2;
  return b.call("aten::leaky_relu_backward", {c["grad_output"], c["self"], slope, c["self_is_result"]});
}

Values dropout_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad_output");
  return grad * b.to(b.input(c, "mask"), grad.dtype()) * c["scale"];
}

// The derivative of a loss of two tensors, times what the reduction makes of the gradient. In f32 for reduced floats.
Values loss_backward(Builder& b, const Call& c, const std::function<V(V x, V target)>& derivative) {
  V x = b.input(c, "self");
  V slope = derivative(widen(x), widen(b, c, "target")) * widen(b, c, "grad_output");
  if (c.def.signature.find("weight") >= 0 && c.has("weight")) slope = slope * widen(b, c, "weight");
  if (c.integer("reduction") == 1) slope = slope / b.scalar(product(b.pool(), x.sizes()), slope.dtype());
  return b.to(slope, x.dtype());
}

// Linear beyond +-knee, where the slope is +-steepest.
V knee_slope(Builder& b, V d, double knee, double steepest) {
  V inside = b.call1("aten::lt.Scalar", {b.call1("aten::abs", {d}), knee}), outside = b.call1("aten::sign", {d}) * Arg(steepest);
  return knee > 0 ? b.where(inside, d * Arg(steepest / knee), outside) : outside;
}

Values smooth_l1_loss_backward(Builder& b, const Call& c) {
  return loss_backward(b, c, [&](V x, V target) { return knee_slope(b, x - target, c.number("beta"), 1); });
}
Values huber_loss_backward(Builder& b, const Call& c) {
  return loss_backward(b, c, [&](V x, V target) { return knee_slope(b, x - target, c.number("delta"), c.number("delta")); });
}
Values soft_margin_loss_backward(Builder& b, const Call& c) {
  return loss_backward(b, c, [&](V x, V target) {
    V z = b.call1("aten::exp", {-target * x});
    return -target * z / (z + Arg(1.0));
  });
}
Values binary_cross_entropy_backward(Builder& b, const Call& c) {
  return loss_backward(b, c, [&](V x, V target) { return (x - target) / b.call1("aten::clamp_min", {(-x + Arg(1.0)) * x, 1e-12}); });
}

Values mse_loss_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self"), difference = x - b.input(c, "target");
  V scaled = difference * 2.0 * b.input(c, "grad_output");
  if (c.integer("reduction") != 1) return scaled;
  return scaled / b.scalar(product(b.pool(), difference.sizes()), x.dtype());
}

constexpr OpRow derivative(std::string_view schema, Body body, std::string_view keep = {}) {
  return pointwise(schema, body, Promote::Default, keep, float_types);
}

const OpRow backward_ops[] = {
    derivative("aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", sigmoid_backward),
    derivative("aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor", tanh_backward),
    pointwise("aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", threshold_backward, Promote::Default,
              "threshold", real_types),
    derivative("aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
               leaky_relu_backward, "negative_slope"),
    derivative("aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor", hardtanh_backward,
               "min_val max_val"),
    derivative("aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", hardsigmoid_backward),
    derivative("aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", hardswish_backward),
    derivative("aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor", silu_backward),
    derivative("aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor", gelu_backward),
    derivative("aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor "
               "self_or_result) -> Tensor",
               elu_backward, "alpha scale input_scale"),
    derivative("aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor", softplus_backward,
               "beta threshold"),
    derivative("aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor", mish_backward),
    derivative("aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", shrink_backward<"grad_out">, "lambd"),
    derivative("aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor", shrink_backward<"grad_output">,
               "lambd"),
    derivative("aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", logit_backward),
    composite("aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", log_sigmoid_backward),
    composite("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", glu_backward),
    composite("aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)", prelu_backward),
    composite("aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, "
              "bool self_is_result) -> Tensor",
              rrelu_backward),
    composite("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", dropout_backward),
    composite("aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
              smooth_l1_loss_backward),
    composite("aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
              huber_loss_backward),
    composite("aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
              soft_margin_loss_backward),
    composite("aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) "
              "-> Tensor",
              binary_cross_entropy_backward),
    composite("aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", mse_loss_backward),
};

} // namespace

std::span<const OpRow> backward_rows() { return backward_ops; }

} // namespace tenon::ops
