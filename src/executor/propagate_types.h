// Shape analysis: the types of a script graph's values from those of its inputs, as far as they are known before it runs.
#pragma once
#include "ir/graph.h"

namespace tenon::executor {

/// Gives the results of one node, which has no blocks, the types that follow from those of its arguments and from what constants there are
/// among these: dtype and rank, and those sizes that are the same whatever the unknown ones are. Where that is not known, a tensor's type
/// becomes Tensor.
void infer_types(Graph& graph, NodeId node);
/// The same for all nodes, blocks included: what branches give has in common what both say, what a loop carries what all turns say. Says
/// whether a type has changed.
bool propagate_types(Graph& graph);

} // namespace tenon::executor
