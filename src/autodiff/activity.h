// What is known of a script graph before it is differentiated: which values depend on what gradients are asked for, which tensors share
// memory that is written, which are held by lists, tuples and dicts.
#pragma once
#include <optional>
#include <vector>

#include "autodiff/derivatives.h"
#include "builtins/resolve.h"

namespace tenon::autodiff {

/// Whether a value of the type is a tensor, where it is not None.
bool is_tensor(const Type& type);
/// Whether a value of the type is a tensor or may hold one.
bool has_tensors(const Type& type);

class Activity {
public:
  Activity(const Graph& graph, std::span<const ValueId> wrt);

  /// Whether a gradient may flow through the value.
  bool active(ValueId v) const;
  /// A tensor whose memory an in-place operator may write: its gradient lies in memory, too.
  bool written(ValueId v) const { return is_known(v) && classes_[find(v)].written; }
  /// A tensor that a list, tuple or dict may hold.
  bool held(ValueId v) const { return held_.get(v); }
  /// A list that one operator on tensors reads and nothing else touches.
  bool is_operand_list(ValueId v) const;
  /// A list that an operator on tensors gives, and that is taken apart at once.
  bool is_unpacked_list(ValueId v) const;

  /// The operator of a node; empty for those of prim that the compiler knows, which have no schema. Throws Error(BadInput).
  const Resolved* resolved(NodeId n) const;
  const Derivative* derivative(NodeId n) const;
  size_t uses(ValueId v) const { return uses_.get(v); }
  /// The block in which a value is defined.
  BlockId block_of(ValueId v) const { return block_of_.get(v); }

private:
  struct Class {
    bool written = false, held = false, active = false;
  };
  void index_block(BlockId id);
  void index_node(NodeId id, BlockId block);
  void share_block(BlockId id);
  void share_node(NodeId id);
  void share_call(NodeId id, const Resolved& r);
  bool flow_block(BlockId id);
  bool flow_node(NodeId id);
  bool flow(ValueId from, ValueId to);
  bool activate(ValueId v);
  void join(ValueId a, ValueId b);
  void join_all(const Node& n, bool holds);
  bool is_only_returned(const Node& n) const;
  uint32_t find(ValueId v) const;
  bool is_known(ValueId v) const { return v.index < classes_.size(); } // not of those made since

  const Graph& g_;
  SideTable<NodeId, std::shared_ptr<const Resolved>> resolved_;
  SideTable<ValueId, BlockId> block_of_;
  SideTable<ValueId, NodeId> user_; // the last
  SideTable<ValueId, size_t> uses_;
  SideTable<ValueId, bool> active_, held_;
  mutable SideTable<ValueId, uint32_t> parent_{UINT32_MAX};
  std::vector<Class> classes_;
};

} // namespace tenon::autodiff
