// Normalisations: layer, root mean square, group, batch, instance. Statistics by two passes, in f32 for the reduced floats,
// with one rounding at the end.
#include <algorithm>

#include "ops/body.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

Dims range(size_t begin, size_t end) {
  Dims out;
  for (size_t d = begin; d < end; d++) out.push_back(static_cast<int64_t>(d));
  return out;
}

V root_of_inverse(Builder& b, V x) { return b.call1("aten::rsqrt.default", {x}); }

struct Normalized {
  V out, mean, rstd; // in the dtype they are computed in; the statistics keep the reduced dims
};

Normalized normalize(Builder& b, V x, const Dims& dims, double eps) {
  V mean = b.mean(x, dims, true), rest = x - mean;
  V rstd = root_of_inverse(b, b.mean(rest * rest, dims, true) + Arg(eps));
  return {rest * rstd, mean, rstd};
}

// x * weight + bias in x's dtype, where they are given.
V scale_and_shift(Builder& b, const Call& c, V x, const std::function<V(V)>& fit) {
  if (c.has("weight")) x = x * fit(b.to(b.input(c, "weight"), x.dtype()));
  if (c.has("bias")) x = x + fit(b.to(b.input(c, "bias"), x.dtype()));
  return x;
}

// Statistics come in the input's dtype, but in f32 where the parameters of a reduced input are f32.
DType statistics_type(const Call& c) {
  DType t = c.type("input").dtype;
  for (std::string_view p : {"weight", "bias"})
    if (c.has(p)) return promote(t, c.type(p).dtype);
  return t;
}

// How many of the last dims are normalized, which are to have the given sizes.
size_t normalized_dims(const Call& c, V x) {
  std::vector<Expr> shape = c.syms("normalized_shape"), have = x.sizes();
  bool fits = shape.size() <= have.size();
  for (size_t k = 0; fits && k < shape.size(); k++) {
    Expr size = have[have.size() - shape.size() + k];
    fits = size == shape[k] || !const_int(size) || !const_int(shape[k]);
  }
  if (fits) return shape.size();
  std::string sizes = sizes_text(shape);
  c.fail(fmt::format("Given normalized_shape={}, expected input with shape [*, {}, but got input of size{}", sizes, sizes.substr(1),
                     sizes_text(have)));
}

template <bool Statistics> Values layer_norm(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  DType result = x.dtype();
  size_t inner = normalized_dims(c, x);
  Normalized n = normalize(b, b.to(x, compute_type(result)), range(x.rank() - inner, x.rank()), c.number("eps"));
  V out = b.to(scale_and_shift(b, c, n.out, [](V v) { return v; }), result);
  if constexpr (!Statistics) return out;
  return {out, b.to(n.mean, statistics_type(c)), b.to(n.rstd, statistics_type(c))};
}

template <bool Statistics> Values rms_norm(Builder& b, const Call& c) {
  V input = b.input(c, "input");
  DType result = input.dtype(), wide = compute_type(result);
  double eps = c.has("eps") ? c.number("eps") : wide == DType::F64 ? 0x1p-52 : 0x1p-23;
  V x = b.to(input, wide);
  size_t inner = normalized_dims(c, x);
  V rstd = root_of_inverse(b, b.mean(x * x, range(x.rank() - inner, x.rank()), true) + Arg(eps));
  V out = x * rstd;
  if (c.has("weight")) out = out * b.to(b.input(c, "weight"), wide);
  out = b.to(out, result);
  if constexpr (!Statistics) return out;
  return {out, rstd};
}

// [C] as [C, 1, 1 ...], to go with a tensor [N, C, ...].
V per_channel(Builder& b, V v, size_t rank) {
  std::vector<Expr> sizes(rank - 1, b.integer(1));
  sizes[0] = v.size(0);
  return b.reshape(v, sizes);
}

