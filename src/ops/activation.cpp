// Activation functions. Their Scalar parameters take no part in promotion: the result has the dtype of self.
#include "ops/autocast.h"
#include "ops/jvp.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// Bounds come first: of a zero equal to one, torch keeps the sign.
Expr relu(const BodyArgs& a) { return max(zero(a[0]), a[0]); }

Expr gelu(const BodyArgs& a) {
  Expr x = a[0];
  if (a.call.text("approximate") != "tanh") return x * 0.5 * (erf(x * M_SQRT1_2) + 1.0);
  Expr inner = (x + x * x * x * 0.044715) * (M_SQRT2 * M_2_SQRTPI * 0.5);
  return x * 0.5 * (tanh(inner) + 1.0);
}

Expr silu(const BodyArgs& a) { return a[0] * sigmoid(a[0]); }
Expr mish(const BodyArgs& a) { return a[0] * tanh(log1p(exp(a[0]))); }

Expr leaky_relu(const BodyArgs& a) {
  Expr x = a[0];
  return select(gt(x, zero(x)), x, x * parameter(a, "negative_slope", x));
}

Expr elu_of(Expr x, Expr alpha, Expr scale, Expr input_scale) {
  return select(lt(x, zero(x)), expm1(x * input_scale) * (alpha * scale), x * scale);
}
Expr elu(const BodyArgs& a) {
  Expr x = a[0];
  return elu_of(x, parameter(a, "alpha", x), parameter(a, "scale", x), parameter(a, "input_scale", x));
}
Expr celu(const BodyArgs& a) {
  Expr x = a[0], alpha = parameter(a, "alpha", x);
  return elu_of(x, alpha, like(1, x), 1.0 / alpha);
}
// The fixed point of Klambauer et al. 2017, as torch writes it.
Expr selu(const BodyArgs& a) {
  return elu_of(a[0], like(1.6732632423543772848170429916717, a[0]), like(1.0507009873554804934193349852946, a[0]), like(1, a[0]));
}

Expr clamp_to(Expr x, double lo, double hi) { return min(like(hi, x), max(like(lo, x), x)); }
Expr hardtanh(const BodyArgs& a) {
  Expr x = a[0];
  return min(parameter(a, "max_val", x), max(parameter(a, "min_val", x), x));
}
Expr relu6(const BodyArgs& a) { return clamp_to(a[0], 0, 6); }
Expr hardsigmoid(const BodyArgs& a) { return clamp_to(a[0] + 3.0, 0, 6) / 6.0; }
Expr hardswish(const BodyArgs& a) { return a[0] * clamp_to(a[0] + 3.0, 0, 6) / 6.0; }

Expr hardshrink(const BodyArgs& a) {
  Expr x = a[0], l = parameter(a, "lambd", x);
  return select(logical_and(ge(x, -l), le(x, l)), zero(x), x);
}
Expr softshrink(const BodyArgs& a) {
  Expr x = a[0], l = parameter(a, "lambd", x);
  return select(gt(x, l), x - l, select(lt(x, -l), x + l, x * 0.0));
}

Expr softplus(const BodyArgs& a) {
  Expr x = a[0], beta = parameter(a, "beta", x), t = x * beta;
  return select(gt(t, parameter(a, "threshold", x)), x, log1p(exp(t)) / beta);
}

Expr threshold(const BodyArgs& a) {
  Expr x = a[0];
  return select(le(x, parameter(a, "threshold", x)), parameter(a, "value", x), x);
}

Expr log_sigmoid(const BodyArgs& a) { return min(a[0], zero(a[0])) - log1p(exp(-abs(a[0]))); }

Values log_sigmoid_forward(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  V buffer = b.call1("aten::exp", {-b.call1("aten::abs", {x})});
  return Values{b.call1("aten::log_sigmoid", {x}), buffer};
}

Expr prelu_kernel(const BodyArgs& a) { return select(gt(a[0], zero(a[0])), a[0], a[0] * a[1]); }

// One slope for all, or one for each channel (dim 1).
Values prelu(Builder& b, const Call& c) {
  V x = b.input(c, "self"), w = b.input(c, "weight");
  std::vector<Expr> sizes(x.rank(), b.integer(1));
  if (w.rank() > 0 && x.rank() > 1) sizes[1] = w.size(0);
  return b.call("aten::_prelu_kernel", {x, w.rank() == 0 && x.rank() == 0 ? w : b.reshape(w, sizes)});
}

