// Derivatives of operators that are linear in their input, by what the operator itself does: one that picks elements is applied
// to their places, and each gradient is added where it came from; one that mixes each dim by itself is applied to the identity,
// which gives its matrix.
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

V zeros(Builder& b, std::vector<Expr> sizes, DType t) { return b.full(std::move(sizes), 0, t); }
V flat(Builder& b, V x) { return b.reshape(x, {product(b.pool(), x.sizes())}); }

// The gradient of sizes `sizes`, of an operator whose result is grad's elements picked by `pick`.
V picked_backward(Builder& b, V grad, std::vector<Expr> sizes, const std::function<V(V)>& pick) {
  Expr n = product(b.pool(), sizes);
  V places = flat(b, pick(b.reshape(b.arange(n, DType::I64), sizes)));
  DType wide = compute_type(grad.dtype());
  V sum = b.call1("aten::index_add.default", {zeros(b, {n}, wide), 0, places, b.to(flat(b, grad), wide)});
  return b.to(b.reshape(sum, sizes), grad.dtype());
}

// Dim `dim` of the gradient, times the matrix [in, out] of the operator along it.
V times_matrix(Builder& b, V grad, size_t dim, V matrix) {
  auto at = static_cast<int64_t>(dim);
  return b.transpose(b.matmul(b.transpose(grad, at, -1), b.transpose(matrix, 0, 1)), at, -1);
}

// `operate(k, x)` is the operator along dim k of the last `dims`, on a tensor [1, n, in].
V separable_backward(Builder& b, V grad, std::vector<Expr> sizes, size_t dims, const std::function<V(size_t, V)>& operate) {
  DType result = grad.dtype(), wide = compute_type(result);
  grad = b.to(grad, wide);
  for (size_t k = 0; k < dims; k++) {
    size_t dim = sizes.size() - dims + k;
    V identity = b.call1("aten::eye.default", {sizes[dim]}, {{"dtype", wide}});
    grad = times_matrix(b, grad, dim, b.squeeze(operate(k, b.unsqueeze(identity, 0)), 0));
  }
  return b.to(grad, result);
}

size_t digit_of(const Call& c) {
  std::string_view name = c.def.signature.name;
  return static_cast<size_t>(name[name.find_first_of("123")] - '0');
}

// x at place `begin` along dim, of n, and zeros elsewhere.
V placed_along(Builder& b, V x, int64_t dim, int64_t begin, int64_t n) {
  std::vector<int64_t> pad(2 * (x.rank() - static_cast<size_t>(dim)), 0); // last dim first
  pad[pad.size() - 2] = begin, pad[pad.size() - 1] = n - begin - *const_int(x.size(dim));
  return b.call1("aten::constant_pad_nd.default", {x, pad, 0});
}

// The gradient of n elements that were mirrored at their ends, or whose ends were repeated, `before` and `after` times.
V folded_along(Builder& b, V grad, int64_t dim, int64_t n, int64_t before, int64_t after, bool mirrored) {
  auto part = [&](int64_t begin, int64_t end) { return b.slice(grad, dim, b.integer(begin), b.integer(end - begin)); };
  V sum = part(before, before + n);
  auto add = [&](V end, int64_t at) {
    if (mirrored) end = b.call1("aten::flip.default", {end, ArgList{dim}});
    else end = b.sum(end, {dim}, true);
    sum = sum + placed_along(b, end, dim, at, n);
  };
  if (before > 0) add(part(0, before), mirrored ? 1 : 0);
  if (after > 0) add(part(before + n, before + n + after), mirrored ? n - 1 - after : n - 1);
  return sum;
}

// Dim by dim, where what lies there is known; else no value.
V folded_pads(Builder& b, const Call& c, size_t dims) {
  V grad = b.input(c, "grad_output");
  std::vector<Expr> sizes = c.type("self").sizes, padding = c.syms("padding");
  bool mirrored = c.def.signature.name.find("reflection") != std::string_view::npos;
  V sum = b.to(grad, compute_type(grad.dtype()));
  for (size_t k = 0; k < dims; k++) {
    size_t dim = sizes.size() - 1 - k;
    auto n = const_int(sizes[dim]), before = const_int(padding[2 * k]), after = const_int(padding[2 * k + 1]);
    if (!n || !before || !after || *before < 0 || *after < 0 || *n < 1 || (mirrored && std::max(*before, *after) >= *n)) return {};
    if (!is_const_int(grad.size(static_cast<int64_t>(dim)), *before + *n + *after)) return {};
    sum = folded_along(b, sum, static_cast<int64_t>(dim), *n, *before, *after, mirrored);
  }
  return b.to(sum, grad.dtype());
}

