// Arithmetic over sizes as a flat program: slots of int64 values, one instruction each. Slots of float kind hold the bits of a
// double. Evaluated when inputs bind new sizes, and again in parts after steps that bind data-dependent ones.
#pragma once
#include <cstdint>
#include <vector>

#include "base/numeric.h"
#include "base/size_range.h"

namespace tenon {

enum class Op : uint8_t;

/// out = op(a, b, c), as expr/eval.h defines it on operands of `type`: I64, Bool (held as 0 and 1) or F64. Of a cast, `type` is what it
/// makes: I64 of a float, F64 of an integer, F32 of a float that is rounded and stays a double.
struct SizeInstruction {
  Op op;
  DType type;
  int32_t out, a, b = 0, c = 0;
  /// Integers that do not wrap around: a result of more than 64 bits is no_size, and so is what is computed of it.
  bool exact = false;
};

/// The smallest integer, which exact instructions do not take for a number. As a condition it does not hold.
inline constexpr int64_t no_size = INT64_MIN;

struct SlotRange {
  int32_t slot;
  SizeRange range;
};

struct SizeStage {
  std::vector<SlotRange> ranges; // of the symbols that are bound before it
  std::vector<SizeInstruction> instructions;
};

struct SizeProgram {
  std::vector<int64_t> initial;  // constants; the other slots are 0
  std::vector<SizeStage> stages; // 0: when inputs are bound; k: after the k-th step that binds symbols
};

/// Whether an instruction may have this operator on operands of `type`.
bool is_size_op(Op op, DType type) noexcept;
/// Operands that the operator takes.
int operands_of(Op op) noexcept;
std::string_view name_of_size_op(Op op) noexcept;
/// Computes the stage's slots. Where a symbol is outside its range nothing is computed, and the range returned; else null.
const SlotRange* run_stage(const SizeProgram& program, size_t stage, int64_t* slots) noexcept;

} // namespace tenon
