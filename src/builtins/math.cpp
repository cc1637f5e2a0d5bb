// math.*, torch.* of numbers, and round, abs.
#include <bit>
#include <numbers>
#include <numeric>

#include "builtins/arithmetic.h"

namespace tenon::builtins {

using namespace arithmetic;

namespace {

using Int = int64_t;

/// A function of one number for ints, floats, complex numbers and Scalars.
template <class F> void of_complex_too(Rows& rows, std::string_view name, F f) {
  unary<Int, double, Complex>(rows, name, f);
  unary_scalar(rows, name, f);
}
/// The same where complex numbers are left out.
template <class F> void of_reals(Rows& rows, std::string_view name, F) {
  auto f = [](Real auto a) { return F{}(a); };
  unary<Int, double>(rows, name, f);
  unary_scalar(rows, name, f);
}

void elementary_rows(Rows& rows) {
  of_complex_too(rows, "aten::log", [](auto a) { return std::log(a); });
  of_complex_too(rows, "aten::log10", [](auto a) { return std::log10(a); });
  of_complex_too(rows, "aten::exp", [](auto a) { return std::exp(a); });
  of_complex_too(rows, "aten::sqrt", [](auto a) { return std::sqrt(a); });
  of_complex_too(rows, "aten::sin", [](auto a) { return std::sin(a); });
  of_complex_too(rows, "aten::cos", [](auto a) { return std::cos(a); });
  of_complex_too(rows, "aten::tan", [](auto a) { return std::tan(a); });
  of_complex_too(rows, "aten::asin", [](auto a) { return std::asin(a); });
  of_complex_too(rows, "aten::acos", [](auto a) { return std::acos(a); });
  of_complex_too(rows, "aten::atan", [](auto a) { return std::atan(a); });
  of_complex_too(rows, "aten::sinh", [](auto a) { return std::sinh(a); });
  of_complex_too(rows, "aten::cosh", [](auto a) { return std::cosh(a); });
  of_complex_too(rows, "aten::tanh", [](auto a) { return std::tanh(a); });
  of_complex_too(rows, "aten::asinh", [](auto a) { return std::asinh(a); });
  of_complex_too(rows, "aten::acosh", [](auto a) { return std::acosh(a); });
  of_complex_too(rows, "aten::atanh", [](auto a) { return std::atanh(a); });
  of_complex_too(rows, "aten::angle", [](auto a) { return std::arg(a); });
  of_complex_too(rows, "prim::abs", [](auto a) {
    if constexpr (is_int<decltype(a)>) return a < 0 ? wrapped(0 - bits(a)) : a;
    else return std::abs(a);
  });
}

void real_rows(Rows& rows) {
  of_reals(rows, "aten::log1p", [](auto a) { return std::log1p(real(a)); });
  of_reals(rows, "aten::expm1", [](auto a) { return std::expm1(real(a)); });
  of_reals(rows, "aten::gamma", [](auto a) { return std::tgamma(real(a)); });
  of_reals(rows, "aten::lgamma", [](auto a) { return std::lgamma(real(a)); });
  of_reals(rows, "aten::erf", [](auto a) { return std::erf(real(a)); });
  of_reals(rows, "aten::erfc", [](auto a) { return std::erfc(real(a)); });
  of_reals(rows, "aten::fabs", [](auto a) { return std::fabs(real(a)); });
  of_reals(rows, "aten::degrees", [](auto a) { return real(a) * (180.0 / std::numbers::pi); });
  of_reals(rows, "aten::radians", [](auto a) { return real(a) * (std::numbers::pi / 180.0); });
  of_reals(rows, "aten::round", [](auto a) { return std::nearbyint(real(a)); });
  // Of ints, too, through a double, as in torch.
  of_reals(rows, "aten::floor", [](auto a) -> Int { return whole_int(std::floor(real(a))); });
  of_reals(rows, "aten::ceil", [](auto a) -> Int {
    if constexpr (is_int<decltype(a)>) return a;
    else return whole_int(std::ceil(a));
  });
}

template <class F> void of_two_reals(Rows& rows, std::string_view name, std::string_view scalars, F) {
  auto f = [](Real auto a, Real auto b) { return F{}(real(a), real(b)); };
  binary<Int, Int>(rows, name, f);
  binary<double, double>(rows, name, f);
  binary<Int, double>(rows, name, f);
  binary<double, Int>(rows, name, f);
  binary_scalar(rows, scalars, "float", f);
}

void two_real_rows(Rows& rows) {
  of_two_reals(rows, "aten::fmod", "aten::fmod", [](double a, double b) { return std::fmod(a, b); });
  of_two_reals(rows, "aten::mathremainder", "aten::mathremainder", [](double a, double b) { return std::remainder(a, b); });
  of_two_reals(rows, "aten::copysign", "aten::copysign", [](double a, double b) { return std::copysign(a, b); });
  of_two_reals(rows, "aten::atan2", "aten::atan2.Scalar_Scalar", [](double a, double b) { return std::atan2(a, b); });
}

struct Polar {
  template <Real A, Real B> Complex operator()(A a, B b) const {
    double r = real(a), angle = real(b);
    return {r * std::cos(angle), r * std::sin(angle)};
  }
};
/// The logarithm of a to the base b.
struct LogOf {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_complex_number<B>) return Div{}(Complex(std::log(a)), std::log(b));
    else if constexpr (is_complex_number<A>) return std::log(a) / std::log(real(b));
    else return std::log(real(a)) / std::log(real(b));
  }
};

