// What kernel_of_loops and kernel_of_epilogue share: a region on its way to a kernel. Members have a level, the number of reductions
// they wait for; pass L over the reduced axes computes what is of level L. Values needed by a later pass are read back from
// where they were stored, kept in scratch memory, or computed again, whichever is cheapest.
#pragma once
#include <map>
#include <unordered_map>

#include "loops/domain.h"
#include "loops/from_region.h"

namespace tenon {

struct RegionDraft {
  RegionDraft(const Graph& graph, NodeId region, int vector_bytes);
  RegionDraft(const RegionDraft&) = delete; // `inliner` looks into it
  RegionDraft& operator=(const RegionDraft&) = delete;

  const Graph& g;
  ExprPool& pool;
  NodeId region;
  int vector_bytes;
  SideTable<NodeId, bool> inside{false};
  Inliner inliner;
  RegionDomain members;
  LoopDomain d;
  std::unordered_map<ValueId, ValueId> results; // member -> the region's output
  std::unordered_map<ValueId, int> levels, last_use, scratch;
  std::map<std::pair<uint32_t, int>, Expr> values;
  int last = 0;                // the highest level
  int64_t lanes_of_block = 1;  // of a block of columns; `lane` is the axis within
  Expr lane;
  Expr sums;                   // epilogues: the element of the contraction's tile; the first member's value
  RegionKernel out;

  Kernel& kernel() { return out.kernel; }
};

bool is_marked_inline(const Node& node);
/// Makes the domain. `contraction`: the first member is the result of one.
void start(RegionDraft& draft, bool contraction);
/// The work per element, and the elements.
void measure(RegionDraft& draft);
void assign_levels(RegionDraft& draft);
int level_of(RegionDraft& draft, const DomainMember& member);
/// Number of the kernel's buffer for a value; one is added where there is none yet.
int buffer(RegionDraft& draft, ValueId value, BufferKind kind);
/// A member's value, in a loop of level `level`.
Expr value(RegionDraft& draft, const DomainMember& member, int level);
/// What one iteration of the innermost loop of a level does.
std::vector<Stmt> inner(RegionDraft& draft, int level);
/// Results over the kept axes that are known once the reductions of level - 1 are.
void store_rows(RegionDraft& draft, int level, std::vector<Stmt>& to);
/// Lanes of a vector loop: at most `most` registers of f32, fewer where much is computed.
int lanes(const RegionDraft& draft, int most);
/// The kernel with its scalars and name, when its statements are made.
RegionKernel finish(RegionDraft& draft);

} // namespace tenon
