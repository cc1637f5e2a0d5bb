// What each operator means, once, as templates over the C++ type of its operands. Constant folding, the interpreter and
// the tests of generated code all use these. Reduced floats never compute: bodies cast them to f32 first.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "expr/expr.h"

namespace tenon {

template <class T> using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;

template <Op O, class T> T apply_unary_float(T x) {
  if constexpr (O == Op::Sqrt) return std::sqrt(x);
  else if constexpr (O == Op::Rsqrt) return T(1) / std::sqrt(x);
  else if constexpr (O == Op::Exp) return std::exp(x);
  else if constexpr (O == Op::Exp2) return std::exp2(x);
  else if constexpr (O == Op::Expm1) return std::expm1(x);
  else if constexpr (O == Op::Log) return std::log(x);
  else if constexpr (O == Op::Log2) return std::log2(x);
  else if constexpr (O == Op::Log10) return std::log10(x);
  else if constexpr (O == Op::Log1p) return std::log1p(x);
  else if constexpr (O == Op::Sin) return std::sin(x);
  else if constexpr (O == Op::Cos) return std::cos(x);
  else if constexpr (O == Op::Tan) return std::tan(x);
  else if constexpr (O == Op::Asin) return std::asin(x);
  else if constexpr (O == Op::Acos) return std::acos(x);
  else if constexpr (O == Op::Atan) return std::atan(x);
  else if constexpr (O == Op::Sinh) return std::sinh(x);
  else if constexpr (O == Op::Cosh) return std::cosh(x);
  else if constexpr (O == Op::Tanh) return std::tanh(x);
  else if constexpr (O == Op::Asinh) return std::asinh(x);
  else if constexpr (O == Op::Acosh) return std::acosh(x);
  else if constexpr (O == Op::Atanh) return std::atanh(x);
  else if constexpr (O == Op::Erf) return std::erf(x);
  else if constexpr (O == Op::Erfc) return std::erfc(x);
  else if constexpr (O == Op::Sigmoid) return T(1) / (T(1) + std::exp(-x));
  else if constexpr (O == Op::Floor) return std::floor(x);
  else if constexpr (O == Op::Ceil) return std::ceil(x);
  else if constexpr (O == Op::Round) return std::nearbyint(x); // half to even
  else if constexpr (O == Op::Trunc) return std::trunc(x);
  else internal_error("operator {} on floats", static_cast<int>(O));
}

template <Op O, class T> T apply_unary(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (O == Op::Neg) return -x;
    else if constexpr (O == Op::Abs) return std::fabs(x);
    else return apply_unary_float<O, T>(x);
  } else if constexpr (std::is_same_v<T, bool>) {
    if constexpr (O == Op::Not) return !x;
    else if constexpr (O == Op::Abs) return x;
    else internal_error("operator {} on bool", static_cast<int>(O));
  } else {
    if constexpr (O == Op::Neg) return static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(x));
    else if constexpr (O == Op::Abs) return x < 0 ? static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(x)) : x;
    else if constexpr (O == Op::Not) return static_cast<T>(~x);
    else if constexpr (O == Op::Floor || O == Op::Ceil || O == Op::Round || O == Op::Trunc) return x;
    else internal_error("operator {} on integers", static_cast<int>(O));
  }
}

