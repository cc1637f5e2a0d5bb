// From the forward pass to the backward pass: blocks of one beside those of the other, and how a value of the first is read in the second.
// Of a branch it becomes a result of its prim::If; of a loop's body it is kept on a list, an element for each iteration.
#pragma once
#include <map>

#include "autodiff/activity.h"

namespace tenon::autodiff {

/// A block of the forward pass while its backward counterpart is written.
struct Mirror {
  BlockId forward, backward;
  Mirror* outer = nullptr;
  NodeId owner = {};                     // the forward If or Loop
  ValueId iteration = {};                // backward, of a loop's body: the forward iteration that is undone
  std::map<ValueId, ValueId> grads = {}; // of forward values: a Tensor, or an Optional[Tensor]
  std::map<ValueId, ValueId> here = {};  // forward values as the backward block has them
};

/// Helpers that append to a graph.
NodeId append(Graph& g, BlockId block, OpId op, ArgList args, std::vector<Type> types);
ValueId append_one(Graph& g, BlockId block, OpId op, ArgList args, Type type);
ValueId append_constant(Graph& g, BlockId block, Arg value, Type type);
/// A node whose place in a block is decided later (`place`): its blocks are written first.
NodeId make_detached(Graph& g, OpId op);
void place(Graph& g, BlockId block, NodeId node);

class Saved {
public:
  Saved(Graph& graph, const Activity& activity) : g_(graph), activity_(activity) {}

  /// The forward value as a value of the backward block.
  ValueId reach(ValueId v, Mirror& m);
  /// The same of what it is when `node` runs: a copy, where it may be written afterwards. `after`: of the node's results.
  ValueId reach_content(ValueId v, NodeId node, bool after, Mirror& m);
  /// aten::size, or prim::dtype, of a tensor.
  ValueId reach_property(ValueId v, OpId op, const Type& type, Mirror& m);
  /// How many iterations a forward loop ran, in the block of its node.
  ValueId iterations(NodeId loop, BlockId block);

private:
  bool is_constant(ValueId v) const;
  ValueId rematerialized(ValueId v, Mirror& m);
  ValueId exported(ValueId v, Mirror& m);
  ValueId result_of_branch(ValueId v, Mirror& m);
  ValueId list_of_iterations(ValueId v, Mirror& m);
  ValueId insert(BlockId block, size_t at, OpId op, ArgList args, Type type);
  ValueId insert_call(BlockId block, size_t at, std::string_view function, ValueId v);
  size_t position(BlockId block, NodeId node) const;
  BlockId block_of(ValueId v) const;

  Graph& g_;
  const Activity& activity_;
  std::map<ValueId, BlockId> added_;                     // blocks of values inserted into the forward pass
  std::map<ValueId, ValueId> exports_;                   // by value: the If's result, the list
  std::map<std::pair<ValueId, NodeId>, ValueId> copies_; // by value and node
  std::map<std::pair<ValueId, std::string>, ValueId> properties_;
  std::map<NodeId, ValueId> counts_;
};

} // namespace tenon::autodiff
