// The evaluator of size programs.
#include "runtime/size_program.h"

#include <bit>

#include "expr/eval.h"

namespace tenon {

namespace {

double real(int64_t v) { return std::bit_cast<double>(v); }
int64_t bits(double v) { return std::bit_cast<int64_t>(v); }

// Either of the two kinds of numbers, on operators that is_size_op lets through.
template <Op First, Op Last, class F> int64_t pick(Op op, const F& f) {
  return dispatch_op<First, Last>(op, [&]<Op O>() -> int64_t { return f.template operator()<O>(); });
}

int64_t cast(DType to, int64_t a) {
  if (to == DType::F64) return bits(static_cast<double>(a));
  if (to == DType::F32) return bits(static_cast<float>(real(a)));
  return convert<int64_t>(real(a));
}

int64_t of_integers(Op op, int64_t a, int64_t b) {
  if (is_compare(op)) return pick<Op::Eq, Op::Le>(op, [&]<Op O>() { return int64_t{apply_compare<O, int64_t>(a, b)}; });
  if (is_binary(op)) return pick<Op::Add, Op::Shr>(op, [&]<Op O>() { return apply_binary<O, int64_t>(a, b); });
  return pick<Op::Neg, Op::Trunc>(op, [&]<Op O>() { return apply_unary<O, int64_t>(a); });
}

int64_t of_reals(Op op, double a, double b) {
  if (is_compare(op)) return pick<Op::Eq, Op::Le>(op, [&]<Op O>() { return int64_t{apply_compare<O, double>(a, b)}; });
  if (is_binary(op)) return pick<Op::Add, Op::Shr>(op, [&]<Op O>() { return bits(apply_binary<O, double>(a, b)); });
  return pick<Op::Neg, Op::Trunc>(op, [&]<Op O>() { return bits(apply_unary<O, double>(a)); });
}

int64_t evaluate(const SizeInstruction& i, const int64_t* s) {
  if (i.op == Op::Select) return s[i.a] ? s[i.b] : s[i.c];
  if (i.op == Op::Cast) return cast(i.type, s[i.a]);
  if (i.type == DType::F64) return of_reals(i.op, real(s[i.a]), real(s[i.b]));
  if (i.type == DType::Bool) return !s[i.a]; // Not; the other operators on 0 and 1 are those of integers
  return of_integers(i.op, s[i.a], s[i.b]);
}

} // namespace

bool is_size_op(Op op, DType type) noexcept {
  bool rounds = op == Op::Neg || op == Op::Abs || (op >= Op::Floor && op <= Op::Trunc);
  switch (type) {
  case DType::F32: return op == Op::Cast;
  case DType::F64:
    if (op == Op::Select || op == Op::Cast || is_compare(op)) return true;
    return is_unary(op) ? op != Op::Not && op != Op::Bitcast : is_binary(op) && (op < Op::And || op > Op::Shr);
  case DType::I64:
    if (op == Op::Select || op == Op::Cast || op == Op::Not) return true;
    return is_unary(op) ? rounds : is_binary(op) && op != Op::Div && op != Op::Atan2;
  case DType::Bool: return op == Op::Not;
  default: return false;
  }
}

int operands_of(Op op) noexcept { return op == Op::Select ? 3 : is_unary(op) ? 1 : 2; }

std::string_view name_of_size_op(Op op) noexcept { return name_of(op); }

void run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept {
  if (stage >= program.stages.size()) return;
  for (const SizeInstruction& i : program.stages[stage]) slots[i.out] = evaluate(i, slots);
}

} // namespace tenon
