// Special functions by their standard series and recurrences, in double precision.
#include "expr/special.h"

#include <cmath>
#include <limits>

namespace tenon {

namespace {

double lgamma_(const double* a) {
  int sign;
  return ::lgamma_r(a[0], &sign);
}

double nextafter_(const double* a) { return std::nextafter(a[0], a[1]); }
double nextafterf_(const double* a) { return std::nextafterf(static_cast<float>(a[0]), static_cast<float>(a[1])); }
double hypot_(const double* a) { return std::hypot(a[0], a[1]); }
double ldexp_(const double* a) { return std::ldexp(a[0], static_cast<int>(a[1])); }

const SpecialEntry table[] = {
    {"lgamma", 1, lgamma_},
    {"nextafter", 2, nextafter_},
    {"nextafterf", 2, nextafterf_},
    {"hypot", 2, hypot_},
    {"ldexp", 2, ldexp_},
};

} // namespace

const std::span<const SpecialEntry> special_functions(table);

} // namespace tenon
