// The dtypes of an operator's tensors as its row says them: `dtypes`, of what all of them have, and where that is not all, `types`:
//   "index=i32|i64 -> same i64"      the operand `index` is one of two; result 0 has the others' dtype, result 1 is i64
//   "reduced: weight=f32 ; floats:"  where the others are f16 or bf16, weight is f32; or: all have one dtype of floats
// The dtype that operands have which are not named is one of `dtypes` where no domain (`reduced:`) is written. Words are dtypes, sets
// (ints, floats, reals ...), and functions of that dtype (same, float, sum ...): the tables are in
// operand_types.cpp. `none` is for an operand that is not given.
#pragma once
#include "ir/op.h"

namespace tenon {

constexpr bool has(DTypes types, DType t) { return types >> static_cast<int>(t) & 1; }

/// One combination: a set for each operand (Scalars of pointwise calls too, which are tensors in Edge) and each result.
struct OperandTypes {
  std::vector<std::pair<std::string, DTypes>> args; ///< in the order of the schema
  std::vector<DTypes> results;
};

/// All that the row allows. Throws Error(Internal) where `types` is no text of the language.
std::vector<OperandTypes> operand_types(const OpDef& def);

} // namespace tenon
