// Special functions against values of the NIST handbook and identities, at the places where one method takes over from
// another.
#include <doctest/doctest.h>

#include <cmath>

#include "expr/eval.h"

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
  CHECK(std::isnan(call("digamma", -2)));
  CHECK(call("digamma", 0.0) == -INFINITY);
  CHECK(call("trigamma", 1) == near(M_PI * M_PI / 6));
  CHECK(call("zeta", 4, 1) == near(std::pow(M_PI, 4) / 90));
  CHECK(call("zeta", 3, 40.5) == near(call("zeta", 3, 41.5) + std::pow(40.5, -3)));
  CHECK(call("zeta", 2, -3) == INFINITY);
  for (double a : {0.5, 3.0, 17.0, 100.0})
    for (double x : {a * 0.3, a, a + 1, a + 1.001, a * 3}) CHECK(call("igamma", a, x) + call("igammac", a, x) == near(1));
  CHECK(call("igamma", 1, 2) == near(1 - std::exp(-2)));
  CHECK(call("igammac", 1, 5) == near(std::exp(-5)));
}

TEST_CASE("inverse error functions invert") {
  for (double x : {1e-300, 1e-9, 0.3, 0.5, 0.51, 0.999, 1 - 1e-14}) {
    CHECK(std::erf(call("erfinv", x)) == near(x));
    CHECK(call("erfinv", -x) == -call("erfinv", x));
  }
  for (double p : {1e-280, 1e-10, 0.2, 0.5, 0.7}) CHECK(std::erfc(-call("ndtri", p) * M_SQRT1_2) / 2 == doctest::Approx(p).epsilon(1e-10));
  CHECK(call("erfinv", 1) == INFINITY);
  CHECK(std::isnan(call("erfinv", 1.5)));
  CHECK(call("erfcx", 24.999) == doctest::Approx(call("erfcx", 25.001)).epsilon(1e-4));
  CHECK(call("log_ndtr", -40) == near(-804.60844201332463));
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
  CHECK(call("gcd", -12, 18) == 6);
}
