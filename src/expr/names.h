// Expressions written over names of the caller's own, such as an operator's arguments.
#pragma once
#include <functional>

#include "expr/expr.h"

namespace tenon {

/// What names stand for; an empty Expr for names that are unknown.
struct Names {
  std::function<Expr(std::string_view name)> value;
  std::function<Expr(std::string_view name, int64_t dim)> size = {}; ///< of name.size(dim)
};

/// Infix text over names. A number takes the dtype of the float it meets. Throws Error(BadInput).
Expr parse_expr(ExprPool& pool, class Lexer& lexer, const Names& names);

} // namespace tenon
