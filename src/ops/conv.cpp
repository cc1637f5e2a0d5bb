// Convolutions. aten::convolution without bias is the one of the Edge dialect; its overload `dtype` gives the wide
// accumulator, so that a bias after a product of reduced floats is rounded together with it, takes bytes into I32, and pads with a
// number of one's own.
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

struct ConvGeometry {
  size_t dims; // spatial
  bool transposed;
  Expr groups;
  std::vector<Expr> stride, padding, dilation, output_padding;
};

std::vector<Expr> spread(std::vector<Expr> list, size_t dims) {
  if (list.size() == 1) list.assign(dims, list[0]);
  return list;
}

ConvGeometry geometry_of(const Call& c) {
  size_t dims = c.rank("weight") < 2 ? 0 : c.rank("weight") - 2;
  auto list = [&](std::string_view name) { return spread(c.syms(name), dims); };
  ConvGeometry g{dims, c.flag("transposed"), c.sym("groups"), list("stride"), list("padding"), list("dilation"), list("output_padding")};
  for (auto* l : {&g.stride, &g.padding, &g.dilation})
    if (l->size() != dims) c.fail(fmt::format("needs {} numbers each for stride, padding and dilation", dims));
  auto positive = [&](Expr e, std::string_view name) {
    if (auto v = const_int(e); v && *v <= 0) c.fail(fmt::format("{} {}", name, *v));
  };
  positive(g.groups, "groups");
  for (size_t d = 0; d < dims; d++) {
    positive(g.stride[d], "stride"), positive(g.dilation[d], "dilation");
    if (auto v = const_int(g.padding[d]); v && *v < 0) c.fail(fmt::format("padding {}", *v));
  }
  if (g.transposed && g.output_padding.size() != dims) c.fail(fmt::format("needs {} numbers for output_padding", dims));
  return g;
}

// Of a convolution whose sizes are known.
void check_kernel_fits(const Call& c, const ConvGeometry& g) {
  if (g.transposed) return;
  std::string padded, kernel;
  bool fits = true;
  for (size_t d = 0; d < g.dims; d++) {
    auto at = static_cast<int64_t>(d + 2);
    auto in = const_int(c.size("input", at) + g.padding[d] * 2.0), reach = const_int(g.dilation[d] * (c.size("weight", at) - 1.0) + 1.0);
    if (!in || !reach) return;
    fits &= *reach <= *in;
    padded += fmt::format("{}{}", d ? " x " : "", *in), kernel += fmt::format("{}{}", d ? " x " : "", *reach);
  }
  if (!fits)
    c.fail(fmt::format(
        "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size", padded,
        kernel));
}

std::vector<Type> conv_types(const Call& c) {
  ConvGeometry g = geometry_of(c);
  if (c.rank("weight") < 2 || c.rank("input") != g.dims + 2) c.fail("input and weight differ in rank");
  DType t = c.type("input").dtype, weight = c.type("weight").dtype;
  bool with_type = c.def.signature.find("out_dtype") >= 0;
  if (with_type) t = c.dtype("out_dtype").value_or(t);
  bool bytes = with_type && t == DType::I32 && size_of(weight) == 1 && size_of(c.type("input").dtype) == 1;
  bool narrow_weights = with_type && t == DType::F32 && c.type("input").dtype == t && is_reduced_float(weight);
  if (c.type("input").dtype != weight && !bytes && !narrow_weights) c.fail("input and weight differ in dtype");
  Expr channels = c.size("input", 1), wanted = g.transposed ? c.size("weight", 0) : c.size("weight", 1) * g.groups;
  if (auto a = const_int(channels), b = const_int(wanted); a && b && *a != *b)
    c.fail(fmt::format("Given {}groups={}, weight of size {}, expected input{} to have {} channels, but got {} channels instead",
                       g.transposed ? "transposed=1, " : "", to_string(g.groups), sizes_text(c.type("weight").sizes),
                       sizes_text(c.type("input").sizes), *b, *a));
  check_kernel_fits(c, g);
  std::vector<Expr> sizes{c.size("input", 0), g.transposed ? c.size("weight", 1) * g.groups : c.size("weight", 0)};
  for (size_t d = 0; d < g.dims; d++) {
    auto at = static_cast<int64_t>(d + 2);
    Expr in = c.size("input", at), reach = g.dilation[d] * (c.size("weight", at) - 1.0);
    if (g.transposed) sizes.push_back((in - 1.0) * g.stride[d] - g.padding[d] * 2.0 + reach + g.output_padding[d] + 1.0);
    else sizes.push_back(floor_div(in + g.padding[d] * 2.0 - reach - 1.0, g.stride[d]) + 1.0);
  }
  return {Type::tensor(t, sizes)};
}

// Where an output element reads along one spatial dim: the place, and whether it lies inside.
struct Place {
  Expr at, inside;
};

