// What autocast does to an operator's operands. An exported region under autocast holds the operators as they were called;
// the casts that torch's dispatcher adds are put in when it is read.
#pragma once
#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace tenon {

/// The dtype that autocast to `lower` gives the floating-point operands of an operator (f64 ones excepted); none where it
/// leaves them as they are. `op` is "aten::linear.default".
std::optional<DType> autocast_type(std::string_view op, DType lower, const Graph& graph, const ArgList& args);
/// Whether autocast converts a tensor of that dtype.
inline bool is_autocast(DType t) { return t == DType::F32 || t == DType::F16 || t == DType::BF16; }

} // namespace tenon
