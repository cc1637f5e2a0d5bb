// Affine quantization in blocks: a scale and a zero point for each block of sizes `block_size`, under torchao's names. As
// there, what is done to f16 and bf16 is rounded to that dtype after each step.
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

struct Range {
  double lo, hi;
};

// Of the quantized values: as given, or all of the dtype.
Range range_of(const Call& c, DType dtype) {
  Range all = dispatch(dtype, [&]<class T>(T) -> Range {
    if constexpr (std::is_integral_v<T>) return {static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())};
    else c.fail(fmt::format("quantized values of dtype {}", name_of(dtype)));
  });
  return {c.has("quant_min") ? c.number("quant_min") : all.lo, c.has("quant_max") ? c.number("quant_max") : all.hi};
}

// A zero point is none too where it is an empty tensor.
V zero_point_of(Builder& b, const Call& c, const Blocks& blocks) {
  if (!c.has("zero_point") || is_const_int(product(b.pool(), c.type("zero_point").sizes), 0)) return {};
  return b.reshape(b.input(c, "zero_point"), blocks.parameters);
}

Values quantize(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  Blocks blocks = blocks_of(b, c, x);
  DType dtype = *c.dtype("output_dtype");
  V scale = b.reshape(b.input(c, "scale"), blocks.parameters), zero = zero_point_of(b, c, blocks);
  V q = b.call1("aten::round", {b.reshape(x, blocks.sizes) * b.call1("aten::reciprocal", {scale})});
  if (zero) q = q + zero;
  Range range = range_of(c, dtype);
  q = b.call1("aten::clamp", {q, range.lo, range.hi});
  return b.to(b.reshape(q, x.sizes()), dtype);
}

Values dequantize(Builder& b, const Call& c) {
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
Values choose_qparams(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  Blocks blocks = blocks_of(b, c, x);
  Range range = range_of(c, *c.dtype("target_dtype"));
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
    }
    else c.fail("mapping_type is " + mapping);
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

const OpRow rows[] = {
    composite("torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, "
              "Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)",
              choose_qparams),
    composite("torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, "
              "Scalar? quant_max=None) -> Tensor", quantize),
    composite("torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar? quant_min=None, "
              "Scalar? quant_max=None, ScalarType? output_dtype=None) -> Tensor", dequantize),
};

} // namespace

std::span<const OpRow> quantize_blocks_rows() { return rows; }

} // namespace tenon::ops
