#include "codegen/llvm/c_functions.h"

#include <cmath>
#include <cstring>

namespace tenon {

std::span<const Symbol> c_functions() {
#define ROW(n, type) {#n, reinterpret_cast<const void*>(static_cast<type>(::n))}
#define ROWS(n) ROW(n##f, float (*)(float)), ROW(n, double (*)(double))
#define ROWS2(n) ROW(n##f, float (*)(float, float)), ROW(n, double (*)(double, double))
  static const Symbol rows[] = {
      ROWS(exp),
      ROWS(exp2),
      ROWS(expm1),
      ROWS(log),
      ROWS(log2),
      ROWS(log10),
      ROWS(log1p),
      ROWS(sin),
      ROWS(cos),
      ROWS(tan),
      ROWS(asin),
      ROWS(acos),
      ROWS(atan),
      ROWS(sinh),
      ROWS(cosh),
      ROWS(tanh),
      ROWS(asinh),
      ROWS(acosh),
      ROWS(atanh),
      ROWS(erf),
      ROWS(erfc),
      ROWS(lgamma),
      ROWS(tgamma),
      ROWS(floor),
      ROWS(ceil),
      ROWS(trunc),
      ROWS(round),
      ROWS(rint),
      ROWS(nearbyint),
      ROWS(sqrt),
      ROWS(cbrt),
      ROWS2(pow),
      ROWS2(fmod),
      ROWS2(atan2),
      ROWS2(hypot),
      ROWS2(nextafter),
      {"memcpy", reinterpret_cast<const void*>(&std::memcpy)},
      {"memmove", reinterpret_cast<const void*>(&std::memmove)},
      {"memset", reinterpret_cast<const void*>(&std::memset)},
  };
#undef ROWS2
#undef ROWS
#undef ROW
  return rows;
}

} // namespace tenon
