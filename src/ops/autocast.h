// What autocast does to the operands of an operator (OpRow::autocast), as torch has it on a CPU.
#pragma once
#include "ir/op.h"

namespace tenon::ops {

/// To the dtype that the region asks for.
inline std::optional<DType> to_lower(DType lower, const Graph&, const ArgList&) { return lower; }
inline std::optional<DType> to_f32(DType, const Graph&, const ArgList&) { return DType::F32; }
/// To the widest dtype among the operands.
std::optional<DType> to_widest(DType lower, const Graph& graph, const ArgList& args);

constexpr OpRow with_autocast(OpRow row, Autocast autocast) {
  row.autocast = autocast;
  return row;
}

} // namespace tenon::ops
