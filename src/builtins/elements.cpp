// Elements of tensors, and conversion of their types.
#include "builtins/elements.h"

#include <cmath>

#include "base/numeric.h"

namespace tenon::builtins {

namespace {
struct Code {
  DType dtype;
  int64_t code;
};
constexpr Code codes[] = {
    {DType::U8, 0},      {DType::I8, 1},        {DType::I16, 2},         {DType::I32, 3},         {DType::I64, 4},   {DType::F16, 5},
    {DType::F32, 6},     {DType::F64, 7},       {DType::C64, 9},         {DType::C128, 10},       {DType::Bool, 11}, {DType::BF16, 15},
    {DType::F8E5M2, 23}, {DType::F8E4M3FN, 24}, {DType::F8E5M2FNUZ, 25}, {DType::F8E4M3FNUZ, 26}, {DType::U64, 29},
};
} // namespace

DType dtype_of_code(int64_t code) {
  for (auto& c : codes)
    if (c.code == code) return c.dtype;
  raise("", fmt::format("tensors of dtype {} are not supported", code));
}

int64_t code_of_dtype(DType dtype) {
  for (auto& c : codes)
    if (c.dtype == dtype) return c.code;
  internal_error("no code of dtype {}", name_of(dtype));
}

IValue load_element(const void* p, DType dtype) {
  if (is_float8(dtype)) return double{from_float8(*static_cast<const uint8_t*>(p), dtype)};
  return dispatch(dtype, [&](auto zero) -> IValue {
    using T = decltype(zero);
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::is_same_v<T, bool>) return v;
    else if constexpr (is_complex_v<T>) return std::complex<double>(v.re, v.im);
    else if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(v);
    else return convert<double>(v);
  });
}

IValue item(const Tensor& t) {
  if (t.numel() != 1) raise("", fmt::format("a Tensor with {} elements cannot be converted to Scalar", t.numel()));
  return load_element(t.data(), t.dtype());
}

namespace {
[[noreturn]] void overflow(std::string_view type) { raise("", fmt::format("value cannot be converted to type {} without overflow", type)); }
} // namespace

double float_of_value(const IValue& v) {
  IValue number = v.is(IValue::Tag::Tensor) ? item(v.to_tensor()) : v;
  if (!number.is(IValue::Tag::Complex)) return number.number();
  if (number.to_complex().imag() != 0) overflow("double");
  return number.to_complex().real();
}

int64_t int_of_value(const IValue& v) {
  IValue number = v.is(IValue::Tag::Tensor) ? item(v.to_tensor()) : v;
  if (number.is(IValue::Tag::Int)) return number.to_int();
  if (number.is(IValue::Tag::Complex) && number.to_complex().imag() != 0) overflow("int64_t");
  double d = number.is(IValue::Tag::Complex) ? number.to_complex().real() : number.number();
  if (!(d >= -0x1p63 && d < 0x1p63)) overflow("int64_t");
  return static_cast<int64_t>(d);
}

bool is_true(const Tensor& t) {
  if (t.numel() == 0) raise("", "Boolean value of Tensor with no values is ambiguous");
  if (t.numel() > 1) raise("", "Boolean value of Tensor with more than one value is ambiguous");
  IValue v = item(t);
  return v.is(IValue::Tag::Complex) ? v.to_complex() != std::complex<double>() : v.number() != 0;
}

namespace {

/// Complex numbers are true where any part is not zero; the floats of 8 bits are read and written as bytes.
template <class To, class From> To element_as(From v, DType from, DType to) {
  if constexpr (std::is_same_v<From, uint8_t>)
    if (is_float8(from)) return element_as<To>(from_float8(v, from), DType::F32, to);
  if constexpr (std::is_same_v<To, uint8_t>)
    if (is_float8(to)) return to_float8(convert<float>(v), to);
  if constexpr (std::is_same_v<To, bool> && is_complex_v<From>) return v.re != 0 || v.im != 0;
  else return convert<To>(v);
}

} // namespace

Tensor converted(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor from = t.contiguous(), to(dtype, t.sizes());
  dispatch(t.dtype(), [&](auto from_zero) {
    dispatch(dtype, [&](auto to_zero) {
      auto* source = from.data_as<decltype(from_zero)>();
      auto* target = to.data_as<decltype(to_zero)>();
      for (int64_t i = 0; i < t.numel(); i++) target[i] = element_as<decltype(to_zero)>(source[i], t.dtype(), dtype);
    });
  });
  return to;
}

} // namespace tenon::builtins
