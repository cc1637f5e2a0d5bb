// Negative log likelihood and cross entropy, for class indices and for class probabilities; connectionist temporal classification.
#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/shape.h"
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

// What stands for the logarithm of 0: in maxima and sums it is as good as an infinity, and leaves no NaNs.
constexpr double log_zero = -1e30;

// Lengths [N] of a batch: a tensor, or a list of numbers.
V lengths_of(Builder& b, const Call& c, std::string_view name, Expr batch) {
  V lengths;
  if (c[name].is<ValueId>()) {
    lengths = b.to(b.input(c, name), DType::I64);
    if (lengths.rank() == 0) lengths = b.unsqueeze(lengths, 0);
  } else {
    ArgList each;
    for (Expr n : c.syms(name)) each.push_back(b.scalar(n, DType::I64));
    lengths = each.empty() ? b.full({b.integer(0)}, 0, DType::I64) : b.call1("aten::stack", {each, 0});
  }
  require_input(lengths.rank() == 1 && !differ(lengths.size(0), batch), "{} must be of size batch_size", name);
  return lengths;
}

// Labels [N, S], from such or from all labels in one row.
V labels_of(Builder& b, V targets, V lengths) {
  targets = b.to(targets, DType::I64);
  if (targets.rank() == 2) return targets;
  V ends = b.call1("aten::cumsum", {lengths, 0}), at = b.unsqueeze(ends - lengths, 1) + b.arange(targets.size(0), DType::I64);
  V last = b.scalar(targets.size(0), DType::I64) - b.scalar(1, DType::I64);
  std::vector<Expr> sizes = at.sizes();
  return b.reshape(b.call1("aten::index_select", {targets, 0, b.reshape(b.call1("aten::minimum", {at, last}), {product(b.pool(), sizes)})}),
                   sizes);
}

// The logarithm of the sum of exponentials.
V log_sum(Builder& b, std::vector<V> terms) {
  V most = terms[0];
  for (size_t i = 1; i < terms.size(); i++) most = b.call1("aten::maximum", {most, terms[i]});
  V sum = b.call1("aten::exp", {terms[0] - most});
  for (size_t i = 1; i < terms.size(); i++) sum = sum + b.call1("aten::exp", {terms[i] - most});
  return most + b.call1("aten::log", {sum});
}

// What connectionist temporal classification works on: a path goes through the labels with blanks between and around them.
struct Paths {
  V x;                             // [T, N, C]: logarithms of probabilities
  V symbols;                       // [N, L]: blank, label, blank ... blank
  V input_lengths, target_lengths; // [N]
};

Paths paths_of(Builder& b, const Call& c) {
  Paths p{.x = widen(b, c, "log_probs"), .symbols = {}, .input_lengths = {}, .target_lengths = {}};
  V targets = b.input(c, "targets");
  int64_t blank = c.integer("blank");
  if (p.x.rank() == 2) p.x = b.unsqueeze(p.x, 1);
  require_input(p.x.rank() == 3 && (targets.rank() == 1 || targets.rank() == 2), "log_probs of {} dims and targets of {}", p.x.rank(),
                targets.rank());
  auto classes = const_int(p.x.size(2));
  require_input(blank >= 0 && (!classes || blank < *classes), "blank must be in label range");
  Expr batch = p.x.size(1);
  p.input_lengths = lengths_of(b, c, "input_lengths", batch), p.target_lengths = lengths_of(b, c, "target_lengths", batch);
  V labels = labels_of(b, targets, p.target_lengths);
  require_input(!differ(labels.size(0), batch), "targets of {} rows for a batch of {}", to_string(labels.size(0)), to_string(batch));
  V blanks = b.full(labels.sizes(), blank, DType::I64);
  V pairs = b.reshape(b.call1("aten::stack", {ArgList{blanks, labels}, -1}), {batch, labels.size(1) * 2.0});
  p.symbols = b.call1("aten::cat", {ArgList{pairs, b.full({batch, b.integer(1)}, blank, DType::I64)}, 1});
  return p;
}

// x [N, L] moved up by n, with log_zero at the beginning.
V moved(Builder& b, V x, int64_t n) {
  V padded = b.call1("aten::constant_pad_nd", {x, std::vector<int64_t>{n, 0}, log_zero});
  return b.slice(padded, 1, b.integer(0), x.size(1));
}

