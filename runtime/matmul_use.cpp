// How a product may read its B, and what each way costs.
#include <algorithm>

#include "base/rounding.h"
#include "runtime/matmul_ahead.h"
#include "runtime/matmul_plan.h"

namespace tenon {
namespace {

/// The widest tile for a B in place that still takes all rows at once, else the squarest; of whole units where rows are woven. Tiles of two
/// vectors touch a page for each pair of lines where rows of B are long: of a B that the last cache holds, two tiles of more columns, where
/// there are registers for them.
int in_place_vectors(const GemmFamily& f, int64_t m, int64_t n, bool asks) {
  constexpr int most_asking = 12; // rows of a tile: more leave no register for what is asked for
  int best = f.group > 1 ? f.group : f.rows[8] > 0 ? 3 : 2;
  int most = static_cast<int>(std::clamp<int64_t>(round_up(ceil_div(n, f.lanes), f.group), f.group, GemmFamily::max_vectors)); // n may be 0
  int v = most, least = std::max(f.group, 2);
  while (v >= least && std::min<int>(f.in_place_rows[static_cast<size_t>(v)], asks ? most_asking : GemmFamily::max_rows) < m) v -= f.group;
  if (v >= least) best = v;
  if (v == 2 && f.group == 1 && f.rows[8] > 0 && !asks)
    for (int wide : {3, 4})
      if (wide <= most && 2 * f.in_place_rows[static_cast<size_t>(wide)] >= m) best = wide;
  while (best > most || f.in_place_rows[static_cast<size_t>(best)] == 0) best--;
  return best;
}

/// Cycles to weave the rows of groups together, for each tile of rows anew.
double weaving(const GemmFamily& f, int64_t m, int64_t n, int64_t k) {
  if (f.group == 1) return 0;
  int rows = f.in_place_rows[static_cast<size_t>(in_place_vectors(f, m, n, false))];
  return static_cast<double>(ceil_div(m, rows)) * padded(n, int64_t{f.lanes} * f.group) *
         static_cast<double>(k * static_cast<int64_t>(size_of(f.b)) * f.group) / 256;
}

/// Packing a row-major B takes the time of some ten rows, twice that where memory has to take it: many rows are what it pays for. Rows of B
/// that share sets of L1 are slower to read again, most of all those a multiple of a page apart and those that each tile weaves anew, and
/// tiles pack what the last cache holds while they read it. A small B stays in L1 for all rows.
bool pays_in_place(const GemmFamily& f, const Caches& caches, const Matmul& m) {
  constexpr int64_t most_rows = 256, most_woven = 64, most_crowded = 10;
  int64_t bytes = static_cast<int64_t>(size_of(f.b)), widest = int64_t{4} * f.lanes;
  bool same_set = m.b_k * bytes % 1024 == 0, pages = m.b_k * bytes % page_bytes == 0;
  if (f.group > 1 && same_set) return m.m <= most_crowded;
  bool packs = f.packing_rows[1] > 0 && pages && m.k * m.n * bytes <= caches.l3 / 2;
  // A second tile of rows finds a block of B in L2 again.
  int64_t most_paged = holds_paged_lines(caches) ? 48 : f.in_place_rows[2];
  if (m.m <= (f.group > 1 ? most_woven : packs ? most_paged : same_set ? most_rows / 2 : most_rows)) return true;
  return m.k * m.n * bytes <= caches.l1 / 2 || (m.k * widest * bytes <= caches.l1 && m.k * m.n * bytes <= caches.l2 / 8 && !same_set);
}

} // namespace

Panels in_place_panels(const GemmFamily& f, int64_t m, int64_t n, int64_t k, bool asks) {
  bool few = m != any_size && m <= in_place_rows;
  return choose_panels(f, n, k, few || f.group > 1 ? in_place_vectors(f, few ? m : in_place_rows, n, asks) : 0);
}

double cycles_of(BUse use, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  auto d = [](int64_t x) { return static_cast<double>(x); };
  double rows = d(round_up(m.m, f.row_step)), columns = d(m.n), depth = d(std::max<int64_t>(m.k, 1)),
         bytes = d(static_cast<int64_t>(size_of(f.b)));
  double narrow = m.n > f.lanes ? 1 : f.embeds ? 1.05 : 1.35; // tiles of one vector are bound by loads of A
  double products = rows * padded(m.n, f.lanes) * depth * narrow / f.speed,
         woven = rows * padded(m.n, int64_t{f.lanes} * f.group) * depth / f.speed;
  if (f.is_tiled()) products += around_tiles(f, m);
  bool same = m.b_type == f.b, apart = m.a_k != 1 && m.k > 1;
  switch (use) {
  case BUse::Packed: return m.packed ? products : 1e300;
  case BUse::Pack: return products + 100 + columns * depth * bytes * packing(f, m);
  case BUse::InPlace:
    return m.b_n == 1 && f.reads_in_place() && same && pays_in_place(f, caches, m)
               ? std::max(products, woven) * 1.02 + weaving(f, m.m, m.n, m.k)
               : 1e300;
  case BUse::Stream:
    return m.m == 1 && m.b_n == 1 && f.reads_in_place() && f.group == 1 && same &&
                   m.n * static_cast<int64_t>(size_of(f.b)) >= stream_bytes / 4 &&
                   m.n * m.k * static_cast<int64_t>(size_of(f.b)) > caches.l2
               ? products
               : 1e300;
  case BUse::Dot:
  case BUse::GatherDot: {
    bool gather = use == BUse::GatherDot;
    if (f.dot_rows[1] == 0 || !same || (gather ? m.n > most_gathered : m.b_k != 1) || (apart && m.m > in_place_rows)) return 1e300;
    constexpr double share = 0.76, at_end = 2.5; // of the peak; cycles to add up a vector of sums
    return rows * columns * (padded(m.k, f.lanes * f.group) / (f.speed * share) + at_end) + (gather ? columns * depth * 2 : 0);
  }
  }
  return 1e300;
}

} // namespace tenon
