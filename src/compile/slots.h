// Expressions over sizes to slots of a plan's size program.
#pragma once
#include <unordered_map>

#include "expr/expr.h"
#include "runtime/size_program.h"

namespace tenon {

class SlotTable {
public:
  explicit SlotTable(SizeProgram& program) : program_(program) { program_.stages.resize(1); }

  int32_t of(Expr e);
  /// As `of`, without wrapping around: where a sum or product has more than 64 bits it is no_size, and a condition on it does not hold.
  int32_t exactly(Expr e);
  int32_t constant(int64_t v);
  /// The slot of a symbol, bound by inputs (stage 0) or by a step: then the stage number that the step runs.
  int32_t bind(Expr symbol, int stage);
  /// As bind; the stage refuses values that are outside the symbol's range.
  int32_t bind_checked(Expr symbol, int stage);
  /// The symbol is the value of `e`.
  void define(Expr symbol, Expr e) { done_.emplace(symbol.get(), of(e)); }
  /// A new stage, for a step that binds symbols.
  int new_stage() { return program_.stages.emplace_back(), static_cast<int>(program_.stages.size() - 1); }
  /// The stage after which the expression has its value; 0: when inputs are bound.
  int stage_of(Expr e) { return stage_of(of(e)); }
  int stage_of(int32_t slot) const { return stages_.at(static_cast<size_t>(slot)); }
  bool is_bound(Expr symbol) const { return done_.contains(symbol.get()); }

private:
  int32_t emit(Op op, DType type, std::vector<int32_t> args);
  int32_t emit_node(const ExprNode& n);
  int32_t emit_cast(const ExprNode& n, int32_t a);
  int32_t new_slot(int64_t initial, int stage);

  SizeProgram& program_;
  std::unordered_map<const ExprNode*, int32_t> done_, done_exactly_;
  bool exact_ = false; // what is emitted now
  std::unordered_map<int64_t, int32_t> constants_;
  std::vector<int> stages_;
};

} // namespace tenon
