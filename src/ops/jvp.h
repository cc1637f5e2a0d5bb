// Forward derivatives: what rows say of the tangent of their result (OpRow::jvp), and the rules that several of them share.
#pragma once
#include "ops/body.h"

namespace tenon {

/// A call y = op(x, ...) of which some operand has a tangent.
struct Tangents {
  using Find = std::function<ValueId(ValueId)>; ///< a value's tangent, invalid where it has none
  Tangents(const Call& call, V y, const Find& find) : call(call), y(y), find(find), x(operand(call.args[0])), t(of(call.args[0])) {}

  const Call& call;
  V y; ///< the first result
  const Find& find;
  V x, t; ///< the first argument, where it is a value, and its tangent

  V operand(const Arg& a) const { return y.builder().wrap(a.is<ValueId>() ? a.get<ValueId>() : ValueId()); }
  /// The tangent of an argument; empty where it has none.
  V of(const Arg& a) const { return y.builder().wrap(a.is<ValueId>() ? find(a.get<ValueId>()) : ValueId()); }
};

namespace ops {

/// Of operators that are linear in all their tensors together: their tensors replaced by the tangents, and numbers that are added by 0.
V jvp_linear(Builder& b, const Tangents& d);
/// Of products: linear in each of the first two operands alone, and in a bias, which lies along the dim `bias_dim` of the result.
V jvp_product(Builder& b, const Tangents& d, int64_t bias_dim);
inline V jvp_product(Builder& b, const Tangents& d) { return jvp_product(b, d, -1); }

/// The row with a rule.
constexpr OpRow with_jvp(OpRow row, Jvp jvp) {
  row.jvp = jvp;
  return row;
}

} // namespace ops
} // namespace tenon