Place place(const DefineArgs& d, const ConvGeometry& g, size_t dim, Expr tap) {
  Expr size = d.call.size("input", static_cast<int64_t>(dim + 2)), o = d.i(dim + 2);
  Expr yes = d.pool.boolean(true), zero = d.integer(0);
  if (!g.transposed) {
    Expr at = o * g.stride[dim] + tap * g.dilation[dim] - g.padding[dim];
    if (is_const_int(g.padding[dim], 0)) return {at, yes};
    return {at, logical_and(le(zero, at), lt(at, size))};
  }
  Expr scaled = o + g.padding[dim] - tap * g.dilation[dim];
  Expr at = floor_div(scaled, g.stride[dim]);
  Expr hit = eq(mod(scaled, g.stride[dim]), zero);
  return {at, logical_and(hit, logical_and(le(zero, at), lt(at, size)))};
}

Compute conv_define(const DefineArgs& d) {
  ConvGeometry g = geometry_of(d.call);
  Expr per_group = floor_div(d.call.size("input", 1), g.groups), out_per_group = floor_div(d.output.sizes[1], g.groups);
  Expr c = d.reduce_axis(per_group), group = floor_div(d.i(1), out_per_group);
  Expr channel = group * per_group + c, inside = d.pool.boolean(true);
  std::vector<Expr> in{d.i(0), channel}, weight{d.i(1), c}, reduce{c};
  if (g.transposed) weight = {channel, mod(d.i(1), out_per_group)};
  for (size_t k = 0; k < g.dims; k++) {
    Expr tap = d.reduce_axis(d.call.size("weight", static_cast<int64_t>(k + 2)));
    Place p = place(d, g, k, tap);
    in.push_back(p.at);
    weight.push_back(tap);
    reduce.push_back(tap);
    inside = logical_and(inside, p.inside);
  }
  DType wide = compute_type(promote(d.output.dtype, d.call.type("input").dtype));
  Expr x = cast(d.load("input", in), wide), w = cast(d.load("weight", weight), wide);
  int64_t padding = d.call.def.signature.find("padding_value") >= 0 ? d.call.integer("padding_value") : 0;
  Expr body = padding == 0 ? select(inside, x * w, like(0, x)) : select(inside, x, like(static_cast<double>(padding), x)) * w;
  return {.axes = d.axes, .reduce_axes = reduce, .reduction = Reduction::Sum, .body = body};
}

size_t spatial_dims(const Call& c) {
  if (c.rank("weight") < 3 || c.rank("weight") > 5) c.fail(fmt::format("a weight of {} dims", c.rank("weight")));
  return c.rank("weight") - 2;
}

// [C] to go with [N, C, ...].
V channel_bias(Builder& b, V bias, size_t dims) {
  require_input(bias.rank() == 1, "a bias of {} dims", bias.rank());
  std::vector<Expr> sizes(dims + 1, b.integer(1));
  sizes[0] = bias.size(0);
  return b.reshape(bias, sizes);
}

// A bias becomes an addition of its own.
Values split_bias(Builder& b, const Call& c) {
  if (!c.has("bias")) return {};
  V x = b.input(c, "input");
  DType result = x.dtype(), wide = compute_type(result);
  ArgList args{x, c["weight"], Arg(), c["stride"], c["padding"], c["dilation"], c["transposed"], c["output_padding"], c["groups"]};
  if (wide != result) args.push_back(wide);
  V y = b.call1(wide == result ? "aten::convolution.default" : "aten::convolution.dtype", args);
  return b.to(y + channel_bias(b, b.to(b.input(c, "bias"), wide), y.rank() - 2), result);
}

V convolution(Builder& b, const Call& c, V x, const Arg& padding, bool transposed, const Arg& output_padding) {
  size_t dims = spatial_dims(c);
  bool single = x.rank() == dims + 1; // without batch
  if (single) x = b.unsqueeze(x, 0);
  if (x.rank() != dims + 2)
    c.fail(fmt::format("Expected {}D (unbatched) or {}D (batched) input to conv{}{}d, but got input of size: {}", dims + 1, dims + 2,
                       transposed ? "_transpose" : "", dims, sizes_text(c.type("input").sizes)));
  V y = b.call1("aten::convolution.default", {x, c["weight"], c["bias"], spread(c.syms("stride"), dims), padding,
                                              spread(c.syms("dilation"), dims), transposed, output_padding, c["groups"]});
  return single ? b.squeeze(y, 0) : y;
}

std::vector<int64_t> zeros(size_t n) { return std::vector<int64_t>(n, 0); }

Values conv(Builder& b, const Call& c) {
  size_t dims = spatial_dims(c);
  return convolution(b, c, b.input(c, "input"), spread(c.syms("padding"), dims), false, zeros(dims));
}

