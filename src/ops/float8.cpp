// Operators on floats of 8 bits: products with scales, and torchao's scaling by blocks. All compute in f32.
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

double largest_float8(DType t) {
  if (!is_float8(t)) unsupported("{} for a float of 8 bits", name_of(t));
  return from_float8(float8_format(t).largest, t);
}

// For the whole product, or for each row or column of it.
V scale_of(Builder& b, const Call& c, std::string_view name) {
  V s = b.to(b.input(c, name), DType::F32);
  return is_const_int(product(b.pool(), s.sizes()), 1) ? b.reshape(s, {}) : s;
}

Values scaled_mm(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "mat2");
  if (x.rank() != 2 || y.rank() != 2) c.fail("operands must be matrices");
  DType result = c.dtype("out_dtype").value_or(x.dtype());
  V out = product(b, b.to(x, DType::F32), b.to(y, DType::F32), DType::F32) * scale_of(b, c, "scale_a") * scale_of(b, c, "scale_b");
  if (c.has("bias")) out = out + b.to(b.input(c, "bias"), DType::F32);
  if (c.has("scale_result") && is_float8(result)) out = out / scale_of(b, c, "scale_result"); // as torch's CPU kernel takes it
  return b.to(out, result);
}

// Each number of a scale as often as its block is long.
V expand_scale(Builder& b, V scale, V x) {
  if (is_const_int(product(b.pool(), scale.sizes()), 1)) return b.reshape(scale, {});
  require_input(scale.rank() == x.rank(), "a scale of rank {} for a tensor of rank {}", scale.rank(), x.rank());
  for (size_t d = 0; d < x.rank(); d++) {
    Expr have = scale.sizes()[d], want = x.sizes()[d];
    if (have == want || is_const_int(have, 1)) continue;
    std::vector<Expr> sizes = scale.sizes();
    sizes.insert(sizes.begin() + static_cast<int64_t>(d) + 1, floor_div(want, have));
    V each = b.expand(b.unsqueeze(scale, static_cast<int64_t>(d) + 1), sizes);
    sizes.erase(sizes.begin() + static_cast<int64_t>(d));
    sizes[d] = want;
    scale = b.reshape(each, sizes);
  }
  return scale;
}

Values quantize_float8(Builder& b, const Call& c) {
  V x = b.to(b.input(c, "tensor"), DType::F32);
  DType type = c.dtype("float8_dtype").value_or(DType::F8E4M3FN);
  double most = largest_float8(type);
  return b.to(b.call1("aten::clamp", {x / expand_scale(b, b.input(c, "scale"), x), -most, most}), type);
}

Values dequantize_float8(Builder& b, const Call& c) {
  V x = b.to(b.input(c, "tensor"), DType::F32);
  return b.to(x * expand_scale(b, b.input(c, "scale"), x), c.dtype("output_dtype").value_or(DType::F32));
}

const OpRow float8_ops[] = {
    composite("aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, "
              "ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
              scaled_mm),
    composite("torchao::quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType? float8_dtype=None) -> Tensor",
              quantize_float8),
    composite("torchao::dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType? output_dtype=None) -> Tensor",
              dequantize_float8),
};

} // namespace

std::span<const OpRow> float8_rows() { return float8_ops; }

} // namespace tenon::ops
