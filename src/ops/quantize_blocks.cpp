// Affine quantization with a scale and a zero point for each block of sizes `block_size`, or for each row or group of a row, under
// the names of torchao and quantized_decomposed. As there, what is done to f16 and bf16 is rounded after each step.
#include <limits>

#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// The input as its blocks: a dim that is cut gives two, the number of blocks and the place in one.
struct Blocks {
  std::vector<Expr> sizes;      // to view the input as
  std::vector<Expr> parameters; // the same, with 1 for each dim inside a block
  std::vector<int64_t> inner;   // the dims inside a block
};

Blocks blocks_of(Builder& b, const Call& c, V x) {
  std::vector<Expr> block = c.syms("block_size");
  if (block.size() != x.rank()) c.fail("block_size is not of the input's rank");
  Blocks out;
  auto add = [&](Expr size, bool inner) {
    if (inner) out.inner.push_back(static_cast<int64_t>(out.sizes.size()));
    out.sizes.push_back(size);
    out.parameters.push_back(inner ? b.integer(1) : size);
  };
  for (size_t d = 0; d < block.size(); d++) {
    bool one = is_const_int(block[d], 1);
    if (one || block[d] == x.sizes()[d]) {
      add(x.sizes()[d], !one);
      continue;
    }
    if (auto size = const_int(x.sizes()[d]), length = const_int(block[d]); length && (*length < 1 || (size && *size % *length != 0)))
      c.fail(fmt::format("dim {} cannot be cut into blocks of {}", d, *length));
    add(floor_div(x.sizes()[d], block[d]), false);
    add(block[d], true);
  }
  return out;
}

struct QuantizedRange {
  double lo, hi;
};

// Of the quantized values: as given, or all of the dtype.
QuantizedRange range_of(const Call& c, DType dtype) {
  QuantizedRange all = dispatch(dtype, [&]<class T>(T) -> QuantizedRange {
    if constexpr (std::is_integral_v<T>)
      return {static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())};
    else c.fail(fmt::format("quantized values of dtype {}", name_of(dtype)));
  });
  return {c.has("quant_min") ? c.number("quant_min") : all.lo, c.has("quant_max") ? c.number("quant_max") : all.hi};
}

// A zero point is none too where it is an empty tensor.
V zero_point_of(Builder& b, const Call& c, const Blocks& blocks) {
  if (!c.has("zero_point") || is_const_int(product(b.pool(), c.type("zero_point").sizes), 0)) return {};
  return b.reshape(b.input(c, "zero_point"), blocks.parameters);
}

Values quantize_affine(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  Blocks blocks = blocks_of(b, c, x);
  DType dtype = *c.dtype("output_dtype");
  V scale = b.reshape(b.input(c, "scale"), blocks.parameters), zero = zero_point_of(b, c, blocks);
  V q = b.call1("aten::round", {b.reshape(x, blocks.sizes) * b.call1("aten::reciprocal", {scale})});
  if (zero) q = q + zero;
  QuantizedRange range = range_of(c, dtype);
  q = b.call1("aten::clamp", {q, range.lo, range.hi});
  return b.to(b.reshape(q, x.sizes()), dtype);
}

Values dequantize_affine(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  Blocks blocks = blocks_of(b, c, x);
  DType dtype = c.dtype("output_dtype").value_or(DType::F32);
  V scale = b.reshape(b.input(c, "scale"), blocks.parameters), zero = zero_point_of(b, c, blocks);
  V out = b.to(b.reshape(x, blocks.sizes), dtype);
  if (zero) out = out - b.to(zero, dtype);
  return b.to(b.reshape(out * scale, x.sizes()), dtype);
}

double smallest_normal(DType t) { return t == DType::F16 ? 0x1p-14 : t == DType::F64 ? 0x1p-1022 : 0x1p-126; }

