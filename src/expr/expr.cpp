// Construction helpers, substitution and traversal of expressions.
#include "expr/expr.h"

#include <algorithm>

#include "expr/eval.h"
#include "expr/node_set.h"

namespace tenon {

SizeRange accepted_range(const ExprNode& symbol) { return {symbol.name, symbol.lo == 2 ? 0 : symbol.lo, symbol.hi}; }

Expr constant_like(double v, Expr like) { return like->pool->number(v, like->type); }

Expr unary(Op op, Expr a) { return a->pool->make(op, a->type, {a}); }
Expr binary(Op op, Expr a, Expr b) { return a->pool->make(op, is_compare(op) ? DType::Bool : a->type, {a, b}); }

Expr operator+(Expr a, Expr b) { return binary(Op::Add, a, b); }
Expr operator-(Expr a, Expr b) { return binary(Op::Sub, a, b); }
Expr operator*(Expr a, Expr b) { return binary(Op::Mul, a, b); }
Expr operator/(Expr a, Expr b) { return binary(Op::Div, a, b); }
Expr operator-(Expr a) { return unary(Op::Neg, a); }
Expr operator+(Expr a, double b) { return a + constant_like(b, a); }
Expr operator-(Expr a, double b) { return a - constant_like(b, a); }
Expr operator*(Expr a, double b) { return a * constant_like(b, a); }
Expr operator/(Expr a, double b) { return a / constant_like(b, a); }
Expr operator+(double a, Expr b) { return constant_like(a, b) + b; }
Expr operator-(double a, Expr b) { return constant_like(a, b) - b; }
Expr operator*(double a, Expr b) { return constant_like(a, b) * b; }
Expr operator/(double a, Expr b) { return constant_like(a, b) / b; }
Expr floor_div(Expr a, Expr b) { return binary(Op::FloorDiv, a, b); }
Expr mod(Expr a, Expr b) { return binary(Op::Mod, a, b); }
Expr min(Expr a, Expr b) { return binary(Op::Min, a, b); }
Expr max(Expr a, Expr b) { return binary(Op::Max, a, b); }
Expr eq(Expr a, Expr b) { return binary(Op::Eq, a, b); }
Expr ne(Expr a, Expr b) { return binary(Op::Ne, a, b); }
Expr lt(Expr a, Expr b) { return binary(Op::Lt, a, b); }
Expr le(Expr a, Expr b) { return binary(Op::Le, a, b); }
Expr logical_and(Expr a, Expr b) { return binary(Op::And, a, b); }
Expr logical_or(Expr a, Expr b) { return binary(Op::Or, a, b); }
Expr logical_not(Expr a) { return unary(Op::Not, a); }
Expr select(Expr c, Expr a, Expr b) {
  require(c->type == DType::Bool && a->type == b->type, "select of {}, {} by {}", name_of(a->type), name_of(b->type), name_of(c->type));
  return a->pool->make(Op::Select, a->type, {c, a, b});
}
// Floats of 8 bits are no operands of any other operator than Bitcast.
Expr cast(Expr a, DType type) {
  if (a->type == type) return a;
  if (is_float8(type) && a->is_const() && !is_float8(a->type)) return a->pool->number(a->number(), type);
  if (is_float8(type)) return float8_of(cast(a, DType::F32), type);
  if (is_float8(a->type)) return cast(value_of_float8(a), type);
  return a->pool->make(Op::Cast, type, {a});
}
Expr checked(Expr index, Expr size) {
  if (index->lo >= 0 && proves_lt(index, size)) return index;
  return index->pool->make(Op::Checked, DType::I64, {index, size});
}
Expr with_checks(Expr value, const std::vector<Expr>& indices) {
  std::vector<const ExprNode*> lost;
  for (Expr index : indices)
    contains(index, [&](const ExprNode& n) {
      if (n.op == Op::Checked && std::ranges::find(lost, &n) == lost.end()) lost.push_back(&n);
      return false;
    });
  if (!lost.empty()) contains(value, [&](const ExprNode& n) { return std::erase(lost, &n), false; });
  if (lost.empty()) return value;
  Expr held = is_reduced_float(value->type) ? cast(value, DType::F32) : value;
  for (const ExprNode* n : lost) held = held->pool->make(Op::Checked, held->type, {n->args[0], n->args[1], held});
  return cast(held, value->type);
}
Expr is_nan(Expr a) { return is_float(a->type) ? ne(a, a) : a->pool->boolean(false); }

std::optional<int64_t> const_int(Expr e) {
  if (e && e->op == Op::Const && !is_float(e->type)) return e->bits;
  return std::nullopt;
}

Expr product(ExprPool& pool, std::span<const Expr> sizes) {
  Expr p = pool.integer(1);
  for (Expr s : sizes) p = p * s;
  return p;
}

Expr Substitution::apply(Expr e) {
  if (auto it = map_.find(e.get()); it != map_.end()) return it->second;
  if (e->args.empty() && e->op != Op::Load && !into) return e;
  ExprPool& pool = into ? *into : *e->pool;
  std::vector<Expr> args;
  bool changed = into && into != e->pool;
  args.reserve(e->args.size());
  for (Expr a : e->args) {
    args.push_back(apply(a));
    changed |= args.back() != a;
  }
  Expr out = e;
  if (e->op == Op::Load && on_load)
    if (Expr r = on_load(e->bits, *e, args)) return map_[e.get()] = r;
  if (changed) {
    if (e->op == Op::Call) out = pool.call(e->name, e->type, std::move(args));
    else if (is_leaf(e->op)) {
      ExprNode n = *e;
      n.args = std::move(args);
      out = e->op == Op::Symbol ? pool.symbol(e->name, e->type, e->lo, e->hi) : pool.intern(std::move(n));
    } else out = pool.make(e->op, e->type, std::move(args));
  }
  return map_[e.get()] = out;
}

namespace {

void visit(const ExprNode& n, NodeSet& seen, const std::function<void(const ExprNode&)>& f) {
  if (!seen.insert(&n)) return;
  for (Expr a : n.args) visit(*a, seen, f);
  f(n);
}

bool contains(const ExprNode& n, NodeSet& seen, const std::function<bool(const ExprNode&)>& test) {
  return seen.insert(&n) && (test(n) || std::ranges::any_of(n.args, [&](Expr a) { return contains(*a, seen, test); }));
}

} // namespace

void visit(Expr e, const std::function<void(const ExprNode&)>& f) {
  if (e->args.empty()) return f(*e);
  NodeSet seen;
  visit(*e, seen, f);
}

bool contains(Expr e, const std::function<bool(const ExprNode&)>& test) {
  if (e->args.empty()) return test(*e);
  NodeSet seen;
  return contains(*e, seen, test);
}

} // namespace tenon
