// Operators of our own that reduce windows: the largest element, its place in the window (row-major), the sum. Windows are
// uniform, adaptive, or placed by random samples; pool.cpp writes ATen's pooling with them.
#include "ops/window.h"

#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

Dims list(const Call& c, std::string_view name, size_t dims, const Dims& if_empty) {
  if (c.def.signature.find(name) < 0) return if_empty;
  Dims out = c.integers(name);
  if (out.empty()) return if_empty;
  if (out.size() == 1) out.assign(dims, out[0]);
  if (out.size() != dims) c.fail(fmt::format("{} needs {} numbers", name, dims));
  return out;
}

} // namespace

std::vector<Window> windows_of(const Call& c, size_t dims) {
  Dims kernel = list(c, "kernel_size", dims, {}), stride = list(c, "stride", dims, kernel);
  Dims padding = list(c, "padding", dims, Dims(dims, 0)), dilation = list(c, "dilation", dims, Dims(dims, 1));
  if (kernel.size() != dims) c.fail("kernel_size is empty");
  std::vector<Window> out;
  for (size_t d = 0; d < dims; d++) {
    if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1 || padding[d] < 0) c.fail("sizes of windows must be positive");
    if (padding[d] * 2 > (kernel[d] - 1) * dilation[d] + 1) c.fail("the padding is more than half the window");
    out.push_back({kernel[d], stride[d], padding[d], dilation[d]});
  }
  return out;
}

Expr pooled_size(const Window& w, Expr in, bool ceil) {
  double reach = static_cast<double>(w.dilation * (w.kernel - 1)), padding = static_cast<double>(w.padding);
  Expr stride = in->pool->integer(w.stride), span = in + 2 * padding - reach - 1.0;
  if (!ceil || w.stride == 1) return floor_div(span, stride) + 1.0;
  Expr out = floor_div(span + static_cast<double>(w.stride - 1), stride) + 1.0;
  return select(lt((out - 1.0) * stride, in + padding), out, out - 1.0);
}

bool overhangs(const Window& w, Expr in, bool ceil) {
  if (w.padding > 0) return true;
  double reach = static_cast<double>(w.dilation * (w.kernel - 1));
  return ceil && !proves_lt((pooled_size(w, in, ceil) - 1.0) * static_cast<double>(w.stride) + reach, in);
}

Expr adaptive_extent(Expr in, Expr out) {
  if (in == out) return in->pool->integer(1);
  auto a = const_int(in), o = const_int(out);
  if (!a || !o) return floor_div(in + out - 1.0, out) + 1.0;
  int64_t longest = 0;
  for (int64_t i = 0; i < *o; i++) longest = std::max(longest, ((i + 1) * *a + *o - 1) / *o - i * *a / *o);
  return in->pool->integer(longest);
}

