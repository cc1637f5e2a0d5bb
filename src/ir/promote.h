// torch's type promotion: what dtype an operator computes in and gives, from tensors, 0-d tensors and Python numbers.
#pragma once
#include "ir/op.h"

namespace tenon {

/// The common dtype of two, by torch's lattice: bool < integers < floats, u8 with a signed type goes up to i16.
DType promote(DType a, DType b);

struct Promotion {
  DType compute; ///< operands are converted to this
  DType output;
};
/// Result type of a pointwise call by its row's rule.
Promotion promotion_of(const Graph& graph, const OpDef& def, const ArgList& args);
/// Whether an operand takes part in promotion (false for those that the row keeps).
bool is_kept(const OpDef& def, size_t arg);
/// Sizes after broadcasting; BadInput where they do not fit, naming `op`.
std::vector<Expr> broadcast(ExprPool& pool, const std::vector<Expr>& a, const std::vector<Expr>& b, std::string_view op);
/// BadInput, naming `op`, where a size is negative or the tensor could not be addressed.
void check_sizes(const std::vector<Expr>& sizes, std::string_view op);
/// The dtype in which values of `t` are computed: f32 for the reduced floats.
constexpr DType compute_type(DType t) { return is_reduced_float(t) ? DType::F32 : t; }

} // namespace tenon
