// Derivatives of layers: softmax, normalisations, convolution, attention, products. In f32 for the reduced floats. A result that
// the output mask leaves out is None to the caller; here it is a number that nobody reads.
#include "ops/body.h"
#include "ops/matmul.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

V wide_input(Builder& b, const Call& c, std::string_view name) { return b.to(b.input(c, name), compute_type(c.type(name).dtype)); }

bool wanted(const Call& c, size_t result) {
  for (std::string_view name : {"output_mask", "mask"})
    if (c.def.signature.find(name) >= 0) return c[name].get<ArgList>().at(result) == Arg(true);
  return true;
}

// Results by position, those that are not wanted left uncomputed.
Values results(Builder& b, const Call& c, std::initializer_list<std::function<V()>> makers) {
  Values out;
  for (auto& make : makers) out.push_back(wanted(c, out.size()) ? make() : b.scalar(0, DType::F32));
  return out;
}

Dims range(size_t begin, size_t end) {
  Dims out;
  for (size_t d = begin; d < end; d++) out.push_back(static_cast<int64_t>(d));
  return out;
}

V sum_along(Builder& b, V x, int64_t dim) { return x.rank() == 0 ? x : b.sum(x, {dim}, true); }

DType input_dtype(const Call& c) { return c.dtype("input_dtype").value_or(c.type("grad_output").dtype); }

Values softmax_backward(Builder& b, const Call& c) {
  V y = wide_input(b, c, "output"), product = wide_input(b, c, "grad_output") * y;
  return b.to(product - y * sum_along(b, product, c.dim("dim", y.rank())), input_dtype(c));
}

Values log_softmax_backward(Builder& b, const Call& c) {
  V y = wide_input(b, c, "output"), grad = wide_input(b, c, "grad_output");
  return b.to(grad - b.call1("aten::exp", {y}) * sum_along(b, grad, c.dim("dim", y.rank())), input_dtype(c));
}

// Of (x - mean) * rstd, where mean and rstd depend on x: grad is that of the result.
V normalized_backward(Builder& b, V grad, V normal, V rstd, const Dims& dims) {
  return rstd * (grad - b.mean(grad, dims, true) - normal * b.mean(grad * normal, dims, true));
}

Values layer_norm_backward(Builder& b, const Call& c) {
  V grad = wide_input(b, c, "grad_out"), x = wide_input(b, c, "input");
  V mean = b.to(b.input(c, "mean"), x.dtype()), rstd = b.to(b.input(c, "rstd"), x.dtype());
  size_t outer = x.rank() - c.syms("normalized_shape").size();
  V normal = (x - mean) * rstd;
  DType result = c.type("input").dtype, parameter = c.has("weight") ? c.type("weight").dtype : result;
  auto over_batch = [&](V v) { return b.to(outer == 0 ? v : b.sum(v, range(0, outer), false), parameter); };
  auto of_input = [&] {
    V scaled = c.has("weight") ? grad * b.to(b.input(c, "weight"), x.dtype()) : grad;
    return b.to(normalized_backward(b, scaled, normal, rstd, range(outer, x.rank())), result);
  };
  return results(b, c, {of_input, [&] { return over_batch(grad * normal); }, [&] { return over_batch(grad); }});
}

Values rms_norm_backward(Builder& b, const Call& c) {
  V grad = wide_input(b, c, "grad_out"), x = wide_input(b, c, "input"), rstd = b.to(b.input(c, "rstd"), x.dtype());
  size_t outer = x.rank() - c.syms("normalized_shape").size();
  V normal = x * rstd;
  DType result = c.type("input").dtype;
  auto of_input = [&] {
    V scaled = c.has("weight") ? grad * b.to(b.input(c, "weight"), x.dtype()) : grad;
    return b.to(rstd * (scaled - normal * b.mean(scaled * normal, range(outer, x.rank()), true)), result);
  };
  auto of_weight = [&] {
    return b.to(outer == 0 ? grad * normal : b.sum(grad * normal, range(0, outer), false),
                c.has("weight") ? c.type("weight").dtype : result);
  };
  return results(b, c, {of_input, of_weight});
}

