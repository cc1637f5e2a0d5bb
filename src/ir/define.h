// The definition of an Edge node: its row's `define` or `body`, for its operands.
#pragma once
#include "ir/op.h"

namespace tenon {

/// Whether the node's row has a definition (and so can be evaluated element by element, and fused).
bool has_definition(const Node& node);
/// The definition; loads count the node's tensor operands.
Compute definition_of(const Graph& graph, const Node& node);

} // namespace tenon
