// Special functions by their standard series, recurrences and integrals, in double precision. References are to the
// formulas of the NIST handbook (DLMF).
#include "expr/special.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/numeric.h"
#include "expr/recurrences.h"

namespace tenon {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN(), pi = M_PI;
constexpr double epsilon = std::numeric_limits<double>::epsilon();

bool is_integer(double x) { return x == std::floor(x); }

// The gamma function and its derivatives.

double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Reflection for negative x, recurrence up to 10, then the asymptotic series (DLMF 5.11.2).
double digamma(double x) {
  if (x == 0) return std::copysign(inf, -x);
  if (x < 0) {
    if (is_integer(x)) return nan;
    return digamma(1 - x) - pi / std::tan(pi * std::remainder(x, 1));
  }
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  if (x == inf) return inf;
  double z = 1 / (x * x);
  double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return shift + std::log(x) - 0.5 / x - series;
}

// Hurwitz zeta: a sum up to q + n > 9, then Euler and Maclaurin's formula (DLMF 25.11.7). Bernoulli numbers B2j / (2j)!.
constexpr double euler_maclaurin[] = {1.0 / 12,
                                      -1.0 / 720,
                                      1.0 / 30240,
                                      -1.0 / 1209600,
                                      1.0 / 47900160,
                                      -691.0 / 1307674368000.0,
                                      1.0 / 74724249600.0,
                                      -3617.0 / 10670622842880000.0,
                                      43867.0 / 5109094217170944000.0};

double zeta(double s, double q) {
  if (s == 1) return inf;
  if (s < 1 || std::isnan(q) || std::isnan(s) || q == inf) return nan;
  if (q <= 0) {
    if (is_integer(q)) return inf;
    if (!is_integer(s)) return nan;
    if (q < -1e5) q += std::floor(-q - 1e5); // what is left out is below 1e-10
  }
  double sum = 0, a = q;
  for (int i = 0; i < 9 || a <= 9; i++, a += 1) {
    double term = std::pow(a, -s);
    sum += term;
    if (std::fabs(term) < epsilon * std::fabs(sum) && a > 0) return sum;
  }
  sum += std::pow(a, 1 - s) / (s - 1) + 0.5 * std::pow(a, -s);
  double factor = s, power = std::pow(a, -s - 1);
  for (int j = 0; j < 9; j++) {
    double term = euler_maclaurin[j] * factor * power;
    sum += term;
    if (std::fabs(term) < epsilon * std::fabs(sum)) break;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
    power /= a * a;
  }
  return sum;
}

// As digamma (DLMF 5.15.6 and 5.15.8).
double trigamma(double x) {
  if (x == -inf) return nan;
  if (x <= 0) {
    if (is_integer(x)) return inf;
    double part = -x - std::floor(-x), sine = std::sin(pi * std::fmin(part, 1 - part)) / pi;
    return 1 / (sine * sine) - trigamma(1 - x);
  }
  if (x == inf) return 0;
  double sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  constexpr double bernoulli[] = {7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6};
  double z = 1 / (x * x), series = 0;
  for (double b : bernoulli) series = series * z + b;
  return sum + 1 / x + z / 2 + series * z / x;
}

// x^a e^-x / Gamma(a + 1)
double gamma_factor(double a, double x) { return std::exp(a * std::log(x) - x - lgamma(a + 1)); }

// P(a, x) by its series (DLMF 8.11.4), for x <= a + 1, to a last term of so much of the sum.
double gamma_series(double a, double x, double precision) {
  double term = 1, sum = 1;
  for (double n = 1; n < 100000 && term > precision * sum; n++) sum += term *= x / (a + n);
  return sum * gamma_factor(a, x);
}

// Q(a, x) by its continued fraction (DLMF 8.9.2), for x > a + 1. Its convergents are quotients of two sums that follow from the two
// before: these need no divisions, but are scaled down as they grow.
double gamma_fraction(double a, double x, double precision) {
  constexpr double large = 0x1p200, beyond = 1e40; // where Q is less than the least number, so that products stay finite
  if (x > beyond) return 0;
  double b = x + 1 - a, up = 1, up_before = 0, down = b, down_before = 1;
  for (double n = 1; n < 100000; n++) {
    double an = n * (a - n);
    b += 2;
    double next_up = b * up + an * up_before, next_down = b * down + an * down_before;
    up_before = std::exchange(up, next_up), down_before = std::exchange(down, next_down);
    double now = up * down_before;
    if (std::fabs(now - up_before * down) < precision * std::fabs(now)) break;
    if (std::fabs(down) > large || std::fabs(up) > large) up /= large, up_before /= large, down /= large, down_before /= large;
  }
  return up / down * gamma_factor(a, x) * a;
}

double igamma(double a, double x, double precision) {
  if (!(x >= 0 && a >= 0)) return nan;
  if (a == 0) return x > 0 ? 1 : nan;
  if (x == 0) return 0;
  if (a == inf) return x == inf ? nan : 0;
  if (x == inf) return 1;
  return x <= a + 1 ? gamma_series(a, x, precision) : 1 - gamma_fraction(a, x, precision);
}

double igammac(double a, double x, double precision) {
  if (!(x >= 0 && a >= 0)) return nan;
  if (a == 0) return x > 0 ? 0 : nan;
  if (x == 0) return 1;
  if (a == inf) return x == inf ? nan : 1;
  if (x == inf) return 0;
  return x <= a + 1 ? 1 - gamma_series(a, x, precision) : gamma_fraction(a, x, precision);
}

// The error function's kin.

// y > 0 with erfc(y) = q, for q in (0, 1]: Winitzki's guess, then Halley's method.
double erfc_inverse(double q) {
  double l = std::log(q * (2 - q)), t = 2 / (pi * 0.147) + l / 2, y = std::sqrt(std::fmax(std::sqrt(t * t - l / 0.147) - t, 0));
  for (int i = 0; i < 8; i++) {
    double u = (std::erfc(y) - q) / (-M_2_SQRTPI * std::exp(-y * y)), step = u / (1 + y * u);
    y -= step;
    if (std::fabs(step) <= epsilon * y) break;
  }
  return y;
}

double erfinv(double x) {
  double a = std::fabs(x);
  if (!(a <= 1)) return nan;
  if (a == 1) return std::copysign(inf, x);
  if (a > 0.5) return std::copysign(erfc_inverse(1 - a), x);
  double y = x / M_2_SQRTPI;
  for (int i = 0; i < 6; i++) {
    double u = (std::erf(y) - x) / (M_2_SQRTPI * std::exp(-y * y));
    y -= u / (1 + y * u);
  }
  return y;
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return nan;
  if (p == 0 || p == 1) return p == 0 ? -inf : inf;
  return p < 0.25 ? -M_SQRT2 * erfc_inverse(2 * p) : M_SQRT2 * erfinv(2 * p - 1);
}

// e^(c x^2), the square in two parts
double gauss(double x, double c) {
  double square = x * x, lost = square < 1e4 ? std::fma(x, x, -square) : 0;
  return std::exp(c * square) * (1 + c * lost);
}

// e^(x^2) erfc(x): by its definition, then by the asymptotic series (DLMF 7.12.1).
double erfcx(double x) {
  if (x < 12) return gauss(x, 1) * std::erfc(x);
  double sum = 1, term = 1;
  for (int k = 1; k < 12; k++) sum += term *= (1 - 2 * k) / (2 * x * x);
  return M_2_SQRTPI / 2 * sum / x;
}

// The logarithm of the lower tail, or of what the upper one leaves.
double log_ndtr(double x) {
  double tail = erfcx(std::fabs(x) * M_SQRT1_2) / 2;
  return x < 0 ? std::log(tail) - x * x / 2 : std::log1p(-tail * gauss(x, -0.5));
}

// Bessel functions.

// e^-|x| I_v(x) for v = 0, 1: the power series (DLMF 10.25.2), all of whose terms are positive, or the asymptotic one.
double scaled_i(int v, double x) {
  double a = std::fabs(x), sign = v && x < 0 ? -1 : 1;
  if (a == inf) return 0;
  if (a < 30) {
    double z = a * a / 4, term = v ? a / 2 : 1, sum = term;
    for (double k = 1; term > epsilon * sum; k++) sum += term *= z / (k * (k + v));
    return sign * std::exp(-a) * sum;
  }
  double mu = 4.0 * v, term = 1, sum = 1;
  for (int k = 1; k < 20 && std::fabs(term) > epsilon; k++) {
    double odd = 2 * k - 1;
    sum += term *= (odd * odd - mu) / (8 * k * a);
  }
  return sign * sum / std::sqrt(2 * pi * a);
}

double bessel_i(int v, double x) {
  if (std::fabs(x) == inf) return v && x < 0 ? -inf : inf;
  double half = std::exp(std::fabs(x) / 2); // in two factors, for a later overflow
  return scaled_i(v, x) * half * half;
}

// e^x K_v(x): the trapezoidal rule on the integral of e^(x - x cosh t) cosh(v t) (DLMF 10.32.9), which converges
// geometrically once the step is below the width of the integrand, 1 / sqrt(x).
double scaled_k(double v, double x) {
  if (!(x >= 0)) return nan;
  if (x == 0 || x == inf) return x == 0 ? inf : 0;
  const double h = std::fmin(0.125, 0.5 / std::sqrt(x));
  double sum = 0.5;
  for (double t = h;; t += h) {
    double s = std::sinh(t / 2), term = std::exp(-2 * x * s * s) * std::cosh(v * t);
    sum += term;
    if (!(term > epsilon * 1e-2 * sum)) return sum * h;
  }
}

double bessel_k(double v, double x) { return scaled_k(v, x) * std::exp(-x); }

// DLMF 9.6.2 and 9.6.5, with J of order -1/3 written with J and Y of order 1/3.
double airy_ai(double x) {
  if (std::isnan(x)) return x;
  if (x == 0) return 0.35502805388781723926;
  double z = std::fabs(x), t = 2.0 / 3 * z * std::sqrt(z);
  if (x > 0) return t > 745 ? 0 : std::sqrt(z / 3) / pi * bessel_k(1.0 / 3, t);
  if (z == inf) return nan;
  return std::sqrt(z) / 2 * (std::cyl_bessel_j(1.0 / 3, t) - std::cyl_neumann(1.0 / 3, t) / std::sqrt(3.0));
}

// Orthogonal polynomials of degree n, by their recurrences. As in torch the degree is cut to an i64: what is none, and degrees
// up to -1, give 0. A recurrence of more than most_terms would not end in any useful time: NaN. Terms beyond `limit`, the largest
// number of the dtype, are infinite, and so those after the next are NaN.
template <class Next> double recurrence(double n, double limit, double p0, double p1, double x, Next next) {
  constexpr double most_terms = 1e7;
  if (!(n > -1 && n < 0x1p63)) return 0;
  if (n < 1) return p0;
  if (n > most_terms) return nan;
  for (double k = 1; k + 1 <= n; k++) {
    double p2 = next(x, k, p1, p0);
    p0 = p1;
    p1 = std::fabs(p2) > limit ? std::copysign(inf, p2) : p2;
    if (std::isnan(p1)) break;
  }
  return p1;
}

// 2 x P(k) - P(k-1): the four kinds of Chebyshev polynomials differ in their P(1).
enum class Chebyshev { T, U, V, W };
// Large degrees: DLMF 18.5.1 to 18.5.4 within [-1, 1], the limits at its ends.
double large_chebyshev(Chebyshev kind, double x, double n) {
  double t = std::acos(x), sign = x > 0 || std::fmod(n, 2) == 0 ? 1 : -1;
  bool end = std::fabs(x) == 1, grows = x > 0 ? kind == Chebyshev::W : kind == Chebyshev::V;
  switch (kind) {
  case Chebyshev::T: return end ? sign : std::cos(n * t);
  case Chebyshev::U: return end ? sign * (n + 1) : std::sin((n + 1) * t) / std::sin(t);
  case Chebyshev::V: return end ? sign * (grows ? 2 * n + 1 : 1) : std::cos((n + 0.5) * t) / std::cos(t / 2);
  case Chebyshev::W: return end ? sign * (grows ? 2 * n + 1 : 1) : std::sin((n + 0.5) * t) / std::sin(t / 2);
  }
  return nan;
}
template <Chebyshev K> double chebyshev(double x, double n, double limit) {
  constexpr double large = 1000;
  constexpr double add[] = {0, 0, -1, 1};
  if (n > large && n < 0x1p63 && std::fabs(x) <= 1) return large_chebyshev(K, x, std::trunc(n));
  double p1 = K == Chebyshev::T ? x : 2 * x + add[static_cast<int>(K)];
  return recurrence(n, limit, 1, p1, x, next_chebyshev<double>);
}
template <Chebyshev K> double shifted_chebyshev(double x, double n, double limit) { return chebyshev<K>(2 * x - 1, n, limit); }
template <int Factor> double hermite(double x, double n, double limit) {
  return recurrence(n, limit, 1, Factor * x, x, next_hermite<Factor, double>);
}
double laguerre(double x, double n, double limit) { return recurrence(n, limit, 1, 1 - x, x, next_laguerre<double>); }
double legendre(double x, double n, double limit) { return recurrence(n, limit, 1, x, x, next_legendre<double>); }

// Neighbours of numbers in a 16-bit format: its patterns are ordered as integers on each side of 0.
template <class T> double nextafter16(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return nan;
  if (x == y) return y;
  T t(static_cast<float>(x));
  if (x == 0) {
    t.bits = y < 0 ? 0x8001 : 1;
  } else t.bits = static_cast<uint16_t>(t.bits + ((x < y) == (x > 0) ? 1 : -1));
  return static_cast<float>(t);
}

template <double (*F)(double)> double call1(const double* a) { return F(a[0]); }
template <double (*F)(double, double)> double call2(const double* a) { return F(a[0], a[1]); }
template <double (*F)(double, double, double)> double call3(const double* a) { return F(a[0], a[1], a[2]); }

const SpecialEntry table[] = {
    {"lgamma", 1, call1<lgamma>},
    {"digamma", 1, call1<digamma>},
    {"trigamma", 1, call1<trigamma>},
    {"zeta", 2, call2<zeta>},
    {"igamma", 3, call3<igamma>},
    {"igammac", 3, call3<igammac>},
    {"erfinv", 1, call1<erfinv>},
    {"erfcx", 1, call1<erfcx>},
    {"ndtri", 1, call1<ndtri>},
    {"log_ndtr", 1, call1<log_ndtr>},
    {"i0", 1, [](const double* a) { return bessel_i(0, a[0]); }},
    {"i0e", 1, [](const double* a) { return scaled_i(0, a[0]); }},
    {"i1", 1, [](const double* a) { return bessel_i(1, a[0]); }},
    {"i1e", 1, [](const double* a) { return scaled_i(1, a[0]); }},
    {"k0", 1, [](const double* a) { return bessel_k(0, a[0]); }},
    {"k0e", 1, [](const double* a) { return scaled_k(0, a[0]); }},
    {"k1", 1, [](const double* a) { return bessel_k(1, a[0]); }},
    {"k1e", 1, [](const double* a) { return scaled_k(1, a[0]); }},
    {"j0", 1, [](const double* a) { return ::j0(a[0]); }},
    {"j1", 1, [](const double* a) { return ::j1(a[0]); }},
    {"y0", 1, [](const double* a) { return ::y0(a[0]); }},
    {"y1", 1, [](const double* a) { return ::y1(a[0]); }},
    {"airy_ai", 1, call1<airy_ai>},
    {"chebyshev_polynomial_t", 3, call3<chebyshev<Chebyshev::T>>},
    {"chebyshev_polynomial_u", 3, call3<chebyshev<Chebyshev::U>>},
    {"chebyshev_polynomial_v", 3, call3<chebyshev<Chebyshev::V>>},
    {"chebyshev_polynomial_w", 3, call3<chebyshev<Chebyshev::W>>},
    {"shifted_chebyshev_polynomial_t", 3, call3<shifted_chebyshev<Chebyshev::T>>},
    {"shifted_chebyshev_polynomial_u", 3, call3<shifted_chebyshev<Chebyshev::U>>},
    {"shifted_chebyshev_polynomial_v", 3, call3<shifted_chebyshev<Chebyshev::V>>},
    {"shifted_chebyshev_polynomial_w", 3, call3<shifted_chebyshev<Chebyshev::W>>},
    {"hermite_polynomial_h", 3, call3<hermite<2>>},
    {"hermite_polynomial_he", 3, call3<hermite<1>>},
    {"laguerre_polynomial_l", 3, call3<laguerre>},
    {"legendre_polynomial_p", 3, call3<legendre>},
    {"nextafter", 2, [](const double* a) { return std::nextafter(a[0], a[1]); }},
    {"nextafterf", 2, [](const double* a) { return double{std::nextafterf(static_cast<float>(a[0]), static_cast<float>(a[1]))}; }},
    {"nextafter_f16", 2, call2<nextafter16<F16>>},
    {"nextafter_bf16", 2, call2<nextafter16<BF16>>},
    {"hypot", 2, [](const double* a) { return std::hypot(a[0], a[1]); }},
    {"ldexp", 2, [](const double* a) { return std::ldexp(a[0], static_cast<int>(a[1])); }},
};

} // namespace

const std::span<const SpecialEntry> special_functions(table);

} // namespace tenon
