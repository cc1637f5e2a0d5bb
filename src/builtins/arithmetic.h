// The arithmetic of TorchScript's numbers, for the kinds int64_t, double and Complex, mixed or not: ints wrap, products of complex numbers
// are the plain ones.
#pragma once
#include <cmath>

#include "builtins/rows.h"

namespace tenon::builtins::arithmetic {

template <class T> inline constexpr bool is_int = std::is_same_v<T, int64_t>;
template <class T> inline constexpr bool is_complex_number = std::is_same_v<T, Complex>;
template <class T>
concept Real = !is_complex_number<T>;
template <Real T> double real(T a) { return static_cast<double>(a); }
/// What a computes as beside b: an int beside a complex number is a double.
template <class B, class A> auto beside(A a) {
  if constexpr (is_int<A> && !is_int<B>) return static_cast<double>(a);
  else return a;
}
inline uint64_t bits(int64_t a) { return static_cast<uint64_t>(a); }
inline int64_t wrapped(uint64_t a) { return static_cast<int64_t>(a); }
/// As the processor converts: what no int64_t holds is INT64_MIN.
inline int64_t to_int(double d) { return d >= -0x1p63 && d < 0x1p63 ? static_cast<int64_t>(d) : INT64_MIN; }
/// The int next to a float that is one; an error where none is.
inline int64_t whole_int(double d) {
  if (!std::isfinite(d) || std::fabs(d) > 0x1p63) raise("", fmt::format("Cannot convert float {:f} to integer", d));
  return to_int(d);
}

struct Add {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_int<A> && is_int<B>) return wrapped(bits(a) + bits(b));
    else return beside<B>(a) + beside<A>(b);
  }
};
struct Sub {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_int<A> && is_int<B>) return wrapped(bits(a) - bits(b));
    else return beside<B>(a) - beside<A>(b);
  }
};
struct Neg {
  template <class A> auto operator()(A a) const {
    if constexpr (is_int<A>) return wrapped(0 - bits(a));
    else return -a;
  }
};
struct Mul {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_int<A> && is_int<B>) return wrapped(bits(a) * bits(b));
    else if constexpr (is_complex_number<A> && is_complex_number<B>)
      return Complex(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    else return beside<B>(a) * beside<A>(b);
  }
};
/// Divides by the larger part of b first, so that nothing overflows that need not.
inline Complex quotient(Complex a, Complex b) {
  auto [x, y, z, w] = std::tuple(a.real(), a.imag(), b.real(), b.imag());
  if (std::fabs(z) >= std::fabs(w)) {
    if (z == 0 && w == 0) return {x / std::fabs(z), y / std::fabs(w)};
    double ratio = w / z, scale = 1 / (z + w * ratio);
    return {(x + y * ratio) * scale, (y - x * ratio) * scale};
  }
  double ratio = z / w, scale = 1 / (w + z * ratio);
  return {(x * ratio + y) * scale, (y * ratio - x) * scale};
}
struct Div {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_complex_number<A> && is_complex_number<B>) return quotient(a, b);
    else return static_cast<double>(a) / static_cast<double>(b);
  }
};

/// Rounded down; INT64_MIN by -1 wraps.
inline int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return wrapped(0 - bits(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t floor_remainder(int64_t a, int64_t b) { return wrapped(bits(a) - bits(floor_quotient(a, b)) * bits(b)); }

struct FloorDiv {
  template <Real A, Real B> auto operator()(A a, B b) const {
    if constexpr (is_int<A> && is_int<B>) {
      if (b == 0) raise("", "division by 0");
      return floor_quotient(a, b);
    } else return std::floor(static_cast<double>(a) / static_cast<double>(b));
  }
};
struct Remainder {
  template <Real A, Real B> auto operator()(A a, B b) const {
    if constexpr (is_int<A> && is_int<B>) {
      if (b == 0) raise("ZeroDivisionError", "integer modulo by zero"); // torch dies of it
      return floor_remainder(a, b);
    } else {
      double d = static_cast<double>(b);
      return std::fmod(d + std::fmod(static_cast<double>(a), d), d);
    }
  }
};
/// A float also of two ints.
struct Pow {
  template <class A, class B> auto operator()(A a, B b) const {
    if constexpr (is_complex_number<A> || is_complex_number<B>) return std::pow(beside<B>(a), beside<A>(b));
    else {
      if (a == 0 && b < 0) raise("", "0.0 cannot be raised to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    }
  }
};
struct PowOfScalars { // zero has no error here
  template <Real A, Real B> double operator()(A a, B b) const { return std::pow(static_cast<double>(a), static_cast<double>(b)); }
};

struct Equal {
  template <class A, class B> bool operator()(const A& a, const B& b) const { return beside<B>(a) == beside<A>(b); }
};
struct NotEqual {
  template <class A, class B> bool operator()(const A& a, const B& b) const { return beside<B>(a) != beside<A>(b); }
};
struct Less {
  template <Real A, Real B> bool operator()(const A& a, const B& b) const { return beside<B>(a) < beside<A>(b); }
};
struct LessEqual {
  template <Real A, Real B> bool operator()(const A& a, const B& b) const { return beside<B>(a) <= beside<A>(b); }
};
/// An order with its operands exchanged: Greater of Less.
template <class Order> struct Swapped {
  template <class A, class B>
    requires std::is_invocable_v<Order, B, A>
  bool operator()(const A& a, const B& b) const {
    return Order{}(b, a);
  }
};
/// The smaller by Less, the larger by Swapped<Less>; of equal ones, and beside NaN, the second.
template <class Order> struct Choose {
  template <class A, class B>
    requires std::is_invocable_v<Order, A, B>
  auto operator()(A a, B b) const {
    using R = decltype(a + b);
    return Order{}(a, b) ? static_cast<R>(a) : static_cast<R>(b);
  }
};

} // namespace tenon::builtins::arithmetic