namespace {

DType own_type(const Call& c) { return c.type("self").dtype; }
DType wide_type(const Call& c) { return compute_type(c.type("self").dtype); }
DType place_type(const Call&) { return DType::I64; }

template <auto Sizes, DType (*T)(const Call&)> std::vector<Type> window_types(const Call& c) { return {Type::tensor(T(c), Sizes(c))}; }

Expr neutral(Expr x, Reduction r) {
  if (r == Reduction::Sum) return like(0, x);
  if (is_float(x->type)) return like(-INFINITY, x);
  bool unsigned_type = x->type == DType::U8 || x->type == DType::Bool;
  return x->pool->integer(unsigned_type ? 0 : INT64_MIN >> (64 - 8 * static_cast<int>(size_of(x->type))), x->type);
}

Compute reduce_windows(const DefineArgs& d, std::vector<Expr> index, std::vector<Expr> taps, Expr inside, Reduction r) {
  Expr x = d.load_wide("self", std::move(index));
  return {.axes = d.axes, .reduce_axes = std::move(taps), .reduction = r, .body = select(inside, x, neutral(x, r))};
}

size_t leading_dims(const Call& c, size_t windowed) {
  if (c.rank("self") < windowed) c.fail("the input has too few dims");
  return c.rank("self") - windowed;
}

// Uniform windows.
std::vector<Expr> uniform_sizes(const Call& c) {
  size_t dims = c.integers("kernel_size").size(), lead = leading_dims(c, dims);
  std::vector<Expr> sizes = c.type("self").sizes;
  auto w = windows_of(c, dims);
  for (size_t d = 0; d < dims; d++) sizes[lead + d] = pooled_size(w[d], sizes[lead + d], c.flag("ceil_mode"));
  return sizes;
}

template <Reduction R> Compute uniform(const DefineArgs& d) {
  size_t dims = d.call.integers("kernel_size").size(), lead = leading_dims(d.call, dims);
  auto w = windows_of(d.call, dims);
  std::vector<Expr> index = d.axes, taps;
  Expr inside = d.pool.boolean(true);
  for (size_t k = 0; k < dims; k++) {
    Expr in = d.call.size("self", static_cast<int64_t>(lead + k));
    taps.push_back(d.reduce_axis(d.integer(w[k].kernel)));
    Expr at =
        d.i(lead + k) * static_cast<double>(w[k].stride) + taps[k] * static_cast<double>(w[k].dilation) - static_cast<double>(w[k].padding);
    index[lead + k] = at;
    if (w[k].padding > 0) inside = logical_and(inside, le(d.integer(0), at));
    if (overhangs(w[k], in, d.call.flag("ceil_mode"))) inside = logical_and(inside, lt(at, in));
  }
  return reduce_windows(d, index, taps, inside, R);
}

// Adaptive windows.
std::vector<Expr> adaptive_sizes(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes, out = c.syms("output_size");
  std::copy(out.begin(), out.end(), sizes.begin() + static_cast<int64_t>(leading_dims(c, out.size())));
  return sizes;
}

template <Reduction R> Compute adaptive(const DefineArgs& d) {
  std::vector<Expr> out = d.call.syms("output_size"), index = d.axes, taps;
  size_t lead = leading_dims(d.call, out.size());
  Expr inside = d.pool.boolean(true);
  for (size_t k = 0; k < out.size(); k++) {
    Expr in = d.call.size("self", static_cast<int64_t>(lead + k)), i = d.i(lead + k);
    taps.push_back(d.reduce_axis(adaptive_extent(in, out[k])));
    index[lead + k] = adaptive_begin(i, in, out[k]) + taps[k];
    inside = logical_and(inside, lt(index[lead + k], adaptive_end(i, in, out[k])));
  }
  return reduce_windows(d, index, taps, inside, R);
}

// Windows that begin at places[.., k], one list of them for each dim k.
std::vector<Expr> placed_sizes(const Call& c) {
  size_t dims = c.integers("kernel_size").size(), lead = leading_dims(c, dims);
  std::vector<Expr> sizes = c.type("self").sizes;
  std::vector<ValueId> places = c.values("places");
  for (size_t k = 0; k < dims; k++) sizes[lead + k] = c.graph.type(places[k]).sizes.back();
  return sizes;
}

template <Reduction R> Compute placed(const DefineArgs& d) {
  Dims kernel = d.call.integers("kernel_size");
  size_t lead = leading_dims(d.call, kernel.size());
  std::vector<Expr> index = d.axes, taps;
  for (size_t k = 0; k < kernel.size(); k++) {
    taps.push_back(d.reduce_axis(d.integer(kernel[k])));
    std::vector<Expr> at(d.axes.begin(), d.axes.begin() + static_cast<int64_t>(lead));
    at.push_back(d.i(lead + k));
    index[lead + k] = checked(d.load("places", at, k) + taps[k], d.call.size("self", static_cast<int64_t>(lead + k)));
  }
  return reduce_windows(d, index, taps, d.pool.boolean(true), R);
}

#define UNIFORM "(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor"
#define ADAPTIVE "(Tensor self, SymInt[] output_size) -> Tensor"
#define PLACED "(Tensor self, Tensor[] places, int[] kernel_size) -> Tensor"

const OpRow window_ops[] = {
    {.schema = "tenon::window_max" UNIFORM,
     .kind = Kind::Reduce,
     .infer = window_types<uniform_sizes, own_type>,
     .define = uniform<Reduction::Max>,
     .layout_follows = true},
    {.schema = "tenon::window_argmax" UNIFORM,
     .kind = Kind::Reduce,
     .infer = window_types<uniform_sizes, place_type>,
     .define = uniform<Reduction::ArgMax>,
     .layout_follows = true},
    {.schema = "tenon::window_sum" UNIFORM,
     .kind = Kind::Reduce,
     .infer = window_types<uniform_sizes, wide_type>,
     .define = uniform<Reduction::Sum>,
     .layout_follows = true},
    {.schema = "tenon::adaptive_max" ADAPTIVE,
     .kind = Kind::Reduce,
     .infer = window_types<adaptive_sizes, own_type>,
     .define = adaptive<Reduction::Max>,
     .layout_follows = true},
    {.schema = "tenon::adaptive_argmax" ADAPTIVE,
     .kind = Kind::Reduce,
     .infer = window_types<adaptive_sizes, place_type>,
     .define = adaptive<Reduction::ArgMax>,
     .layout_follows = true},
    {.schema = "tenon::adaptive_sum" ADAPTIVE,
     .kind = Kind::Reduce,
     .infer = window_types<adaptive_sizes, wide_type>,
     .define = adaptive<Reduction::Sum>,
     .layout_follows = true},
    {.schema = "tenon::placed_max" PLACED,
     .kind = Kind::Reduce,
     .infer = window_types<placed_sizes, own_type>,
     .define = placed<Reduction::Max>},
    {.schema = "tenon::placed_argmax" PLACED,
     .kind = Kind::Reduce,
     .infer = window_types<placed_sizes, place_type>,
     .define = placed<Reduction::ArgMax>},
};

} // namespace

std::span<const OpRow> window_rows() { return window_ops; }

} // namespace tenon::ops
