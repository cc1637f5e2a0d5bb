// The evaluator of size programs.
#include "runtime/size_program.h"

#include <bit>
#include <cmath>
#include <limits>

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
  if (is_binary(op)) return pick<Op::Add, Op::Gcd>(op, [&]<Op O>() { return apply_binary<O, int64_t>(a, b); });
  return pick<Op::Neg, Op::Trunc>(op, [&]<Op O>() { return apply_unary<O, int64_t>(a); });
}

int64_t of_reals(Op op, double a, double b) {
  if (is_compare(op)) return pick<Op::Eq, Op::Le>(op, [&]<Op O>() { return int64_t{apply_compare<O, double>(a, b)}; });
  if (is_binary(op)) return pick<Op::Add, Op::Gcd>(op, [&]<Op O>() { return bits(apply_binary<O, double>(a, b)); });
  return pick<Op::Neg, Op::Trunc>(op, [&]<Op O>() { return bits(apply_unary<O, double>(a)); });
}

// Exact integers, of operands that are numbers.
int64_t of_numbers(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == Op::Add) return __builtin_add_overflow(a, b, &out) ? no_size : out;
  if (op == Op::Sub) return __builtin_sub_overflow(a, b, &out) ? no_size : out;
  if (op == Op::Mul) return __builtin_mul_overflow(a, b, &out) ? no_size : out;
  out = of_integers(op, a, b);
  if (op == Op::Shl && of_integers(Op::Shr, out, b) != a) return no_size;
  if (op == Op::Pow && std::abs(std::pow(static_cast<double>(a), static_cast<double>(b))) >= 0x1p63) return no_size;
  return out;
}

int64_t evaluate(const SizeInstruction& i, const int64_t* s) {
  if (i.op == Op::Select) return s[i.a] ? s[i.b] : s[i.c];
  if (i.op == Op::Cast) return cast(i.type, s[i.a]);
  if (i.type == DType::F64) return of_reals(i.op, real(s[i.a]), real(s[i.b]));
  if (i.type == DType::Bool) return !s[i.a]; // Not; the other operators on 0 and 1 are those of integers
  return of_integers(i.op, s[i.a], s[i.b]);
}

// A branch that is not taken, and an operand that does not matter, may be no number. Among floats that is NaN.
int64_t evaluate_exactly(const SizeInstruction& i, const int64_t* s) {
  int64_t a = s[i.a], b = s[i.b];
  bool is_single = operands_of(i.op) == 1, takes_reals = (i.type == DType::F64) != (i.op == Op::Cast);
  if (i.op == Op::Select) return a == no_size ? no_size : a ? b : s[i.c];
  if (takes_reals) return is_compare(i.op) && (std::isnan(real(a)) || std::isnan(real(b))) ? no_size : evaluate(i, s);
  if (a == no_size || (!is_single && b == no_size)) {
    if (i.op == Op::Cast) return bits(std::numeric_limits<double>::quiet_NaN());
    if (i.op == Op::And && (a == 0 || b == 0)) return 0;
    if (i.op == Op::Or && (a == 1 || b == 1)) return 1;
    return no_size;
  }
  return is_single ? evaluate(i, s) : of_numbers(i.op, a, b);
}

} // namespace

bool is_size_op(Op op, DType type) noexcept {
  bool rounds = op == Op::Neg || op == Op::Abs || (op >= Op::Floor && op <= Op::Trunc);
  switch (type) {
  case DType::F32: return op == Op::Cast;
  case DType::F64:
    if (op == Op::Select || op == Op::Cast || is_compare(op)) return true;
    return is_unary(op) ? op != Op::Not && op != Op::Bitcast : is_binary(op) && (op < Op::And || op > Op::Gcd);
  case DType::I64:
    if (op == Op::Select || op == Op::Cast || op == Op::Not) return true;
    return is_unary(op) ? rounds : is_binary(op) && op != Op::Div && op != Op::Atan2;
  case DType::Bool: return op == Op::Not;
  default: return false;
  }
}

int operands_of(Op op) noexcept { return op == Op::Select ? 3 : is_unary(op) ? 1 : 2; }

std::string_view name_of_size_op(Op op) noexcept { return name_of(op); }

const SlotRange* run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept {
  if (stage >= program.stages.size()) return nullptr;
  for (const SlotRange& r : program.stages[stage].ranges)
    if (!r.range.contains(slots[r.slot])) return &r;
  for (const SizeInstruction& i : program.stages[stage].instructions)
    slots[i.out] = i.exact ? evaluate_exactly(i, slots) : evaluate(i, slots);
  return nullptr;
}

} // namespace tenon