// "same": as many zeros as the kernel reaches, the odd one after the end.
Values conv_padding(Builder& b, const Call& c) {
  size_t dims = spatial_dims(c);
  V x = b.input(c, "input");
  std::string mode = c.text("padding");
  if (mode == "valid") return convolution(b, c, x, zeros(dims), false, zeros(dims));
  if (mode != "same") c.fail(fmt::format("padding {}", mode));
  auto dilation = spread(c.syms("dilation"), dims);
  std::vector<Expr> both, after;
  bool even = true;
  for (size_t d = 0; d < dims; d++) {
    Expr total = dilation[d] * (c.size("weight", static_cast<int64_t>(d + 2)) - 1.0);
    both.push_back(floor_div(total, b.integer(2)));
    after.insert(after.begin(), {b.integer(0), total - both.back() * 2.0}); // of constant_pad_nd: last dim first
    even &= is_const_int(after[1], 0);
  }
  if (!even) x = b.call1("aten::constant_pad_nd.default", {x, after, 0});
  return convolution(b, c, x, both, false, zeros(dims));
}

Values conv_transpose(Builder& b, const Call& c) {
  size_t dims = spatial_dims(c);
  return convolution(b, c, b.input(c, "input"), spread(c.syms("padding"), dims), true, spread(c.syms("output_padding"), dims));
}

Values convolution_long(Builder& b, const Call& c) {
  return b.call("aten::convolution.default", {c["input"], c["weight"], c["bias"], c["stride"], c["padding"], c["dilation"], c["transposed"],
                                              c["output_padding"], c["groups"]});
}

// Time, batch, channels; the weight is [taps, in, out].
Values conv_tbc(Builder& b, const Call& c) {
  V y = b.call1("aten::conv1d.default",
                {b.permute(b.input(c, "self"), {1, 2, 0}), b.permute(b.input(c, "weight"), {2, 1, 0}), c["bias"], {1}, {c.integer("pad")}});
  return b.permute(y, {2, 0, 1});
}

const OpRow conv_ops[] = {
    {.schema = "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
               "transposed, "
               "SymInt[] output_padding, SymInt groups) -> Tensor",
     .kind = Kind::Conv,
     .infer = conv_types,
     .define = conv_define,
     .decompose = split_bias,
     .dtypes = real_types,
     .jvp = [](Builder& b, const Tangents& d) { return jvp_product(b, d, 1); },
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, "
            "needs)"},
    {.schema = "aten::convolution.dtype(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
               "bool transposed, SymInt[] output_padding, SymInt groups, ScalarType out_dtype, int padding_value=0) -> Tensor",
     .kind = Kind::Conv,
     .infer = conv_types,
     .define = conv_define,
     .dtypes = real_types,
     .types = "weight=reals bias=reals -> reals"},
    {.schema = "aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
               "transposed, "
               "SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
     .decompose = convolution_long,
     .autocast = to_lower,
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, "
            "needs)"},
    {.schema =
         "aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
         "bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
     .decompose = convolution_long,
     .autocast = to_lower,
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, "
            "needs)"},
    {.schema = "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] "
               "dilation=[1], "
               "SymInt groups=1) -> Tensor",
     .decompose = conv,
     .autocast = to_lower,
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, False, stride, groups, needs)"},
    {.schema = "aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding='valid', "
               "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
     .decompose = conv_padding,
     .autocast = to_lower,
     .vjp = "result: padded_convolution(input, weight, bias, stride, padding, dilation, groups)"},
    {.schema = "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
               "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
     .decompose = conv,
     .autocast = to_lower,
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, False, stride, groups, needs)"},
    {.schema = "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding='valid', "
               "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
     .decompose = conv_padding,
     .autocast = to_lower,
     .vjp = "result: padded_convolution(input, weight, bias, stride, padding, dilation, groups)"},
    {.schema = "aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], "
               "SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     .decompose = conv,
     .autocast = to_lower,
     .vjp = "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, False, stride, groups, needs)"},
    {.schema = "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding='valid', "
               "SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     .decompose = conv_padding,
     .autocast = to_lower,
     .vjp = "result: padded_convolution(input, weight, bias, stride, padding, dilation, groups)"},
    {.schema = "aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
               "SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor",
     .decompose = conv_transpose,
     .autocast = to_lower,
     .vjp =
         "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, True, output_padding, groups, needs)"},
    {.schema =
         "aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
         "SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor",
     .decompose = conv_transpose,
     .autocast = to_lower,
     .vjp =
         "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, True, output_padding, groups, needs)"},
    {.schema = "aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] "
               "padding=[0, 0, 0], "
               "SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor",
     .decompose = conv_transpose,
     .autocast = to_lower,
     .vjp =
         "input, weight, bias: convolution_operands(grad, input, weight, stride, padding, dilation, True, output_padding, groups, needs)"},
    {.schema = "aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", .decompose = conv_tbc, .autocast = to_lower},
};

} // namespace

std::span<const OpRow> conv_rows() { return conv_ops; }

} // namespace tenon::ops
