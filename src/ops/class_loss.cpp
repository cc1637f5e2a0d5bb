// Negative log likelihood and cross entropy, for class indices and for class probabilities.
#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// Shape (1, ..., C, ..., 1), with C at `dim` of `rank`.
V along(V weight, int64_t dim, size_t rank) {
  Builder& b = weight.builder();
  require_input(weight.rank() == 1 && static_cast<size_t>(dim) < rank, "weights of {} dims for an input of {}", weight.rank(), rank);
  std::vector<Expr> sizes(rank, b.integer(1));
  sizes[static_cast<size_t>(dim)] = weight.size(0);
  return b.reshape(weight, sizes);
}

// What a loss over class indices needs: the classes lie along `dim` of x, and `at` has 1 there.
struct Classes {
  V x, valid, at;
  V weight; // of each target's class; empty without weights
  int64_t dim;
};

Classes classes_of(Builder& b, const Call& c, V x) {
  Classes k{.x = x, .valid = {}, .at = {}, .weight = {}, .dim = x.rank() < 2 ? 0 : 1};
  V target = b.unsqueeze(b.input(c, "target"), k.dim);
  if (x.rank() == 0 || target.rank() != x.rank())
    c.fail(fmt::format("an input of {} dims and a target of {}", x.rank(), target.rank() - 1));
  k.valid = b.call1("aten::ne.Scalar", {target, c["ignore_index"]});
  k.at = b.to(b.where(k.valid, target, 0), DType::I64);
  if (!c.has("weight")) return k;
  V weights = along(b.to(b.input(c, "weight"), x.dtype()), k.dim, x.rank());
  std::vector<Expr> sizes = k.at.sizes();
  sizes[static_cast<size_t>(k.dim)] = x.size(k.dim);
  k.weight = b.where(k.valid, b.call1("aten::gather", {b.expand(weights, sizes), k.dim, k.at}), 0.0);
  return k;
}

// Total weight of the targets that count.
V total_weight(Builder& b, const Classes& k) { return b.call1("aten::sum", {k.weight ? k.weight : b.to(k.valid, k.x.dtype())}); }

// -x at the target's class, weighted, 0 where ignored; `dim` is gone.
V picked(Builder& b, const Classes& k) {
  V loss = -b.call1("aten::gather", {k.x, k.dim, k.at});
  loss = b.where(k.valid, k.weight ? loss * k.weight : loss, 0.0);
  return b.squeeze(loss, k.dim);
}

V reduce_weighted(Builder& b, V loss, const Classes& k, int64_t reduction) {
  if (reduction == 0) return loss;
  V total = b.call1("aten::sum", {loss});
  return reduction == 2 ? total : total / total_weight(b, k);
}

Values nll_loss(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  Classes k = classes_of(b, c, as_float(self));
  return b.to(reduce_weighted(b, picked(b, k), k, c.integer("reduction")), self.dtype());
}

Values nll_loss_forward(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  Classes k = classes_of(b, c, as_float(self));
  int64_t reduction = c.integer("reduction");
  bool counted = reduction != 0 || self.rank() < 2;
  V total = counted ? b.to(total_weight(b, k), self.dtype()) : b.scalar(0, self.dtype());
  return Values{b.to(reduce_weighted(b, picked(b, k), k, reduction), self.dtype()), total};
}

// -grad * weight at the target's class, 0 elsewhere and where ignored; divided by the total weight for a mean.
Values nll_loss_backward(Builder& b, const Call& c) {
  V self = b.input(c, "self"), x = as_float(self), grad = b.to(b.input(c, "grad_output"), x.dtype());
  Classes k = classes_of(b, c, x);
  if (grad.rank() > 0) grad = b.unsqueeze(grad, k.dim);
  if (c.integer("reduction") == 1) grad = grad / b.to(b.input(c, "total_weight"), x.dtype());
  V slope = b.where(k.valid, k.weight ? -(grad * k.weight) : -grad, 0.0);
  V zeros = b.full(x.sizes(), 0, x.dtype());
  return b.to(b.call1("aten::scatter.src", {zeros, k.dim, k.at, b.expand(slope, k.at.sizes())}), self.dtype());
}

V count_of_classes(Builder& b, V x, int64_t dim) { return b.scalar(x.size(dim), x.dtype()); }

// Targets are probabilities of classes.
V probability_loss(Builder& b, const Call& c, V log_p, int64_t dim) {
  V target = widen(b, c, "target");
  double smoothing = c.number("label_smoothing");
  if (smoothing > 0) target = target * (1 - smoothing) + b.scalar(smoothing, log_p.dtype()) / count_of_classes(b, log_p, dim);
  V terms = log_p * target;
  if (c.has("weight")) terms = terms * along(b.to(b.input(c, "weight"), log_p.dtype()), dim, log_p.rank());
  V loss = -b.sum(terms, {dim}, false);
  int64_t reduction = c.integer("reduction");
  if (reduction == 0) return loss;
  V total = b.call1("aten::sum", {loss});
  if (reduction == 2) return total;
  std::vector<Expr> samples = loss.sizes();
  return total / b.scalar(product(b.pool(), samples), log_p.dtype());
}

