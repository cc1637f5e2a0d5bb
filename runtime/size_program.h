// Integer arithmetic over sizes as a flat program: slots of int64 values, one instruction each. Slots of float kind hold the
// bits of a double. Evaluated when inputs bind new sizes, and again in parts after steps that bind data-dependent ones.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

enum class SizeOp : uint8_t {
  Add,
  Sub,
  Mul,
  FloorDiv,
  Mod,
  Min,
  Max,
  Neg,
  Abs,
  Eq,
  Ne,
  Lt,
  Le,
  And,
  Or,
  Not,
  Select,
  ToFloat,
  ToInt,
  FAdd,
  FSub,
  FMul,
  FDiv,
  FMin,
  FMax,
  FPow,
  FFloor,
  FCeil,
  FRound,
  FTrunc,
  FSqrt,
  FNeg,
  FEq,
  FNe,
  FLt,
  FLe,
  Xor,
  Shl,
  Shr,
  FMod,
  FUnary
};

struct SizeInstruction {
  SizeOp op;
  int32_t out, a, b = 0, c = 0; // FUnary: b is an Op of expr/expr.h
};

struct SizeProgram {
  std::vector<int64_t> initial;                     // constants; the other slots are 0
  std::vector<std::vector<SizeInstruction>> stages; // 0: when inputs are bound; k: after the k-th step that binds symbols
};

void run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept;

} // namespace tenon
