// Loop nests of a region without a contraction: flat, rows (the last axis is reduced), columns (another is).
#include "loops/region_draft.h"

namespace tenon {

namespace {

constexpr int64_t block_elements = 4096; // of a flat loop that one parallel iteration covers

std::vector<Stmt> wrap(std::vector<Stmt> body, const std::vector<Expr>& axes, int innermost_lanes) {
  for (size_t k = axes.size(); k-- > 0;) {
    Loop loop{axes[k], k + 1 == axes.size() ? innermost_lanes : 1, std::move(body)};
    body.clear();
    body.push_back({std::move(loop)});
  }
  return body;
}

// Passes over the reduced axes, and the stores of per-row values after the reductions they need.
std::vector<Stmt> passes(RegionDraft& r, int innermost_lanes) {
  std::vector<Expr> reduced;
  for (Expr a : r.d.axes)
    if (r.d.is_reduced(a)) reduced.push_back(a);
  std::vector<Stmt> out;
  for (int level = 0; level <= r.last + 1; level++) {
    store_rows(r, level, out);
    std::vector<Stmt> body = inner(r, level);
    if (body.empty()) continue;
    ReduceRegion region;
    for (auto& m : r.d.members)
      if (m.body && m.reduction != Reduction::None && level_of(r, m) == level)
        region.accumulators.push_back({static_cast<int>(m.value.index), m.reduction, m.body->type});
    std::vector<Stmt> loops = wrap(std::move(body), reduced, innermost_lanes);
    if (region.accumulators.empty()) {
      for (auto& s : loops) out.push_back(std::move(s));
      continue;
    }
    region.body = std::move(loops);
    out.push_back({std::move(region)});
  }
  return out;
}

// The parallel loop runs over `axes` as one; each becomes a digit of it.
void make_parallel(RegionDraft& r, std::vector<Expr> axes) {
  Expr extent = r.pool.integer(1);
  for (Expr a : axes) extent = extent * a->args[0];
  Expr p = r.pool.axis(5000, extent);
  std::vector<std::pair<Expr, Expr>> digits;
  Expr radix = r.pool.integer(1);
  for (size_t k = axes.size(); k-- > 0;) {
    Expr digit = floor_div(p, radix);
    if (k > 0) digit = mod(digit, axes[k]->args[0]);
    digits.emplace_back(axes[k], digit);
    radix = radix * axes[k]->args[0];
  }
  substitute(r.d, digits);
  for (Expr a : axes) std::erase(r.d.axes, a);
  r.kernel().parallel = p;
  r.out.iterations = extent;
}

// The last axis in blocks: its outer part joins the parallel axes, the inner part is returned.
Expr block_last(RegionDraft& r, int64_t size, std::vector<Expr>& outer) {
  Expr last = r.d.axes.back(), extent = last->args[0];
  auto known = const_int(extent);
  if (known && *known <= size) return last;
  Expr block = r.pool.axis(5001, floor_div(extent + static_cast<double>(size - 1), r.pool.integer(size)));
  Expr inner = r.pool.axis(5002, min(r.pool.integer(size), extent - block * static_cast<double>(size)));
  // The extent of the inner axis names `block`, which make_parallel replaces: so it is made by the substitution below.
  outer.push_back(block);
  r.d.axes.back() = inner;
  substitute(r.d, {{last, block * static_cast<double>(size) + inner}});
  return inner;
}

// `inner` with the present value of the axes in its extent, after make_parallel.
Expr refresh(Expr inner, const std::vector<std::pair<Expr, Expr>>& digits) {
  Substitution s;
  for (auto& [from, to] : digits) s.set(from, to);
  return s.apply(inner);
}

// Parallel over `outer`; inside, `make` with the inner axis.
template <class F> void nest(RegionDraft& r, const std::vector<Expr>& outer, Expr inner_axis, F make) {
  std::erase(r.d.axes, inner_axis);
  std::vector<Expr> reduced = r.d.axes;
  make_parallel(r, outer);
  // The inner axis' extent may name axes that are digits of the parallel one now.
  Expr extent = r.pool.integer(1);
  std::vector<std::pair<Expr, Expr>> digits;
  Expr radix = extent;
  for (size_t k = outer.size(); k-- > 0;) {
    Expr digit = floor_div(r.kernel().parallel, radix);
    if (k > 0) digit = mod(digit, outer[k]->args[0]);
    digits.emplace_back(outer[k], digit);
    radix = radix * outer[k]->args[0];
  }
  if (!inner_axis) inner_axis = r.pool.axis(5003, r.pool.integer(1));
  Expr now = refresh(inner_axis, digits);
  if (now != inner_axis) substitute(r.d, {{inner_axis, now}});
  r.kernel().body = make(now);
}

void flat_nest(RegionDraft& r) {
  if (r.d.axes.empty()) r.d.axes.push_back(r.pool.axis(5003, r.pool.integer(1)));
  std::vector<Expr> outer(r.d.axes.begin(), r.d.axes.end() - 1);
  Expr inner_axis = block_last(r, block_elements, outer);
  nest(r, outer, inner_axis, [&](Expr axis) {
    Loop loop{axis, lanes(r, 2), inner(r, 0)};
    return std::vector<Stmt>{{std::move(loop)}};
  });
}

void row_nest(RegionDraft& r) {
  std::vector<Expr> kept;
  for (Expr a : r.d.axes)
    if (!r.d.is_reduced(a)) kept.push_back(a);
  make_parallel(r, kept);
  r.kernel().body = passes(r, lanes(r, 4));
}

void column_nest(RegionDraft& r) {
  r.lanes_of_block = std::max(16, r.vector_bytes / 4 * (r.out.weight > 24 ? 1 : 4));
  std::vector<Expr> outer;
  for (Expr a : r.d.axes)
    if (!r.d.is_reduced(a) && a != r.d.axes.back()) outer.push_back(a);
  Expr inner_axis = r.d.axes.empty() ? Expr() : block_last(r, r.lanes_of_block, outer);
  nest(r, outer, inner_axis, [&](Expr axis) {
    r.lane = axis;
    Loop loop{axis, static_cast<int>(r.lanes_of_block), passes(r, 1)};
    return std::vector<Stmt>{{std::move(loop)}};
  });
}

} // namespace

RegionKernel kernel_of_loops(const Graph& graph, NodeId region, int vector_bytes) {
  RegionDraft r(graph, region, vector_bytes);
  start(r, false);
  split_axes(r.d);
  order_axes(r.d);
  merge_axes(r.d);
  measure(r);
  assign_levels(r);
  bool reduces = std::any_of(r.d.members.begin(), r.d.members.end(), [](auto& m) { return m.reduction != Reduction::None; });
  if (!reduces) flat_nest(r);
  else if (!r.d.axes.empty() && r.d.is_reduced(r.d.axes.back())) row_nest(r);
  else column_nest(r);
  return finish(r);
}

} // namespace tenon
