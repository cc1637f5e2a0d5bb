// Operators that come to core ATen as larger operators of it: products, norms, pooling, softmax, indexing.
#include "ops/core.h"

#include "ops/pointwise.h"

namespace tenon::ops {

namespace {

constexpr std::string_view names[] = {
#include "ops/core.inc"
};

Expr product_of(Builder& b, const std::vector<Expr>& sizes, size_t begin, size_t end) {
  Expr n = b.integer(1);
  for (size_t d = begin; d < end; d++) n = n * sizes[d];
  return n;
}

// Rows of a matrix: addmm on x as one.
Values linear(Builder& b, const Call& c) {
  V x = b.input(c, "input"), w = b.input(c, "weight");
  if (w.rank() != 2 || x.rank() == 0) return {};
  std::vector<Expr> sizes = x.sizes();
  V rows = x.rank() == 2 ? x : b.reshape(x, {product_of(b, sizes, 0, x.rank() - 1), sizes.back()});
  V wt = b.permute(w, {1, 0});
  V out = c.has("bias") && c.rank("bias") == 1 ? b.call1("aten::addmm.default", {c["bias"], rows, wt})
                                               : b.call1("aten::mm.default", {rows, wt});
  sizes.back() = w.size(0);
  out = b.reshape(out, sizes);
  return c.has("bias") && c.rank("bias") != 1 ? out + b.input(c, "bias") : out;
}

Values layer_norm(Builder& b, const Call& c) {
  return b.call("aten::native_layer_norm.default", {c["input"], c["normalized_shape"], c["weight"], c["bias"], c["eps"]})[0];
}

Values group_norm(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  if (x.rank() < 2) return {};
  return b.call("aten::native_group_norm.default",
                {x, c["weight"], c["bias"], x.size(0), x.size(1), product_of(b, x.sizes(), 2, x.rank()), c["num_groups"], c["eps"]})[0];
}

// In training the statistics change: what functionalizing makes of that is no operator of core.
Values batch_norm(Builder& b, const Call& c) {
  if (!c.flag("training"))
    return b.call("aten::_native_batch_norm_legit_no_training.default",
                  {c["input"], c["weight"], c["bias"], c["running_mean"], c["running_var"], c["momentum"], c["eps"]})[0];
  if (c.has("running_mean") || c.has("running_var")) return {};
  return b.call("aten::_native_batch_norm_legit.no_stats", {c["input"], c["weight"], c["bias"], true, c["momentum"], c["eps"]})[0];
}

template <Name N> Values softmax(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.call(N.text, {b.to(x, c.dtype("dtype").value_or(x.dtype())), c["dim"], false});
}

template <Name N> Values with_indices(Builder& b, const Call& c) {
  return b.call(N.text, {c["self"], c["kernel_size"], c["stride"], c["padding"], c["dilation"], c["ceil_mode"]})[0];
}

// A line is an image of one row.
template <bool Indices> Values max_pool1d(Builder& b, const Call& c) {
  auto row = [&](std::string_view name, int64_t other) {
    std::vector<int64_t> v = c.integers(name);
    return v.empty() ? ArgList{} : ArgList{other, v.back()};
  };
  Values image = b.call("aten::max_pool2d_with_indices.default", {b.unsqueeze(b.input(c, "self"), -2), row("kernel_size", 1),
                                                                  row("stride", 1), row("padding", 0), row("dilation", 1), c["ceil_mode"]});
  Values out{b.squeeze(image[0], -2)};
  if (Indices) out.push_back(b.squeeze(image[1], -2));
  return out;
}

template <Name N, int64_t Dims> Values adaptive_avg_pool(Builder& b, const Call& c) {
  std::vector<Expr> size = c.syms("output_size");
  if (!std::all_of(size.begin(), size.end(), [](Expr e) { return is_const_int(e, 1); }))
    return b.call(N.text, {c["self"], c["output_size"]});
  std::vector<int64_t> dims;
  for (int64_t d = Dims; d > 0; d--) dims.push_back(-d);
  return b.mean(b.input(c, "self"), dims, true);
}

// By sizes alone; core has that overload without scales of its own.
template <Name N> Values upsampled(Builder& b, const Call& c) {
  if (c.has("scales_h") || c.has("scales_w")) return {};
  if (c.def.signature.find("align_corners") < 0) return b.call(N.text, {c["self"], c["output_size"], {}});
  return b.call(N.text, {c["self"], c["output_size"], c["align_corners"], {}});
}

Values narrow(Builder& b, const Call& c) {
  if (c["start"].is<ValueId>()) return {};
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  if (auto start = const_int(c.sym("start")); !start || *start < 0) return {};
  return b.slice(x, dim, c.sym("start"), c.sym("length"));
}

Values all_true(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.dtype() == DType::U8) return {};
  V none = b.call1("aten::logical_not.default", {x});
  std::string_view name = c.def.signature.name;
  V some = name == "aten::all.default" ? b.call1("aten::any.default", {none})
           : name == "aten::all.dim"   ? b.call1("aten::any.dim", {none, c["dim"], c["keepdim"]})
                                       : b.call1("aten::any.dims", {none, c["dim"], c["keepdim"]});
  return b.call1("aten::logical_not.default", {some});
}

// Writes source at the positions along dim: index_put with nothing before it.
template <Name Source, bool Add> Values put_along(Builder& b, const Call& c) {
  V x = b.input(c, "self"), index = b.input(c, "index");
  if (x.rank() == 0 || index.rank() != 1) return {};
  int64_t dim = c.dim("dim", x.rank());
  ArgList places(static_cast<size_t>(dim));
  places.push_back(index);
  V source = c[Source.text].is<ValueId>() ? b.input(c, Source.text) : b.scalar(c[Source.text], x.dtype());
  if (source.rank() > 0 && source.rank() != x.rank()) return {};
  if (Add && c.def.signature.find("alpha") >= 0 && !(c.scalar("alpha")->is_const() && c.scalar("alpha")->number() == 1))
    source = source * c["alpha"];
  return b.call("aten::index_put.default", {x, places, source, Add});
}

template <bool Lower> Values triangle(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() < 2) return {};
  V rows = b.unsqueeze(b.arange(x.size(-2), DType::I64), -1), columns = b.arange(x.size(-1), DType::I64);
  V inside = b.call1(Lower ? "aten::le.Tensor" : "aten::ge.Tensor", {columns - rows, b.scalar(c["diagonal"], DType::I64)});
  return b.where(inside, x, b.scalar(0, x.dtype()));
}

