// The simplifier: what ExprPool::make does before a node is made.
#pragma once
#include "expr/expr.h"

namespace tenon::rules {

/// The node op(args), or a simpler expression of the same value.
Expr simplify(ExprPool& pool, Op op, DType type, std::vector<Expr> args);
/// The order of operands that commute and of terms: by operator, number, name, then operands. Total, and the same in every pool.
bool precedes(Expr a, Expr b);
/// An integer constant, wrapped to the width of `type` as two's complement does.
Expr wrap(ExprPool& pool, DType type, int64_t value);

/// Integer polynomials over I64: the normal form of sums and products. Defined in polynomial.cpp.
Expr sum(ExprPool& pool, Expr a, Expr b, int64_t b_factor);
Expr sum(ExprPool& pool, std::span<const Expr> terms);
Expr product(ExprPool& pool, Expr a, Expr b);
Expr floor_div(ExprPool& pool, Expr a, Expr b);
Expr mod(ExprPool& pool, Expr a, Expr b);

/// A call of a polynomial whose degree is known and small, as its recurrence; null for all others. Defined in orthogonal.cpp.
Expr unrolled_polynomial(std::string_view function, DType type, const std::vector<Expr>& args);

} // namespace tenon::rules
