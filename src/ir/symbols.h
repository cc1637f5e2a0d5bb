// The sizes that a graph is open in.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// The integer symbols of a graph, in order of appearance.
std::vector<Expr> symbols_of(const Graph& graph);

} // namespace tenon
