// What must hold of a graph as it was read, before any pass looks at it.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// BadInput where scopes, arguments or blocks do not fit, or a size has no value.
void check_graph(const Graph& graph);

} // namespace tenon
