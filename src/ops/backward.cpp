// Derivatives of pointwise operators and of softmax, as exported training graphs hold them.
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

Expr zero(Expr x) { return like(0, x); }

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
  Expr x = a["self_or_result"], alpha = parameter(a, "alpha", x), scale = parameter(a, "scale", x), input_scale = parameter(a, "input_scale", x);
  Expr negative = a.call.flag("is_result") ? input_scale * (x + alpha * scale) : input_scale * alpha * scale * exp(x * input_scale);
  return select(le(x, zero(x)), a[0] * negative, a[0] * scale);
}

Expr softplus_backward(const BodyArgs& a) {
  Expr x = a["self"], t = x * parameter(a, "beta", x);
  return select(gt(t, parameter(a, "threshold", x)), a[0], a[0] * sigmoid(t));
}

Values mse_loss_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self"), difference = x - b.input(c, "target");
  V scaled = difference * 2.0 * b.input(c, "grad_output");
  if (c.integer("reduction") != 1) return scaled;
  return scaled / b.scalar(product(b.pool(), difference.sizes()), x.dtype());
}

// What the two softmaxes share: operands in f32 where the input is a reduced float, the result in its dtype.
template <bool Log> Values softmax_backward(Builder& b, const Call& c) {
  V grad = widen(b, c, "grad_output"), y = widen(b, c, "output");
  DType result = c.dtype("input_dtype").value_or(c.type("output").dtype);
  int64_t dim = c.dim("dim", y.rank());
  if (Log) return b.to(grad - b.call1("aten::exp", {y}) * b.sum(grad, {dim}, true), result);
  V product = grad * y;
  return b.to(product - y * b.sum(product, {dim}, true), result);
}

constexpr OpRow derivative(std::string_view schema, Body body, std::string_view keep = {}) {
  return pointwise(schema, body, Promote::Default, keep, float_types);
}

const OpRow rows[] = {
    derivative("aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", sigmoid_backward),
    derivative("aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor", tanh_backward),
    derivative("aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", threshold_backward, "threshold"),
    derivative("aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor", leaky_relu_backward, "negative_slope"),
    derivative("aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor", hardtanh_backward, "min_val max_val"),
    derivative("aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", hardsigmoid_backward),
    derivative("aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", hardswish_backward),
    derivative("aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor", silu_backward),
    derivative("aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor", gelu_backward),
    derivative("aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor", elu_backward,
               "alpha scale input_scale"),
    derivative("aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor", softplus_backward, "beta threshold"),
    composite("aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", mse_loss_backward),
    composite("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", softmax_backward<false>),
    composite("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", softmax_backward<true>),
};

} // namespace

std::span<const OpRow> backward_rows() { return rows; }

} // namespace tenon::ops
