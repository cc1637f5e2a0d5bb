// Operators along a grid: finite differences, trapezoid sums, sliding blocks (im2col, col2im).
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// x[from : to] along dim, as Python slices; `to` of 0 is the end.
V part(Builder& b, V x, int64_t dim, int64_t from, int64_t to = 0) {
  return b.call1("aten::slice.Tensor", {x, dim, from, to == 0 ? Arg(INT64_MAX) : Arg(to)});
}

V difference(Builder& b, V x, int64_t dim) {
  V after = part(b, x, dim, 1), before = part(b, x, dim, 0, -1);
  return x.dtype() == DType::Bool ? b.call1("aten::logical_xor.default", {after, before}) : after - before;
}

Values diff(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank()), n = c.integer("n");
  if (x.rank() == 0) c.fail("self is of rank 0");
  if (n == 0) return x;
  ArgList list;
  for (auto name : {"prepend", "self", "append"})
    if (c.has(name)) list.push_back(c[name]);
  if (list.size() > 1) x = b.call1("aten::cat.default", {list, dim});
  if (auto size = const_int(x.size(dim))) n = std::min(n, *size);
  for (; n > 0; n--) x = difference(b, x, dim);
  return x;
}

V zeros_without(Builder& b, V y, int64_t dim) { return b.full(without(y.sizes(), dim), 0, y.dtype()); }

// The widths of the intervals that x gives, shaped to meet y.
V widths(Builder& b, V x, V y, int64_t dim) {
  std::vector<Expr> sizes(y.rank(), b.integer(1));
  if (x.rank() == 1) x = b.reshape(x, replaced(sizes, dim, x.size(0)));
  else if (x.rank() < y.rank()) {
    std::copy(x.sizes().begin(), x.sizes().end(), sizes.end() - static_cast<int64_t>(x.rank()));
    x = b.reshape(x, sizes);
  }
  return part(b, x, dim, 1) - part(b, x, dim, 0, -1);
}

V pair_sums(Builder& b, V y, int64_t dim) { return part(b, y, dim, 0, -1) + part(b, y, dim, 1); }

Values trapezoid_x(Builder& b, const Call& c) {
  V y = b.input(c, "y");
  int64_t dim = c.dim("dim", y.rank());
  if (is_const_int(y.size(dim), 0)) return zeros_without(b, y, dim);
  return b.sum(pair_sums(b, y, dim) * widths(b, b.input(c, "x"), y, dim), {dim}, false) / 2.0;
}

Values trapezoid_dx(Builder& b, const Call& c) {
  V y = b.input(c, "y");
  int64_t dim = c.dim("dim", y.rank());
  if (is_const_int(y.size(dim), 0)) return zeros_without(b, y, dim);
  V ends = b.select(y, dim, b.integer(0)) + b.select(y, dim, b.integer(-1));
  return (b.sum(y, {dim}, false) - ends * 0.5) * c["dx"];
}

V running_sum(V x, int64_t dim) { return x.builder().call1("aten::cumsum.default", {x, dim}); }

Values cumulative_trapezoid_x(Builder& b, const Call& c) {
  V y = b.input(c, "y");
  int64_t dim = c.dim("dim", y.rank());
  return running_sum(pair_sums(b, y, dim) * widths(b, b.input(c, "x"), y, dim), dim) / 2.0;
}

Values cumulative_trapezoid_dx(Builder& b, const Call& c) {
  V y = b.input(c, "y");
  int64_t dim = c.dim("dim", y.rank());
  return running_sum(pair_sums(b, y, dim) * (c.number("dx") / 2), dim);
}

V join(Builder& b, V first, V center, V last, int64_t dim) { return b.call1("aten::cat.default", {ArgList{first, center, last}, dim}); }

// Central differences over a spacing of equal steps; one-sided ones of order 1 or 2 at the edges.
V gradient_even(Builder& b, V x, int64_t dim, const Arg& step, int64_t order) {
  V center = (part(b, x, dim, 2) - part(b, x, dim, 0, -2)) / step / 2;
  if (order == 1) {
    V first = (part(b, x, dim, 1, 2) - part(b, x, dim, 0, 1)) / step, last = (part(b, x, dim, -1) - part(b, x, dim, -2, -1)) / step;
    return join(b, first, center, last, dim);
  }
  V first = (part(b, x, dim, 0, 1) * -1.5 + part(b, x, dim, 1, 2) * 2 - part(b, x, dim, 2, 3) * 0.5) / step;
  V last = (part(b, x, dim, -1) * 1.5 - part(b, x, dim, -2, -1) * 2 + part(b, x, dim, -3, -2) * 0.5) / step;
  return join(b, first, center, last, dim);
}