/// log's overloads name both kinds where these are equal, too.
template <class A, class B> void log_row(Rows& rows) {
  auto a = kind_name<A>(), b = kind_name<B>(), r = kind_name<decltype(LogOf{}(A{}, B{}))>();
  rows.push_back({fmt::format("aten::log.{}_{}({} a, {} b) -> {}", a, b, a, b, r), op<A, B>(LogOf())});
}

void polar_and_log_rows(Rows& rows) {
  binary<Int, Int>(rows, "aten::polar", Polar());
  binary<double, double>(rows, "aten::polar", Polar());
  binary<Int, double>(rows, "aten::polar", Polar());
  binary<double, Int>(rows, "aten::polar", Polar());
  binary_scalar(rows, "aten::polar.Scalar_Scalar", "Scalar", Polar());
  log_row<Int, Int>(rows);
  log_row<double, double>(rows);
  log_row<Complex, Complex>(rows);
  log_row<Int, double>(rows);
  log_row<double, Int>(rows);
  log_row<Int, Complex>(rows);
  log_row<Complex, Int>(rows);
  log_row<double, Complex>(rows);
  log_row<Complex, double>(rows);
  binary_scalar(rows, "aten::log.Scalar_Scalar", "float", [](Real auto a, Real auto b) { return LogOf{}(a, b); });
}

/// The odd part of the product, which wraps, shifted by the factors of two as the processor shifts: by their number modulo 64.
Int factorial(Int number) {
  int n = static_cast<int32_t>(number);
  if (n < 0) raise("", "factorial() not defined for negative values");
  uint64_t odd = 1, twos = 0;
  for (uint64_t i = 2; i <= static_cast<uint64_t>(n); i++) {
    int shift = std::countr_zero(i);
    odd *= i >> shift;
    twos += static_cast<uint64_t>(shift);
  }
  return wrapped(odd << (twos & 63));
}

Int gcd(Int a, Int b) {
  while (b != 0) a = std::exchange(b, b == -1 ? 0 : a % b);
  return a < 0 ? wrapped(0 - bits(a)) : a;
}

Rows other_math_rows() {
  return {
      {"aten::isnan.float(float a) -> bool", op([](double a) { return std::isnan(a); })},
      {"aten::isnan.complex(complex a) -> bool", op([](Complex a) { return std::isnan(a.real()) || std::isnan(a.imag()); })},
      {"aten::isinf.float(float a) -> bool", op([](double a) { return std::isinf(a); })},
      {"aten::isinf.complex(complex a) -> bool", op([](Complex a) { return std::isinf(a.real()) || std::isinf(a.imag()); })},
      {"aten::isfinite.float(float a) -> bool", op([](double a) { return std::isfinite(a); })},
      {"aten::isfinite.complex(complex a) -> bool", op([](Complex a) { return std::isfinite(a.real()) && std::isfinite(a.imag()); })},
      {"aten::factorial.int(int a) -> int", of<factorial>},
      {"aten::gcd.int(int a, int b) -> int", of<gcd>},
      {"aten::modf(float a) -> (float, float)", op([](double a) {
         double whole, fraction = std::modf(a, &whole);
         return std::tuple(fraction, whole);
       })},
      {"aten::frexp(float a) -> (float, int)", op([](double a) {
         int exponent = 0;
         double mantissa = std::frexp(a, &exponent);
         return std::tuple(mantissa, Int{exponent});
       })},
      {"aten::ldexp(float x, int i) -> float", op([](double x, Int i) { return std::ldexp(x, static_cast<int>(i)); })},
  };
}

Rows make_math_rows() {
  Rows rows;
  elementary_rows(rows);
  real_rows(rows);
  two_real_rows(rows);
  polar_and_log_rows(rows);
  add_rows(rows, other_math_rows());
  return rows;
}

} // namespace

std::span<const BuiltinRow> math_rows() {
  static const Rows rows = make_math_rows();
  return rows;
}

} // namespace tenon::builtins