Values glu(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  if (self.rank() == 0) c.fail("self must have a dim");
  int64_t dim = c.dim("dim", self.rank());
  Expr half = floor_div(self.size(dim), b.integer(2));
  if (auto n = const_int(self.size(dim)); n && *n % 2)
    c.fail(fmt::format("Halving dimension must be even, but dimension {} is size {}", dim, *n));
  V gate = b.slice(self, dim, half, half);
  return b.to(widen(b.slice(self, dim, b.integer(0), half)) * b.call1("aten::sigmoid", {widen(gate)}), self.dtype());
}

constexpr OpRow activation(std::string_view schema, Body body, std::string_view keep = {}) {
  return pointwise(schema, body, Promote::Default, keep, float_types);
}

const OpRow activation_ops[] = {
    with_vjp(with_jvp(pointwise("aten::relu(Tensor self) -> Tensor", relu, Promote::Default, {}, real_types | u64_type),
                      [](Builder& b, const Tangents& d) {
                        return b.where(b.call1("aten::gt.Scalar", {d.x, 0}), d.t, b.full({}, 0, d.t.dtype()));
                      }),
             "self: torch.threshold_backward(grad, result, 0)"),
    with_vjp(pointwise("aten::relu6(Tensor self) -> Tensor", relu6, Promote::Default, {}, real_types | u64_type),
             "self: torch.hardtanh_backward(grad, self, 0.0, 6.0)"),
    with_vjp(with_jvp(activation("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", gelu),
                      [](Builder& b, const Tangents& d) {
                        return b.call1("aten::gelu_backward", {d.t, d.x}, {{"approximate", d.call["approximate"]}});
                      }),
             "self: torch.gelu_backward(grad, self, approximate=approximate)"),
    with_vjp(with_jvp(activation("aten::silu(Tensor self) -> Tensor", silu),
                      [](Builder& b, const Tangents& d) { return b.call1("aten::silu_backward", {d.t, d.x}); }),
             "self: torch.silu_backward(grad, self)"),
    with_vjp(activation("aten::mish(Tensor self) -> Tensor", mish), "self: torch.mish_backward(grad, self)"),
    with_vjp(activation("aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", leaky_relu, "negative_slope"),
             "self: torch.leaky_relu_backward(grad, self, negative_slope, False)"),
    with_vjp(activation("aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu,
                        "alpha scale input_scale"),
             "self: torch.elu_backward(grad, alpha, scale, input_scale, False, self)"),
    with_vjp(activation("aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", celu, "alpha"),
             "self: torch.elu_backward(grad, alpha, 1.0, 1.0 / float(alpha), False, self)"),
    with_vjp(activation("aten::selu(Tensor self) -> Tensor", selu),
             "self: torch.elu_backward(grad, 1.6732632423543772, 1.0507009873554805, 1.0, False, self)"),
    with_vjp(pointwise("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh, Promote::Default,
                       "min_val max_val", real_types | u64_type),
             "self: torch.hardtanh_backward(grad, self, min_val, max_val)"),
    with_vjp(activation("aten::hardsigmoid(Tensor self) -> Tensor", hardsigmoid), "self: torch.hardsigmoid_backward(grad, self)"),
    with_vjp(activation("aten::hardswish(Tensor self) -> Tensor", hardswish), "self: torch.hardswish_backward(grad, self)"),
    with_vjp(activation("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", hardshrink, "lambd"),
             "self: torch.hardshrink_backward(grad, self, lambd)"),
    with_vjp(activation("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", softshrink, "lambd"),
             "self: torch.softshrink_backward(grad, self, lambd)"),
    with_vjp(activation("aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus, "beta threshold"),
             "self: torch.softplus_backward(grad, self, beta, threshold)"),
    with_vjp(pointwise("aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold, Promote::Default,
                       "threshold value", real_types),
             "self: torch.threshold_backward(grad, self, threshold)"),
    with_vjp(activation("aten::log_sigmoid(Tensor self) -> Tensor", log_sigmoid), "self: grad * torch.sigmoid(-self)"),
    with_vjp(composite("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", log_sigmoid_forward),
             "self: grad * torch.sigmoid(-self)"),
    with_vjp(activation("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", prelu_kernel),
             "self: torch.where(self >= 0, grad, grad * weight); weight: torch.where(self >= 0, 0.0, grad * self)"),
    with_vjp(composite("aten::prelu(Tensor self, Tensor weight) -> Tensor", prelu, to_lower),
             "self: prelu_input(grad, self, weight); weight: prelu_weight(grad, self, weight_size)"),
    with_vjp(composite("aten::glu(Tensor self, int dim=-1) -> Tensor", glu), "self: torch.glu_backward(grad, self, dim)"),
};

} // namespace

std::span<const OpRow> activation_rows() { return activation_ops; }

} // namespace tenon::ops
