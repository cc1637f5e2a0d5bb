// Conversions of F16: exact to f32, round to nearest even from f32.
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

} // namespace tenon