// Whether the value is made of what a convolution gave by operators that keep its layout: as a rule it lies channels-last (choose_layout
// decides).
bool is_of_convolution(const Graph& g, V v) {
  constexpr size_t most_seen = 64;
  std::vector<ValueId> seen{v.id};
  for (size_t i = 0; i < seen.size() && i < most_seen; i++) {
    if (!g.value(seen[i]).node.valid()) continue;
    const Node& n = g.node(g.value(seen[i]).node);
    if (!n.def) continue;
    if (n.def->kind == Kind::Conv) return true;
    if (n.def->kind != Kind::Pointwise && !n.def->layout_follows) continue;
    for (ValueId operand : tensor_operands(n.args, g))
      if (g.type(operand).rank() == v.rank() && std::ranges::find(seen, operand) == seen.end()) seen.push_back(operand);
  }
  return false;
}

// Of x [N, C, rest...] whose channels lie side by side: sums of each channel first, then of a group's, so that nothing takes the channels
// apart; and the statistics computed for each channel, so that what follows reads them side by side, too.
Normalized normalize_by_channel(Builder& b, V x, Expr groups, double eps) {
  Expr members = floor_div(x.size(1), groups);
  std::vector<Expr> grouped{x.size(0), groups, members}, channels(x.rank(), b.integer(1));
  channels[0] = x.size(0), channels[1] = x.size(1);
  auto mean_of = [&](V v) {
    V total = b.sum(b.reshape(b.mean(v, range(2, x.rank()), true), grouped), {2}, true);
    return b.reshape(b.expand(total, grouped), channels) / Arg(members);
  };
  V mean = mean_of(x), rest = x - mean;
  V rstd = root_of_inverse(b, mean_of(rest * rest) + Arg(eps));
  auto of_group = [&](V v) { return b.select(b.reshape(v, grouped), 2, b.integer(0)); };
  return {rest * rstd, of_group(mean), of_group(rstd)};
}

// The input as [N, groups, C / groups, rest...]; the statistics are over all but the first two. Groups of one channel need no view.
template <bool Statistics> Values group_norm(Builder& b, const Call& c) {
  V input = b.input(c, "input");
  DType result = input.dtype();
  if (input.rank() < 2) c.fail("needs a tensor of rank 2 or more");
  Expr groups = c.sym(Statistics ? "group" : "num_groups");
  V x = b.to(input, compute_type(result));
  Normalized n;
  if (input.rank() > 2 && groups == input.size(1)) {
    n = normalize(b, x, range(2, x.rank()), c.number("eps"));
  } else if (input.rank() > 2 && is_of_convolution(b.graph(), input)) {
    n = normalize_by_channel(b, x, groups, c.number("eps"));
  } else {
    std::vector<Expr> split = input.sizes();
    split[1] = floor_div(split[1], groups);
    split.insert(split.begin() + 1, groups);
    n = normalize(b, b.reshape(x, split), range(2, split.size()), c.number("eps"));
  }
  V out = b.reshape(n.out, input.sizes());
  out = b.to(scale_and_shift(b, c, out, [&](V v) { return per_channel(b, v, out.rank()); }), result);
  if constexpr (!Statistics) return out;
  auto statistic = [&](V v) { return b.to(b.reshape(v, {input.size(0), groups}), statistics_type(c)); };
  return {out, statistic(n.mean), statistic(n.rstd)};
}

// Batch norm is one multiply-add per element: alpha = weight / sqrt(var + eps), beta = bias - mean * alpha, as torch's kernel
// has it; with constant statistics both fold into constants.
V affine(Builder& b, const Call& c, V x, V mean, V rstd, DType result) {
  DType wide = rstd.dtype();
  V alpha = c.has("weight") ? rstd * b.to(b.input(c, "weight"), wide) : rstd;
  V beta = c.has("bias") ? b.to(b.input(c, "bias"), wide) - mean * alpha : -(mean * alpha);
  V out = x * per_channel(b, alpha, x.rank()) + per_channel(b, beta, x.rank());
  return b.to(out, result);
}

