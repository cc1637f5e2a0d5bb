// rules::simplify: constant folding and local identities that hold for every value, NaN and signed zero included.
#include <algorithm>

#include "expr/eval.h"
#include "expr/rules.h"

namespace tenon::rules {

Expr wrap(ExprPool& pool, DType type, int64_t v) {
  switch (type) {
  case DType::Bool: v = v != 0; break;
  case DType::U8: v = static_cast<uint8_t>(v); break;
  case DType::I8: v = static_cast<int8_t>(v); break;
  case DType::I16: v = static_cast<int16_t>(v); break;
  case DType::I32: v = static_cast<int32_t>(v); break;
  default: break;
  }
  return pool.integer(v, type);
}

namespace {

template <class T> T value_as(Expr e) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(e->number());
  else return static_cast<T>(e->bits);
}

template <class T> Expr constant(ExprPool& pool, DType type, T v) {
  if constexpr (std::is_floating_point_v<T>) return pool.number(v, type);
  else return wrap(pool, type, static_cast<int64_t>(v));
}

// Whether the operator is defined on T; the templates of eval.h throw where it is not.
bool foldable(Op op, DType t) {
  if (is_reduced_float(t) || is_complex(t) || op == Op::Bitcast) return false;
  if (is_float(t)) return op != Op::Not && (op < Op::And || op > Op::Gcd);
  if (t == DType::Bool)
    return op == Op::Not || op == Op::Abs || op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Min || op == Op::Max ||
           op == Op::Mul || op == Op::Add || op == Op::Sub || is_compare(op);
  return op == Op::Neg || op == Op::Abs || op == Op::Not || (op >= Op::Floor && op <= Op::Trunc) ||
         (is_binary(op) && op != Op::Div && op != Op::Atan2);
}

Expr fold(ExprPool& pool, Op op, DType type, const std::vector<Expr>& args) {
  DType t = args[0]->type;
  return dispatch(t, [&]<class T>(T) -> Expr {
    if constexpr (std::is_arithmetic_v<T>) {
      T a = value_as<T>(args[0]);
      if (args.size() == 1)
        return dispatch_op<Op::Neg, Op::Trunc>(op, [&]<Op O>() { return constant<T>(pool, type, apply_unary<O, T>(a)); });
      T b = value_as<T>(args[1]);
      if (is_compare(op)) return dispatch_op<Op::Eq, Op::Le>(op, [&]<Op O>() { return pool.boolean(apply_compare<O, T>(a, b)); });
      return dispatch_op<Op::Add, Op::Gcd>(op, [&]<Op O>() { return constant<T>(pool, type, apply_binary<O, T>(a, b)); });
    } else internal_error("folding of {}", name_of(t));
  });
}

Expr fold_cast(ExprPool& pool, Expr a, DType type) {
  if (is_float(a->type)) return pool.number(a->number(), type);
  return is_float(type) ? pool.number(static_cast<double>(a->bits), type) : wrap(pool, type, a->bits);
}

bool is_one(Expr e) { return e->is_const() && e->number() == 1; }

// A function of doubles on widened floats, rounded, is its call on floats; reduced floats are computed with as f32, as torch does.
Expr narrow_call(ExprPool& pool, Expr call, DType type) {
  std::vector<Expr> args;
  for (Expr a : call->args) {
    bool widened = a->op == Op::Cast && a->args[0]->type == type;
    bool exact = a->is_const() && static_cast<double>(static_cast<float>(a->number())) == a->number();
    if (!widened && !exact) return {};
    args.push_back(widened ? cast(a->args[0], DType::F32) : pool.number(a->number(), DType::F32));
  }
  return cast(pool.call(call->name, DType::F32, std::move(args)), type);
}

// A minimum, maximum, negative or magnitude of what is rounded to `narrow`, without that rounding; empty where there is none.
Expr without_rounding(ExprPool& pool, Expr e, DType narrow) {
  if (e->op == Op::Cast) {
    Expr rounded = e->args[0];
    return rounded->op == Op::Cast && rounded->type == narrow && rounded->args[0]->type == e->type ? rounded->args[0] : Expr();
  }
  if (e->op != Op::Neg && e->op != Op::Abs && e->op != Op::Min && e->op != Op::Max) return {};
  std::vector<Expr> args = e->args;
  bool any = false;
  for (Expr& a : args)
    if (Expr now = without_rounding(pool, a, narrow)) a = now, any = true;
  return any ? pool.make(e->op, e->type, std::move(args)) : Expr();
}

Expr simplify_cast(ExprPool& pool, Expr a, DType type) {
  if (a->type == type) return a;
  if (a->is_const()) return fold_cast(pool, a, type);
  // A widening cast followed by the way back.
  if (a->op == Op::Cast && a->args[0]->type == type && is_float(type) && is_float(a->type) && size_of(a->type) > size_of(type))
    return a->args[0];
  if (a->op == Op::Cast && a->args[0]->type == type && is_reduced_float(a->type) && is_widened(*a->args[0], a->type)) return a->args[0];
  // Rounding keeps order: it may come after the others.
  if (is_reduced_float(type) && is_widened(*a, type))
    if (Expr e = without_rounding(pool, a, type)) return cast(e, type);
  if (a->op == Op::Call && a->type == DType::F64 && (type == DType::F32 || is_reduced_float(type)))
    if (Expr e = narrow_call(pool, a, type)) return e;
  return pool.intern({.op = Op::Cast, .type = type, .args = {a}});
}

Expr simplify_select(ExprPool& pool, DType type, std::vector<Expr> args) {
  if (args[0]->is_const()) return args[0]->bits ? args[1] : args[2];
  if (args[1] == args[2]) return args[1];
  if (args[0]->op == Op::Not) return pool.make(Op::Select, type, {args[0]->args[0], args[2], args[1]});
  return pool.intern({.op = Op::Select, .type = type, .args = std::move(args)});
}

Expr simplify_logic(ExprPool& pool, Op op, Expr a, Expr b) {
  if (a == b) return op == Op::Xor ? pool.boolean(false) : a;
  for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (!x->is_const()) continue;
    if (op == Op::And) return x->bits ? y : x;
    if (op == Op::Or) return x->bits ? x : y;
    if (op == Op::Xor) return x->bits ? logical_not(y) : y;
  }
  if (precedes(b, a)) std::swap(a, b);
  return pool.intern({.op = op, .type = DType::Bool, .args = {a, b}});
}