// In core stable sorts are those of another overload, which core has not.
Values sort(Builder& b, const Call& c) {
  if (c.has("stable") && c.flag("stable")) return {};
  return b.call("aten::sort.default", {c["self"], c["dim"], c["descending"]});
}

// Pieces of one size, the last being what is left.
Values split(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  auto whole = const_int(x.size(dim)), size = const_int(c.sym("split_size"));
  if (!whole || !size || *size <= 0 || *whole == 0) return {};
  ArgList sizes;
  for (int64_t at = 0; at < *whole; at += *size) sizes.push_back(std::min(*size, *whole - at));
  return b.call("aten::split_with_sizes.default", {x, sizes, dim});
}

// The greatest element of something.
Values amax(Builder& b, const Call& c) { return b.call("aten::amax.default", {c["self"], c["dim"], c["keepdim"]}); }

// By two slices along each dim.
Values roll(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<int64_t> dims = c.integers("dims");
  std::vector<Expr> shifts = c.syms("shifts");
  if (dims.size() != shifts.size() || dims.empty() || x.rank() == 0) return {};
  for (size_t i = 0; i < dims.size(); i++) {
    auto size = const_int(x.size(dims[i])), shift = const_int(shifts[i]);
    if (!shift) return {};
    if (!size && *shift == 0) continue;
    if (!size) return {};
    int64_t at = *size == 0 ? 0 : ((-*shift % *size) + *size) % *size;
    if (at == 0) continue;
    V before = b.slice(x, dims[i], b.integer(0), b.integer(at)), after = b.slice(x, dims[i], b.integer(at), b.integer(*size - at));
    x = b.call1("aten::cat.default", {ArgList{after, before}, dims[i]});
  }
  return x;
}

const CoreRule core_rule_table[] = {
    {"aten::scaled_dot_product_attention.default", attention_in_core},
    {"tenon::amax_or_lowest.default", amax},
    {"aten::_embedding_bag_forward_only.default", same<"aten::_embedding_bag.default">},
    {"aten::sort.stable", sort},
    {"aten::split.Tensor", split},
    {"aten::roll.default", roll},
    {"aten::linear.default", linear},
    {"aten::layer_norm.default", layer_norm},
    {"aten::group_norm.default", group_norm},
    {"aten::batch_norm.default", batch_norm},
    {"aten::softmax.int", softmax<"aten::_softmax.default">},
    {"aten::special_softmax.default", softmax<"aten::_softmax.default">},
    {"aten::log_softmax.int", softmax<"aten::_log_softmax.default">},
    {"aten::special_log_softmax.default", softmax<"aten::_log_softmax.default">},
    {"aten::max_pool1d.default", max_pool1d<false>},
    {"aten::max_pool1d_with_indices.default", max_pool1d<true>},
    {"aten::max_pool2d.default", with_indices<"aten::max_pool2d_with_indices.default">},
    {"aten::max_pool3d.default", with_indices<"aten::max_pool3d_with_indices.default">},
    {"aten::adaptive_avg_pool2d.default", adaptive_avg_pool<"aten::_adaptive_avg_pool2d.default", 2>},
    {"aten::adaptive_avg_pool3d.default", adaptive_avg_pool<"aten::_adaptive_avg_pool3d.default", 3>},
    {"aten::upsample_bilinear2d.default", upsampled<"aten::upsample_bilinear2d.vec">},
    {"aten::upsample_nearest2d.default", upsampled<"aten::upsample_nearest2d.vec">},
    {"aten::narrow.default", narrow},
    {"aten::all.default", all_true},
    {"aten::all.dim", all_true},
    {"aten::all.dims", all_true},
    {"aten::index_add.default", put_along<"source", true>},
    {"aten::index_copy.default", put_along<"source", false>},
    {"aten::index_fill.int_Scalar", put_along<"value", false>},
    {"aten::tril.default", triangle<true>},
    {"aten::triu.default", triangle<false>},
};

} // namespace

std::span<const std::string_view> core_names() { return names; }
std::span<const CoreRule> core_rules() { return core_rule_table; }

} // namespace tenon::ops