template <Op O, class T> T apply_binary_float(T a, T b) {
  if constexpr (O == Op::Add) return a + b;
  else if constexpr (O == Op::Sub) return a - b;
  else if constexpr (O == Op::Mul) return a * b;
  else if constexpr (O == Op::Div) return a / b;
  else if constexpr (O == Op::Min) return std::isnan(a) || a < b ? a : b;
  else if constexpr (O == Op::Max) return std::isnan(a) || a > b ? a : b;
  else if constexpr (O == Op::Pow) return std::pow(a, b);
  else if constexpr (O == Op::Atan2) return std::atan2(a, b);
  else if constexpr (O == Op::Fmod) return std::fmod(a, b);
  else if constexpr (O == Op::TruncDiv) return std::trunc(a / b);
  else if constexpr (O == Op::Mod) { // sign of the divisor, as Python
    T r = std::fmod(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else if constexpr (O == Op::FloorDiv) { // as torch: via the remainder, exact for large quotients
    if (b == 0) return a / b;
    T r = std::fmod(a, b), q = (a - r) / b;
    if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
    if (q == 0) return std::copysign(T(0), a / b);
    T f = std::floor(q);
    return q - f > T(0.5) ? f + 1 : f;
  } else internal_error("operator {} on floats", static_cast<int>(O));
}

template <class T> T int_pow(T base, T e) {
  if constexpr (std::is_signed_v<T>)
    if (e < 0) return base == 1 ? 1 : base == T(-1) ? (e % 2 == 0 ? T(1) : T(-1)) : T(0);
  uint64_t r = 1, b = static_cast<uint64_t>(base); // wider than T, or u16's product would overflow an int
  for (; e > 0; e = static_cast<T>(e >> 1), b *= b)
    if (e & 1) r *= b;
  return static_cast<T>(r);
}

// Integer division by zero gives 0 here; a step that torch would refuse checks its divisor itself.
template <Op O, class T> T apply_binary_int(T a, T b) {
  using U = Unsigned<T>;
  constexpr int width = static_cast<int>(sizeof(T) * 8);
  auto wraps = [&] { return std::is_signed_v<T> && b == T(-1); }; // INT_MIN / -1 traps on x86
  if constexpr (O == Op::Add) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  else if constexpr (O == Op::Sub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  else if constexpr (O == Op::Mul) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else if constexpr (O == Op::Min) return a < b ? a : b;
  else if constexpr (O == Op::Max) return a > b ? a : b;
  else if constexpr (O == Op::And) return static_cast<T>(a & b);
  else if constexpr (O == Op::Or) return static_cast<T>(a | b);
  else if constexpr (O == Op::Xor) return static_cast<T>(a ^ b);
  else if constexpr (O == Op::Shl) return b < 0 || b >= width ? T(0) : static_cast<T>(static_cast<U>(a) << b);
  else if constexpr (O == Op::Shr) return b < 0 || b >= width ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
  else if constexpr (O == Op::Pow) return int_pow(a, b);
  else if constexpr (O == Op::Gcd) {
    auto magnitude = [](T x) { return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); };
    return static_cast<T>(std::gcd(magnitude(a), magnitude(b)));
  } else if constexpr (O == Op::TruncDiv) return b == 0 ? T(0) : wraps() ? static_cast<T>(U(0) - static_cast<U>(a)) : static_cast<T>(a / b);
  else if constexpr (O == Op::Fmod) return b == 0 || wraps() ? T(0) : static_cast<T>(a % b);
  else if constexpr (O == Op::Mod) {
    if (b == 0 || wraps()) return T(0);
    T r = static_cast<T>(a % b);
    return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
  } else if constexpr (O == Op::FloorDiv) {
    if (b == 0) return T(0);
    if (wraps()) return static_cast<T>(U(0) - static_cast<U>(a));
    T q = static_cast<T>(a / b);
    return a % b != 0 && ((a < 0) != (b < 0)) ? static_cast<T>(q - 1) : q;
  } else internal_error("operator {} on integers", static_cast<int>(O));
}

template <Op O, class T> T apply_binary(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return apply_binary_float<O, T>(a, b);
  else if constexpr (std::is_same_v<T, bool>) {
    if constexpr (O == Op::And || O == Op::Mul || O == Op::Min) return a && b;
    else if constexpr (O == Op::Or || O == Op::Add || O == Op::Max) return a || b;
    else if constexpr (O == Op::Xor || O == Op::Sub) return a != b;
    else internal_error("operator {} on bool", static_cast<int>(O));
  } else return apply_binary_int<O, T>(a, b);
}

template <Op O, class T> bool apply_compare(T a, T b) {
  if constexpr (O == Op::Eq) return a == b;
  else if constexpr (O == Op::Ne) return a != b;
  else if constexpr (O == Op::Lt) return a < b;
  else return a <= b;
}

constexpr bool is_leaf(Op op) { return op <= Op::Reg; }
constexpr bool is_unary(Op op) { return op >= Op::Neg && op <= Op::Bitcast; }
constexpr bool is_binary(Op op) { return op >= Op::Add && op <= Op::Le; }
constexpr bool is_compare(Op op) { return op >= Op::Eq && op <= Op::Le; }

/// Calls f.template operator()<Op>() for a run-time operator in [First, Last].
template <Op First, Op Last, class F> decltype(auto) dispatch_op(Op op, F&& f) {
  if constexpr (First == Last) {
    require(op == First, "operator {} is out of range", static_cast<int>(op));
    return f.template operator()<First>();
  } else {
    if (op == First) return f.template operator()<First>();
    return dispatch_op<static_cast<Op>(static_cast<int>(First) + 1), Last>(op, std::forward<F>(f));
  }
}

/// A C function of one to three doubles that Op::Call names; null where there is none.
using SpecialFunction = double (*)(const double* args);
SpecialFunction find_special(std::string_view name);

/// Evaluates an integer or boolean expression without loads; `value_of` gives the value of symbols, axes and registers.
/// Numbers of float type are evaluated as doubles in between.
double eval_number(Expr e, const std::function<double(const ExprNode&)>& value_of);
int64_t eval_int(Expr e, const std::function<int64_t(const ExprNode&)>& value_of);

} // namespace tenon
