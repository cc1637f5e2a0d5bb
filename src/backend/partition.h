// A partition of a block's nodes into regions: what fusion decides, and what the graph with a node for each region is made from.
#pragma once
#include <string>
#include <vector>

#include "ir/pass.h"

namespace tenon {

/// Nodes that one step computes together, in the order of the program.
struct Region {
  std::vector<NodeId> nodes;
  bool is_step = false; // a single node that stays as it is
  NodeId contract = {}; // the matmul or convolution, or the last product of an attention
  bool is_attention = false;
  int64_t slices = 1;               // of the contraction's columns, read side by side
  std::vector<ValueId> results;     // what others read
  std::vector<std::string> refused; // why products are no attention
  std::vector<int> needs;           // regions that come before
};

struct Partition {
  std::vector<Region> regions;
  SideTable<ValueId, bool> is_inline; // values computed anew by each region that reads them
};

/// Appends to the block `to` of the rewritten graph a node for each region of the block `from`, after all that it needs, and
/// otherwise in the order of the program; each owns a body of its nodes and the inline ones they read.
void emit_partition(const Graph& graph, BlockId from, const Partition& partition, Rewriter& rewrite, BlockId to);

} // namespace tenon