// [C] as [C, 1, 1 ...], to go with a tensor [N, C, ...].
V per_channel(Builder& b, V v, size_t rank) {
  std::vector<Expr> sizes(rank - 1, b.integer(1));
  sizes[0] = v.size(0);
  return b.reshape(v, sizes);
}

Dims all_but_channel(size_t rank) {
  Dims dims = range(0, rank);
  dims.erase(dims.begin() + 1);
  return dims;
}

/// What the gradients of a norm by channels are made of, in one pass: the gradient's sums, and those of its products with x - mean.
struct NormSums {
  V grad, centered;
  NormSums(Builder& b, V of, V x, V mean, const Dims& dims) : grad(b.sum(of, dims, true)), centered(b.sum(of * (x - mean), dims, true)) {}
};

/// And the input's, in another: of the normal form, scaled; `sums` are of the scaled gradient, over so many elements. Its factors are a
/// channel's.
V normalized_input(V scaled, V x, V mean, V rstd, V sum, V centered, Expr count) {
  Arg each(1.0 / cast(count, DType::F64));
  V by_x = rstd * rstd * rstd * centered * each;
  return scaled + by_x * (mean - x) - rstd * sum * each; // not x - mean, which would be kept for it in memory
}

Expr count_of(Builder& b, V x, const Dims& dims) {
  Expr n = b.integer(1);
  for (int64_t d : dims) n = n * x.size(d);
  return n;
}

// By groups: [N, groups, channels, elements].
Values group_norm_backward(Builder& b, const Call& c) {
  V grad = wide_input(b, c, "grad_out"), x = wide_input(b, c, "input");
  Expr groups = c.sym("group"), channels = floor_div(x.size(1), groups), one = b.integer(1);
  std::vector<Expr> sizes = x.sizes(), split{sizes[0], groups, channels, product(b.pool(), std::span(sizes).subspan(2))};
  auto statistic = [&](std::string_view name) { return b.reshape(b.to(b.input(c, name), x.dtype()), {sizes[0], groups, one, one}); };
  V mean = statistic("mean"), rstd = statistic("rstd"), of = b.reshape(grad, split), image = b.reshape(x, split);
  NormSums sums(b, of, image, mean, {3});
  DType result = c.type("input").dtype, parameter = c.has("weight") ? c.type("weight").dtype : result;
  auto over_batch = [&](V v) { return b.to(b.reshape(b.sum(v, {0}, false), {sizes[1]}), parameter); };
  auto of_input = [&] {
    auto scaled = [&](V v) {
      return c.has("weight") ? v * b.reshape(b.to(b.input(c, "weight"), x.dtype()), {one, groups, channels, one}) : v;
    };
    V sum = b.sum(scaled(sums.grad), {2}, true), centered = b.sum(scaled(sums.centered), {2}, true);
    V out = normalized_input(of * scaled(rstd), image, mean, rstd, sum, centered, count_of(b, image, {2, 3}));
    return b.to(b.reshape(out, sizes), result);
  };
  return results(b, c, {of_input, [&] { return over_batch(sums.centered * rstd); }, [&] { return over_batch(sums.grad); }});
}

Values batch_norm_backward(Builder& b, const Call& c) {
  V grad = wide_input(b, c, "grad_out"), x = wide_input(b, c, "input");
  bool train = c.flag("train");
  auto statistic = [&](std::string_view name) { return per_channel(b, b.to(b.input(c, name), x.dtype()), x.rank()); };
  V mean = statistic(train ? "save_mean" : "running_mean");
  V rstd = train ? statistic("save_invstd") : b.call1("aten::rsqrt", {statistic("running_var") + c["eps"]});
  Dims dims = all_but_channel(x.rank());
  NormSums sums(b, grad, x, mean, dims);
  DType result = c.type("input").dtype, parameter = c.has("weight") ? c.type("weight").dtype : result;
  auto over_batch = [&](V v) { return b.to(b.reshape(v, {x.size(1)}), parameter); };
  auto of_input = [&] {
    V weight = c.has("weight") ? statistic("weight") : V(), factor = weight ? rstd * weight : rstd;
    if (!train) return b.to(grad * factor, result);
    auto scaled = [&](V v) { return weight ? v * weight : v; };
    return b.to(normalized_input(grad * factor, x, mean, rstd, scaled(sums.grad), scaled(sums.centered), count_of(b, x, dims)), result);
  };
  return results(b, c, {of_input, [&] { return over_batch(sums.centered * rstd); }, [&] { return over_batch(sums.grad); }});
}

