// Resampling on a regular grid: nearest, linear, cubic, and the antialiased forms. Four operators of our own compute them, in
// any number of dims; each takes per dim an output size and a scale (0: by the sizes), as torch's kernels do.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

struct Axis {
  Expr in, out; // sizes
  double scale; // as given, or 0
};

std::vector<Axis> axes_of(const Call& c) {
  std::vector<Expr> out = c.syms("output_size");
  const Arg& scales = c["scales"];
  std::vector<Axis> axes;
  if (c.rank("self") < out.size()) c.fail("the input has too few dims");
  size_t lead = c.rank("self") - out.size();
  for (size_t k = 0; k < out.size(); k++) {
    double s = to_expr(c.pool(), scales.get<ArgList>().at(k))->number();
    if (s > 0 && s < 0x1p-31) c.fail(fmt::format("a scale of {} is too small", s)); // places are integers of 64 bits
    axes.push_back({c.size("self", static_cast<int64_t>(lead + k)), out[k], s});
  }
  return axes;
}

std::vector<Type> resample_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes, out = c.syms("output_size");
  std::copy(out.begin(), out.end(), sizes.end() - static_cast<int64_t>(out.size()));
  return {Type::tensor(c.type("self").dtype, sizes)};
}

// Coordinates are computed in the dtype that torch's kernels use: that of the elements, f32 at least.
DType math_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

// Input steps per output step.
Expr step_of(const Axis& a, bool align_corners, DType t) {
  ExprPool& pool = *a.in->pool;
  if (!align_corners) return a.scale > 0 ? pool.number(1 / a.scale, t) : cast(a.in, t) / cast(a.out, t);
  return select(lt(pool.integer(1), a.out), cast(a.in - 1.0, t) / cast(max(a.out - 1.0, pool.integer(1)), t), pool.number(0, t));
}

// Where output i lies in the input. Cubic sampling looks at what lies before the first element, linear does not.
Expr source(Expr i, Expr step, bool align_corners, bool cubic) {
  Expr x = cast(i, step->type);
  if (align_corners) return step * x;
  Expr s = step * (x + 0.5) - 0.5;
  return cubic ? s : max(s, like(0, s));
}

Expr to_index(Expr x) { return cast(floor(x), DType::I64); }

template <bool Exact> Compute nearest(const DefineArgs& d) {
  std::vector<Axis> axes = axes_of(d.call);
  DType t = math_type(d.output.dtype);
  size_t lead = d.axes.size() - axes.size();
  std::vector<Expr> index = d.axes;
  for (size_t k = 0; k < axes.size(); k++) {
    Expr& i = index[lead + k];
    if (axes[k].in == axes[k].out && axes[k].scale == 0) continue;
    Expr step = step_of(axes[k], false, t);
    Expr at = Exact ? source(i, step, false, false) + 0.5 : step * cast(i, t);
    i = min(to_index(at), axes[k].in - 1.0);
  }
  return {.axes = d.axes, .body = d.load("self", index)};
}

// What one output reads along one dim: places and weights.
using Taps = std::vector<std::pair<Expr, Expr>>;

Taps linear_taps(const Axis& a, Expr i, bool align_corners, DType t) {
  Expr s = source(i, step_of(a, align_corners, t), align_corners, false), last = a.in - 1.0;
  Expr at = min(to_index(s), last), weight = min(max(s - cast(at, t), like(0, s)), like(1, s));
  return {{at, 1.0 - weight}, {min(at + 1.0, last), weight}};
}

// Keys' cubic with a = -0.75.
Expr near_cubic(Expr x) { return (x * 1.25 - 2.25) * x * x + 1.0; }
Expr far_cubic(Expr x) { return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0; }

Taps cubic_taps(const Axis& a, Expr i, bool align_corners, DType t) {
  Expr s = source(i, step_of(a, align_corners, t), align_corners, true), last = a.in - 1.0, zero = a.in->pool->integer(0);
  Expr at = min(to_index(s), last), x = min(max(s - cast(at, t), like(0, s)), like(1, s));
  Expr weights[] = {far_cubic(x + 1.0), near_cubic(x), near_cubic(1.0 - x), far_cubic(2.0 - x)};
  Taps out;
  for (int k = 0; k < 4; k++) out.push_back({max(min(at + static_cast<double>(k - 1), last), zero), weights[k]});
  return out;
}

