// A loops region in the making: nodes that one kernel computes together. All members live in one domain of axes; each
// member value has its index in these axes. A node joins when its loads of members can be lined up with the members' own
// indices; reductions turn axes of the domain into reduced ones.
#pragma once
#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/define.h"

namespace tenon {

/// Definitions with everything that is computed inline substituted: Load operands are ValueId indices.
class Inliner {
public:
  explicit Inliner(const Graph& graph) : graph_(graph) {}

  /// Values for which this is true are written into their users; the others stay loads.
  std::function<bool(ValueId)> is_inline = [](ValueId) { return false; };

  /// The element of `value` at `index`.
  Expr at(ValueId value, const std::vector<Expr>& index);
  /// Forgets what was inlined: after is_inline changed.
  void clear() { definitions_.clear(); }
  /// The node's own definition, operands inlined.
  const Compute& definition(NodeId node);
  /// The definition as the row gives it: loads count operands.
  const Compute& own(NodeId node);

private:
  const Graph& graph_;
  std::unordered_map<NodeId, Compute> definitions_; // inlined
  std::unordered_map<NodeId, Compute> own_;
};

struct RegionMember {
  NodeId node;
  ValueId value;
  Compute compute;         // in the region's axes
  std::vector<Expr> index; // of `value`, in the region's axes
  bool full = true;        // over all axes; false: only over those not reduced (after a reduction)
};

class RegionDomain {
public:
  RegionDomain(const Graph& graph, Inliner& inliner) : graph_(graph), inliner_(inliner) {}

  /// The first member gives the axes.
  void start(NodeId node);
  /// The first member is a value computed by other means (a matmul's result): only its axes count. One of whose columns `slices`
  /// equal slices are read side by side has the axes of a slice.
  void start_with_value(ValueId value, int64_t slices = 1);
  /// A load of the first member: the index within a slice of its columns, and which slice.
  struct SliceIndex {
    std::vector<Expr> index;
    int64_t slice = 0;
  };
  SliceIndex slice_of(ValueId value, const std::vector<Expr>& index) const;
  /// The node as a member, where its loads of members can be lined up; join() adds it. `shared`: loads of memory that
  /// members load too are lined up as well.
  std::optional<RegionMember> candidate(NodeId node, bool shared = false) const;
  void join(RegionMember member);
  /// Whether with the member the region would reduce and be read along one axis, and read or written along another: the lanes of vectors
  /// could only be one of them.
  bool turns(const RegionMember& member) const;

  const std::vector<RegionMember>& members() const { return members_; }
  /// All axes; those of a reduction are in reduced().
  const std::vector<Expr>& axes() const { return axes_; }
  bool is_reduced(Expr axis) const { return std::find(reduced_.begin(), reduced_.end(), axis) != reduced_.end(); }
  const RegionMember* find(ValueId value) const;

private:
  struct Missing {
    Expr axis, extent; // extent: of the axis, or of its lowest digit
  };
  using Mapping = std::unordered_map<const ExprNode*, Expr>;
  // What is known of axes: their value, or values of their digits (a // K, a % K), each times its weight.
  struct Solution {
    std::map<const ExprNode*, Expr> whole;
    struct Digit {
      Expr value, weight;
    };
    std::map<const ExprNode*, std::map<const ExprNode*, Digit>> parts;
    bool empty() const { return whole.empty() && parts.empty(); }
  };
  bool solve(const std::vector<Expr>& index, const std::vector<Expr>& target, const std::vector<Expr>& free, Solution& out) const;
  // A load of memory that a member loads too, at `index` in the region's axes.
  struct SharedLoad {
    const ExprNode* load;
    const std::vector<Expr>* index;
  };
  bool line_up(const Compute& c, Mapping& mapping, const SharedLoad* shared = nullptr) const;
  std::vector<SharedLoad> shared_loads(const Compute& c) const;
  bool match_rest(const std::vector<Missing>& missing, Mapping& mapping) const;
  bool check(const Compute& c, const Mapping& mapping) const;
  Expr lies_along(ValueId value, const std::vector<Expr>& index) const;
  std::vector<Expr> read_along() const;
  RegionMember transform(NodeId node, const Compute& c, const Mapping& mapping) const;

  const Graph& graph_;
  Inliner& inliner_;
  std::vector<RegionMember> members_;
  std::vector<Expr> axes_, reduced_;
  bool has_reduction_ = false;
  int64_t slice_width_ = 0; // of the first member; 0: it is read whole
};

} // namespace tenon
