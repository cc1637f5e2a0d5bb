// What the passes on scans ask of the nodes in their bodies.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// Whether the node only computes tensors from tensors, and gives the same for the same ones, wherever it stands.
bool is_plain(const Graph& g, const Node& n);

} // namespace tenon