// From the range of each block, which is made to hold 0.
Values choose_qparams_affine(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  Blocks blocks = blocks_of(b, c, x);
  QuantizedRange range = range_of(c, *c.dtype("target_dtype"));
  double eps = c.has("eps") ? c.number("eps") : smallest_normal(x.dtype());
  std::string mapping = c.text("mapping_type");
  bool keepdim = c.flag("keepdim");
  auto extreme = [&](std::string_view op, std::string_view with_zero) {
    return b.call1(with_zero, {b.call1(op, {b.reshape(x, blocks.sizes), blocks.inner, keepdim}), 0});
  };
  V lo = extreme("aten::amin", "aten::clamp_max"), hi = extreme("aten::amax", "aten::clamp_min"), scale, zero;
  DType zero_type = x.dtype();
  if (mapping == "ASYMMETRIC") {
    scale = b.call1("aten::clamp_min", {(hi - lo) / (range.hi - range.lo), eps});
    zero = b.call1("aten::rsub.Scalar", {b.call1("aten::round", {lo / scale}), range.lo});
    zero = b.call1("aten::clamp", {zero, range.lo, range.hi});
    zero_type = DType::I32;
  } else {
    if (mapping == "SYMMETRIC") scale = b.call1("aten::maximum", {-lo, hi}) / ((range.hi - range.lo) / 2);
    else if (mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
      V low = lo / range.lo, high = hi / range.hi;
      scale = b.where(b.call1("aten::gt.Tensor", {low, high}), low, high);
    } else c.fail("mapping_type is " + mapping);
    zero = b.full(scale.sizes(), std::trunc((range.hi + range.lo + 1) / 2), x.dtype());
    scale = b.call1("aten::clamp_min", {scale, eps});
  }
  if (keepdim) {
    std::vector<Expr> sizes, block = c.syms("block_size");
    for (size_t d = 0; d < block.size(); d++) sizes.push_back(floor_div(x.sizes()[d], block[d]));
    scale = b.reshape(scale, sizes), zero = b.reshape(zero, sizes);
  }
  return Values{b.to(scale, c.dtype("scale_dtype").value_or(x.dtype())), b.to(zero, c.dtype("zero_point_dtype").value_or(zero_type))};
}

// ---- each row of the last dim, or groups of its elements, under the names of quantized_decomposed

// The input with what shares a scale in the last dim of two, or as it is where scales broadcast against it already.
V grouped(Builder& b, const Call& c, V x) {
  if (c.def.signature.find("group_size") < 0) return x;
  if (x.rank() != 2) c.fail("input is no matrix");
  auto size = const_int(x.size(1));
  int64_t group = c.integer("group_size");
  bool whole = size && group > *size && is_const_int(c.size("scales", -1), 1);
  Expr length = whole ? x.size(1) : b.integer(group);
  if (group < 2 || (size && !whole && *size % group != 0)) c.fail(fmt::format("groups of {}", group));
  return b.reshape(x, {floor_div(product(b.pool(), x.sizes()), length), length});
}

V group_parameter(Builder& b, const Call& c, std::string_view name) {
  V p = b.input(c, name);
  if (c.def.signature.find("group_size") < 0) return p;
  return b.reshape(p, {product(b.pool(), p.sizes()), b.integer(1)});
}

Values quantize_rows(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  V q = grouped(b, c, x) * b.call1("aten::reciprocal", {group_parameter(b, c, "scales")}) + group_parameter(b, c, "zero_points");
  q = b.call1("aten::clamp", {b.call1("aten::round", {q}), c["quant_min"], c["quant_max"]});
  return b.to(b.reshape(q, x.sizes()), *c.dtype("dtype"));
}

Values dequantize_rows(Builder& b, const Call& c) {
  V x = b.input(c, "input"), out = grouped(b, c, x);
  if (c.has("zero_points")) out = out - group_parameter(b, c, "zero_points");
  return b.to(b.reshape(out * group_parameter(b, c, "scales"), x.sizes()), c.dtype("output_dtype").value_or(DType::F32));
}