// The sum over the last dims, dim by dim, the inner ones first.
Expr interpolate(const DefineArgs& d, const std::vector<Taps>& taps, std::vector<Expr>& index, size_t k, DType t) {
  if (k == taps.size()) return cast(d.load("self", index), t);
  Expr sum;
  for (auto& [at, weight] : taps[k]) {
    index[index.size() - taps.size() + k] = at;
    Expr term = interpolate(d, taps, index, k + 1, t) * weight;
    sum = sum ? sum + term : term;
  }
  return sum;
}

// Bytes are rounded, and kept in range where weights can be negative.
Expr to_output(Expr x, DType t) {
  if (is_float(t)) return x;
  return t == DType::U8 ? min(max(round(x), like(0, x)), like(255, x)) : round(x);
}

template <auto TapsOf> Compute weighted(const DefineArgs& d) {
  std::vector<Axis> axes = axes_of(d.call);
  DType t = math_type(d.output.dtype);
  size_t lead = d.axes.size() - axes.size();
  std::vector<Taps> taps;
  for (size_t k = 0; k < axes.size(); k++) taps.push_back(TapsOf(axes[k], d.i(lead + k), d.call.flag("align_corners"), t));
  std::vector<Expr> index = d.axes;
  return {.axes = d.axes, .body = to_output(interpolate(d, taps, index, 0, t), d.output.dtype)};
}

// Output i of dim `dim` is the sum of weights[i, k] * self[begin[i] + k]; a weight of zero reads nothing.
std::vector<Type> filter_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  sizes[static_cast<size_t>(c.dim("dim", sizes.size()))] = c.size("weights", 0);
  return {Type::tensor(c.type("self").dtype, sizes)};
}

Compute filter(const DefineArgs& d) {
  auto dim = static_cast<size_t>(d.call.dim("dim", d.axes.size()));
  Expr k = d.reduce_axis(d.call.size("weights", 1)), i = d.i(dim), w = d.load_wide("weights", {i, k});
  std::vector<Expr> index = d.axes;
  index[dim] = checked(d.load("begin", {i}) + k, d.call.size("self", static_cast<int64_t>(dim)));
  Expr x = cast(d.load_wide("self", index), w->type);
  return {.axes = d.axes, .reduce_axes = {k}, .reduction = Reduction::Sum, .body = select(ne(w, like(0, w)), x * w, like(0, w))};
}

// ---- ATen's rows

// "upsample_bilinear2d.vec": the digit before the d.
size_t resampled_dims(const Call& c) {
  std::string_view name = c.def.signature.name;
  return static_cast<size_t>(name[name.find_first_of("123")] - '0');
}

struct Request {
  V x;
  std::vector<Expr> size;
  ArgList scales; // 0 where none is given
};

double scale_or_zero(ExprPool& pool, const Arg& a) { return a.is_none() ? 0 : to_expr(pool, a)->number(); }

