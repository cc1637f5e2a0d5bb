// SSA graphs as FX graphs.
#pragma once
#include "fx/graph.h"

namespace tenon {

/// A graph without blocks in FX's form; Unsupported for others. Arguments that depend on sizes, which torch computes by nodes
/// of their own, are written as in our text: {s77*2}.
FxGraph fx_of(const Graph& graph);

} // namespace tenon