template <Name N> Values pad_backward(Builder& b, const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  size_t dims = digit_of(c), lead = sizes.size() - dims;
  if (V sum = folded_pads(b, c, dims)) return sum;
  Expr planes = product(b.pool(), std::span(sizes).first(lead));
  return picked_backward(b, b.input(c, "grad_output"), sizes, [&](V places) { // the pads of integers take a batch of planes
    std::vector<Expr> batch(sizes.begin() + static_cast<int64_t>(lead), sizes.end());
    batch.insert(batch.begin(), planes);
    return b.call1(N.text, {b.reshape(places, batch), c["padding"]});
  });
}

constexpr const char* scale_names[3][3] = {{"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};

// Where each element was repeated a whole number of times, these are its sums; else no value.
V sums_of_repeated(Builder& b, const Call& c, size_t dims) {
  V grad = b.input(c, "grad_output");
  std::vector<Expr> in = c.syms("input_size"), out = c.syms("output_size"), split(in.begin(), in.begin() + 2);
  Dims repeated;
  for (size_t k = 0; k < dims; k++) {
    auto n = const_int(in[k + 2]), m = const_int(out[k]);
    if (!n || !m || *n < 1 || *m % *n != 0 || grad.size(static_cast<int64_t>(k + 2)) != out[k]) return {};
    double times = static_cast<double>(*m / *n);
    if (c.has(scale_names[dims - 1][k]) && c.number(scale_names[dims - 1][k]) != times) return {};
    split.push_back(in[k + 2]), repeated.push_back(static_cast<int64_t>(split.size())), split.push_back(b.integer(*m / *n));
  }
  V wide = b.to(b.reshape(grad, split), compute_type(grad.dtype()));
  return b.to(b.sum(wide, repeated, false), grad.dtype());
}

template <Name N> Values nearest_backward(Builder& b, const Call& c) {
  size_t dims = digit_of(c);
  if (V sums = sums_of_repeated(b, c, dims)) return sums;
  ArgList args{Arg(), c["output_size"]};
  for (size_t k = 0; k < dims; k++) args.push_back(c[scale_names[dims - 1][k]]);
  return picked_backward(b, b.input(c, "grad_output"), c.syms("input_size"), [&](V places) {
    args[0] = places;
    return b.call1(N.text, args);
  });
}

// N: a resampling in two dims; along one dim the other has a single place.
template <Name N> Values weighted_backward(Builder& b, const Call& c) {
  size_t dims = digit_of(c);
  std::vector<Expr> sizes = c.syms("input_size"), out = c.syms("output_size");
  return separable_backward(b, b.input(c, "grad_output"), sizes, dims, [&](size_t k, V x) {
    std::vector<Expr> size{b.integer(1), out[k]};
    return b.squeeze(b.call1(N.text, {b.unsqueeze(x, 2), size, c["align_corners"], Arg(), c[scale_names[dims - 1][k]]}), 2);
  });
}

Values avg_pool_backward(Builder& b, const Call& c) {
  size_t dims = digit_of(c);
  auto list = [&](std::string_view name, const Dims& if_empty) {
    Dims l = c.integers(name);
    if (l.empty()) return if_empty;
    if (l.size() == 1) l.assign(dims, l[0]);
    return l;
  };
  Dims kernel = list("kernel_size", {}), stride = list("stride", kernel), padding = list("padding", Dims(dims, 0));
  V grad = b.input(c, "grad_output");
  bool divided = !c.has("divisor_override");
  V out = separable_backward(b, grad, c.type("self").sizes, dims, [&](size_t k, V x) {
    Dims one{1, kernel[k]}, step{1, stride[k]}, pad{0, padding[k]};
    return b.call1("aten::avg_pool2d.default", {x, one, step, pad, c["ceil_mode"], c["count_include_pad"], divided ? Arg() : Arg(1)});
  });
  return divided ? out : b.to(out / c["divisor_override"], grad.dtype());
}

Values adaptive_avg_pool_backward(Builder& b, const Call& c) {
  size_t dims = digit_of(c);
  V grad = b.input(c, "grad_output");
  return separable_backward(b, grad, c.type("self").sizes, dims, [&](size_t k, V x) {
    return b.call1("aten::adaptive_avg_pool1d.default", {x, ArgList{grad.size(static_cast<int64_t>(k) - static_cast<int64_t>(dims))}});
  });
}

// The windows [.., windows, .., size] along dim, laid over each other: [.., n, ..].
V overlaid(Builder& b, V grad, int64_t dim, Expr n, int64_t size, int64_t step) {
  auto rank = static_cast<int64_t>(grad.rank()) - 1;
  Dims order{dim}, back;
  std::vector<Expr> others;
  for (int64_t d = 0; d < rank; d++)
    if (d != dim) order.push_back(d), others.push_back(grad.size(d));
  order.push_back(rank), std::rotate(order.begin(), order.begin() + 1, order.end()); // [others.., size, windows]
  Expr outer = product(b.pool(), others);
  DType wide = compute_type(grad.dtype());
  V columns = b.reshape(b.permute(b.to(grad, wide), order), {outer, b.integer(size), grad.size(dim)});
  V sum = b.call1("aten::col2im.default", {columns, ArgList{1, n}, ArgList{1, size}, ArgList{1, 1}, ArgList{0, 0}, ArgList{1, step}});
  others.push_back(n);
  for (int64_t d = 0; d < rank; d++) back.push_back(d < dim ? d : d == dim ? rank - 1 : d - 1);
  return b.to(b.permute(b.reshape(sum, others), back), grad.dtype());
}

Values unfold_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad_in");
  std::vector<Expr> sizes = c.syms("input_sizes"), windows = sizes;
  int64_t size = c.integer("size"), step = c.integer("step");
  if (size < 0 || step < 1) c.fail(fmt::format("windows of {}, {} apart", size, step));
  if (size == 0) return zeros(b, sizes, grad.dtype());
  if (sizes.empty()) return b.reshape(grad, sizes);
  int64_t dim = c.dim("dim", sizes.size());
  windows[static_cast<size_t>(dim)] = grad.size(dim), windows.push_back(b.integer(size));
  return overlaid(b, b.expand(grad, windows), dim, sizes[static_cast<size_t>(dim)], size, step); // istft gives one window for all signals
}

// Views: the gradient is what a tensor of zeros becomes when it is written through the view.
template <Name N> Values written_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad_output");
  ArgList args{zeros(b, c.syms("input_sizes"), grad.dtype()), grad};
  for (size_t i = 2; i < c.args.size(); i++) args.push_back(c.args[i]);
  return b.call(N.text, args);
}

