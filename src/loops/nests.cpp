// Loop nests of a region without a contraction: flat, rows (the last axis is reduced), columns (another is, or many short rows lie side by
// side).
#include <algorithm>
#include <set>
#include <unordered_map>

#include "loops/chunked.h"
#include "loops/cuts.h"
#include "loops/region_draft.h"
#include "loops/tiled.h"

namespace tenon {

namespace {

// Passes over the reduced axes, and the stores of per-row values after the reductions they need.
std::vector<Stmt> passes(RegionDraft& r, int innermost_lanes) {
  std::vector<Stmt> out;
  for (int level = 0; level <= r.last + 1; level++) {
    store_rows(r, level, out);
    std::vector<Stmt> body = inner(r, level);
    if (body.empty()) continue;
    ReduceRegion region{accumulators(r, level), {}};
    std::vector<Stmt> loops = over_reduced(r, std::move(body), innermost_lanes);
    if (region.accumulators.empty()) {
      for (auto& s : loops) out.push_back(std::move(s));
      continue;
    }
    region.body = std::move(loops);
    out.push_back({std::move(region)});
  }
  return out;
}

// Rows of which a parallel iteration covers several: where they lie is worked out once. Of rows whose length is not known as many as make a
// block, which is one where they are long. Empty: one.
Expr rows_together(const RegionDraft& r) {
  constexpr int64_t short_row = 512;
  constexpr int heavy = 24; // what is computed takes longer
  if (r.out.weight > heavy || r.d.axes.size() < 2) return {};
  Expr length = r.d.axes.back()->args[0];
  auto row = const_int(length);
  if (!row) return max(floor_div(r.pool.integer(block_elements), max(length, r.pool.integer(1))), r.pool.integer(1));
  return *row > 0 && *row <= short_row ? r.pool.integer(block_elements / *row) : Expr();
}

// Counts what is computed, each thing once, and of that what depends on an axis.
class Dependents {
public:
  explicit Dependents(Expr axis) : axis_(std::move(axis)) {}
  bool count(const Expr& e) {
    auto [it, fresh] = depends_.try_emplace(e.get(), e == axis_);
    if (!fresh || e->args.empty() || e->op == Op::Axis) return it->second;
    bool any = false;
    for (const Expr& arg : e->args)
      if (arg) any = count(arg) || any;
    all++;
    dependent += any;
    return depends_[e.get()] = any;
  }
  int all = 0, dependent = 0;

private:
  Expr axis_;
  std::unordered_map<const ExprNode*, bool> depends_;
};

constexpr int64_t shared_values = 8; // ways of a first cache, in whose sets planes of a power of two meet

// Where most of what is computed is the same along an outer axis, as places and shares of neighbours in all channels of an image, a vector
// loop takes several values of that axis, for which this is computed once: the axis, or nothing.
Expr shared_axis(const RegionDraft& r) {
  constexpr int heavy = 24;
  constexpr int64_t enough_iterations = 16;
  auto extent = [](const Expr& axis, int64_t unknown) { return const_int(axis->args[0]).value_or(unknown); };
  Expr best;
  for (size_t k = 0; r.out.weight > heavy && k + 1 < r.d.axes.size(); k++) {
    const Expr& axis = r.d.axes[k];
    int64_t iterations = (extent(r.d.axes.back(), 1 << 20) + block_elements - 1) / block_elements;
    for (size_t i = 0; i + 1 < r.d.axes.size() && iterations < enough_iterations; i++)
      iterations *= i == k ? (extent(axis, 1 << 20) + shared_values - 1) / shared_values : extent(r.d.axes[i], 1 << 20);
    // What is not known is often a batch of one.
    if (iterations < enough_iterations || extent(axis, 2) < 2 || (best && extent(axis, 2) <= extent(best, 2))) continue;
    Dependents found(axis);
    for (auto& m : r.d.members)
      if (m.body) found.count(m.body);
    if (found.dependent * 2 <= found.all) best = axis;
  }
  return best;
}

void flat_nest(RegionDraft& r) {
  if (r.d.axes.empty()) r.d.axes.push_back(r.pool.axis(5003, r.pool.integer(1)));
  if (auto tile = tile_of(r)) return tiled_nest(r, *tile);
  std::vector<Expr> outer(r.d.axes.begin(), r.d.axes.end() - 1);
  Expr shared = shared_axis(r);
  if (shared) *std::ranges::find(outer, shared) = block_axis(r, shared, r.pool.integer(shared_values));
  Expr rows = rows_together(r);
  if (rows) {
    outer.pop_back();
    Expr all = r.d.axes.end()[-2]->args[0];
    if (!const_int(all) || !const_int(rows) || *const_int(all) > *const_int(rows)) outer.push_back(block_axis(r, r.d.axes.end()[-2], rows));
  }
  if (!rows || !const_int(rows)) block_last(r, block_elements, outer);
  make_parallel(r, outer);
  r.kernel().body = cut_at_conditions(r, Loop{r.d.axes.back(), lanes(r, 2), inner(r, 0)});
  if (rows) r.kernel().body = {{Loop{r.d.axes.end()[-2], 1, std::move(r.kernel().body)}}};
  if (!shared) return;
  for (Stmt& s : r.kernel().body) {
    auto& vectors = std::get<Loop>(s.v);
    vectors.body = {{Loop{r.d.axes.front(), 1, std::move(vectors.body)}}};
  }
}

void row_nest(RegionDraft& r) {
  make_parallel(r, kept_axes(r));
  r.kernel().body = passes(r, lanes(r, 4));
}

// Short rows fill no vectors: then these take one element of many rows, and the longest of the kept axes becomes the last.
bool takes_rows_as_lanes(RegionDraft& r) {
  constexpr int64_t short_row = 7, many_rows = 64;
  auto row = const_int(r.d.axes.back()->args[0]);
  if (!row || *row > short_row || r.d.reduced.size() != 1) return false;
  auto count = [&](Expr a) { return r.d.is_reduced(a) ? -1 : const_int(a->args[0]).value_or(many_rows); };
  auto rows = std::ranges::max_element(r.d.axes, {}, count);
  if (count(*rows) < many_rows) return false;
  std::rotate(rows, rows + 1, r.d.axes.end());
  return true;
}

constexpr int64_t windows_together = 16;

// Whether a parallel iteration covers several rows of windows, where it takes as long to work out where rows lie of which no length is
// known.
bool takes_windows_together(const RegionDraft& r) {
  constexpr int64_t short_reduction = 64;
  std::vector<Expr> kept = kept_axes(r);
  if (kept.size() < 2 || const_int(kept.back()->args[0])) return false;
  int64_t reduced = 1;
  for (const Expr& a : r.d.reduced) reduced *= std::min(const_int(a->args[0]).value_or(short_reduction + 1), short_reduction + 1);
  return reduced <= short_reduction;
}

void column_nest(RegionDraft& r, int64_t block_lanes) {
  if (r.d.axes.empty()) r.d.axes.push_back(r.pool.axis(5003, r.pool.integer(1)));
  std::vector<Expr> outer = kept_axes(r);
  outer.pop_back();
  bool together = takes_windows_together(r);
  if (together) outer.back() = block_axis(r, outer.back(), r.pool.integer(windows_together));
  r.lanes_of_block = block_lanes;
  block_last(r, r.lanes_of_block, outer);
  make_parallel(r, outer);
  r.lane = r.d.axes.back();
  r.kernel().body = {{Loop{r.lane, static_cast<int>(r.lanes_of_block), passes(r, 1)}}};
  if (together) r.kernel().body = {{Loop{kept_axes(r).front(), 1, std::move(r.kernel().body)}}};
}

} // namespace

namespace {

// Results go past the caches where a kernel moves more than they hold: what it wrote first would be gone before anyone reads it.
void stream_large_results(const Graph& graph, RegionKernel& k, int64_t bytes) {
  std::set<int64_t> read;
  for_each_expr(k.kernel.body, [&](Expr e) {
    if (e)
      visit(e, [&](const ExprNode& n) {
        if (n.op == Op::Load) read.insert(n.bits);
      });
  });
  auto elements = const_int(k.elements);
  std::vector<int64_t> moved(k.buffers.size(), 0);
  int64_t all = 0;
  for (size_t i = 0; i < k.buffers.size(); i++) {
    if (!k.buffers[i].valid()) continue;
    auto size = const_int(product(graph.pool(), graph.type(k.buffers[i]).sizes));
    if (size || elements) moved[i] = std::min(size.value_or(INT64_MAX), elements.value_or(INT64_MAX));
    moved[i] *= static_cast<int64_t>(size_of(k.kernel.buffers[i].dtype));
    all += moved[i];
  }
  for (size_t i = 0; i < k.buffers.size(); i++) {
    KernelBuffer& b = k.kernel.buffers[i];
    if (b.kind == BufferKind::Output && k.buffers[i].valid() && !read.contains(static_cast<int64_t>(i)))
      b.streamed = all >= bytes && moved[i] >= all / 8;
  }
}

RegionKernels make_kernels(RegionDraft& r) {
  bool reduces = std::any_of(r.d.members.begin(), r.d.members.end(), [](auto& m) { return m.reduction != Reduction::None; });
  if (reduces)
    if (auto chunks = chunks_of(r)) return chunked_kernels(r, *chunks);
  if (!reduces) flat_nest(r);
  else if (!reduces_last(r)) column_nest(r, column_lanes(r));
  else if (takes_rows_as_lanes(r)) column_nest(r, r.vector_bytes / 2);
  else row_nest(r);
  RegionKernels out;
  out.kernels.push_back(finish(r));
  return out;
}

} // namespace

RegionKernels kernels_of_loops(const Graph& graph, NodeId region, int vector_bytes, int64_t streamed_bytes) {
  RegionDraft r(graph, region, vector_bytes);
  start(r, false);
  split_axes(r.d);
  order_axes(r.d);
  merge_axes(r.d);
  measure(r);
  assign_levels(r);
  RegionKernels out = make_kernels(r);
  for (RegionKernel& k : out.kernels) stream_large_results(graph, k, streamed_bytes);
  return out;
}

} // namespace tenon
