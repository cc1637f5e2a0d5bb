// Orthogonal polynomials of a known degree: their recurrence written out, which vectors take, in place of the call that expr/special.h
// names.
#include <cmath>

#include "expr/recurrences.h"
#include "expr/rules.h"

namespace tenon::rules {

namespace {

// P(1) = slope x + constant; P(k + 1) by P(k) and P(k - 1). The argument of shifted ones is 2 x - 1.
struct Recurrence {
  std::string_view name;
  double slope, constant;
  Expr (*next)(Expr x, double k, Expr p, Expr before);
};

constexpr Recurrence recurrences[] = {
    {"chebyshev_polynomial_t", 1, 0, next_chebyshev<Expr>},  {"chebyshev_polynomial_u", 2, 0, next_chebyshev<Expr>},
    {"chebyshev_polynomial_v", 2, -1, next_chebyshev<Expr>}, {"chebyshev_polynomial_w", 2, 1, next_chebyshev<Expr>},
    {"hermite_polynomial_h", 2, 0, next_hermite<2, Expr>},   {"hermite_polynomial_he", 1, 0, next_hermite<1, Expr>},
    {"laguerre_polynomial_l", -1, 1, next_laguerre<Expr>},   {"legendre_polynomial_p", 1, 0, next_legendre<Expr>},
};

} // namespace

Expr unrolled_polynomial(std::string_view function, DType type, const std::vector<Expr>& args) {
  constexpr std::string_view shifted = "shifted_";
  constexpr double most = 12;
  if (args.size() != 3 || !args[1]->is_const() || !args[2]->is_const() || !is_float(args[1]->type) || !is_float(args[2]->type)) return {};
  double degree = std::trunc(args[1]->number());
  if (!(degree >= 1 && degree <= most)) return {};
  Expr x = cast(args[0], DType::F64);
  if (function.starts_with(shifted)) function.remove_prefix(shifted.size()), x = x * 2.0 - 1.0;
  for (const Recurrence& r : recurrences) {
    if (r.name != function) continue;
    // Terms beyond the largest number of the dtype are infinite, but for the first.
    ExprPool& pool = *x->pool;
    Expr limit = pool.number(args[2]->number(), DType::F64), before = pool.number(1, DType::F64), p = x * r.slope + r.constant;
    for (double k = 1; k < degree; k++) {
      Expr next = r.next(x, k, p, before);
      before = p, p = select(lt(limit, unary(Op::Abs, next)), next * INFINITY, next);
    }
    return cast(p, type);
  }
  return {};
}

} // namespace tenon::rules
