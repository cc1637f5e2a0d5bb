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

int32_t SlotTable::bind_checked(Expr symbol, int stage) {
  int32_t slot = bind(symbol, stage);
  if (SizeRange range = accepted_range(*symbol); !range.is_everything())
    program_.stages.at(static_cast<size_t>(stage)).ranges.push_back({slot, std::move(range)});
  return slot;
}

int32_t SlotTable::of(Expr e) {
  if (e->op == Op::Const) return constant(e->bits);
  if (auto it = done_.find(e.get()); it != done_.end() && (!exact_ || e->op == Op::Symbol)) return it->second;
  if (auto it = done_exactly_.find(e.get()); exact_ && it != done_exactly_.end()) return it->second;
  if (e->op == Op::Symbol) unsupported("size {} is used, but nothing gives its value", e->name);
  int32_t slot = emit_node(*e);
  return (exact_ ? done_exactly_ : done_)[e.get()] = slot;
}

int32_t SlotTable::exactly(Expr e) {
  struct Mode {
    bool& exact;
    explicit Mode(bool& e) : exact(e) { exact = true; }
    ~Mode() { exact = false; }
  } mode(exact_);
  return of(e);
}

int32_t SlotTable::emit(Op op, DType type, std::vector<int32_t> args) {
  if (!is_size_op(op, type)) unsupported("a size computed with {}", name_of(op));
  int stage = 0;
  for (int32_t a : args) stage = std::max(stage, stages_[static_cast<size_t>(a)]);
  int32_t out = new_slot(0, stage);
  args.resize(3);
  program_.stages[static_cast<size_t>(stage)].instructions.push_back({op, type, out, args[0], args[1], args[2], exact_});
  return out;
}

int32_t SlotTable::emit_cast(const ExprNode& n, int32_t a) {
  DType from = n.args[0]->type;
  if (n.type == DType::Bool) {
    if (from == DType::Bool) return a;
    return is_float(from) ? emit(Op::Ne, DType::F64, {a, constant(std::bit_cast<int64_t>(0.0))})
                          : emit(Op::Ne, DType::I64, {a, constant(0)});
  }
  if (!is_float(n.type)) return is_float(from) ? emit(Op::Cast, DType::I64, {a}) : a;
  if (!is_float(from)) a = emit(Op::Cast, DType::F64, {a});
  return n.type == DType::F32 ? emit(Op::Cast, DType::F32, {a}) : a;
}

int32_t SlotTable::emit_node(const ExprNode& n) {
  std::vector<int32_t> a;
  for (Expr x : n.args) a.push_back(of(x));
  if (n.op == Op::Cast) return emit_cast(n, a.at(0));
  if (a.empty() || is_leaf(n.op) || n.op == Op::Call || n.op == Op::Checked) unsupported("a size computed with {}", name_of(n.op));
  DType from = n.args[n.op == Op::Select ? 1 : 0]->type;
  DType type = is_float(from) ? DType::F64 : n.op == Op::Not && from == DType::Bool ? DType::Bool : DType::I64;
  if (a.size() <= 2 || n.op == Op::Select) return emit(n.op, type, a);
  int32_t v = a[0]; // sums and products in normal form
  for (size_t i = 1; i < a.size(); i++) v = emit(n.op, type, {v, a[i]});
  return v;
}

} // namespace tenon
