// Helpers for scalar bodies.
#pragma once
#include <cmath>

#include "ir/builder.h"
#include "ir/op.h"
#include "ir/promote.h"

namespace tenon::ops {

/// A body that is one unary operator.
template <Op O> Expr unary_body(const BodyArgs& a) { return unary(O, a[0]); }
/// A body that is one binary operator.
template <Op O> Expr binary_body(const BodyArgs& a) { return binary(O, a[0], a[1]); }

inline Expr exp(Expr x) { return unary(Op::Exp, x); }
inline Expr log(Expr x) { return unary(Op::Log, x); }
inline Expr log1p(Expr x) { return unary(Op::Log1p, x); }
inline Expr expm1(Expr x) { return unary(Op::Expm1, x); }
inline Expr tanh(Expr x) { return unary(Op::Tanh, x); }
inline Expr erf(Expr x) { return unary(Op::Erf, x); }
inline Expr sqrt(Expr x) { return unary(Op::Sqrt, x); }
inline Expr rsqrt(Expr x) { return unary(Op::Rsqrt, x); }
inline Expr sigmoid(Expr x) { return unary(Op::Sigmoid, x); }
inline Expr abs(Expr x) { return unary(Op::Abs, x); }
inline Expr floor(Expr x) { return unary(Op::Floor, x); }
inline Expr round(Expr x) { return unary(Op::Round, x); }
inline Expr trunc(Expr x) { return unary(Op::Trunc, x); }
inline Expr pow(Expr x, Expr y) { return binary(Op::Pow, x, y); }
inline Expr like(double v, Expr x) { return constant_like(v, x); }
inline Expr zero(Expr x) { return like(0, x); }

/// A text as a template argument.
struct Name {
  char text[96] = {};
  template <size_t N> consteval Name(const char (&s)[N]) {
    for (size_t i = 0; i < N; i++) text[i] = s[i];
  }
};
/// A composite that calls another operator, each argument handed on to the one of the same name (or, where the other has no
/// such name, to the one at the same place).
template <Name N> Values same(Builder& b, const Call& c) {
  const OpDef* target = find_op(N.text);
  require(target != nullptr, "no row {}", N.text);
  auto& schema = target->signature.args;
  ArgList args(schema.size());
  for (size_t i = 0; i < schema.size(); i++) {
    int at = c.def.signature.find(schema[i].name);
    if (at >= 0) args[i] = c.args[static_cast<size_t>(at)];
    else if (i < c.args.size() && target->signature.find(c.def.signature.args[i].name) < 0) args[i] = c.args[i];
    else args[i] = schema[i].fallback;
  }
  return b.call_full(*target, std::move(args));
}
/// An operator of one tensor, or of two.
inline V call(std::string_view op, V x) { return x.builder().call1(op, {x}); }
inline V call(std::string_view op, V x, V y) { return x.builder().call1(op, {x, y}); }
/// The argument keepdim, false where there is none.
inline bool keepdim(const Call& c) { return c.def.signature.find("keepdim") >= 0 && c.flag("keepdim"); }
/// A composite that is its first argument.
inline Values identity(Builder& b, const Call& c) { return b.wrap(c.args[0].get<ValueId>()); }

} // namespace tenon::ops