struct BatchNorm {
  V out, mean, rstd;           // of the batch; empty tensors when not training
  V running_mean, running_var; // after the step
};

Dims all_but_channel(size_t rank) {
  Dims dims = range(0, rank);
  dims.erase(dims.begin() + 1);
  return dims;
}

BatchNorm train_step(Builder& b, const Call& c, V input, double eps, double momentum) {
  V x = b.to(input, compute_type(input.dtype()));
  Dims dims = all_but_channel(x.rank());
  V mean = b.mean(x, dims, true), rest = x - mean;
  V square = b.sum(rest * rest, dims, false);
  Expr n = b.integer(1);
  for (int64_t d : dims) n = n * x.size(d);
  mean = b.reshape(mean, {x.size(1)});
  V rstd = root_of_inverse(b, square / Arg(n) + Arg(eps));
  // From the rest, which is exact where x is near the mean: x * alpha + beta loses digits to beta.
  V out_of_rest = scale_and_shift(b, c, rest * per_channel(b, rstd, x.rank()), [&](V v) { return per_channel(b, v, x.rank()); });
  BatchNorm out{b.to(out_of_rest, input.dtype()), mean, rstd, {}, {}};
  auto step = [&](std::string_view name, V now) {
    V old = b.input(c, name);
    return b.to(b.to(old, now.dtype()) * Arg(1 - momentum) + now * Arg(momentum), old.dtype());
  };
  if (c.def.signature.find("running_mean") >= 0 && c.has("running_mean")) {
    out.running_mean = step("running_mean", mean);
    out.running_var = step("running_var", square / Arg(n - 1.0));
  }
  return out;
}

BatchNorm batch_norm_step(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  auto has = [&](std::string_view name) { return c.def.signature.find(name) >= 0; };
  if (x.rank() == 1 && is_const_int(x.size(0), 0)) { // torch takes it, as it has no elements
    V none = b.full({b.integer(0)}, 0, statistics_type(c));
    auto given = [&](std::string_view name) { return has(name) && c.has(name) ? b.input(c, name) : none; };
    return {x, none, none, given("running_mean"), given("running_var")};
  }
  if (x.rank() < 2) c.fail("needs a tensor of rank 2 or more");
  double eps = c.number(has("epsilon") ? "epsilon" : "eps");
  double momentum = c.number(has("exponential_average_factor") ? "exponential_average_factor" : "momentum");
  bool training = has("training") ? c.flag("training") : c.def.signature.name.starts_with("aten::_batch_norm_with_update");
  if (training || !has("running_mean") || !c.has("running_mean")) return train_step(b, c, x, eps, momentum);
  V mean = b.input(c, "running_mean"), var = b.input(c, "running_var");
  DType wide = promote(compute_type(x.dtype()), compute_type(mean.dtype()));
  V rstd = root_of_inverse(b, b.to(var, wide) + Arg(eps));
  V none = b.full({b.integer(0)}, 0, statistics_type(c));
  return {affine(b, c, b.to(x, wide), b.to(mean, wide), rstd, x.dtype()), none, none, mean, var};
}

Values batch_norm(Builder& b, const Call& c) { return batch_norm_step(b, c).out; }

Values batch_norm_statistics(Builder& b, const Call& c) {
  BatchNorm n = batch_norm_step(b, c);
  return {n.out, b.to(n.mean, statistics_type(c)), b.to(n.rstd, statistics_type(c))};
}

Values batch_norm_functional(Builder& b, const Call& c) {
  BatchNorm n = batch_norm_step(b, c);
  return {n.out, b.to(n.mean, statistics_type(c)), b.to(n.rstd, statistics_type(c)), n.running_mean, n.running_var};
}

// These have a reserve, which is empty on CPU.
Values batch_norm_reserve(Builder& b, const Call& c) {
  Values out = batch_norm_statistics(b, c);
  out.push_back(b.full({b.integer(0)}, 0, DType::U8));
  return out;
}

