// Special functions against values of the NIST handbook and identities, at the places where one method takes over from
// another; their vector code against long doubles. TENON_ULP_PRINT=1 tells the errors found.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "expr/eval.h"
#include "tests/unit/graph_harness.h"

namespace tenon::special_test {

using tenon::find_special;

namespace {

double call(const char* name, double x, double y = 0, double z = INFINITY) {
  double args[] = {x, y, z};
  return find_special(name)(args);
}

doctest::Approx near(double x) { return doctest::Approx(x).epsilon(1e-12); }

} // namespace

TEST_CASE("gamma function and derivatives") {
  CHECK(call("digamma", 1) == near(-0.57721566490153286));
  CHECK(call("digamma", -1.5) == near(0.70315664064524319));
  CHECK(call("digamma", -1 + 0x1p-40) == near(-1099511627775.5772));
  CHECK(std::isnan(call("digamma", -2)));
  CHECK(call("digamma", 0.0) == -INFINITY);
  CHECK(call("trigamma", 1) == near(M_PI * M_PI / 6));
  CHECK(call("zeta", 4, 1) == near(std::pow(M_PI, 4) / 90));
  CHECK(call("zeta", 3, 40.5) == near(call("zeta", 3, 41.5) + std::pow(40.5, -3)));
  CHECK(call("zeta", 2, -3) == INFINITY);
}

TEST_CASE("incomplete gamma functions") {
  constexpr double all = 1e-16, few = 1e-10;
  for (double a : {0.5, 3.0, 17.0, 100.0})
    for (double x : {a * 0.3, a, a + 1, a + 1.001, a * 3}) CHECK(call("igamma", a, x, all) + call("igammac", a, x, all) == near(1));
  CHECK(call("igamma", 1, 2, all) == near(1 - std::exp(-2)));
  for (double a : {1, 2, 17, 300, 5000}) // a sum of so many terms, of a Poisson distribution
    for (double x : {a * 0.9, a + 0.5, a + 1.25, a + 3 * std::sqrt(a), 1.5 * a + 5}) {
      double sum = 0;
      for (double k = 0; k < a; k++) sum += std::exp(k * std::log(x) - x - std::lgamma(k + 1));
      INFO("a ", a, ", x ", x);
      CHECK(call("igammac", a, x, all) == doctest::Approx(sum).epsilon(1e-10));
      CHECK(call("igammac", a, x, few) == doctest::Approx(call("igammac", a, x, all)).epsilon(1e-8));
      CHECK(call("igamma", a, x, few) == doctest::Approx(call("igamma", a, x, all)).epsilon(1e-8));
    }
}

TEST_CASE("inverse error functions invert") {
  for (double x : {1e-300, 1e-9, 0.3, 0.5, 0.51, 0.999, 1 - 1e-14}) {
    CHECK(std::erf(call("erfinv", x)) == near(x));
    CHECK(call("erfinv", -x) == -call("erfinv", x));
  }
  for (double p : {1e-280, 1e-10, 0.2, 0.5, 0.7}) CHECK(std::erfc(-call("ndtri", p) * M_SQRT1_2) / 2 == doctest::Approx(p).epsilon(1e-10));
  CHECK(call("erfinv", 1) == INFINITY);
  CHECK(std::isnan(call("erfinv", 1.5)));
  CHECK(call("ndtri", 0.5 - 0x1p-40) == near(-std::sqrt(2 * M_PI) * 0x1p-40));
  CHECK(call("erfcx", 11) == near(0.05108059475808844));
  CHECK(call("erfcx", 14) == near(0.04019722865021846));
  CHECK(call("log_ndtr", -40) == near(-804.60844201332463));
  CHECK(call("log_ndtr", 37) / -5.725571222524577e-300 == near(1));
}

TEST_CASE("Bessel functions") {
  CHECK(call("i0", 1) == near(1.2660658777520084));
  CHECK(call("i1", -1) == near(-0.56515910399248503));
  CHECK(call("i0e", 29.999999) == doctest::Approx(call("i0e", 30.000001)).epsilon(1e-6));
  // Wronskian: I0 K1 + I1 K0 = 1 / x.
  for (double x : {0.01, 1.0, 29.0, 31.0, 500.0}) CHECK(call("i0e", x) * call("k1e", x) + call("i1e", x) * call("k0e", x) == near(1 / x));
  CHECK(call("k0", 0) == INFINITY);
  CHECK(std::isnan(call("k1", -1)));
  CHECK(call("airy_ai", 1) == near(0.13529241631288141));
  CHECK(call("airy_ai", -1) == near(0.53556088329235211));
}

TEST_CASE("polynomials of large degree") { // other formulas than those of small ones, and the same recurrence
  for (const char* name : {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w"})
    for (double x : {-1.0, -0.71, 0.0, 0.3, 0.999, 1.0})
      for (double n : {1000.0, 1001.0}) {
        INFO(name << " of " << x);
        double want = 2 * x * call(name, x, n) - call(name, x, n - 1), got = call(name, x, n + 1);
        CHECK(std::fabs(got - want) <= 1e-8 * std::max(1.0, std::fabs(want)));
      }
  CHECK(call("chebyshev_polynomial_t", 1, 1e15) == 1);
  for (auto name : {"chebyshev_polynomial_u", "legendre_polynomial_p", "laguerre_polynomial_l", "hermite_polynomial_he"}) {
    CHECK(call(name, 0.5, INFINITY) == 0); // as torch, which cuts the degree to an i64
    CHECK(call(name, 0.5, NAN) == 0);
  }
  CHECK(std::isnan(call("legendre_polynomial_p", 0.5, 1e12)));
}

TEST_CASE("polynomials of a small known degree are written out") {
  tenon::ExprPool pool;
  auto polynomial = [&](const std::string& name, double x, double degree) {
    return pool.call(name, tenon::DType::F64,
                     {pool.number(x, tenon::DType::F64), pool.number(degree, tenon::DType::F64), pool.number(1e300, tenon::DType::F64)});
  };
  for (std::string name : {"chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
                           "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
                           "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
                           "legendre_polynomial_p"}) {
    CAPTURE(name);
    for (double degree : {1., 2., 3., 7., 12.})
      for (double x : {-1.5, -1., -0.3, 0., 0.45, 1., 2.5}) {
        tenon::Expr e = polynomial(name, x, degree);
        REQUIRE(e->is_const());
        CHECK(e->number() == near(call(name.c_str(), x, degree)));
      }
    CHECK(std::isinf(polynomial(name, 1e200, 2)->number()));
    for (double degree : {-3., 0., 13.}) CHECK(polynomial(name, 0.5, degree)->op == tenon::Op::Call);
  }
}

TEST_CASE("polynomials and neighbours") {
  CHECK(call("chebyshev_polynomial_t", 0.3, 13) == near(std::cos(13 * std::acos(0.3))));
  CHECK(call("legendre_polynomial_p", 0.5, 3) == near(-0.4375));
  CHECK(call("hermite_polynomial_h", 2, 3) == 40);
  CHECK(call("hermite_polynomial_h", 2, -1) == 0);
  CHECK(call("hermite_polynomial_h", 2, 3, 39) == INFINITY); // 1, 4, 14, 40, 76
  CHECK(call("hermite_polynomial_h", 2, 4, 39) == INFINITY);
  CHECK(std::isnan(call("hermite_polynomial_h", 2, 5, 39)));
  CHECK(call("nextafter_f16", 1, 2) == 1 + 0x1p-10);
  CHECK(call("nextafter_bf16", -1, 0) == -1 + 0x1p-8);
  CHECK(call("nextafter_f16", 0, -1) == -0x1p-24);
}

namespace {

using Wide = long double;
constexpr Wide wide_pi = 3.14159265358979323846264338327950288L, euler_gamma = 0.577215664901532860606512090082402431L;

Wide wide_scaled_i(int v, Wide x) {
  Wide a = std::fabs(x), sum = 1, term = 1;
  if (a == INFINITY) return 0;
  if (a < 40) {
    for (Wide k = 1; term > 1e-22L * sum; k++) sum += term *= a * a / 4 / (k * (k + v));
    return (v ? x / 2 : 1) * sum * std::exp(-a);
  }
  for (int k = 1; k < 40; k++) sum += term *= ((2 * k - 1) * (2 * k - 1) - 4 * v) / (8 * k * a);
  return (v && x < 0 ? -1 : 1) * sum / std::sqrt(2 * wide_pi * a);
}
Wide wide_i(int v, Wide x) {
  return std::fabs(x) > 800 ? (v ? std::copysign(Wide(INFINITY), x) : INFINITY) : wide_scaled_i(v, x) * std::exp(std::fabs(x));
}

// DLMF 10.31.1 and 10.31.2, 10.32.9
Wide wide_scaled_k(Wide v, Wide x) {
  if (!(x > 0) || x == INFINITY) return x == 0 ? INFINITY : x > 0 ? 0 : NAN;
  Wide sum = 0;
  if (x < 1) {
    Wide term = 1, l = std::log(x / 2) + euler_gamma, harmonic = 0;
    for (Wide k = 0; k < 20; harmonic += 1 / ++k, term *= x * x / 4 / (k * (k + v)))
      sum += term * (v ? l - harmonic - 0.5L / (k + 1) : harmonic - l);
    return (v ? 1 / x + x / 2 * sum : sum) * std::exp(x);
  }
  Wide h = std::fmin(0.1L, 0.4L / std::sqrt(x)), last = 1;
  for (int n = 1; last > 1e-22L; n++) {
    Wide s = std::sinh(n * h / 2);
    sum += last = std::exp(-2 * x * s * s) * std::cosh(v * n * h);
  }
  return (sum + 0.5L) * h;
}

// By steps of a Taylor series each, DLMF 9.6.2 and 9.7.9, where zeta is hi + lo
Wide wide_airy(Wide x) {
  Wide a = std::fabs(x), s = std::sqrt(a), p = a * s, hi = 2 * p / 3;
  if (a == INFINITY) return x > 0 ? 0 : NAN;
  if (x > -10 && x < 2) {
    Wide y = 0.355028053887817239260063186004183177L, slope = -0.258819403792806798405183560189203963L, steps = std::ceil(a), h = x / steps;
    for (Wide i = 0; i < steps; i++) {
      Wide c[42] = {y, slope, i * h * y / 2};
      for (int k = 1; k < 40; k++) c[k + 2] = (i * h * c[k] + c[k - 1]) / ((k + 1) * (k + 2));
      y = slope = 0;
      for (int k = 41; k >= 0; k--) slope = slope * h + y, y = y * h + c[k];
    }
    return y;
  }
  Wide lo = (std::fma(a, s, -p) + a * std::fma(-s, s, a) / (2 * s)) * 2 / 3 + std::fma(-3.0L, hi, 2 * p) / 3;
  if (x > 0) return std::sqrt(a / 3) / wide_pi * wide_scaled_k(1 / 3.0L, hi) * std::exp(-hi) * (1 - lo);
  Wide terms[2] = {1, 0}, term = 1;
  for (int k = 1; k < 40; k++) {
    term *= (6 * k - 5) * (6 * k - 1) / (72 * k * hi);
    terms[k % 2] += k % 4 < 2 ? term : -term;
  }
  Wide sine = std::sin(hi) * std::cos(lo) + std::cos(hi) * std::sin(lo), cosine = std::cos(hi) * std::cos(lo) - std::sin(hi) * std::sin(lo);
  return (sine * (terms[0] + terms[1]) + cosine * (terms[0] - terms[1])) / std::sqrt(2 * wide_pi * s);
}

Wide wide_erfcx(Wide x) {
  if (x < 0) return 2 * std::exp(x * x) - wide_erfcx(-x);
  if (x < 20) return std::exp(x * x) * std::erfc(x);
  Wide sum = 1, term = 1;
  for (int k = 1; k < 12; k++) sum += term *= (1 - 2 * k) / (2 * x * x);
  return sum / (x * std::sqrt(wide_pi));
}
Wide wide_log_ndtr(Wide x) {
  Wide scaled = wide_erfcx(std::fabs(x) / std::sqrt(2.0L)) / 2;
  return x < 0 ? std::log(scaled) - x * x / 2 : std::log1p(-scaled * std::exp(-x * x / 2));
}

// By Newton's method from what a double holds
Wide wide_erfinv(Wide x) {
  Wide a = std::fabs(x), y = std::fabs(call("erfinv", static_cast<double>(x)));
  if (!(a < 1)) return call("erfinv", static_cast<double>(x));
  for (int i = 0; i < 6; i++) y -= (a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y)) * std::exp(y * y) * std::sqrt(wide_pi) / 2;
  return std::copysign(y, x);
}
Wide wide_ndtri(Wide p) {
  Wide q = std::fmin(p, 1 - p), y = std::fabs(call("ndtri", static_cast<double>(q))) / std::sqrt(2.0L);
  if (!(p > 0 && p < 1)) return call("ndtri", static_cast<double>(p));
  if (q > 0.25L) return std::sqrt(2.0L) * wide_erfinv(2 * p - 1);
  for (int i = 0; i < 6; i++) y += (std::erfc(y) - 2 * q) * std::exp(y * y) * std::sqrt(wide_pi) / 2;
  return std::copysign(std::sqrt(2.0L) * y, p - 0.5L);
}

// The sum of 1 / (k + root) - 1 / (k + x) (DLMF 5.7.6), from k = 100 on by the asymptotic series: all in proportion to x - root
Wide wide_digamma(Wide x) {
  if (Wide d = x - std::round(x); x < 0) return d == 0 ? NAN : wide_digamma(1 - x) - wide_pi / std::tan(wide_pi * d);
  if (x == 0 || x == INFINITY) return x == 0 ? std::copysign(Wide(INFINITY), -x) : x;
  constexpr Wide upper = 1.4616321449683622, rest = 9.5499954299656977151842e-17L, root = upper + rest;
  Wide d = (x - upper) - rest, u = x + 100, v = root + 100, p = 1 / (u * u), q = 1 / (v * v), sum = 0;
  for (int k = 0; k < 100; k++) sum += 1 / ((k + x) * (k + root));
  Wide series = 1 / (2 * u * v) + (u + v) * p * q * (1 / 12.0L - (p + q) / 120 + (p * p + p * q + q * q) / 252);
  return d * (sum + series) + std::log1p(d / v);
}

// What errors are beside that could be any part of the result: the envelope of waves, terms of opposite signs
Wide wave(Wide x) { return std::fabs(x) > 0.5L ? std::sqrt(2 / (wide_pi * std::fabs(x))) : 0; }
Wide airy_wave(Wide x) { // any angle where zeta is beyond 2^36
  return x < -2.2e7L ? INFINITY : x < -0.5L ? 1 / std::sqrt(wide_pi * std::sqrt(-x)) : 0;
}
Wide lgamma_terms(Wide x) { return x < 0 ? std::fmax(1.0L, ::lgammal(-x)) : 0; }
Wide digamma_terms(Wide x) { return x < 0 ? std::fabs(wide_digamma(1 - x)) : 0; }

// Bounds in units in the last place of the result, or of a larger `beside`
struct SpecialAccuracy {
  const char* op;
  Wide (*want)(Wide);
  double f32, f64;
  Wide (*beside)(Wide) = [](Wide) -> Wide { return 0; };
};
const SpecialAccuracy special_accuracies[] = {
    {"lgamma", ::lgammal, 0.6, 3, lgamma_terms},
    {"digamma", wide_digamma, 0.6, 5, digamma_terms},
    {"i0", [](Wide x) { return wide_i(0, x); }, 0.6, 4.5},
    {"special_i0e", [](Wide x) { return wide_scaled_i(0, x); }, 0.6, 4.5},
    {"special_i1", [](Wide x) { return wide_i(1, x); }, 0.6, 4.5},
    {"special_i1e", [](Wide x) { return wide_scaled_i(1, x); }, 0.6, 4.5},
    {"special_modified_bessel_k0", [](Wide x) { return wide_scaled_k(0, x) * std::exp(-x); }, 0.6, 4.5},
    {"special_scaled_modified_bessel_k0", [](Wide x) { return wide_scaled_k(0, x); }, 0.6, 4},
    {"special_modified_bessel_k1", [](Wide x) { return wide_scaled_k(1, x) * std::exp(-x); }, 0.6, 4.5},
    {"special_scaled_modified_bessel_k1", [](Wide x) { return wide_scaled_k(1, x); }, 0.6, 4},
    {"special_bessel_j0", ::j0l, 0.6, 5, wave},
    {"special_bessel_j1", ::j1l, 0.6, 5, wave},
    {"special_bessel_y0", ::y0l, 0.6, 7.5, wave},
    {"special_bessel_y1", ::y1l, 0.6, 8, wave},
    {"special_airy_ai", wide_airy, 0.6, 6.5, airy_wave},
    {"special_erfcx", wide_erfcx, 0.6, 2.5},
    {"erfinv", wide_erfinv, 0.6, 3},
    {"special_ndtri", wide_ndtri, 0.6, 4.5},
    {"special_log_ndtr", wide_log_ndtr, 0.6, 4.5},
};

// The whole line by its bits, the bands where the functions do their work, probabilities next to 0 and 1, special values
std::vector<double> special_arguments() {
  std::vector<double> v;
  for (uint64_t i = 0; i < 2000; i++) v.push_back(std::bit_cast<double>(i * 0x20c49ba5e353f7));
  for (int i = -1500; i <= 1500; i++) v.push_back(i * 6.67e-4), v.push_back(i * 0.0401), v.push_back(i * 0.31);
  for (int i = 0; i < 2150; i++) v.push_back(std::exp2(-0.5 * i));
  for (int i = 0; i < 107; i++) v.push_back(1 - std::exp2(-0.5 * i));
  for (double x : {HUGE_VAL, std::nan(""), 1.0, 7.0, 7.75, 0x1p30, 1e15, 5e-324, 2e-308, 1.2e-38, 1.7e308})
    for (double y : {x, std::nextafter(x, 0)}) v.push_back(y), v.push_back(-y);
  return v;
}

double special_error(Wide beside, tenon::DType t, double got, Wide want) {
  bool narrow = t == tenon::DType::F32;
  Wide size = std::fmax(std::fabs(want), beside);
  double rounded = narrow ? static_cast<double>(static_cast<float>(want)) : static_cast<double>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || !std::isfinite(got)) return got == rounded ? 0 : INFINITY;
  int digits = narrow ? 24 : 53, least = narrow ? -126 : -1022, exponent = size == 0 ? least : std::max(std::ilogb(size), least);
  return static_cast<double>(std::ldexp(std::fabs(got - want), digits - 1 - exponent));
}

} // namespace

TEST_CASE("special functions in vectors are within their stated error") {
  const std::vector<double> arguments = special_arguments();
  const auto n = static_cast<int64_t>(arguments.size());
  for (const SpecialAccuracy& row : special_accuracies)
    for (tenon::DType t : {tenon::DType::F32, tenon::DType::F64}) {
      tenon::test::TestGraph g;
      tenon::V x = g.input({n}, t);
      g.returns(g.b.call1(std::string("aten::") + row.op + ".default", {x}));
      tenon::Tensor in = tenon::test::filled(t, {n}, [&](int64_t i) { return arguments[static_cast<size_t>(i)]; });
      std::vector<double> from = tenon::test::numbers(in);
      std::vector<Wide> want;
      for (double v : from) want.push_back(row.want(v));
      for (tenon::Isa isa : {tenon::Isa::Auto, tenon::Isa::Avx2}) {
        std::vector<double> got = tenon::test::numbers(tenon::test::run(g.program().compile({.isa = isa}).value(), {in})[0]);
        double worst = -1;
        size_t at = 0;
        for (size_t i = 0; i < got.size(); i++)
          if (double e = special_error(row.beside(from[i]), t, got[i], want[i]); e > worst) worst = e, at = i;
        INFO(std::string(row.op), " of ", tenon::name_of(t), " at ", from[at], " got ", got[at]);
        if (std::getenv("TENON_ULP_PRINT")) MESSAGE("worst " << worst);
        CHECK(worst <= (t == tenon::DType::F32 ? row.f32 : row.f64));
      }
    }
}

} // namespace tenon::special_test
