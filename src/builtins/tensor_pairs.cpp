// What is asked of two tensors, or dtypes, and answered without a tensor: whether they are equal or close, what they promote to.
#include <algorithm>
#include <cmath>

#include "base/numeric.h"
#include "builtins/elements.h"
#include "builtins/rows.h"
#include "ir/promote.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;
using Sizes = std::vector<Int>;

/// `t` read at the sizes of a broadcast.
Tensor expanded(const Tensor& t, const Sizes& sizes) {
  Sizes strides(sizes.size());
  size_t more = sizes.size() - t.rank();
  for (size_t d = 0; d < t.rank(); d++) strides[d + more] = t.sizes()[d] == 1 ? 0 : t.strides()[d];
  return Tensor(t.dtype(), sizes, strides, t.storage(), t.data()).contiguous();
}

/// Whether f holds for all pairs of elements of two tensors of one size.
template <class F> bool all_pairs(const Tensor& a, const Tensor& b, F f) {
  Tensor x = a.contiguous(), y = b.contiguous();
  auto element = [](const Tensor& t, Int i) {
    return load_element(t.data_as<char>() + i * static_cast<Int>(size_of(t.dtype())), t.dtype());
  };
  for (Int i = 0; i < a.numel(); i++)
    if (!f(element(x, i), element(y, i))) return false;
  return true;
}

bool same_values(const Tensor& a, const Tensor& b) { return a.sizes() == b.sizes() && all_pairs(a, b, equal); }

Complex number(const IValue& v) { return v.is(IValue::Tag::Complex) ? v.to_complex() : Complex(v.number()); }
bool is_nan(Complex c) { return std::isnan(c.real()) || std::isnan(c.imag()); }

bool all_close(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan) {
  if (a.dtype() != b.dtype()) raise("", fmt::format("{} did not match {}", torch_name(a.dtype()), torch_name(b.dtype())));
  if (!(relative >= 0)) raise("", fmt::format("rtol must be greater than or equal to zero, but got {}", relative));
  if (!(absolute >= 0)) raise("", fmt::format("atol must be greater than or equal to zero, but got {}", absolute));
  auto is_close = [&](const IValue& v, const IValue& w) {
    Complex x = number(v), y = number(w);
    if (equal(v, w) || (equal_nan && is_nan(x) && is_nan(y))) return true;
    double distance = std::abs(x - y);
    return std::isfinite(distance) && distance <= absolute + relative * std::abs(y);
  };
  Sizes sizes = broadcast_sizes(a.sizes(), b.sizes());
  return all_pairs(expanded(a, sizes), expanded(b, sizes), is_close);
}

/// `higher` decides, unless `lower` is of a wider kind.
DType combined(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? *higher : lower.value_or(DType::F32);
  if (is_complex(*higher)) return *higher;
  if (is_float(*higher)) return is_complex(*lower) ? complex_type(*higher) : *higher;
  bool wider = *higher == DType::Bool || is_float(*lower) || is_complex(*lower);
  return wider ? promote(*higher, *lower) : *higher;
}

/// What a tensor or number brings to the dtype of a result: tensors with dims come before those without, these before numbers.
struct Share {
  int rank; // 0, 1, 2 in that order
  DType dtype;
};
Share share_of(const IValue& v) {
  using Tag = IValue::Tag;
  if (v.is(Tag::Tensor)) return {v.to_tensor().rank() == 0, v.to_tensor().dtype()};
  return {2, v.is(Tag::Double) ? DType::F32 : v.is(Tag::Complex) ? DType::C64 : v.is(Tag::Int) ? DType::I64 : DType::Bool};
}
Int result_type(const IValue& a, const IValue& b) {
  std::optional<DType> types[3];
  for (Share s : {share_of(a), share_of(b)}) types[s.rank] = types[s.rank] ? promote(*types[s.rank], s.dtype) : s.dtype;
  std::optional<DType> numbers_and_scalars;
  if (types[1] || types[2]) numbers_and_scalars = combined(types[1], types[2]);
  return code_of_dtype(combined(types[0], numbers_and_scalars));
}

bool can_cast(DType from, DType to) {
  if (is_complex(from)) return is_complex(to);
  if (is_float(from)) return is_float(to) || is_complex(to);
  return from == DType::Bool || to != DType::Bool;
}

} // namespace

std::span<const BuiltinRow> tensor_pair_rows() {
  static const Rows rows = {
      {"aten::equal(Tensor self, Tensor other) -> bool", of<same_values>},
      {"aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> bool",
       of<all_close>},
      {"aten::is_same_size(Tensor self, Tensor other) -> bool", op([](Tensor& a, Tensor& b) { return a.sizes() == b.sizes(); })},
      {"aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType", of<result_type>},
      {"aten::result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType", of<result_type>},
      {"aten::result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType", of<result_type>},
      {"aten::result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType", of<result_type>},
      {"aten::can_cast(ScalarType from_, ScalarType to) -> bool",
       op([](Int from, Int to) { return can_cast(dtype_of_code(from), dtype_of_code(to)); })},
      {"aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType",
       op([](Int a, Int b) { return code_of_dtype(promote(dtype_of_code(a), dtype_of_code(b))); })},
  };
  return rows;
}

} // namespace tenon::builtins