// The same at the places that a tensor holds: the parabola through three points.
V gradient_at(Builder& b, V x, int64_t dim, V places, int64_t order) {
  V step = difference(b, places, 0), left = part(b, step, 0, 0, -1), right = part(b, step, 0, 1);
  std::vector<Expr> shape(x.rank(), b.integer(1));
  shape[static_cast<size_t>(dim)] = left.size(0);
  auto weigh = [&](V p, V q, V r, int64_t from, bool inner) {
    auto piece = [&](int64_t k) { return part(b, x, dim, from + k, inner ? (k == 2 ? 0 : k - 2) : (from + k == -1 ? 0 : from + k + 1)); };
    return p * piece(0) + q * piece(1) + r * piece(2);
  };
  auto shaped = [&](V v) { return b.reshape(v, shape); };
  V p = -right / (left * (left + right)), q = (right - left) / (left * right), s = left / (right * (left + right));
  V center = weigh(shaped(p), shaped(q), shaped(s), 0, true);
  if (order == 1) {
    V first = (part(b, x, dim, 1, 2) - part(b, x, dim, 0, 1)) / b.select(step, 0, b.integer(0));
    V last = (part(b, x, dim, -1) - part(b, x, dim, -2, -1)) / b.select(step, 0, b.integer(-1));
    return join(b, first, center, last, dim);
  }
  V l = b.select(left, 0, b.integer(0)), r = b.select(right, 0, b.integer(0));
  V first = weigh((l * -2.0 - r) / (l * (l + r)), (l + r) / (l * r), -l / (r * (l + r)), 0, false);
  l = b.select(left, 0, b.integer(-1)), r = b.select(right, 0, b.integer(-1));
  V last = weigh(r / (l * (r + l)), (-r - l) / (r * l), (r * 2.0 + l) / (r * (r + l)), -3, false);
  return join(b, first, center, last, dim);
}

Values gradient(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t order = c.integer("edge_order");
  if (order != 1 && order != 2) c.fail("edge_order must be 1 or 2");
  std::vector<int64_t> dims = c.has("dim") ? c.dims("dim", x.rank(), false) : iota(x.rank());
  Values out;
  for (size_t k = 0; k < dims.size(); k++) {
    Arg spacing = c.def.signature.find("spacing") < 0 || !c.has("spacing") ? Arg(1) : c["spacing"];
    if (spacing.is<ArgList>()) spacing = ArgList(spacing.get<ArgList>()).at(k);
    if (spacing.is<ValueId>()) out.push_back(gradient_at(b, x, dims[k], b.wrap(spacing.get<ValueId>()), order));
    else out.push_back(gradient_even(b, x, dims[k], spacing, order));
  }
  return out;
}

// im2col as views: pad, windows of the dilated extent, every dilation-th of their elements, and [n, c*kh*kw, places].
Values im2col(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  bool batched = x.rank() == 4;
  if (!batched) x = b.unsqueeze(x, 0);
  auto kernel = c.integers("kernel_size"), dilation = c.integers("dilation"), pad = c.integers("padding"), stride = c.integers("stride");
  x = b.call1("aten::constant_pad_nd.default", {x, ArgList{pad[1], pad[1], pad[0], pad[0]}});
  for (size_t k = 0; k < 2; k++) {
    x = b.call1("aten::unfold.default", {x, static_cast<int64_t>(k) + 2, dilation[k] * (kernel[k] - 1) + 1, stride[k]});
    x = b.call1("aten::slice.Tensor", {x, -1, 0, INT64_MAX, dilation[k]});
  }
  x = b.permute(x, {0, 1, 4, 5, 2, 3});
  std::vector<Expr> sizes{x.size(0), x.size(1) * x.size(2) * x.size(3), x.size(4) * x.size(5)};
  if (!batched) sizes.erase(sizes.begin());
  return b.reshape(x, sizes);
}

