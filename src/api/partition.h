// Which nodes of a block become one delegate.
#pragma once
#include "api/graph_impl.h"
#include "tenon/backend.h"

namespace tenon::ir {

/// A node that stays, or those of a delegate, in order.
struct BlockPart {
  std::vector<NodeId> nodes;
  bool is_delegate = false;
};

/// All nodes of the block, in an order that is right with each delegate as one step.
std::vector<BlockPart> partition_block(Graph& graph, BlockId block, const Partitioner& partitioner);
/// Constants, and operators without operands: copied to the delegates that read them.
bool comes_along(const tenon::Graph& g, const tenon::Node& n);

} // namespace tenon::ir