struct Geometry {
  size_t dims; // spatial
  std::vector<Expr> stride, padding, dilation;
  Expr groups;
};

// Of complex numbers, the weights' gradient is a convolution of what was convolved by the gradient: batch and channels change places,
// stride and dilation too, and each group remains one. x: [N, G*C, in...], grad: [N, G*O, out...]; gives [G*O, C, taps...].
V weight_gradient(Builder& b, V x, V grad, const std::vector<Expr>& taps, const Geometry& g) {
  if (!is_complex(x.dtype()))
    return b.call1("tenon::conv_weight_gradient.default", {x, grad, taps, g.stride, g.padding, g.dilation, g.groups});
  Expr n = x.size(0), channels = floor_div(x.size(1), g.groups);
  std::vector<Expr> split = x.sizes(), merged = x.sizes();
  split[1] = channels, split.insert(split.begin() + 1, g.groups);
  Dims order = range(0, split.size());
  order[0] = 2, order[2] = 0; // [C, G, N, in...]
  merged[0] = channels, merged[1] = g.groups * n;
  V input = b.reshape(b.permute(b.reshape(x, split), order), merged), kernel = b.transpose(grad, 0, 1);
  Dims none(g.dims, 0);
  V out = b.call1("aten::convolution.default",
                  {input, kernel, Arg(), g.dilation, g.padding, g.stride, false, none, g.groups}); // [C, G*O, taps or more...]
  for (size_t d = 0; d < g.dims; d++) out = b.slice(out, static_cast<int64_t>(d + 2), b.integer(0), taps[d]);
  return b.transpose(out, 0, 1);
}

Values convolution_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad_output"), x = b.input(c, "input"), weight = b.input(c, "weight");
  size_t dims = weight.rank() - 2;
  auto list = [&](std::string_view name) {
    std::vector<Expr> l = c.syms(name);
    if (l.size() == 1) l.assign(dims, l[0]);
    return l;
  };
  Geometry g{dims, list("stride"), list("padding"), list("dilation"), c.sym("groups")};
  bool transposed = c.flag("transposed");
  std::vector<Expr> taps(weight.sizes().begin() + 2, weight.sizes().end());
  auto of_input = [&] {
    std::vector<Expr> output_padding(dims, b.integer(0));
    for (size_t d = 0; d < dims && !transposed; d++) {
      auto at = static_cast<int64_t>(d + 2);
      output_padding[d] = x.size(at) - ((grad.size(at) - 1.0) * g.stride[d] - g.padding[d] * 2.0 + g.dilation[d] * (taps[d] - 1.0) + 1.0);
    }
    return b.call1("aten::convolution.default",
                   {grad, weight, Arg(), g.stride, g.padding, g.dilation, !transposed, output_padding, g.groups});
  };
  auto of_weight = [&] { return transposed ? weight_gradient(b, grad, x, taps, g) : weight_gradient(b, x, grad, taps, g); };
  auto of_bias = [&] { return b.sum(grad, all_but_channel(grad.rank()), false); };
  return results(b, c, {of_input, of_weight, of_bias});
}

// Of the queries' rows [first, first + rows) by the keys [0, keys): the gradients of these queries, keys and values. Scores are computed
// anew, from the logarithms of their sums.
struct AttentionBlock {
  V q, k, v, grad, out, sums; // of f32 or f64; sums [.., rows]
  Arg scale;
  bool causal;
  Expr first, rows, keys;
  V mask = {};

