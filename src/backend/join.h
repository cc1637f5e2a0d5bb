// Tensors that lie in the memory of the one they are joined to.
#pragma once
#include "ir/graph.h"
#include "ops/names.h"

namespace tenon {

/// Operands of a cat for each of which a loop is cut out of the one that computes it (`loops/cuts.h`); of more, groups are joined first.
inline constexpr int most_joined = 32;

/// Whether the node joins values that lie in its result's memory: nothing is left to do when they are there.
inline bool is_join(const Node& n) { return n.op == own::join; }

} // namespace tenon
