// Losses, written as torch writes them: those with a kernel are computed in f32 for f16 and bf16 and rounded once, the
// others are chains of operators, each of which rounds.
#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

DType float_result(Builder& b, V x, V y) {
  const OpDef* div = find_op("aten::div.Tensor");
  return promotion_of(b.graph(), *div, {x, y}).output;
}

V reduce_loss(V loss, int64_t reduction, DType dtype) {
  Builder& b = loss.builder();
  if (reduction == 1) loss = b.call1("aten::mean", {loss});
  else if (reduction == 2) loss = b.call1("aten::sum", {loss});
  else require_input(reduction == 0, "reduction {} is none of none, mean, sum", reduction);
  return b.to(loss, dtype);
}

namespace {

V absolute(V x) { return x.builder().call1("aten::abs", {x}); }
V at_least(V x, double low) { return x.builder().call1("aten::clamp_min", {x, low}); }
V equal(V x, const Arg& y) { return x.builder().call1("aten::eq.Scalar", {x, y}); }
V differs(V x, const Arg& y) { return x.builder().call1("aten::ne.Scalar", {x, y}); }

Values reduced(const Call& c, V loss) { return reduce_loss(loss, c.integer("reduction"), loss.dtype()); }

// The operands of a kernel of two tensors, wide.
struct Pair {
  V x, target;
  DType result;
  Pair(Builder& b, const Call& c) : x(b.input(c, "self")), target(b.input(c, "target")), result(float_result(b, x, target)) {
    x = as_float(x);
    target = as_float(target);
  }
  Values reduced(const Call& c, V loss) const { return reduce_loss(loss, c.integer("reduction"), result); }
};

Values mse_loss(Builder& b, const Call& c) {
  Pair p(b, c);
  V d = p.x - p.target;
  return p.reduced(c, d * d);
}

Values l1_loss(Builder& b, const Call& c) { return reduced(c, absolute(b.input(c, "self") - b.input(c, "target"))); }

// Quadratic up to `knee`, linear beyond: scale * z^2 / 2 and scale * knee * (z - knee/2).
Values knee_loss(Builder& b, const Call& c, double knee, double scale) {
  Pair p(b, c);
  V z = absolute(p.x - p.target);
  if (knee == 0) return p.reduced(c, z);
  V small = b.call1("aten::lt.Scalar", {z, knee});
  return p.reduced(c, b.where(small, z * z * (0.5 * scale), (z - 0.5 * knee) * (scale * knee)));
}
Values smooth_l1_loss(Builder& b, const Call& c) { return knee_loss(b, c, c.number("beta"), 1 / c.number("beta")); }
Values huber_loss(Builder& b, const Call& c) {
  require_input(c.number("delta") > 0, "aten::huber_loss: delta must be positive");
  return knee_loss(b, c, c.number("delta"), 1);
}

// Logarithms are clamped at -100, as torch does.
Values binary_cross_entropy(Builder& b, const Call& c) {
  Pair p(b, c);
  V yes = at_least(b.call1("aten::log", {p.x}), -100.0), no = at_least(b.call1("aten::log1p", {-p.x}), -100.0);
  V loss = (p.target - 1.0) * no - p.target * yes;
  return p.reduced(c, c.has("weight") ? loss * widen(b, c, "weight") : loss);
}

Values bce_with_logits(Builder& b, const Call& c) {
  Pair p(b, c);
  V log_p = b.call1("aten::log_sigmoid", {p.x});
  if (c.has("pos_weight")) log_p = log_p * ((widen(b, c, "pos_weight") - 1.0) * p.target + 1.0);
  V loss = (b.call1("aten::rsub.Scalar", {p.target, 1.0}) * p.x) - log_p;
  return p.reduced(c, c.has("weight") ? loss * widen(b, c, "weight") : loss);
}

Values kl_div(Builder& b, const Call& c) {
  Pair p(b, c);
  if (c.flag("log_target")) return p.reduced(c, b.call1("aten::exp", {p.target}) * (p.target - p.x));
  return p.reduced(c, b.call1("aten::xlogy.Tensor", {p.target, p.target}) - p.target * p.x);
}

Values soft_margin_loss(Builder& b, const Call& c) {
  return reduced(c, b.call1("aten::log1p", {b.call1("aten::exp", {-b.input(c, "target") * b.input(c, "self")})}));
}

Values poisson_nll_loss(Builder& b, const Call& c) {
  V x = b.input(c, "input"), target = b.input(c, "target");
  V loss = c.flag("log_input") ? b.call1("aten::exp", {x}) - target * x : x - target * b.call1("aten::log", {x + c.number("eps")});
  if (c.flag("full")) {
    V stirling = target * b.call1("aten::log", {target}) - target + b.call1("aten::log", {target * (2 * M_PI)}) * 0.5;
    loss = loss + b.where(b.call1("aten::le.Scalar", {target, 1}), 0.0, stirling);
  }
  return reduced(c, loss);
}

Values hinge_embedding_loss(Builder& b, const Call& c) {
  V x = b.input(c, "self"), target = b.input(c, "target");
  V apart = at_least(-x + c.number("margin"), 0);
  return reduced(c, b.where(differs(target, 1), apart, 0.0) + b.where(differs(target, -1), x, 0.0));
}

Values margin_ranking_loss(Builder& b, const Call& c) {
  V difference = b.input(c, "input1") - b.input(c, "input2");
  return reduced(c, at_least(-b.input(c, "target") * difference + c.number("margin"), 0));
}

Values triplet_margin_loss(Builder& b, const Call& c) {
  V anchor = b.input(c, "anchor"), positive = b.input(c, "positive"), negative = b.input(c, "negative");
  auto distance = [&](V x, V y) { return b.call1("aten::pairwise_distance", {x, y, c["p"], c["eps"]}); };
  V near = distance(anchor, positive), far = distance(anchor, negative);
  if (c.flag("swap")) far = b.call1("aten::minimum", {far, distance(positive, negative)});
  return reduced(c, at_least(near - far + c.number("margin"), 0));
}

Values cosine_embedding_loss(Builder& b, const Call& c) {
  V x = b.input(c, "input1"), y = b.input(c, "input2"), target = b.input(c, "target");
  int64_t dim = target.rank() == 0 ? 0 : 1;
  constexpr double epsilon = 1e-12; // torch's
  auto squares = [&](V v) { return b.sum(v * v, {dim}, false) + epsilon; };
  V cosine = b.sum(x * y, {dim}, false) / b.call1("aten::sqrt", {squares(x) * squares(y)});
  V same_side = b.where(equal(target, 1), -cosine + 1.0, 0.0);
  V opposed = b.where(equal(target, -1), at_least(cosine - c.number("margin"), 0), 0.0);
  return reduced(c, same_side + opposed);
}

// A sample's score for its class: a Tensor of shape (N, C) or (C), targets (N) or ().
Values multi_margin_loss(Builder& b, const Call& c) {
  V self = b.input(c, "self"), target = b.input(c, "target"), x = as_float(self);
  bool single = x.rank() < 2;
  if (single) x = b.reshape(x, {b.integer(1), x.rank() ? x.size(0) : b.integer(1)});
  V at = b.reshape(target, {x.size(0), b.integer(1)});
  V z = at_least(x - b.call1("aten::gather", {x, 1, at}) + c.number("margin"), 0);
  if (c.number("p") != 1) z = b.call1("aten::pow.Tensor_Scalar", {z, c["p"]});
  if (c.has("weight")) z = z * b.reshape(b.call1("aten::index_select", {widen(b, c, "weight"), 0, b.reshape(at, {x.size(0)})}), at.sizes());
  V own = b.call1("aten::eq.Tensor", {b.arange(x.size(1), DType::I64), at});
  V loss = b.mean(b.where(own, 0.0, z), {1}, false);
  return reduce_loss(single && target.rank() == 0 ? b.reshape(loss, {}) : loss, c.integer("reduction"), self.dtype());
}

// Labels of a sample stand in front of the first negative one.
Values multilabel_margin_loss_forward(Builder& b, const Call& c) {
  V self = b.input(c, "self"), x = as_float(self), target = b.input(c, "target");
  std::vector<Expr> sizes = target.sizes();
  bool single = x.rank() < 2;
  if (single) {
    Expr classes = x.rank() ? x.size(0) : b.integer(1);
    x = b.reshape(x, {b.integer(1), classes});
    target = b.reshape(target, {b.integer(1), classes});
  }
  V ended = b.call1("aten::cumsum", {b.to(b.call1("aten::lt.Scalar", {target, 0}), DType::I64), 1});
  V label = equal(ended, 0), at = b.where(label, target, 0);
  // hit[n, j, k]: label j of sample n is class k.
  V hit = b.call1("aten::logical_and",
                  {b.unsqueeze(label, 2), b.call1("aten::eq.Tensor", {b.unsqueeze(at, 2), b.arange(x.size(1), DType::I64)})});
  V is_label = b.call1("aten::any.dim", {hit, 1});
  V margin = at_least(b.unsqueeze(x, 1) - b.unsqueeze(b.call1("aten::gather", {x, 1, at}), 2) + 1.0, 0);
  V counts = b.call1("aten::logical_and", {b.unsqueeze(label, 2), b.unsqueeze(b.call1("aten::logical_not", {is_label}), 1)});
  V loss = b.sum(b.where(counts, margin, 0.0), {1, 2}, false) / b.call1("aten::scalar_tensor", {x.size(1)}, {{"dtype", x.dtype()}});
  if (single) loss = b.reshape(loss, {});
  return Values{reduce_loss(loss, c.integer("reduction"), self.dtype()), b.to(b.reshape(is_label, sizes), self.dtype())};
}
Values multilabel_margin_loss(Builder& b, const Call& c) { return multilabel_margin_loss_forward(b, c)[0]; }

const OpRow loss_ops[] = {
    with_vjp(composite("aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", mse_loss, to_f32),
             "broadcasts; self: torch.mse_loss_backward(grad, self, target, reduction); target: -torch.mse_loss_backward(grad, self, "
             "target, reduction)"),
    with_vjp(composite("aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", l1_loss, to_f32),
             "broadcasts; self: loss_share(grad, self - target, reduction) * (self - target).sign(); target: loss_share(grad, self - "
             "target, reduction) * (target - self).sign()"),
    with_vjp(
        composite("aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", smooth_l1_loss, to_f32),
        "broadcasts; self: torch.smooth_l1_loss_backward(grad, self, target, reduction, beta); target: "
        "-torch.smooth_l1_loss_backward(grad, self, target, reduction, beta)"),
    with_vjp(composite("aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", huber_loss, to_f32),
             "broadcasts; self: torch.huber_loss_backward(grad, self, target, reduction, delta); target: -torch.huber_loss_backward(grad, "
             "self, target, reduction, delta)"),
    with_vjp(composite("aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
                       binary_cross_entropy, to_f32),
             "self: torch.binary_cross_entropy_backward(grad, self, target, weight, reduction); target: bce_target(grad, self, target, "
             "weight, reduction)"),
    with_vjp(
        composite("aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int "
                  "reduction=1) -> Tensor",
                  bce_with_logits, to_f32),
        "self: logits_share(grad, self, target, weight, pos_weight, reduction); target: logits_target(grad, self, target, weight, "
        "pos_weight, reduction)"),
    with_vjp(composite("aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div, to_f32),
             "broadcasts; self: kl_self(grad, self, target, reduction, log_target); target: kl_target(grad, self, target, reduction, "
             "log_target)"),
    with_vjp(composite("aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", soft_margin_loss, to_f32),
             "self: torch.soft_margin_loss_backward(grad, self, target, reduction)"),
    with_vjp(composite("aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
                       poisson_nll_loss, to_f32),
             "result: poisson_nll(input, target, log_input, full, eps, reduction)"),
    with_vjp(composite("aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
                       hinge_embedding_loss, to_f32),
             "result: reduced_loss(torch.where(target == 1, self, 0.0) + torch.where(target == -1, torch.clamp_min(margin - self, 0.0), "
             "0.0), reduction)"),
    with_vjp(composite("aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
                       margin_ranking_loss, to_f32),
             "result: reduced_loss(torch.clamp_min(-target * (input1 - input2) + margin, 0.0), reduction)"),
    with_vjp(composite("aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float "
                       "eps=9.9999999999999995e-07, "
                       "bool swap=False, int reduction=1) -> Tensor",
                       triplet_margin_loss, to_f32),
             "result: triplet_margin(anchor, positive, negative, margin, p, eps, swap, reduction)"),
    with_vjp(
        composite("aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor",
                  cosine_embedding_loss, to_f32),
        "result: cosine_embedding(input1, input2, target, margin, reduction)"),
    with_vjp(composite("aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
                       "reduction=1) -> Tensor",
                       multi_margin_loss, to_f32),
             "result: multi_margin(self, target, p, margin, weight, reduction)"),
    with_vjp(
        composite("aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", multilabel_margin_loss, to_f32),
        "result: multilabel_margin(self, target, reduction)"),
    composite("aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
              multilabel_margin_loss_forward, to_f32),
};

} // namespace

std::span<const OpRow> loss_rows() { return loss_ops; }

} // namespace tenon::ops
