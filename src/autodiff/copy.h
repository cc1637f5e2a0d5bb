// Parts of a graph copied into another.
#pragma once
#include <functional>

#include "ir/graph.h"

namespace tenon::autodiff {

class Copier {
public:
  Copier(const Graph& from, Graph& to) : from_(from), to_(to) {}

  void set(ValueId old, ValueId now) { values_[old] = now; }
  ValueId operator[](ValueId old) const;
  bool has(ValueId old) const { return values_.get(old).valid(); }
  void params(BlockId old, BlockId now);
  /// The nodes of a block, appended; each goes through `node`.
  void nodes(BlockId old, BlockId now);
  void copy_node(NodeId id, BlockId now);
  ArgList mapped(const ArgList& args) const;
  /// What happens to a node; by default it is copied.
  std::function<void(NodeId, BlockId)> node = [this](NodeId id, BlockId now) { copy_node(id, now); };

private:
  const Graph& from_;
  Graph& to_;
  SideTable<ValueId, ValueId> values_;
};

} // namespace tenon::autodiff
