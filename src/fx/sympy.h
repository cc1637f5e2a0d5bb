// What sympy's and Python's functions of sizes are as expressions.
#pragma once
#include <optional>
#include <vector>

#include "expr/expr.h"

namespace tenon {

/// A function by the head that sympy's srepr writes, "FloorDiv"; none where it is not known with as many arguments.
std::optional<Expr> sympy_function(std::string_view head, std::vector<Expr> args);
/// A function by the target of a node, "operator.mul", "_operator.mul", "torch.sym_max", "math.trunc"; none as above.
std::optional<Expr> python_function(std::string_view target, std::vector<Expr> args);
/// Whether python_function knows the target, with some number of arguments.
bool is_python_function(std::string_view target);
/// The way back: sympy's srepr of an expression of sizes. Unsupported for what that does not know.
std::string srepr(Expr e);
/// Both in one dtype: f64 where one is a float, else i64.
void unify_numbers(Expr& a, Expr& b);

} // namespace tenon