// The logarithm of the probability of all paths that are at a symbol after the last step: [N, L].
V ended_at(Builder& b, const Paths& p, int64_t blank) {
  Expr steps = p.x.size(0), batch = p.x.size(1), count = p.symbols.size(1);
  V at = b.expand(b.unsqueeze(p.symbols, 0), {steps, batch, count});
  V emitted = b.call1("aten::clamp_min", {b.call1("aten::gather", {p.x, 2, at}), log_zero});
  V time = b.reshape(b.arange(steps, DType::I64), {steps, b.integer(1), b.integer(1)});
  V on = b.call1("aten::lt.Tensor", {time, b.reshape(p.input_lengths, {b.integer(1), batch, b.integer(1)})});
  V two_before = b.slice(b.call1("aten::constant_pad_nd", {p.symbols, std::vector<int64_t>{2, 0}, blank}), 1, b.integer(0), count);
  V may_skip =
      b.call1("aten::logical_and", {b.call1("aten::ne.Scalar", {p.symbols, blank}), b.call1("aten::ne.Tensor", {p.symbols, two_before})});
  V first = b.call1("aten::eq.Scalar", {b.arange(count, DType::I64), 0});
  V begin = b.expand(b.where(first, b.scalar(0, p.x.dtype()), b.scalar(log_zero, p.x.dtype())), {batch, count});
  auto out = b.scan({begin}, {emitted, on}, false, [&](const std::vector<V>& now, const std::vector<V>& slices) {
    V skipped = b.where(may_skip, moved(b, now[0], 2), b.scalar(log_zero, p.x.dtype()));
    V next = slices[0] + log_sum(b, {now[0], moved(b, now[0], 1), skipped});
    return std::vector<V>{b.where(slices[1], next, now[0])};
  });
  return out[0];
}

Values ctc_loss(Builder& b, const Call& c) {
  Paths p = paths_of(b, c);
  V alpha = ended_at(b, p, c.integer("blank"));
  V last = p.target_lengths * 2, one = b.scalar(1, DType::I64);
  V input_fits = b.call1("aten::le.Tensor", {p.input_lengths, b.scalar(p.x.size(0), DType::I64)});
  last = b.where(b.call1("aten::logical_and", {input_fits, b.call1("aten::ge.Scalar", {p.input_lengths, 0})}), last,
                 b.scalar(p.symbols.size(1), DType::I64)); // an index that gather refuses
  V on_blank = b.squeeze(b.call1("aten::gather", {alpha, 1, b.unsqueeze(last, 1)}), 1);
  V before = b.call1("aten::clamp_min", {last - one, 0});
  V on_label = b.squeeze(b.call1("aten::gather", {alpha, 1, b.unsqueeze(before, 1)}), 1);
  on_label = b.where(b.call1("aten::gt.Scalar", {p.target_lengths, 0}), on_label, b.scalar(log_zero, p.x.dtype()));
  V loss = -log_sum(b, {on_blank, on_label});
  double unreachable = c.flag("zero_infinity") ? 0 : std::numeric_limits<double>::infinity();
  loss = b.where(b.call1("aten::gt.Scalar", {loss, -0.1 * log_zero}), b.scalar(unreachable, loss.dtype()), loss);
  int64_t reduction = c.integer("reduction");
  if (reduction == 1) loss = loss / b.to(b.call1("aten::clamp_min", {p.target_lengths, 1}), loss.dtype());
  if (reduction == 0 && c.rank("log_probs") == 2) loss = b.squeeze(loss, 0);
  return b.to(reduction == 0 ? loss : b.call1(reduction == 1 ? "aten::mean" : "aten::sum", {loss}), c.type("log_probs").dtype);
}

#define CTC_OPTIONS "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor"
#define CTC_VJP "result: ctc_of(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)"

const OpRow class_loss_ops[] = {
    with_vjp(composite("aten::ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, " CTC_OPTIONS,
                       ctc_loss, to_f32),
             CTC_VJP),
    with_vjp(composite("aten::ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, " CTC_OPTIONS,
                       ctc_loss, to_f32),
             CTC_VJP),
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

std::span<const OpRow> class_loss_rows() { return class_loss_ops; }

} // namespace tenon::ops
