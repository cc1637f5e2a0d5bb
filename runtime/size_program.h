// Arithmetic over sizes as a flat program: slots of int64 values, one instruction each. Slots of float kind hold the bits of a
// double. Evaluated when inputs bind new sizes, and again in parts after steps that bind data-dependent ones.
#pragma once
#include <cstdint>
#include <vector>

#include "base/numeric.h"

namespace tenon {

enum class Op : uint8_t;

/// out = op(a, b, c), as expr/eval.h defines it on operands of `type`: I64, Bool (held as 0 and 1) or F64. Of a cast, `type` is what it
/// makes: I64 of a float, F64 of an integer, F32 of a float that is rounded and stays a double.
struct SizeInstruction {
  Op op;
  DType type;
  int32_t out, a, b = 0, c = 0;
};

struct SizeProgram {
  std::vector<int64_t> initial;                     // constants; the other slots are 0
  std::vector<std::vector<SizeInstruction>> stages; // 0: when inputs are bound; k: after the k-th step that binds symbols
};

/// Whether an instruction may have this operator on operands of `type`.
bool is_size_op(Op op, DType type) noexcept;
/// Operands that the operator takes.
int operands_of(Op op) noexcept;
std::string_view name_of_size_op(Op op) noexcept;
void run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept;

} // namespace tenon
