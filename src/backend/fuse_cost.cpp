// Costs by counting: chosen so that a value costs more to compute again than a load and a store in cache.
#include "backend/fuse_cost.h"

#include "expr/node_set.h"

namespace tenon {

namespace {

int weight_of(const ExprNode& n) {
  switch (n.op) {
  case Op::Const:
  case Op::Symbol:
  case Op::Axis:
  case Op::Load:
  case Op::Reg:
  case Op::Bitcast: return 0;
  case Op::Div:
  case Op::FloorDiv:
  case Op::Mod:
  case Op::Sqrt:
  case Op::Rsqrt: return 3;
  case Op::Gcd:
  case Op::Call: return 40;
  default: return (n.op >= Op::Exp && n.op <= Op::Sigmoid) || n.op == Op::Pow || n.op == Op::Atan2 || n.op == Op::Fmod ? 8 : 1;
  }
}

void count(const ExprNode& n, InlineCost& cost, NodeSet& seen) {
  if (!seen.insert(&n)) return;
  cost.weight += weight_of(n);
  if (n.op == Op::Load) {
    cost.loads++;
    for (Expr a : n.args) // indices count only where they are loaded themselves: then elements are loaded one by one
      if (contains(a, [](const ExprNode& m) { return m.op == Op::Load; })) cost.weight += 6, count(*a, cost, seen);
    return;
  }
  for (Expr a : n.args) count(*a, cost, seen);
}

} // namespace

InlineCost inline_cost(Expr body) {
  InlineCost cost;
  NodeSet seen;
  count(*body, cost, seen);
  return cost;
}

bool is_always_inline(Kind kind, const InlineCost& cost) {
  if (cost.loads == 0) return cost.weight <= 8;
  if (cost.loads > 1) return false;
  return cost.weight <= (kind == Kind::View ? 4 : 1);
}

bool is_inline_when_used_once(const InlineCost& cost) { return cost.weight <= 150 && cost.loads <= 16; }

bool is_cheap_to_choose(const InlineCost& cost) { return cost.weight <= 6 && cost.loads <= 4; }

bool is_worth_keeping(const InlineCost& cost) { return cost.weight >= 6 || cost.loads >= 3; }

} // namespace tenon