std::vector<Type> col2im_types(const Call& c) {
  auto kernel = c.integers("kernel_size");
  for (auto list : {"kernel_size", "dilation", "stride"})
    for (int64_t n : c.integers(list))
      if (n < 1) c.fail(fmt::format("{} of {}", list, n));
  for (int64_t n : c.integers("padding"))
    if (n < 0) c.fail(fmt::format("padding of {}", n));
  if (auto rows = const_int(c.size("self", -2)); rows && *rows % (kernel[0] * kernel[1]) != 0)
    c.fail(fmt::format("{} rows are no channels of windows of {} x {}", *rows, kernel[0], kernel[1]));
  std::vector<Expr> size = c.syms("output_size"), out;
  bool batched = c.rank("self") == 3;
  if (!batched && c.rank("self") != 2) c.fail("self has neither two nor three dims");
  if (batched) out.push_back(c.size("self", 0));
  out.push_back(divide_sizes(c.size("self", -2), c.pool().integer(kernel[0] * kernel[1])));
  out.insert(out.end(), size.begin(), size.end());
  return self_with(c, out);
}

// Each pixel sums the window elements that lie on it: of all taps, or where windows are not dilated of the few windows that reach it.
Compute col2im_define(const DefineArgs& d) {
  auto kernel = d.call.integers("kernel_size"), dilation = d.call.integers("dilation");
  auto pad = d.call.integers("padding"), stride = d.call.integers("stride");
  size_t rank = d.axes.size();
  Expr inside = d.pool.boolean(true), zero = d.integer(0), place = zero, row = d.i(rank - 3);
  std::vector<Expr> taps;
  for (size_t k = 0; k < 2; k++) {
    bool few = dilation[k] == 1 && stride[k] > 1;
    int64_t meeting = few ? (kernel[k] + stride[k] - 1) / stride[k] : kernel[k];
    Expr n = meeting == 1 ? zero : d.reduce_axis(d.integer(meeting)), step = d.integer(stride[k]);
    Expr from = d.i(rank - 2 + k) + static_cast<double>(pad[k]), tap = few ? mod(from, step) + n * step : n;
    Expr at = from - tap * static_cast<double>(dilation[k]), window = few ? floor_div(from, step) - n : floor_div(at, step);
    Expr count = windows(d.output.sizes[rank - 2 + k], kernel[k], dilation[k], pad[k], stride[k]);
    Expr meets = few ? logical_and(le(zero, window), lt(tap, d.integer(kernel[k]))) : logical_and(le(zero, at), eq(mod(at, step), zero));
    inside = logical_and(inside, logical_and(meets, lt(window, count)));
    place = place * count + window;
    row = row * static_cast<double>(kernel[k]) + tap;
    if (meeting != 1) taps.push_back(n);
  }
  std::vector<Expr> index{row, place};
  if (rank == 4) index.insert(index.begin(), d.i(0));
  Expr x = d.load_wide("self", index);
  Expr body = select(inside, x, constant_like(0, x));
  if (taps.empty()) return {.axes = d.axes, .body = cast(body, d.output.dtype)};
  return {.axes = d.axes, .reduce_axes = taps, .reduction = Reduction::Sum, .body = body};
}

const OpRow difference_ops[] = {
    {.schema = "aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     .decompose = diff,
     .vjp = "result: differences(self, n, dim, prepend, append)"},
    {.schema = "aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .decompose = trapezoid_x},
    {.schema = "aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", .decompose = trapezoid_dx},
    {.schema = "aten::trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .decompose = trapezoid_x},
    {.schema = "aten::trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor", .decompose = trapezoid_dx},
    {.schema = "aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", .decompose = cumulative_trapezoid_x},
    {.schema = "aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", .decompose = cumulative_trapezoid_dx},
    {.schema = "aten::gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]", .decompose = gradient},
    {.schema = "aten::gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
     .decompose = gradient},
    {.schema = "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
     .decompose = im2col,
     .vjp = "self: torch.col2im(grad, self_size[-2:], kernel_size, dilation, padding, stride)"},
    {.schema = "aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
               "-> Tensor",
     .kind = Kind::Reduce,
     .infer = col2im_types,
     .define = col2im_define,
     .dtypes = float_types | bool_type,
     .vjp = "self: torch.im2col(grad, kernel_size, dilation, padding, stride)"},
};

} // namespace

std::span<const OpRow> difference_rows() { return difference_ops; }

} // namespace tenon::ops