Values index_select_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad");
  return b.call("aten::index_add.default", {zeros(b, c.syms("self_sizes"), grad.dtype()), c["dim"], c["index"], grad});
}

V added_at(Builder& b, std::vector<Expr> sizes, const Arg& dim, const Arg& index, V grad) {
  return b.call1("aten::scatter_add.default", {zeros(b, std::move(sizes), grad.dtype()), dim, index, grad});
}

Values gather_backward(Builder& b, const Call& c) { return added_at(b, c.type("self").sizes, c["dim"], c["index"], b.input(c, "grad")); }
Values cummaxmin_backward(Builder& b, const Call& c) {
  return added_at(b, c.type("input").sizes, c["dim"], c["indices"], b.input(c, "grad"));
}

Values value_selecting_reduction_backward(Builder& b, const Call& c) {
  std::vector<Expr> sizes = c.syms("sizes");
  V grad = b.input(c, "grad"), indices = b.input(c, "indices");
  int64_t dim = c.dim("dim", sizes.size());
  if (!c.flag("keepdim") && !sizes.empty()) grad = b.unsqueeze(grad, dim), indices = b.unsqueeze(indices, dim);
  return added_at(b, sizes, dim, indices, grad);
}

Values masked_select_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad"), input = b.input(c, "input");
  return b.call("aten::masked_scatter.default", {zeros(b, input.sizes(), grad.dtype()), c["mask"], grad});
}

Values trace_backward(Builder& b, const Call& c) {
  std::vector<Expr> sizes = c.syms("sizes");
  V grad = b.input(c, "grad"), eye = b.call1("aten::eye.m", {sizes.at(0), sizes.at(1)}, {{"dtype", DType::Bool}});
  return b.where(eye, grad, b.scalar(0, grad.dtype()));
}

// Maxima by their places in the plane.
Values max_backward(Builder& b, const Call& c) {
  size_t dims = digit_of(c);
  V grad = b.input(c, "grad_output");
  std::vector<Expr> sizes = c.type("self").sizes;
  size_t lead = sizes.size() - dims;
  Expr planes = product(b.pool(), std::span(sizes).first(lead)), of = product(b.pool(), std::span(sizes).subspan(lead));
  Expr from = product(b.pool(), std::span(grad.sizes()).subspan(lead));
  V index = b.reshape(b.input(c, "indices"), {planes, from});
  return b.reshape(added_at(b, {planes, of}, 1, index, b.reshape(grad, {planes, from})), sizes);
}

#define PAD(kind, dims, pads) "aten::" kind "_pad" dims "d_backward(Tensor grad_output, Tensor self, SymInt[" pads "] padding) -> Tensor"
#define SIZES(dims, in) "(Tensor grad_output, SymInt[" dims "] output_size, SymInt[" in "] input_size"
#define SCALES1 ", float? scales=None) -> Tensor"
#define SCALES2 ", float? scales_h=None, float? scales_w=None) -> Tensor"
#define SCALES3 ", float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"

