// Operators on a batch: what rows say of a call that each step of a map makes (OpRow::vectorize), and the rules that several share.
#pragma once
#include "ops/body.h"

namespace tenon {

/// A call that every step makes, to be made once for all of them: dim 0 of its operands and results are the steps.
struct BatchedCall {
  /// An operand of all steps, where each has `rank` dims beside others; what is the same for all steps as it is.
  using Operand = std::function<V(ValueId, size_t rank)>;

  const Node& node; ///< of a step
  const Call& call;
  const Type& result; ///< of a step: the first one
  Expr length;        ///< how many steps
  const Operand& operand;

  /// The arguments, with operands as `operand` gives them.
  ArgList operands(size_t rank) const;
  /// The sizes of a step, after the steps.
  std::vector<Expr> sizes(const Type& step) const;
  /// The operator itself with such arguments.
  Values again(Builder& b, const ArgList& args) const;
};

namespace ops {

/// Of operators along the dims of the first operand that `dim` or `dims` name, an empty list all of them.
Values along_dims(Builder& b, const BatchedCall& c);
/// The same where an empty list names none.
Values along_named_dims(Builder& b, const BatchedCall& c);

/// `dims` of a tensor of `rank` dims as a batch of such has them; nothing where they are not known.
std::optional<Arg> moved_dims(const Arg& dims, size_t rank);

} // namespace ops
} // namespace tenon