// The default overloads give sizes and a scale per dim; .vec gives sizes or a list of scales.
Request request(Builder& b, const Call& c) {
  bool vec = c.def.signature.name.ends_with(".vec");
  Request r{b.input(c, vec ? "input" : "self"), c.syms("output_size"), {}};
  size_t dims = resampled_dims(c);
  if (r.x.rank() != dims + 2) c.fail(fmt::format("needs a tensor of rank {}", dims + 2));
  if (!vec) {
    const char* names[3][3] = {{"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
    for (size_t k = 0; k < dims; k++) r.scales.push_back(scale_or_zero(b.pool(), c[names[dims - 1][k]]));
  } else if (c.has("scale_factors") && r.size.empty()) {
    for (const Arg& a : c["scale_factors"].get<ArgList>()) r.scales.push_back(scale_or_zero(b.pool(), a));
    if (r.scales.size() == 1) r.scales.assign(dims, r.scales[0]);
    for (size_t k = 0; k < r.scales.size(); k++) { // truncated, as Python's int(size * scale)
      double s = r.scales[k].get<double>();
      Expr in = r.x.size(static_cast<int64_t>(k + 2));
      r.size.push_back(s == std::floor(s) ? in * s : cast(cast(in, DType::F64) * s, DType::I64));
    }
  } else r.scales.assign(dims, 0.0);
  if (r.size.size() != dims || r.scales.size() != dims) c.fail(fmt::format("needs {} sizes or scales", dims));
  return r;
}

// For what adds up weighted elements.
Request weighted_request(Builder& b, const Call& c) {
  Request r = request(b, c);
  if (!is_float(r.x.dtype()) && r.x.dtype() != DType::U8) c.fail(fmt::format("does not take a tensor of {}", name_of(r.x.dtype())));
  return r;
}

template <Name N> Values by_nearest(Builder& b, const Call& c) {
  Request r = request(b, c);
  return b.call(N.text, {r.x, r.size, r.scales});
}

// Filters of tensors of distances: the triangle, and Keys' cubic for some a.
using FilterOf = V (*)(Builder& b, V distance);
V triangle_filter(Builder& b, V x) { return b.call1("aten::clamp.default", {b.scalar(1, x.dtype()) - x, 0.0, Arg()}); }
V keys(Builder& b, V x, double a) {
  V inner = (x * Arg(a + 2) - Arg(a + 3)) * x * x + Arg(1.0), outer = ((x * Arg(a) - Arg(5 * a)) * x + Arg(8 * a)) * x - Arg(4 * a);
  V far = b.where(b.call1("aten::lt.Scalar", {x, 2.0}), outer, b.scalar(0, x.dtype()));
  return b.where(b.call1("aten::lt.Scalar", {x, 1.0}), inner, far);
}
V sharp_cubic(Builder& b, V x) { return keys(b, x, -0.75); }
V cubic_filter(Builder& b, V x) { return keys(b, x, -0.5); } // of the antialiased forms

// One dim of a resampling: weights [out, taps] of the places from first [out] on.
struct DimFilter {
  V weights, first;
};

// Bytes are resampled in integers, as torch does: the weights become multiples of the power of two that lets them fill 16
// bits, and each dim rounds to a byte.
V filter_bytes(Builder& b, V x, DimFilter f, size_t dim) {
  V powers = b.call1("aten::exp2.default", {b.to(b.arange(b.integer(22), DType::I64) + Arg(1), DType::F64)});
  V peaks = b.to(b.call1("aten::max.default", {f.weights}) * powers + Arg(0.5), DType::I64);
  V bits = b.call1("aten::sum.default", {b.call1("aten::lt.Scalar", {peaks, 1 << 15})});
  V scaled = f.weights * b.call1("aten::exp2.default", {b.to(bits, DType::F64)});
  V weights = b.to(b.where(b.call1("aten::lt.Scalar", {scaled, 0.0}), scaled - Arg(0.5), scaled + Arg(0.5)), DType::I32);
  V sum = b.call1("tenon::filter_dim.default", {b.to(x, DType::I32), weights, f.first, static_cast<int64_t>(dim)});
  bits = b.to(bits, DType::I32);
  V half = b.call1("aten::bitwise_left_shift.Tensor", {b.scalar(1, DType::I32), bits - Arg(1)});
  V y = b.call1("aten::bitwise_right_shift.Tensor", {sum + half, bits});
  return b.to(b.call1("aten::clamp.default", {y, 0, 255}), DType::U8);
}

// Without antialiasing, in f64. Taps before the first or after the last place add to it.
DimFilter plain_filter(Builder& b, Axis a, bool align_corners, FilterOf filter, int64_t taps) {
  V step = b.scalar(Arg(step_of(a, align_corners, DType::F64)), DType::F64), i = b.to(b.arange(a.out, DType::I64), DType::F64);
  V s = align_corners ? i * step : (i + Arg(0.5)) * step - Arg(0.5);
  if (taps == 2) s = b.call1("aten::clamp_min.default", {s, 0.0});
  V at = b.call1("aten::clamp.default", {b.to(b.call1("aten::floor.default", {s}), DType::I64), Arg(), Arg(a.in - 1.0)});
  V part = b.unsqueeze(b.call1("aten::clamp.default", {s - b.to(at, DType::F64), 0.0, 1.0}), 1);
  V offset = b.arange(b.integer(taps), DType::I64) + Arg(1 - taps / 2), place = b.unsqueeze(at, 1) + offset;
  V weights = filter(b, b.call1("aten::abs.default", {b.to(offset, DType::F64) - part}));
  Expr kept = min(a.in, b.integer(taps));
  V first = b.call1("aten::clamp.default", {at + Arg(1 - taps / 2), 0, Arg(a.in - kept)});
  V inside = b.unsqueeze(b.call1("aten::clamp.default", {place, 0, Arg(a.in - 1.0)}), 1);
  V slot = b.unsqueeze(b.unsqueeze(first, 1) + b.arange(kept, DType::I64), 2);
  V spread = b.where(b.call1("aten::eq.Tensor", {inside, slot}), b.unsqueeze(weights, 1), b.scalar(0, DType::F64));
  return {b.sum(spread, {2}, false), first};
}

template <Name N, auto Filter, int Taps> Values by_weights(Builder& b, const Call& c) {
  Request r = weighted_request(b, c);
  if (r.x.dtype() != DType::U8) return b.call(N.text, {r.x, r.size, r.scales, c["align_corners"]});
  for (size_t k = r.size.size(); k-- > 0;) {
    Axis a{r.x.size(static_cast<int64_t>(k + 2)), r.size[k], r.scales[k].get<double>()};
    if (a.in != a.out) r.x = filter_bytes(b, r.x, plain_filter(b, a, c.flag("align_corners"), Filter, Taps), k + 2);
  }
  return r.x;
}
template <Name N> Values by_triangle(Builder& b, const Call& c) { return by_weights<N, triangle_filter, 2>(b, c); }
template <Name N> Values by_cubic(Builder& b, const Call& c) { return by_weights<N, sharp_cubic, 4>(b, c); }

// One dim, antialiased: the filter is as wide as an output's share of the input, its weights add up to one.
DimFilter antialias(Builder& b, DType t, Axis a, bool align_corners, FilterOf filter, double reach) {
  Expr step = step_of(a, align_corners, t), one = like(1, step), wide = max(step, one), support = wide * reach;
  Expr taps = cast(unary(Op::Ceil, support), DType::I64) * 2.0 + 1.0;
  taps = min(taps, a.in);
  V i = b.to(b.arange(a.out, DType::I64), t);
  V center = (i + Arg(0.5)) * b.scalar(Arg(step), t), half = b.scalar(Arg(support), t);
  V last = b.scalar(Arg(a.in), DType::I64), zero = b.scalar(0, DType::I64);
  auto bounded = [&](V v) {
    return b.call1("aten::minimum.default", {b.call1("aten::maximum.default", {b.to(v + Arg(0.5), DType::I64), zero}), last});
  };
  V begin = bounded(center - half), end = bounded(center + half);
  V first = b.call1("aten::minimum.default", {begin, last - b.scalar(Arg(taps), DType::I64)}); // so that begin + k stays inside
  V place = b.unsqueeze(first, 1) + b.arange(taps, DType::I64);
  V distance = (b.to(place, t) - b.unsqueeze(center, 1) + Arg(0.5)) * b.scalar(Arg(one / wide), t);
  V weight = filter(b, b.call1("aten::abs.default", {distance}));
  V inside = b.call1("aten::logical_and.default", {b.call1("aten::ge.Tensor", {place, b.unsqueeze(begin, 1)}),
                                                   b.call1("aten::lt.Tensor", {place, b.unsqueeze(end, 1)})});
  weight = b.where(inside, weight, b.scalar(0, t));
  return {weight / b.sum(weight, {1}, true), first};
}

// Rows as columns, in memory: there neighbours have the same weights along the inner dim.
V turned(Builder& b, V x) { return b.call1("tenon::to_layout", {b.transpose(x, -1, -2)}); }

// The inner dim first, as torch does, but where the outer one is known to shrink, which leaves fewer rows. Bytes, which each dim rounds,
// keep torch's order.
template <auto Filter, int Reach> Values antialiased(Builder& b, const Call& c) {
  Request r = weighted_request(b, c);
  bool bytes = r.x.dtype() == DType::U8;
  DType t = bytes ? DType::F64 : math_type(r.x.dtype());
  V y = bytes ? r.x : b.to(r.x, t);
  bool shrinks = !bytes && r.size[0]->is_const() && r.x.size(2)->is_const() && r.size[0]->bits < r.x.size(2)->bits;
  for (size_t n = 0; n < r.size.size(); n++) {
    size_t k = shrinks ? n : r.size.size() - 1 - n;
    Axis a{r.x.size(static_cast<int64_t>(k + 2)), r.size[k], r.scales[k].get<double>()};
    if (a.in == a.out && a.scale == 0) continue;
    DimFilter f = antialias(b, t, a, c.flag("align_corners"), Filter, Reach);
    bool inner = k + 1 == r.size.size();
    size_t dim = k + (inner ? 1 : 2);
    if (inner) y = turned(b, y);
    y = bytes ? filter_bytes(b, y, f, dim) : b.call1("tenon::filter_dim.default", {y, f.weights, f.first, static_cast<int64_t>(dim)});
    if (inner) y = turned(b, y);
  }
  return b.to(y, r.x.dtype());
}

#define SIZED(name, rest) "aten::" name "(Tensor self, SymInt[" rest ") -> Tensor"
#define SIZES1 "1] output_size"
#define SIZES2 "2] output_size"
#define SIZES3 "3] output_size"
#define SCALES1 ", float? scales=None"
#define SCALES2 ", float? scales_h=None, float? scales_w=None"
#define SCALES3 ", float? scales_d=None, float? scales_h=None, float? scales_w=None"
#define VEC(name) "aten::" name ".vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
#define VEC_ALIGN(name) "aten::" name ".vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"

const OpRow resample_ops[] = {
    {.schema = "tenon::resample_nearest(Tensor self, SymInt[] output_size, float[] scales) -> Tensor",
     .kind = Kind::View,
     .infer = resample_types,
     .define = nearest<false>,
     .layout_follows = true},
    {.schema = "tenon::resample_nearest_exact(Tensor self, SymInt[] output_size, float[] scales) -> Tensor",
     .kind = Kind::View,
     .infer = resample_types,
     .define = nearest<true>,
     .layout_follows = true},
    {.schema = "tenon::resample_linear(Tensor self, SymInt[] output_size, float[] scales, bool align_corners) -> Tensor",
     .kind = Kind::View,
     .infer = resample_types,
     .define = weighted<linear_taps>,
     .layout_follows = true},
    {.schema = "tenon::resample_cubic(Tensor self, SymInt[] output_size, float[] scales, bool align_corners) -> Tensor",
     .kind = Kind::View,
     .infer = resample_types,
     .define = weighted<cubic_taps>,
     .layout_follows = true},
    {.schema = "tenon::filter_dim(Tensor self, Tensor weights, Tensor begin, int dim) -> Tensor",
     .kind = Kind::Reduce,
     .infer = filter_types,
     .define = filter},

    {.schema = SIZED("upsample_nearest1d", SIZES1 SCALES1),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp = "self: torch.upsample_nearest1d_backward(grad, output_size, self_size, scales)"},
    {.schema = SIZED("upsample_nearest2d", SIZES2 SCALES2),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp = "self: torch.upsample_nearest2d_backward(grad, output_size, self_size, scales_h, scales_w)"},
    {.schema = SIZED("upsample_nearest3d", SIZES3 SCALES3),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp = "self: torch.upsample_nearest3d_backward(grad, output_size, self_size, scales_d, scales_h, scales_w)"},
    {.schema = VEC("upsample_nearest1d"),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp = "input: torch.upsample_nearest1d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0))"},
    {.schema = VEC("upsample_nearest2d"),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp =
         "input: torch.upsample_nearest2d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0), factor(scale_factors, 1))"},
    {.schema = VEC("upsample_nearest3d"),
     .decompose = by_nearest<"tenon::resample_nearest.default">,
     .vjp = "input: torch.upsample_nearest3d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0), factor(scale_factors, "
            "1), factor(scale_factors, 2))"},
    {.schema = SIZED("_upsample_nearest_exact1d", SIZES1 SCALES1),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "self: torch._upsample_nearest_exact1d_backward(grad, output_size, self_size, scales)"},
    {.schema = SIZED("_upsample_nearest_exact2d", SIZES2 SCALES2),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "self: torch._upsample_nearest_exact2d_backward(grad, output_size, self_size, scales_h, scales_w)"},
    {.schema = SIZED("_upsample_nearest_exact3d", SIZES3 SCALES3),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "self: torch._upsample_nearest_exact3d_backward(grad, output_size, self_size, scales_d, scales_h, scales_w)"},
    {.schema = VEC("_upsample_nearest_exact1d"),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "input: torch._upsample_nearest_exact1d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0))"},
    {.schema = VEC("_upsample_nearest_exact2d"),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "input: torch._upsample_nearest_exact2d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0), "
            "factor(scale_factors, 1))"},
    {.schema = VEC("_upsample_nearest_exact3d"),
     .decompose = by_nearest<"tenon::resample_nearest_exact.default">,
     .vjp = "input: torch._upsample_nearest_exact3d_backward(grad, grad.size()[2:], input_size, factor(scale_factors, 0), "
            "factor(scale_factors, 1), factor(scale_factors, 2))"},
    {.schema = SIZED("upsample_linear1d", SIZES1 ", bool align_corners" SCALES1),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "self: torch.upsample_linear1d_backward(grad, output_size, self_size, align_corners, scales)"},
    {.schema = SIZED("upsample_bilinear2d", SIZES2 ", bool align_corners" SCALES2),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "self: torch.upsample_bilinear2d_backward(grad, output_size, self_size, align_corners, scales_h, scales_w)"},
    {.schema = SIZED("upsample_trilinear3d", SIZES3 ", bool align_corners" SCALES3),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "self: torch.upsample_trilinear3d_backward(grad, output_size, self_size, align_corners, scales_d, scales_h, scales_w)"},
    {.schema = SIZED("upsample_bicubic2d", SIZES2 ", bool align_corners" SCALES2),
     .decompose = by_cubic<"tenon::resample_cubic.default">,
     .vjp = "self: torch.upsample_bicubic2d_backward(grad, output_size, self_size, align_corners, scales_h, scales_w)"},
    {.schema = VEC_ALIGN("upsample_linear1d"),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "input: torch.upsample_linear1d_backward(grad, grad.size()[2:], input_size, align_corners, factor(scale_factors, 0))"},
    {.schema = VEC_ALIGN("upsample_bilinear2d"),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "input: torch.upsample_bilinear2d_backward(grad, grad.size()[2:], input_size, align_corners, factor(scale_factors, 0), "
            "factor(scale_factors, 1))"},
    {.schema = VEC_ALIGN("upsample_trilinear3d"),
     .decompose = by_triangle<"tenon::resample_linear.default">,
     .vjp = "input: torch.upsample_trilinear3d_backward(grad, grad.size()[2:], input_size, align_corners, factor(scale_factors, 0), "
            "factor(scale_factors, 1), factor(scale_factors, 2))"},
    {.schema = VEC_ALIGN("upsample_bicubic2d"),
     .decompose = by_cubic<"tenon::resample_cubic.default">,
     .vjp = "input: torch.upsample_bicubic2d_backward(grad, grad.size()[2:], input_size, align_corners, factor(scale_factors, 0), "
            "factor(scale_factors, 1))"},
    {.schema = SIZED("_upsample_bilinear2d_aa", SIZES2 ", bool align_corners" SCALES2), .decompose = antialiased<triangle_filter, 1>},
    {.schema = SIZED("_upsample_bicubic2d_aa", SIZES2 ", bool align_corners" SCALES2), .decompose = antialiased<cubic_filter, 2>},
    {.schema = VEC_ALIGN("_upsample_bilinear2d_aa"), .decompose = antialiased<triangle_filter, 1>},
    {.schema = VEC_ALIGN("_upsample_bicubic2d_aa"), .decompose = antialiased<cubic_filter, 2>},
};

} // namespace

std::span<const OpRow> resample_rows() { return resample_ops; }

} // namespace tenon::ops
