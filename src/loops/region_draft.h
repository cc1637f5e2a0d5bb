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
  int last = 0;               // the highest level
  int64_t lanes_of_block = 1; // of a block of columns; `lane` is the axis within
  Expr lane;
  std::vector<Expr> sums; // epilogues: the element of the contraction's tile, by slices of columns; the first member's value
  int blocked = 0;        // axes that were split in blocks
  bool in_chunks = false; // a kernel a level: nothing is kept in scratch memory
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
/// A new buffer of scratch memory.
int add_scratch(RegionDraft& draft, DType type, Expr elements);
/// A member's value, in a loop of level `level`; of a product the value in a slice of its columns.
Expr value(RegionDraft& draft, const DomainMember& member, int level, int64_t slice = 0);
/// What one iteration of the innermost loop of a level does.
std::vector<Stmt> inner(RegionDraft& draft, int level);
/// The accumulators of a level.
std::vector<Accumulator> accumulators(RegionDraft& draft, int level);
/// Loops over the reduced axes around `body`.
std::vector<Stmt> over_reduced(const RegionDraft& draft, std::vector<Stmt> body, int innermost_lanes);
/// Results over the kept axes that are known once the reductions of level - 1 are.
void store_rows(RegionDraft& draft, int level, std::vector<Stmt>& to);
/// Lanes of a vector loop: at most `most` registers of f32, fewer where much is computed.
int lanes(const RegionDraft& draft, int most);
/// Lanes of a block of columns, for reductions over other axes than the last.
int column_lanes(const RegionDraft& draft);
/// Whether the innermost axis is a reduced one.
bool reduces_last(const RegionDraft& draft);
std::vector<Expr> kept_axes(const RegionDraft& draft);
/// Splits an axis of the domain in blocks of `size`: returns the axis over blocks, and puts the one within a block in its place,
/// whose extent depends on the former where the last block is shorter.
Expr block_axis(RegionDraft& draft, Expr axis, Expr size);
/// Elements of a flat loop that one parallel iteration covers.
constexpr int64_t block_elements = 4096;
/// The innermost axis in blocks; those join `outer`.
void block_last(RegionDraft& draft, int64_t size, std::vector<Expr>& outer);
/// The parallel loop runs over `axes` as one; each becomes a digit of it. Returns what replaces them.
std::vector<std::pair<Expr, Expr>> make_parallel(RegionDraft& draft, const std::vector<Expr>& axes);
/// Expressions of statements; an accumulation's position may be empty.
void for_each_expr(const std::vector<Stmt>& body, const std::function<void(Expr)>& f);
/// The kernel with its scalars and name, when its statements are made.
RegionKernel finish(RegionDraft& draft);

} // namespace tenon
