// Products of which all that is read are equal slices of the columns, side by side: the gates of a recurrent cell, the
// halves of a gated layer. One tile of the product can hold the same columns of all slices, and an epilogue what is
// made of them.
#pragma once
#include "backend/region.h"

namespace tenon {

/// The nodes that use a value; null where it is needed in memory.
using ValueUses = std::function<const std::vector<NodeId>*(ValueId)>;

class SlicedProducts {
public:
  explicit SlicedProducts(const Graph& graph) : graph_(graph) {}

  /// Whether the node lies between such a product and what is made of the slices: pointwise over all columns, or a
  /// slice.
  bool is_between(NodeId node) const { return between_.get(node); }
  int64_t slices_of(NodeId product) const;
  /// Notes the product where it is one, and its second operand a constant that can be packed ahead of time.
  void find(NodeId product, const ValueUses& uses, Inliner& inliner);
  /// Forgets all, and for good those for which `fails` is true; false, and nothing is forgotten, where there are none.
  bool give_up(const std::function<bool(NodeId product)>& fails);

private:
  const Graph& graph_;
  SideTable<NodeId, bool> between_{false}, whole_{false};
  std::vector<std::pair<NodeId, int64_t>> found_; // products, how many slices
};

} // namespace tenon