Values choose_row(Builder& b, const Call& c) {
  if (c.dtype("dtype") != DType::I8) c.fail("only for int8");
  V scale = b.call1("aten::amax", {b.call1("aten::abs", {b.input(c, "input")}), ArgList{-1}, true});
  if (scale.dtype() == DType::F16) scale = b.to(scale, DType::F32);
  scale = b.call1("aten::clamp_min", {scale, 1e-5}) / 127.0;
  return Values{b.to(scale, DType::F64), b.full(scale.sizes(), 0, DType::I64)}; // the dtypes that torch.export records
}

// The zero point is taken from the end of the range where it is off by less.
Values choose_row_asymmetric(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  V lo = b.call1("aten::clamp_max", {b.call1("aten::amin", {x, ArgList{-1}, true}), 0}),
    hi = b.call1("aten::clamp_min", {b.call1("aten::amax", {x, ArgList{-1}, true}), 0});
  V scale = b.call1("aten::clamp_min", {(hi - lo) / 255.0, 0x1p-23}), low = lo / scale, high = hi / scale;
  V off = (low + -128.0) + (high + 127.0);
  V zero = b.where(b.call1("aten::gt.Scalar", {off, 0}), b.call1("aten::rsub.Scalar", {low, -128.0}),
                   b.call1("aten::rsub.Scalar", {high, 127.0}));
  zero = b.call1("aten::round", {b.call1("aten::clamp", {zero, -128.0, 127.0})});
  return Values{b.to(scale, DType::F64), b.to(zero, DType::I64)};
}

// The scale that brings the largest magnitude of each block to that of the float of 8 bits.
Values choose_scale_float8(Builder& b, const Call& c) {
  V x = b.input(c, "tensor");
  Blocks blocks = blocks_of(b, c, x);
  DType type = c.dtype("float8_dtype").value_or(DType::F8E4M3FN);
  if (!is_float8(type) || c.dtype("scale_dtype").value_or(DType::F32) != DType::F32)
    unsupported("torchao::choose_scale_float8 of these dtypes");
  V most = b.call1("aten::amax", {b.call1("aten::abs", {b.reshape(x, blocks.sizes)}), blocks.inner, true});
  if (c.has("hp_value_lb") || c.has("hp_value_ub")) most = b.call1("aten::clamp", {most, c["hp_value_lb"], c["hp_value_ub"]});
  std::vector<Expr> sizes, block = c.syms("block_size");
  for (size_t d = 0; d < block.size(); d++) sizes.push_back(floor_div(x.sizes()[d], block[d]));
  return b.to(b.reshape(most / static_cast<double>(from_float8(float8_format(type).largest, type)), sizes), DType::F32);
}

const OpRow quantize_blocks_ops[] = {
    composite("torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? "
              "quant_min=None, "
              "Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool "
              "keepdim=False) -> (Tensor, Tensor)",
              choose_qparams_affine),
    composite("torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, "
              "Scalar? quant_min=None, "
              "Scalar? quant_max=None) -> Tensor",
              quantize_affine),
    composite("torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, "
              "Scalar? quant_min=None, "
              "Scalar? quant_max=None, ScalarType? output_dtype=None) -> Tensor",
              dequantize_affine),
    composite("quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
              "ScalarType dtype) -> Tensor",
              quantize_rows),
    composite("quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
              "ScalarType dtype, "
              "ScalarType output_dtype) -> Tensor",
              dequantize_rows),
    composite("quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
              "quant_max, ScalarType dtype, "
              "int group_size) -> Tensor",
              quantize_rows),
    composite("quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int "
              "quant_max, ScalarType dtype, "
              "int group_size, ScalarType output_dtype) -> Tensor",
              dequantize_rows),
    composite("quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", choose_row),
    composite("quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
              choose_row_asymmetric),
    composite("quantized_decomposed::_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
              choose_row_asymmetric),
    composite(
        "torchao::choose_scale_float8(Tensor tensor, SymInt[] block_size, ScalarType? float8_dtype=None, ScalarType? scale_dtype=None, "
        "float? hp_value_lb=None, float? hp_value_ub=None) -> Tensor",
        choose_scale_float8),
};

} // namespace

std::span<const OpRow> quantize_blocks_rows() { return quantize_blocks_ops; }

} // namespace tenon::ops
