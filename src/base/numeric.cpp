// Conversions of F16 and of the floats of 8 bits: exact to f32, round to nearest even from f32.
#include "base/numeric.h"

namespace tenon {

F16::F16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
  if (mag >= 0x7f800000) { // infinity, NaN
    bits = static_cast<uint16_t>(sign | 0x7c00 | (mag > 0x7f800000 ? 0x200 : 0));
  } else if (mag >= 0x477ff000) { // rounds to 65536 or more
    bits = static_cast<uint16_t>(sign | 0x7c00);
  } else if (mag < 0x38800000) { // subnormal or zero: let the FPU round at 2^-24
    float r = std::bit_cast<float>(mag) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(r) - 0x3f000000));
  } else {
    uint32_t odd = (mag >> 13) & 1;
    bits = static_cast<uint16_t>(sign | ((mag - 0x38000000 + 0xfff + odd) >> 13));
  }
}

F16::operator float() const {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, mag = bits & 0x7fff;
  float f;
  if (mag >= 0x7c00) f = std::bit_cast<float>(0x7f800000 | ((mag & 0x3ff) << 13));
  else if (mag >= 0x400) f = std::bit_cast<float>((mag << 13) + 0x38000000);
  else f = static_cast<float>(mag) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(f) | sign);
}

Float8Format float8_format(DType t) {
  switch (t) {
  case DType::F8E4M3FN: return {7, 3, 0x7e, 0x7e, 0x7f, false};
  case DType::F8E5M2: return {15, 2, 0x7b, 0x7c, 0x7f, false};
  case DType::F8E4M3FNUZ: return {8, 3, 0x7f, 0x80, 0x80, true};
  case DType::F8E5M2FNUZ: return {16, 2, 0x7f, 0x80, 0x80, true};
  default: internal_error("{} is no float of 8 bits", name_of(t));
  }
}

uint8_t to_float8(float f, DType t) {
  Float8Format q = float8_format(t);
  uint32_t u = std::bit_cast<uint32_t>(f), sign = u >> 24 & 0x80, mag = u & 0x7fffffff, r;
  int shift = 23 - q.mantissa_bits;
  auto exponent = [](int e) { return static_cast<uint32_t>(e) << 23; };
  if (mag < exponent(128 - q.bias)) { // subnormal or zero: let the FPU round at its place
    uint32_t magic = exponent(151 - q.bias - q.mantissa_bits);
    r = std::bit_cast<uint32_t>(std::bit_cast<float>(mag) + std::bit_cast<float>(magic)) - magic;
  } else r = (mag - exponent(127 - q.bias) + (1u << (shift - 1)) - 1 + (mag >> shift & 1)) >> shift;
  if (r > q.largest) r = std::isnan(f) ? q.nan : q.overflow;
  return static_cast<uint8_t>(q.one_zero && r == 0 ? 0 : r | sign);
}

float from_float8(uint8_t byte, DType t) {
  Float8Format q = float8_format(t);
  int mag = byte & 0x7f, one = 1 << q.mantissa_bits;
  bool infinite = q.has_infinity() && mag == q.overflow, nan = q.one_zero ? byte == q.nan : mag > q.overflow;
  if (nan) return NAN;
  int exponent = mag / one;
  float f = infinite
                ? INFINITY
                : std::ldexp(static_cast<float>(exponent > 0 ? mag % one + one : mag), std::max(exponent, 1) - q.bias - q.mantissa_bits);
  return byte & 0x80 ? -f : f;
}

} // namespace tenon
