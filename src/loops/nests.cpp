// Loop nests of a region without a contraction: flat, rows (the last axis is reduced), columns (another is).
#include "loops/chunked.h"
#include "loops/region_draft.h"

namespace tenon {

namespace {

constexpr int64_t block_elements = 4096; // of a flat loop that one parallel iteration covers

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

void flat_nest(RegionDraft& r) {
  if (r.d.axes.empty()) r.d.axes.push_back(r.pool.axis(5003, r.pool.integer(1)));
  std::vector<Expr> outer(r.d.axes.begin(), r.d.axes.end() - 1);
  block_last(r, block_elements, outer);
  make_parallel(r, outer);
  r.kernel().body = {{Loop{r.d.axes.back(), lanes(r, 2), inner(r, 0)}}};
}

void row_nest(RegionDraft& r) {
  make_parallel(r, kept_axes(r));
  r.kernel().body = passes(r, lanes(r, 4));
}

void column_nest(RegionDraft& r) {
  if (r.d.axes.empty()) r.d.axes.push_back(r.pool.axis(5003, r.pool.integer(1)));
  std::vector<Expr> outer = kept_axes(r);
  outer.pop_back();
  r.lanes_of_block = column_lanes(r);
  block_last(r, r.lanes_of_block, outer);
  make_parallel(r, outer);
  r.lane = r.d.axes.back();
  r.kernel().body = {{Loop{r.lane, static_cast<int>(r.lanes_of_block), passes(r, 1)}}};
}

} // namespace

RegionKernels kernels_of_loops(const Graph& graph, NodeId region, int vector_bytes) {
  RegionDraft r(graph, region, vector_bytes);
  start(r, false);
  split_axes(r.d);
  order_axes(r.d);
  merge_axes(r.d);
  measure(r);
  assign_levels(r);
  bool reduces = std::any_of(r.d.members.begin(), r.d.members.end(), [](auto& m) { return m.reduction != Reduction::None; });
  if (reduces)
    if (auto chunks = chunks_of(r)) return chunked_kernels(r, *chunks);
  if (!reduces) flat_nest(r);
  else if (reduces_last(r)) row_nest(r);
  else column_nest(r);
  RegionKernels out;
  out.kernels.push_back(finish(r));
  return out;
}

} // namespace tenon
