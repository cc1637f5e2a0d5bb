// Affine quantization: q = clamp(round(x / scale) + zero_point), x = (q - zero_point) * scale, in f32, with a scale for
// the whole tensor or for each index of one axis.
#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// Scale and zero point as operands: numbers, or tensors that broadcast against the input.
struct Grid {
  Arg scale, inverse, zero_point;
};

// A parameter tensor in f32: 0-d, or along `axis`.
V parameter_tensor(V x, int64_t axis, size_t rank) {
  Builder& b = x.builder();
  x = b.to(x, DType::F32);
  if (axis < 0) return b.reshape(x, {});
  require_input(x.rank() == 1 && static_cast<size_t>(axis) < rank, "a scale or zero point of {} dims for axis {} of {}", x.rank(), axis,
                rank);
  std::vector<Expr> sizes(rank, b.integer(1));
  sizes[static_cast<size_t>(axis)] = x.size(0);
  return b.reshape(x, sizes);
}

Grid grid_of(Builder& b, const Call& c, std::string_view input, std::string_view scale, std::string_view zero, bool per_channel) {
  size_t rank = c.rank(input);
  int64_t axis = per_channel ? c.dim("axis", rank) : -1;
  Grid g{c[scale], {}, c[zero]};
  if (g.scale.is<ValueId>()) {
    V s = parameter_tensor(b.wrap(g.scale.get<ValueId>()), axis, rank);
    g.scale = s;
    g.inverse = b.call1("aten::reciprocal", {s});
  } else {
    g.inverse = 1.0 / c.number(scale);
    g.scale = c.number(scale);
  }
  if (g.zero_point.is<ValueId>()) g.zero_point = parameter_tensor(b.wrap(g.zero_point.get<ValueId>()), axis, rank);
  else g.zero_point = g.zero_point.is_none() ? 0.0 : static_cast<double>(c.integer(zero));
  return g;
}

// The bounds of the quantized values; a tensor overload gives them as 0-d tensors.
V clamp_to_range(Builder& b, const Call& c, V q) {
  if (!c["quant_min"].is<ValueId>()) return b.call1("aten::clamp", {q, c["quant_min"], c["quant_max"]});
  V lo = b.reshape(b.input(c, "quant_min"), {}), hi = b.reshape(b.input(c, "quant_max"), {});
  return b.call1("aten::clamp.Tensor", {q, b.to(lo, q.dtype()), b.to(hi, q.dtype())});
}

V steps(Builder& b, V x, const Grid& g) { return b.call1("aten::round", {x * g.inverse}) + g.zero_point; }

template <bool PerChannel> Values quantize(Builder& b, const Call& c) {
  Grid g = PerChannel ? grid_of(b, c, "input", "scales", "zero_points", true) : grid_of(b, c, "input", "scale", "zero_point", false);
  V q = clamp_to_range(b, c, steps(b, b.to(b.input(c, "input"), DType::F32), g));
  return b.to(q, *c.dtype("dtype"));
}

template <bool PerChannel> Values dequantize(Builder& b, const Call& c) {
  Grid g = PerChannel ? grid_of(b, c, "input", "scales", "zero_points", true) : grid_of(b, c, "input", "scale", "zero_point", false);
  V x = (b.to(b.input(c, "input"), DType::F32) - g.zero_point) * g.scale;
  return b.to(x, c.dtype("out_dtype").value_or(DType::F32));
}

// Quantized and back; the mask tells where nothing was clamped.
template <bool PerChannel> Values fake_quantize_masked(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  Grid g = grid_of(b, c, "self", "scale", "zero_point", PerChannel);
  V q = steps(b, as_float(self), g);
  V inside =
      b.call1("aten::logical_and", {b.call1("aten::ge.Scalar", {q, c["quant_min"]}), b.call1("aten::le.Scalar", {q, c["quant_max"]})});
  V out = b.to((clamp_to_range(b, c, q) - g.zero_point) * g.scale, self.dtype());
  if (c.def.signature.find("fake_quant_enabled") >= 0) {
    V enabled = b.reshape(b.call1("aten::gt.Scalar", {b.input(c, "fake_quant_enabled"), 0}), {});
    return Values{b.where(enabled, out, self), b.call1("aten::logical_or", {inside, b.call1("aten::logical_not", {enabled})})};
  }
  return Values{out, inside};
}
template <bool PerChannel> Values fake_quantize(Builder& b, const Call& c) { return fake_quantize_masked<PerChannel>(b, c)[0]; }

// Scale and zero point from the range of the input, which is made to hold 0.
Values choose_qparams(Builder& b, const Call& c) {
  V x = b.to(b.input(c, "input"), DType::F32);
  double lo_q = c.number("quant_min"), hi_q = c.number("quant_max");
  V lo = b.call1("aten::clamp_max", {b.call1("aten::min", {x}), 0.0}), hi = b.call1("aten::clamp_min", {b.call1("aten::max", {x}), 0.0});
  bool symmetric = c.def.signature.name.find("symmetric") != std::string::npos;
  V scale, zero;
  if (symmetric) {
    V reach = b.call1("aten::maximum", {-lo, hi});
    scale = b.call1("aten::clamp_min", {reach / ((hi_q - lo_q) / 2), c["eps"]});
    zero = b.scalar(c.dtype("dtype") == DType::U8 ? 128 : 0, DType::I64);
  } else {
    scale = b.call1("aten::clamp_min", {(hi - lo) / (hi_q - lo_q), c["eps"]});
    zero = b.call1("aten::clamp", {-b.call1("aten::round", {lo / scale}) + lo_q, lo_q, hi_q});
  }
  std::vector<Expr> one{b.integer(1)};
  return Values{b.reshape(b.to(scale, DType::F64), one), b.reshape(b.to(zero, DType::I64), one)};
}

const OpRow quantize_ops[] = {
    composite("quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, "
              "ScalarType dtype) -> Tensor",
              quantize<false>),
    composite("quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int "
              "quant_max, ScalarType dtype) -> Tensor",
              quantize<false>),
    composite("quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor "
              "quant_max, "
              "ScalarType dtype) -> Tensor",
              quantize<false>),
    composite("quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, "
              "ScalarType dtype, *, "
              "ScalarType? out_dtype=None) -> Tensor",
              dequantize<false>),
    composite("quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int "
              "quant_max, ScalarType dtype, *, "
              "ScalarType? out_dtype=None) -> Tensor",
              dequantize<false>),
    composite("quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor "
              "quant_max, "
              "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
              dequantize<false>),
    composite("quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int "
              "quant_max, "
              "ScalarType dtype) -> Tensor",
              quantize<true>),
    composite("quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int "
              "quant_max, "
              "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
              dequantize<true>),
    composite("quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> "
              "(Tensor, Tensor)",
              choose_qparams),
    composite("quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
              "dtype) -> (Tensor, Tensor)",
              choose_qparams),
    composite("aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor",
              fake_quantize<false>, to_f32),
    composite("aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int "
              "quant_max) -> Tensor",
              fake_quantize<false>, to_f32),
    composite("aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> "
              "(Tensor output, Tensor mask)",
              fake_quantize_masked<false>),
    composite("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor "
              "fake_quant_enabled, int quant_min, "
              "int quant_max) -> (Tensor output, Tensor mask)",
              fake_quantize_masked<false>),
    composite("aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int "
              "quant_max) -> Tensor",
              fake_quantize<true>),
    composite("aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int "
              "quant_max) -> (Tensor output, Tensor mask)",
              fake_quantize_masked<true>),
};

} // namespace

std::span<const OpRow> quantize_rows() { return quantize_ops; }

} // namespace tenon::ops