// Comparisons of I64 by what is known of both sides; empty where nothing is.
Expr decide(ExprPool& pool, Op op, Expr a, Expr b) {
  switch (op) {
  case Op::Lt:
    if (proves_lt(a, b)) return pool.boolean(true);
    if (proves_le(b, a)) return pool.boolean(false);
    return {};
  case Op::Le:
    if (proves_le(a, b)) return pool.boolean(true);
    if (proves_lt(b, a)) return pool.boolean(false);
    return {};
  case Op::Eq:
  case Op::Ne:
    if (a == b) return pool.boolean(op == Op::Eq);
    if (proves_lt(a, b) || proves_lt(b, a)) return pool.boolean(op == Op::Ne);
    return {};
  default: return {};
  }
}

Expr simplify_index(ExprPool& pool, Op op, Expr a, Expr b) {
  switch (op) {
  case Op::Add: return sum(pool, a, b, 1);
  case Op::Sub: return sum(pool, a, b, -1);
  case Op::Mul: return product(pool, a, b);
  case Op::FloorDiv: return floor_div(pool, a, b);
  case Op::Mod: return mod(pool, a, b);
  case Op::Min: return a == b || proves_le(a, b) ? a : proves_le(b, a) ? b : Expr();
  case Op::Max: return a == b || proves_le(b, a) ? a : proves_le(a, b) ? b : Expr();
  default: return {};
  }
}

bool commutes(Op op) {
  return op == Op::Add || op == Op::Mul || op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Eq || op == Op::Ne;
}

Expr simplify_binary(ExprPool& pool, Op op, DType type, Expr a, Expr b) {
  DType t = a->type;
  require(t == b->type, "operands of {} differ in dtype: {} and {}", name_of(op), name_of(t), name_of(b->type));
  if (a->is_const() && b->is_const() && foldable(op, t)) return fold(pool, op, type, {a, b});
  if (t == DType::Bool && (op == Op::And || op == Op::Or || op == Op::Xor)) return simplify_logic(pool, op, a, b);
  if (t == DType::I64)
    if (Expr e = simplify_index(pool, op, a, b)) return e;
  if (t == DType::I64 && is_compare(op))
    if (Expr e = decide(pool, op, a, b)) return e;
  if ((op == Op::Mul || op == Op::Div) && is_one(b)) return a;
  if (op == Op::Mul && is_one(a)) return b;
  if (commutes(op) && (a->is_const() || (precedes(b, a) && !b->is_const()))) std::swap(a, b);
  return pool.intern({.op = op, .type = type, .args = {a, b}});
}

} // namespace

Expr simplify(ExprPool& pool, Op op, DType type, std::vector<Expr> args) {
  if (op == Op::Cast) return simplify_cast(pool, args[0], type);
  if (op == Op::Select) return simplify_select(pool, type, std::move(args));
  if (is_binary(op)) {
    if (args.size() == 2) return simplify_binary(pool, op, type, args[0], args[1]);
    if (op == Op::Add && type == DType::I64) return sum(pool, args);
    Expr e = args[0]; // sums and products of a substitution: any number of operands
    for (size_t i = 1; i < args.size(); i++) e = simplify_binary(pool, op, type, e, args[i]);
    return e;
  }
  if (is_unary(op)) {
    Expr a = args[0];
    if (a->is_const() && foldable(op, a->type)) return fold(pool, op, type, args);
    if (op == Op::Not && a->op == Op::Not) return a->args[0];
    if (op == Op::Neg && a->op == Op::Neg && type != DType::I64) return a->args[0];
    if (op == Op::Neg && type == DType::I64) return sum(pool, pool.integer(0), a, -1);
    if (op >= Op::Floor && op <= Op::Trunc && !is_float(type)) return a;
  }
  return pool.intern({.op = op, .type = type, .args = std::move(args)});
}

} // namespace tenon::rules

namespace tenon {

static bool is_widened(const ExprNode& e, DType narrow, int depth) {
  auto arg = [&](size_t i) { return depth > 0 && is_widened(*e.args[i], narrow, depth - 1); };
  switch (e.op) {
  case Op::Const: return e.pool->number(e.number(), narrow)->number() == e.number();
  case Op::Cast: return e.args[0]->type == narrow;
  case Op::Neg:
  case Op::Abs: return arg(0);
  case Op::Min:
  case Op::Max: return arg(0) && arg(1);
  case Op::Select: return arg(1) && arg(2);
  default: return false;
  }
}

bool is_widened(const ExprNode& e, DType narrow) { return is_widened(e, narrow, 8); }

} // namespace tenon