const OpRow backward_linear_ops[] = {
    {.schema = PAD("reflection", "1", "2"), .decompose = pad_backward<"aten::reflection_pad1d.default">},
    {.schema = PAD("reflection", "2", "4"), .decompose = pad_backward<"aten::reflection_pad2d.default">},
    {.schema = PAD("reflection", "3", "6"), .decompose = pad_backward<"aten::reflection_pad3d.default">},
    {.schema = PAD("replication", "1", "2"), .decompose = pad_backward<"aten::replication_pad1d.default">},
    {.schema = PAD("replication", "2", "4"), .decompose = pad_backward<"aten::replication_pad2d.default">},
    {.schema = PAD("replication", "3", "6"), .decompose = pad_backward<"aten::replication_pad3d.default">},
    {.schema = "aten::upsample_nearest1d_backward" SIZES("1", "3") SCALES1,
     .decompose = nearest_backward<"aten::upsample_nearest1d.default">},
    {.schema = "aten::upsample_nearest2d_backward" SIZES("2", "4") SCALES2,
     .decompose = nearest_backward<"aten::upsample_nearest2d.default">},
    {.schema = "aten::upsample_nearest3d_backward" SIZES("3", "5") SCALES3,
     .decompose = nearest_backward<"aten::upsample_nearest3d.default">},
    {.schema = "aten::_upsample_nearest_exact1d_backward" SIZES("1", "3") SCALES1,
     .decompose = nearest_backward<"aten::_upsample_nearest_exact1d.default">},
    {.schema = "aten::_upsample_nearest_exact2d_backward" SIZES("2", "4") SCALES2,
     .decompose = nearest_backward<"aten::_upsample_nearest_exact2d.default">},
    {.schema = "aten::_upsample_nearest_exact3d_backward" SIZES("3", "5") SCALES3,
     .decompose = nearest_backward<"aten::_upsample_nearest_exact3d.default">},
    {.schema = "aten::upsample_linear1d_backward" SIZES("1", "3") ", bool align_corners" SCALES1,
     .decompose = weighted_backward<"aten::upsample_bilinear2d.default">},
    {.schema = "aten::upsample_bilinear2d_backward" SIZES("2", "4") ", bool align_corners" SCALES2,
     .decompose = weighted_backward<"aten::upsample_bilinear2d.default">},
    {.schema = "aten::upsample_trilinear3d_backward" SIZES("3", "5") ", bool align_corners" SCALES3,
     .decompose = weighted_backward<"aten::upsample_bilinear2d.default">},
    {.schema = "aten::upsample_bicubic2d_backward" SIZES("2", "4") ", bool align_corners" SCALES2,
     .decompose = weighted_backward<"aten::upsample_bicubic2d.default">},
    {.schema = "aten::_upsample_bilinear2d_aa_backward" SIZES("2", "4") ", bool align_corners" SCALES2,
     .decompose = weighted_backward<"aten::_upsample_bilinear2d_aa.default">},
    {.schema = "aten::_upsample_bicubic2d_aa_backward" SIZES("2", "4") ", bool align_corners" SCALES2,
     .decompose = weighted_backward<"aten::_upsample_bicubic2d_aa.default">},
    {.schema =
         "aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, "
         "bool count_include_pad, int? divisor_override) -> Tensor",
     .decompose = avg_pool_backward},
    {.schema =
         "aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, "
         "bool count_include_pad, int? divisor_override) -> Tensor",
     .decompose = avg_pool_backward},
    {.schema = "aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", .decompose = adaptive_avg_pool_backward},
    {.schema = "aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor", .decompose = adaptive_avg_pool_backward},
    {.schema = "aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", .decompose = max_backward},
    {.schema = "aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", .decompose = max_backward},
    {.schema = "aten::fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor "
               "indices) -> Tensor",
     .decompose = max_backward},
    {.schema = "aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor "
               "indices) -> Tensor",
     .decompose = max_backward},
    {.schema = "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, "
               "int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
     .decompose = max_backward},
    {.schema = "aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
     .decompose = unfold_backward},
    {.schema = "aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
     .decompose = written_backward<"aten::select_scatter.default">},
    {.schema = "aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor",
     .decompose = written_backward<"aten::slice_scatter.default">},
    {.schema = "aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
     .decompose = written_backward<"aten::diagonal_scatter.default">},
    {.schema = "aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
     .decompose = index_select_backward},
    {.schema = "aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
     .decompose = gather_backward},
    {.schema = "aten::cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor", .decompose = cummaxmin_backward},
    {.schema = "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
     .decompose = value_selecting_reduction_backward},
    {.schema = "aten::masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor", .decompose = masked_select_backward},
    {.schema = "aten::trace_backward(Tensor grad, SymInt[] sizes) -> Tensor", .decompose = trace_backward},
};

} // namespace

std::span<const OpRow> backward_linear_rows() { return backward_linear_ops; }

} // namespace tenon::ops
