// Strides where nothing is recorded: what torch gives to views and to what is computed element by element. Whether `contiguous` copies, and
// with it what an in-place operator behind it changes, depends on them.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// Puts strides into the types of a node's results, where torch's are not row-major. Views of strided memory that no strides describe are
/// copies in torch, and row-major.
void add_strides(const Graph& graph, const Node& node, std::vector<Type>& results);

} // namespace tenon
