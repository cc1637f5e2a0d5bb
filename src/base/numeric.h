// f16 and bf16 as values, and dispatch from a DType to a C++ type.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "tenon/tensor.h"

namespace tenon {

/// Brain float: the upper half of an f32, rounded to nearest even.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    bits = std::isnan(f) ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

/// IEEE 754 binary16, by the compiler's soft or F16C conversions.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float f);
  explicit operator float() const;
};

template <class F> struct Complex {
  F re = 0, im = 0;
};
using C64 = Complex<float>;
using C128 = Complex<double>;
template <class T> inline constexpr bool is_complex_v = std::is_same_v<T, C64> || std::is_same_v<T, C128>;

constexpr bool is_float(DType t) { return t >= DType::F16 && t <= DType::F64; }
constexpr bool is_complex(DType t) { return t == DType::C64 || t == DType::C128; }
constexpr bool is_int(DType t) { return (t >= DType::U8 && t <= DType::I64) || t == DType::U64; }
constexpr bool is_unsigned(DType t) { return t == DType::U8 || t == DType::U64; }
/// What integer products take.
constexpr bool is_byte(DType t) { return t == DType::U8 || t == DType::I8; }
/// The floats of 8 bits, which are only moved and converted.
constexpr bool is_float8(DType t) { return t >= DType::F8E4M3FN && t <= DType::F8E5M2FNUZ; }
/// Of the real and imaginary parts.
constexpr DType part_type(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }
/// The complex type with parts of a float type: C128 for F64, else C64.
constexpr DType complex_type(DType t) { return is_complex(t) ? t : t == DType::F64 ? DType::C128 : DType::C64; }
constexpr bool is_reduced_float(DType t) { return t == DType::F16 || t == DType::BF16; }

/// How a float of 8 bits is laid out: its sign is the uppermost bit.
struct Float8Format {
  int bias, mantissa_bits;
  uint8_t largest, overflow, nan; ///< the bytes of the largest finite number, of what larger ones give, of NaN
  bool one_zero;                  ///< the byte of -0 is NaN
  bool has_infinity() const { return overflow > largest && overflow != nan; }
};
Float8Format float8_format(DType t);
/// To nearest even, as torch does on CPU.
uint8_t to_float8(float f, DType t);
float from_float8(uint8_t byte, DType t);

/// Conversion as torch does on CPU; a float out of an integer's range gives that of a 64-bit conversion, truncated.
template <class To, class From> To convert(From v) {
  if constexpr (std::is_same_v<To, From>) return v;
  else if constexpr (std::is_same_v<From, F16> || std::is_same_v<From, BF16>) return convert<To>(static_cast<float>(v));
  else if constexpr (is_complex_v<From> && !is_complex_v<To>) return convert<To>(v.re);
  else if constexpr (is_complex_v<From>) return To{static_cast<decltype(To::re)>(v.re), static_cast<decltype(To::re)>(v.im)};
  else if constexpr (is_complex_v<To>) return To{convert<decltype(To::re)>(v), 0};
  else if constexpr (std::is_same_v<To, F16> || std::is_same_v<To, BF16>) return To(convert<float>(v));
  else if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (!(v >= From(-0x1p63) && v < From(0x1p63))) return static_cast<To>(INT64_MIN);
    return static_cast<To>(static_cast<int64_t>(v));
  } else return static_cast<To>(v);
}

/// Calls f(T{}) with the storage type of `t`: bool, uint8_t, int8_t ... F16, BF16, float, double, C64, C128, uint64_t;
/// floats of 8 bits are their bytes.
template <class F> decltype(auto) dispatch(DType t, F&& f) {
  switch (t) {
  case DType::Bool: return f(bool{});
  case DType::U8: return f(uint8_t{});
  case DType::I8: return f(int8_t{});
  case DType::I16: return f(int16_t{});
  case DType::I32: return f(int32_t{});
  case DType::I64: return f(int64_t{});
  case DType::F16: return f(F16{});
  case DType::BF16: return f(BF16{});
  case DType::F32: return f(float{});
  case DType::F64: return f(double{});
  case DType::C64: return f(C64{});
  case DType::C128: return f(C128{});
  case DType::U64: return f(uint64_t{});
  case DType::F8E4M3FN:
  case DType::F8E5M2:
  case DType::F8E4M3FNUZ:
  case DType::F8E5M2FNUZ: return f(uint8_t{});
  }
  internal_error("no such dtype {}", static_cast<int>(t));
}

/// A number as the 0-d tensor that it is passed as.
inline Tensor number_tensor(bool v) {
  Tensor t(DType::Bool, {});
  *t.data_as<bool>() = v;
  return t;
}
inline Tensor number_tensor(int64_t v) {
  Tensor t(DType::I64, {});
  *t.data_as<int64_t>() = v;
  return t;
}
inline Tensor number_tensor(double v) {
  Tensor t(DType::F64, {});
  *t.data_as<double>() = v;
  return t;
}

} // namespace tenon