Values batch_norm_update_functional(Builder& b, const Call& c) {
  BatchNorm n = batch_norm_step(b, c);
  V reserve = b.full({b.integer(0)}, 0, DType::U8);
  return {n.out, b.to(n.mean, statistics_type(c)), b.to(n.rstd, statistics_type(c)), reserve, n.running_mean, n.running_var};
}

Values instance_norm(Builder& b, const Call& c) {
  V input = b.input(c, "input");
  if (!c.flag("use_input_stats")) {
    if (!c.has("running_mean")) c.fail("needs running statistics where the input's are not used");
    return b.call("aten::batch_norm.default",
                  {input, c["weight"], c["bias"], c["running_mean"], c["running_var"], false, c["momentum"], c["eps"], false});
  }
  if (input.rank() < 3) c.fail("needs a tensor of rank 3 or more");
  Normalized n = normalize(b, b.to(input, compute_type(input.dtype())), range(2, input.rank()), c.number("eps"));
  return b.to(scale_and_shift(b, c, n.out, [&](V v) { return per_channel(b, v, input.rank()); }), input.dtype());
}

const OpRow norm_ops[] = {
    {.schema = "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
               "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
     .decompose = layer_norm<false>,
     .vjp = "result: torch.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]"},
    {.schema = "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, "
               "Tensor, Tensor)",
     .decompose = layer_norm<true>,
     .vjp = "input, weight, bias: torch.native_layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, bias, needs)"},
    {.schema = "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     .decompose = rms_norm<false>,
     .vjp = "result: rms_normalized(input, normalized_shape, weight, eps)"},
    {.schema = "aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
     .decompose = rms_norm<true>},
    {.schema = "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, "
               "bool cudnn_enabled=True) -> Tensor",
     .decompose = group_norm<false>,
     .vjp = "result: torch.native_group_norm(input, weight, bias, input.size(0), input.size(1), elements(input.size()[2:]), num_groups, "
            "eps)[0]"},
    {.schema =
         "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> "
         "(Tensor, Tensor, Tensor)",
     .decompose = group_norm<true>,
     .vjp = "input, weight, bias: torch.native_group_norm_backward(grad, input, result1, result2, weight, N, C, HxW, group, needs)"},
    {.schema = "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
               "float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .decompose = batch_norm,
     .vjp = "input, weight, bias: batch_norm_operands(grad, input, weight, running_mean, running_var, training, eps, needs)"},
    {.schema =
         "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
         "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .decompose = batch_norm_statistics,
     .vjp = "input, weight, bias: torch.native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2, "
            "training, eps, needs)"},
    {.schema =
         "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, "
         "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .decompose = batch_norm_statistics,
     .vjp = "input, weight, bias: torch.native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2, "
            "training, eps, needs)"},
    {.schema =
         "aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> "
         "(Tensor, Tensor, Tensor)",
     .decompose = batch_norm_statistics,
     .vjp =
         "input, weight, bias: torch.native_batch_norm_backward(grad, input, weight, None, None, result1, result2, training, eps, needs)"},
    {.schema =
         "aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
         "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .decompose = batch_norm_statistics,
     .vjp = "input, weight, bias: torch.native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2, "
            "False, eps, needs)"},
    {.schema =
         "aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
         "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
     .decompose = batch_norm_functional},
    {.schema = "aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
               "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     .decompose = batch_norm_reserve},
    {.schema = "aten::_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, "
               "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     .decompose = batch_norm_reserve},
    {.schema =
         "aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
         "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
     .decompose = batch_norm_update_functional},
    {.schema =
         "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, "
         "float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .decompose = instance_norm,
     .vjp = "input, weight, bias: instance_norm_operands(grad, input, weight, running_mean, running_var, use_input_stats, eps, needs)"},
};

} // namespace

std::span<const OpRow> norm_rows() { return norm_ops; }

} // namespace tenon::ops