// Targets are indices; a share of the target's probability goes to all classes alike.
V smoothed_loss(Builder& b, const Call& c, V log_p, int64_t dim) {
  double smoothing = c.number("label_smoothing");
  Classes k = classes_of(b, c, log_p);
  int64_t reduction = c.integer("reduction");
  V loss = reduce_weighted(b, picked(b, k), k, reduction);
  if (smoothing == 0) return loss;
  V weighted = c.has("weight") ? log_p * along(b.to(b.input(c, "weight"), log_p.dtype()), dim, log_p.rank()) : log_p;
  V smooth = b.where(b.squeeze(k.valid, dim), -b.sum(weighted, {dim}, false), 0.0);
  smooth = reduce_weighted(b, smooth, k, reduction);
  return loss * (1 - smoothing) + smooth * smoothing / count_of_classes(b, log_p, dim);
}

Values cross_entropy_loss(Builder& b, const Call& c) {
  V self = b.input(c, "self"), x = as_float(self), target = b.input(c, "target");
  int64_t dim = self.rank() < 2 ? 0 : 1;
  V log_p = b.call1("aten::log_softmax.int", {x, dim});
  V loss = is_float(target.dtype()) ? probability_loss(b, c, log_p, dim) : smoothed_loss(b, c, log_p, dim);
  return b.to(loss, self.dtype());
}

// The loss of a linear layer's outputs, which torch computes in chunks of the batch to save memory.
V linear_cross_entropy(Builder& b, const Call& c, int64_t reduction, const Arg& smoothing) {
  V input = b.input(c, "input"), x = widen(input);
  Arg bias = c.has("linear_bias") ? Arg(widen(b, c, "linear_bias")) : Arg();
  V logits = b.call1("aten::linear", {x, widen(b, c, "linear_weight"), bias});
  return b.to(b.call1("aten::cross_entropy_loss", {logits, c["target"], c["weight"], reduction, c["ignore_index"], smoothing}),
              input.dtype());
}
Values linear_cross_entropy_none(Builder& b, const Call& c) { return linear_cross_entropy(b, c, 0, 0.0); }
// The other results are gradients, empty where they are not asked for.
Values linear_cross_entropy_reduced(Builder& b, const Call& c) {
  if (c.flag("compute_input_grad") || c.flag("compute_linear_weight_grad") || c.flag("compute_linear_bias_grad"))
    unsupported("{} with gradients", c.def.signature.name);
  std::string reduction = c.text("reduction");
  if (reduction != "mean" && reduction != "sum") c.fail("reduction is neither mean nor sum");
  V loss = linear_cross_entropy(b, c, reduction == "mean" ? 1 : 2, c["label_smoothing"]);
  Expr none = b.integer(0);
  V matrix = b.full({none, none}, 0, loss.dtype());
  return Values{loss, matrix, matrix, b.full({none}, 0, loss.dtype())};
}

const OpRow rows[] = {
    with_vjp(
        composite("aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
                  nll_loss, to_f32),
        "self: of_classes(grad, self_size, target, weight, reduction, ignore_index)"),
    with_vjp(
        composite("aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
                  nll_loss),
        "self: of_classes(grad, self_size, target, weight, reduction, ignore_index)"),
    with_vjp(
        composite("aten::nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
                  nll_loss, to_f32),
        "self: of_classes(grad, self_size, target, weight, reduction, ignore_index)"),
    with_vjp(
        composite(
            "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, "
            "Tensor total_weight)",
            nll_loss_forward),
        "self: of_classes(grad, self_size, target, weight, reduction, ignore_index)"),
    with_vjp(
        composite(
            "aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, "
            "Tensor total_weight)",
            nll_loss_forward),
        "self: of_classes(grad, self_size, target, weight, reduction, ignore_index)"),
    composite("aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, "
              "Tensor total_weight) -> Tensor",
              nll_loss_backward),
    composite(
        "aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, "
        "Tensor total_weight) -> Tensor",
        nll_loss_backward),
    with_vjp(
        composite(
            "aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float "
            "label_smoothing=0.) -> Tensor",
            cross_entropy_loss, to_f32),
        "self: cross_entropy_input(grad, self, target, weight, reduction, ignore_index, label_smoothing); target: "
        "cross_entropy_target(grad, self, weight, reduction, label_smoothing)"),
    composite(
        "torch_nn::_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? "
        "weight, str reduction, "
        "SymInt ignore_index, float label_smoothing, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype, bool "
        "allow_retain_graph, "
        "bool compute_input_grad, bool compute_linear_weight_grad, bool compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)",
        linear_cross_entropy_reduced),
    composite("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, Tensor target, Tensor? "
              "linear_bias, Tensor? weight, "
              "SymInt ignore_index, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype) -> Tensor",
              linear_cross_entropy_none),
};

} // namespace

std::span<const OpRow> class_loss_rows() { return rows; }

} // namespace tenon::ops
