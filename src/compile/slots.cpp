// SlotTable: flattening of expressions.
#include "compile/slots.h"

#include <bit>

#include "expr/eval.h"

namespace tenon {

int32_t SlotTable::new_slot(int64_t initial, int stage) {
  program_.initial.push_back(initial);
  stages_.push_back(stage);
  return static_cast<int32_t>(program_.initial.size() - 1);
}

int32_t SlotTable::constant(int64_t v) {
  auto [it, fresh] = constants_.emplace(v, 0);
  if (fresh) it->second = new_slot(v, 0);
  return it->second;
}

int32_t SlotTable::bind(Expr symbol, int stage) {
  auto [it, fresh] = done_.emplace(symbol.get(), 0);
  if (fresh) it->second = new_slot(0, stage);
  return it->second;
}

int32_t SlotTable::of(Expr e) {
  if (e->op == Op::Const) return constant(e->bits);
  if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
  if (e->op == Op::Symbol) unsupported("size {} is used, but nothing gives its value", e->name);
  return done_[e.get()] = emit_node(*e);
}

int32_t SlotTable::emit(SizeOp op, std::vector<int32_t> args) {
  int stage = 0;
  for (int32_t a : args) stage = std::max(stage, stages_[static_cast<size_t>(a)]);
  int32_t out = new_slot(0, stage);
  args.resize(3);
  program_.stages[static_cast<size_t>(stage)].push_back({op, out, args[0], args[1], args[2]});
  return out;
}

int32_t SlotTable::emit_node(const ExprNode& n) {
  std::vector<int32_t> a;
  for (Expr x : n.args) a.push_back(of(x));
  bool f = !n.args.empty() && is_float(n.args[n.op == Op::Select ? 1 : 0]->type);
  auto chain = [&](SizeOp op) {
    int32_t v = a[0];
    for (size_t i = 1; i < a.size(); i++) v = emit(op, {v, a[i]});
    return v;
  };
  auto unary = [&](Op op) {
    int32_t out = emit(SizeOp::FUnary, {a[0]});
    program_.stages[static_cast<size_t>(stages_[static_cast<size_t>(out)])].back().b = static_cast<int32_t>(op);
    return out;
  };
  auto pick = [&](SizeOp whole, SizeOp real) { return emit(f ? real : whole, a); };
  switch (n.op) {
  case Op::Add: return chain(f ? SizeOp::FAdd : SizeOp::Add);
  case Op::Sub: return chain(f ? SizeOp::FSub : SizeOp::Sub);
  case Op::Mul: return chain(f ? SizeOp::FMul : SizeOp::Mul);
  case Op::Div: return emit(SizeOp::FDiv, a);
  case Op::FloorDiv: return f ? emit(SizeOp::FFloor, {emit(SizeOp::FDiv, a)}) : emit(SizeOp::FloorDiv, a);
  case Op::Mod: return pick(SizeOp::Mod, SizeOp::FMod);
  case Op::Min: return pick(SizeOp::Min, SizeOp::FMin);
  case Op::Max: return pick(SizeOp::Max, SizeOp::FMax);
  case Op::Pow: return emit(SizeOp::FPow, a);
  case Op::Neg: return pick(SizeOp::Neg, SizeOp::FNeg);
  case Op::Abs: return f ? unary(Op::Abs) : emit(SizeOp::Abs, a);
  case Op::Sqrt: return emit(SizeOp::FSqrt, a);
  case Op::Floor: return f ? emit(SizeOp::FFloor, a) : a[0];
  case Op::Ceil: return f ? emit(SizeOp::FCeil, a) : a[0];
  case Op::Round: return f ? emit(SizeOp::FRound, a) : a[0];
  case Op::Trunc: return f ? emit(SizeOp::FTrunc, a) : a[0];
  case Op::Eq: return pick(SizeOp::Eq, SizeOp::FEq);
  case Op::Ne: return pick(SizeOp::Ne, SizeOp::FNe);
  case Op::Lt: return pick(SizeOp::Lt, SizeOp::FLt);
  case Op::Le: return pick(SizeOp::Le, SizeOp::FLe);
  case Op::And: return chain(SizeOp::And);
  case Op::Or: return chain(SizeOp::Or);
  case Op::Xor: return chain(SizeOp::Xor);
  case Op::Shl: return emit(SizeOp::Shl, a);
  case Op::Shr: return emit(SizeOp::Shr, a);
  case Op::Not: return emit(SizeOp::Not, a);
  case Op::Select: return emit(SizeOp::Select, a);
  case Op::Cast:
    if (is_float(n.type) == f) return a[0];
    return emit(is_float(n.type) ? SizeOp::ToFloat : SizeOp::ToInt, a);
  default:
    if (!is_unary(n.op) || !f || n.op == Op::Bitcast) unsupported("a size computed with {}", name_of(n.op));
    return unary(n.op);
  }
}

} // namespace tenon
