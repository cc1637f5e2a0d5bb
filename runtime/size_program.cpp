// The evaluator of size programs.
#include "runtime/size_program.h"

#include <bit>
#include <cmath>

#include "expr/eval.h"

namespace tenon {

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t evaluate(const SizeInstruction& i, const int64_t* s) {
  int64_t a = s[i.a], b = i.op == SizeOp::FUnary ? 0 : s[i.b];
  auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  auto f = [](int64_t v) { return std::bit_cast<double>(v); };
  auto bits = [](double v) { return std::bit_cast<int64_t>(v); };
  switch (i.op) {
  case SizeOp::Add: return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  case SizeOp::Sub: return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  case SizeOp::Mul: return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  case SizeOp::FloorDiv: return floor_div(a, b);
  case SizeOp::Mod: return b == 0 ? 0 : wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(floor_div(a, b)) * static_cast<uint64_t>(b));
  case SizeOp::Min: return a < b ? a : b;
  case SizeOp::Max: return a > b ? a : b;
  case SizeOp::Neg: return wrap(-static_cast<uint64_t>(a));
  case SizeOp::Abs: return a < 0 ? wrap(-static_cast<uint64_t>(a)) : a;
  case SizeOp::Eq: return a == b;
  case SizeOp::Ne: return a != b;
  case SizeOp::Lt: return a < b;
  case SizeOp::Le: return a <= b;
  case SizeOp::And: return a & b;
  case SizeOp::Or: return a | b;
  case SizeOp::Not: return !a;
  case SizeOp::Select: return a ? b : s[i.c];
  case SizeOp::ToFloat: return bits(static_cast<double>(a));
  case SizeOp::ToInt: return f(a) >= -0x1p63 && f(a) < 0x1p63 ? static_cast<int64_t>(f(a)) : INT64_MIN;
  case SizeOp::FAdd: return bits(f(a) + f(b));
  case SizeOp::FSub: return bits(f(a) - f(b));
  case SizeOp::FMul: return bits(f(a) * f(b));
  case SizeOp::FDiv: return bits(f(a) / f(b));
  case SizeOp::FMin: return bits(std::fmin(f(a), f(b)));
  case SizeOp::FMax: return bits(std::fmax(f(a), f(b)));
  case SizeOp::FPow: return bits(std::pow(f(a), f(b)));
  case SizeOp::FFloor: return bits(std::floor(f(a)));
  case SizeOp::FCeil: return bits(std::ceil(f(a)));
  case SizeOp::FRound: return bits(std::nearbyint(f(a)));
  case SizeOp::FTrunc: return bits(std::trunc(f(a)));
  case SizeOp::FSqrt: return bits(std::sqrt(f(a)));
  case SizeOp::FNeg: return bits(-f(a));
  case SizeOp::FEq: return f(a) == f(b);
  case SizeOp::FNe: return f(a) != f(b);
  case SizeOp::FLt: return f(a) < f(b);
  case SizeOp::FLe: return f(a) <= f(b);
  case SizeOp::Xor: return a ^ b;
  case SizeOp::Shl: return apply_binary<Op::Shl, int64_t>(a, b);
  case SizeOp::Shr: return apply_binary<Op::Shr, int64_t>(a, b);
  case SizeOp::FMod: return bits(apply_binary<Op::Mod, double>(f(a), f(b)));
  case SizeOp::FUnary:
    return bits(dispatch_op<Op::Neg, Op::Trunc>(static_cast<Op>(i.b), [&]<Op O>() { return apply_unary<O, double>(f(a)); }));
  }
  return 0;
}

} // namespace

void run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept {
  if (stage >= program.stages.size()) return;
  for (const SizeInstruction& i : program.stages[stage]) slots[i.out] = evaluate(i, slots);
}

} // namespace tenon
