// Products on tile registers: which operand stays in the first cache, and the blocks.
#include <algorithm>
#include <cstdlib>

#include "base/rounding.h"
#include "runtime/matmul_plan.h"

namespace tenon {

/// Whether two groups of rows of A, of a block of k, are more than some sets of L1 hold, by the distance of the rows.
bool crowds_l1(const GemmFamily& f, const Caches& caches, int64_t row_bytes, int64_t k) {
  constexpr int64_t line = 64, sets = 64, spare = 2;
  int64_t lines[sets] = {}, most = 0, bytes = std::min(k, tiled_depth(f, caches, k)) * static_cast<int64_t>(size_of(f.a));
  row_bytes = std::abs(row_bytes);
  for (int64_t r = 0; r < 2 * f.row_step; r++)
    for (int64_t i = 0; i < bytes; i += line) most = std::max(most, ++lines[(r * row_bytes + i) / line % sets]);
  return most > caches.l1 / (sets * line) - spare;
}

/// Few rows, which L2 holds, meet panels of a B that comes from afar: each panel is read once then, a part of its k at a time stays in L1,
/// and what comes next is asked for evenly.
bool streams_rows(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  return f.is_tiled() && p.use == BUse::Packed && m.m > f.rows[static_cast<size_t>(p.panels.vectors)] && m.m <= most_streamed_rows &&
         p.panels.bytes() > caches.l2 / 2 && m.m * m.k * static_cast<int64_t>(size_of(f.a)) <= caches.l2 / 2;
}

/// Rows of A of one tile lie in L1 for all columns of a chunk of B, which lies in L2, with all its k unless too few columns did; then sums
/// of many rows wait for the next block of k. A single tile of rows reads B once, from end to end. Where rows stream they are one block.
void choose_tiled_blocks(MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  constexpr int64_t enough_columns = 256, streamed_bytes = 128 << 10; // of sums that an epilogue takes at a time
  int64_t b_bytes = static_cast<int64_t>(size_of(f.b)), sum = static_cast<int64_t>(size_of(f.sum)), width = p.panels.width();
  if (p.panel_k) {
    p.block_k = std::max<int64_t>(round_up(m.k, f.k_step), f.k_step);
    p.block_rows = p.super_rows = round_up(m.m, p.tile_rows);
    p.chunk_panels = p.group_panels = std::clamp<int64_t>(streamed_bytes / (p.block_rows * width * sum), 1, p.panels.count());
    return;
  }
  p.block_k = m.m <= p.tile_rows ? std::max<int64_t>(round_up(m.k, f.k_step), f.k_step) : tiled_depth(f, caches, m.k);
  p.block_rows = p.super_rows = p.tile_rows;
  int64_t columns = caches.l2 / (m.m <= most_streamed_rows ? 4 : 2) / (std::max<int64_t>(p.panels.depth(), 1) * b_bytes);
  if (columns < std::min(enough_columns, m.n)) columns = enough_columns, p.super_rows = round_down(max_super_rows, p.block_rows);
  p.chunk_panels = std::clamp<int64_t>(columns / width, 1, std::max<int64_t>(p.panels.count(), 1));
  p.group_panels = p.chunk_panels;
  if (m.k <= p.block_k) p.group_panels = std::clamp<int64_t>(tile_bytes / (p.block_rows * width * sum), 1, p.chunk_panels);
}

} // namespace tenon