  std::array<V, 3> gradients(Builder& b) const {
    auto cut = [&](V x) { return b.slice(x, -2, first, rows); };
    V queries = cut(q), of = cut(grad), ks = b.slice(k, -2, b.integer(0), keys), vs = b.slice(v, -2, b.integer(0), keys);
    V scores = b.matmul(queries, b.transpose(ks, -1, -2)) * scale, low = b.scalar(-INFINITY, scores.dtype());
    if (causal) {
      V row = b.unsqueeze(b.arange(rows, DType::I64) + Arg(first), 1), column = b.arange(keys, DType::I64);
      scores = b.where(b.call1("aten::ge.Tensor", {row, column}), scores, low);
    }
    if (mask) scores = mask.dtype() == DType::Bool ? b.where(mask, scores, low) : scores + b.to(mask, scores.dtype());
    V weights = b.call1("aten::exp", {scores - b.unsqueeze(b.slice(sums, -1, first, rows), -1)});
    V rest = b.sum(of * cut(out), {-1}, true);
    V of_scores = weights * (b.matmul(of, b.transpose(vs, -1, -2)) - rest) * scale;
    return {b.matmul(of_scores, ks), b.matmul(b.transpose(of_scores, -1, -2), queries), b.matmul(b.transpose(weights, -1, -2), of)};
  }
};

// Causal rows see the keys before them alone: by blocks of rows, the others are left out.
Values causal_gradients(Builder& b, AttentionBlock block, int64_t rows, int64_t keys) {
  constexpr int64_t blocks = 4;
  std::vector<V> of_q;
  V of_k, of_v;
  for (int64_t i = 0; i < blocks; i++) {
    int64_t begin = rows * i / blocks, end = rows * (i + 1) / blocks, seen = std::min(end, keys);
    block.first = b.integer(begin), block.rows = b.integer(end - begin), block.keys = b.integer(seen);
    auto [q, k, v] = block.gradients(b);
    auto whole = [&](V x) { return b.call1("aten::constant_pad_nd.default", {x, Dims{0, 0, 0, keys - seen}, 0}); };
    of_q.push_back(q);
    of_k = of_k ? of_k + whole(k) : whole(k), of_v = of_v ? of_v + whole(v) : whole(v);
  }
  return {b.call1("aten::cat", {of_q, -2}), of_k, of_v};
}

Values attention_backward(Builder& b, const Call& c) {
  if (c.number("dropout_p") != 0) unsupported("{}: dropout", c.def.signature.name);
  constexpr int64_t many = 256;
  V q = wide_input(b, c, "query");
  AttentionBlock all{q,
                     wide_input(b, c, "key"),
                     wide_input(b, c, "value"),
                     wide_input(b, c, "grad_out"),
                     wide_input(b, c, "out"),
                     b.to(b.input(c, "logsumexp"), q.dtype()),
                     c.has("scale") ? c["scale"] : Arg(1.0 / sqrt(cast(q.size(-1), DType::F64))),
                     c.flag("is_causal"),
                     b.integer(0),
                     q.size(-2),
                     {}};
  all.keys = all.k.size(-2);
  if (c.has("attn_mask")) all.mask = b.input(c, "attn_mask");
  auto rows = const_int(all.rows), keys = const_int(all.keys);
  Values out;
  bool fits = all.grad.size(-2) == all.rows && all.out.size(-2) == all.rows && all.sums.size(-1) == all.rows && all.v.size(-2) == all.keys;
  if (all.causal && !all.mask && fits && rows && keys && *rows >= many && *keys > 0) out = causal_gradients(b, all, *rows, *keys);
  else
    for (V v : all.gradients(b)) out.push_back(v);
  return {b.to(out[0], c.type("query").dtype), b.to(out[1], c.type("key").dtype), b.to(out[2], c.type("value").dtype)};
}

const OpRow backward_layer_ops[] = {
    {.schema = "aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
     .decompose = softmax_backward},
    {.schema = "aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
     .decompose = log_softmax_backward},
    {.schema = "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, "
               "Tensor? weight, "
               "Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .decompose = layer_norm_backward},
    {.schema = "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] "
               "output_mask) -> "
               "(Tensor, Tensor)",
     .decompose = rms_norm_backward},
    {.schema = "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt "
               "C, SymInt HxW, "
               "int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .decompose = group_norm_backward},
    {.schema = "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, "
               "Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .decompose = batch_norm_backward},
    {.schema =
         "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] "
         "padding, "
         "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .decompose = convolution_backward},
    {.schema =
         "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
         "Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> "
         "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
     .decompose = attention_backward},
};

} // namespace

std::span<const OpRow> backward_layer_rows() { return backward_layer_ops; }

} // namespace tenon::ops
