// How a product is cut into items: ranges of rows by ranges of panels, so that the worker that has most to do is done soonest.
#include <algorithm>

#include "base/rounding.h"
#include "runtime/matmul_plan.h"

namespace tenon {
namespace {

/// Each thread keeps its panels, in items that may be taken in any order; rows are cut where panels are few.
Splits choose_repeated(const MatmulPlan& p, const Caches& caches, int threads, const Matmul& m) {
  int64_t panels = std::max<int64_t>(p.panels.count(), 1), parts = std::min<int64_t>(threads, panels);
  int64_t items = std::max<int64_t>(ceil_div(p.panels.bytes(), parts * caches.l2 / 4), 1); // of a part
  return {.rows = std::clamp<int64_t>(ceil_div(threads, panels), 1, std::max<int64_t>(ceil_div(m.m, p.tile_rows), 1)),
          .panels = std::min(parts * items, panels)};
}

/// Cycles of the worker that has most to do, with a product of so many items: ranges of rows by ranges of panels.
double longest_share(const MatmulPlan& p, const GemmFamily& f, int threads, const Matmul& m, const Splits& splits) {
  constexpr double item_cycles = 500, read_byte = 1. / 32; // to set an item up; to read operands anew
  double pack_a = p.pack_a ? 0.1 : 0, pack_b = p.use == BUse::Pack ? packing(f, m) : 0;
  auto d = [](int64_t x) { return static_cast<double>(x); };
  int64_t tiles = ceil_div(m.m, p.tile_rows), panels = p.panels.count(), parts = splits.items(),
          items = m.batch[0] * m.batch[1] * p.splits_k * parts, depth = std::max<int64_t>(p.split_k, 1);
  if (items == 0) return 0;
  double a_cycles = d(depth) * d(static_cast<int64_t>(size_of(f.a))) * (read_byte + pack_a),
         b_cycles = d(depth) * d(static_cast<int64_t>(size_of(f.b))) * (read_byte + pack_b), product = d(depth) / f.speed;
  auto covered = [&](bool rows, int64_t range) {
    return d(rows ? std::min(tiles * range / splits.rows * p.tile_rows, m.m)
                  : std::min(panels * range / splits.panels * p.panels.width(), round_up(m.n, p.panels.lanes)));
  };
  // So many of the first items of a batch: they go through all inner ranges for an outer one, before the next.
  bool by_rows = splits.keeps_rows;
  int64_t inner = by_rows ? splits.panels : splits.rows;
  double whole = d(by_rows ? m.n : m.m), outer_cycles = by_rows ? a_cycles : b_cycles, inner_cycles = by_rows ? b_cycles : a_cycles;
  auto first = [&](int64_t count) {
    int64_t range = count / inner, rest = count % inner;
    double outer = covered(by_rows, range), next = rest ? covered(by_rows, range + 1) - outer : 0, part = covered(!by_rows, rest);
    return d(count) * item_cycles + (outer * whole + next * part) * product + (outer * d(inner) + next * d(rest)) * outer_cycles +
           (d(range) * whole + part) * inner_cycles;
  };
  double batch = first(parts), longest = 0, before = 0;
  for (int64_t w = 1; w <= threads; w++) {
    int64_t end = items * w / threads;
    double sum = d(end / parts) * batch + first(end % parts);
    longest = std::max(longest, sum - before), before = sum;
  }
  return longest;
}

/// Of the ways to cut a product into items, for as few as one a thread, the one whose longest share is shortest; of nearly equal ones that
/// where threads keep their rows, and that with most items, which leaves something to take where a thread is held up.
Splits choose_shares(const MatmulPlan& p, const GemmFamily& f, int threads, const Matmul& m, const SplitRequest& most) {
  Splits best = choose_splits(most);
  if (threads == 1 || best.items() == 1) return best;
  int64_t batch = std::max<int64_t>(most.batch, 1), all = best.items();
  double least = longest_share(p, f, threads, m, best);
  auto consider = [&](const Splits& s, double nearly) {
    double share = longest_share(p, f, threads, m, s);
    if (share * nearly < least) best = s, least = share;
  };
  for (int64_t panels = best.panels / 2; best.keeps_rows && panels >= 1; panels /= 2) consider({best.rows, panels, true}, 1.01);
  for (int64_t per_thread = most.per_thread; per_thread >= 1; per_thread /= 2) {
    int64_t wanted = std::min(ceil_div(threads * per_thread, batch), all);
    for (int64_t panels = 1; panels <= std::min(wanted, most.panels); panels++)
      if (wanted % panels == 0) consider({std::min(wanted / panels, most.tiles), panels}, 1.05);
  }
  return best;
}

/// Two parts, where they and what it takes to share them take less time than the whole.
Splits choose_brief(MatmulPlan& p, const GemmFamily& f, const Matmul& m, const SplitRequest& most) {
  constexpr double sharing = 3000; // cycles
  double least = longest_share(p, f, 1, m, {}) - sharing;
  Splits best;
  for (Splits s : {Splits{std::min<int64_t>(most.tiles, 2), 1}, Splits{1, std::min<int64_t>(most.panels, 2)}})
    if (double share = longest_share(p, f, 2, m, s); s.items() == 2 && share < least) best = s, least = share, p.brief = true;
  return best;
}

} // namespace

void choose_items(MatmulPlan& p, const GemmFamily& f, const Caches& caches, int threads, const Matmul& m) {
  p.threads = threads;
  SplitRequest request{
      .tiles = ceil_div(m.m, p.tile_rows),
      .panels = p.panels.count(),
      .batch = m.batch[0] * m.batch[1] * p.splits_k,
      .work = product_cycles(f, m.a_type, m.m, m.n, std::max<int64_t>(p.split_k, 16)),
      .threads = threads,
      .per_thread = (p.use == BUse::Pack && p.pack_a) || p.use == BUse::Stream ? 1 : items_per_thread, // each item packs A; long rows
      .panels_first = p.use == BUse::Pack || m.n > m.m,
      .kept_ranges = p.use == BUse::Packed && !f.is_tiled() ? kept_ranges(m.m, threads) : 0};
  Splits splits = m.repeated                                  ? choose_repeated(p, caches, threads, m)
                  : uses_dots(p.use) || p.use == BUse::Stream ? choose_splits(request)
                                                              : choose_shares(p, f, threads, m, request);
  bool whole = request.batch == 1 && splits.items() == 1;
  if (whole && !m.repeated && threads > 1 && p.use != BUse::GatherDot) splits = choose_brief(p, f, m, request);
  p.splits = splits;
}

double expected_cycles(const MatmulPlan& p, const GemmFamily& f, int threads, const Matmul& m) {
  constexpr double read_byte = 1. / 32;
  auto d = [](int64_t x) { return static_cast<double>(x); };
  double a_bytes = d(m.m) * d(m.k) * d(static_cast<int64_t>(size_of(f.a)));
  return longest_share(p, f, threads, m, p.splits) + d(p.panels.count()) * a_bytes * read_byte / threads;
}

} // namespace tenon
