// The decisions of a matrix product: which family of kernels, how B is read, blocks by the caches, items for the workers.
#include <algorithm>
#include <array>
#include <bit>

#include "base/rounding.h"
#include "runtime/gemm_pack.h"
#include "runtime/matmul_ahead.h"
#include "runtime/matmul_held.h"

namespace tenon {
namespace {

constexpr int64_t turned_columns = 4096; // of sums that are turned back
constexpr int64_t max_block_rows = 256;

/// Panels of dot products are the columns of a tile.
Panels dot_panels(const GemmFamily& f, int64_t n, int64_t k, bool single) {
  return {n, k, 1, single ? GemmFamily::row_dot_columns : GemmFamily::dot_columns, 1, 1, static_cast<int>(size_of(f.b))};
}

/// Whether tiles are of a single row, of which more columns share what a tile takes beside its products: where these are few, and columns
/// do not share a set of L1.
bool has_single_rows(const GemmFamily& f, const Matmul& m) {
  constexpr int64_t brief = 2048; // bytes of a column
  int64_t bytes = static_cast<int64_t>(size_of(f.b)), apart = (m.b_n == 1 ? m.k : m.b_n) * bytes;
  return m.m == 1 && m.n >= GemmFamily::row_dot_columns && m.k * bytes < brief && apart % page_bytes != 0 &&
         f.dot_rows[GemmFamily::row_dot_columns] > 0;
}

/// The most rows of a tile: kernels of one vector look ahead for rows unless they need every register for those they have, which is for
/// rows that are near.
int most_tile_rows(const GemmFamily& f, const Panels& panels, GemmKind kind, bool a_near) {
  constexpr int most_looking = 12, least_even = 16;
  if (is_dot(kind)) return f.dot_rows[static_cast<size_t>(std::clamp<int64_t>(panels.columns(0), 1, panels.vectors))];
  auto width = static_cast<size_t>(panels.vectors);
  int rows = (kind == GemmKind::InPlace ? f.in_place_rows : f.rows)[width];
  if (kind == GemmKind::Packing && rows == f.packing_rows[width] + 1) rows--; // hardly slower than a pass that packs
  return f.is_tiled() || panels.vectors > 1 || (a_near && rows >= least_even) ? rows : std::min(rows, most_looking);
}

/// Whether the first tiles may pack B while they read it, which takes them hardly longer.
bool may_pack_in_tiles(const GemmFamily& f, const Matmul& m) {
  return !m.packed && m.b_type == f.b && (m.b_n == 1 || m.b_n == 0) && f.packing_rows[1] > 0;
}

GemmKind kind_of(BUse use, bool rows_first, bool streams_rows = false) {
  if (streams_rows) return GemmKind::PackedRows;
  if (use == BUse::Stream) return GemmKind::Stream;
  return uses_dots(use) ? rows_first ? GemmKind::DotRows : GemmKind::Dot : use == BUse::InPlace ? GemmKind::InPlace : GemmKind::Packed;
}

/// Whether kernels can read rows of A that are neighbours in memory.
bool reads_by_k(const GemmFamily& f, const Matmul& m) {
  return f.group == 1 && !f.is_tiled() && m.a_type == f.a && m.a_k != 1 && m.a_row <= 1;
}
/// Rows of many tiles that meet many panels are copied where all k of a line of A share few sets of the caches.
bool pays_by_k(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  int64_t few_panels = holds_paged_lines(caches) ? 4 : 3;
  bool crowds = m.a_k * static_cast<int64_t>(size_of(f.a)) % page_bytes == 0 && m.k > in_place_depth;
  if (crowds && m.m > max_block_rows && p.panels.count() > few_panels) return false;
  return reads_by_k(f, m) && m.a_row == 1 && (p.use == BUse::Packed || p.use == BUse::Pack || p.use == BUse::InPlace);
}

void choose_use(MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  p.use = m.packed ? BUse::Packed : BUse::Pack;
  for (BUse other : {BUse::InPlace, BUse::Stream, BUse::Dot, BUse::GatherDot})
    if (!m.packed && cycles_of(other, f, caches, m) < cycles_of(p.use, f, caches, m)) p.use = other;
  bool dots = uses_dots(p.use);
  p.b_ahead = p.use == BUse::InPlace && asks_for_b(caches, m);
  p.panels = dots                     ? dot_panels(f, m.n, m.k, has_single_rows(f, m))
             : p.use == BUse::InPlace ? in_place_panels(f, m.m, m.n, m.k, p.b_ahead)
                                      : choose_panels(f, m.n, m.k, m.panel_vectors, p.use == BUse::Pack);
  int64_t rows_bytes = m.a_row * static_cast<int64_t>(size_of(m.a_type));
  bool apart = m.a_k != 1 && m.k > 1, other = m.a_type != f.a, partial = !dots && !f.reads_rest && m.k % f.k_step != 0;
  // Sixteen rows that lie a multiple of 4 KB apart share one set of L1.
  if (streams_rows(p, f, caches, m)) p.panel_k = tiled_depth(f, caches, m.k);
  bool aliased = dots ? rows_bytes % 4096 == 0 : f.is_tiled() && !p.panel_k && crowds_l1(f, caches, rows_bytes, m.k);
  aliased &= m.m > 1 && p.panels.count() > 2;
  p.a_by_k = apart && pays_by_k(p, f, caches, m);
  p.pack_a = (apart && !p.a_by_k) || other || partial || aliased;
  p.a_near = !dots && !f.is_tiled() && (p.pack_a || lies_near(caches, m.a_type, m.m * m.k, m.a_batch, m));
  GemmKind kind = p.use == BUse::Pack && may_pack_in_tiles(f, m) ? GemmKind::Packing : kind_of(p.use, false);
  p.tile_rows = most_tile_rows(f, p.panels, kind, p.a_near);
  if (f.is_tiled() && m.m <= f.row_step) p.tile_rows = f.row_step;
  if (p.use == BUse::Stream) p.panels.vectors = 1, p.tile_rows = 1;
  p.direct = m.c && !p.turned(m) && (!f.is_tiled() || (m.m % f.row_step == 0 && m.n % f.lanes == 0));
  p.rows_first = (f.is_tiled() && !p.panel_k) || (dots && m.n <= most_gathered && m.m > p.tile_rows); // B stays in cache
  // Rows that lie a multiple of 4 KB apart share a set of L1, of eight lines, and so do those that are prefetched.
  bool same_set = !p.pack_a && !p.a_by_k && rows_bytes % 4096 == 0;
  if (dots && p.rows_first && m.n <= GemmFamily::dot_columns && same_set) p.tile_rows = std::min(p.tile_rows, 4);
  if (!dots && !f.is_tiled() && p.panels.vectors == 1 && same_set) p.tile_rows = std::min(p.tile_rows, 6);
  const double tile = dots ? 15 : 50; // cycles, beside its products
  choose_held(p, f, caches, m, cycles_of(p.use, f, caches, m) + tile * static_cast<double>(ceil_div(m.m, p.tile_rows) * p.panels.count()));
}

/// Long sums of few results are cut; the parts depend on sizes alone, so results do not depend on the number of threads.
void choose_parts(MatmulPlan& p, const GemmFamily& f, const Matmul& m) {
  constexpr int64_t long_k = 8192, part_k = 4096, most_parts = 16, few_results = 4096, even_parts = 4; // shared out evenly by few threads
  p.split_k = m.k;
  if (m.k < long_k || m.m * m.n > few_results || m.batch[0] * m.batch[1] != 1 || f.is_tiled() || p.turned(m)) return;
  int64_t parts = std::min(round_up(ceil_div(m.k, part_k), even_parts), most_parts);
  p.split_k = round_up(ceil_div(m.k, parts), 64);
  p.splits_k = ceil_div(m.k, p.split_k);
  p.part_bytes = round_up(m.m * m.n * static_cast<int64_t>(size_of(f.sum)), 64);
  p.direct = true;
}

/// How many lines so many bytes apart L2 holds. A line of A by k has rows of several tiles.
int64_t lines_in_l2(const Caches& caches, int64_t bytes) {
  constexpr int64_t least = 128;
  int64_t power = bytes & -bytes; // of two
  return power < page_bytes ? INT64_MAX : std::max(caches.l2 / power, least);
}

/// Whether tiles take all k of a B in place before the next columns. A single tile of rows reads each panel once, from end to end, unless
/// its pages are too many; a few find the only panel, and their rows, in L2 again.
bool reads_to_end(const MatmulPlan& p, const Caches& caches, const Matmul& m) {
  int64_t bytes = (m.m + p.panels.width()) * p.split_k * static_cast<int64_t>(size_of(m.b_type));
  if (p.panels.count() == 1 && m.m <= in_place_rows && bytes <= caches.l2) return true;
  return m.m <= p.tile_rows && (p.panels.count() == 1 || !p.b_ahead);
}

void choose_blocks(MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  if (f.is_tiled()) return choose_tiled_blocks(p, f, caches, m);
  int64_t b_bytes = static_cast<int64_t>(size_of(f.b)), a_bytes = static_cast<int64_t>(size_of(f.a)),
          sum = static_cast<int64_t>(size_of(f.sum));
  // A chunk of k of one panel takes a quarter of L2, so that C is passed over rarely; blocks of A take another half.
  int64_t most_k = std::max<int64_t>(round_down(caches.l2 / 4 / (p.panels.width() * b_bytes), 64), 64);
  // Rows of one tile meet each column once; more find it in L1, beside their own part.
  bool streams = p.rows_first && p.panels.count() == 1 && m.n * m.k * b_bytes <= caches.l2 / 4; // rows are read once, from end to end
  streams |= p.use == BUse::Dot && !p.rows_first &&
             (m.m + p.panels.width()) * m.k * a_bytes <= caches.l2 / 2; // columns are, and all rows stay in L2
  if (uses_dots(p.use))
    most_k = m.m <= p.tile_rows || streams
                 ? std::max<int64_t>(m.k, 1)
                 : std::max<int64_t>(round_down(caches.l1 * 3 / 4 / ((p.panels.width() + p.tile_rows) * a_bytes), 64), 64);
  int64_t all_k = p.split_k, parts = std::max<int64_t>(ceil_div(all_k, most_k), 1);
  if (p.use == BUse::Stream) parts = 1;
  bool tile_by_tile = p.use == BUse::InPlace && !reads_to_end(p, caches, m);
  p.block_k = tile_by_tile             ? std::min<int64_t>(all_k, in_place_depth)
              : p.use == BUse::InPlace ? all_k
                                       : round_up(ceil_div(all_k, parts), uses_dots(p.use) ? f.lanes * f.group : std::max(4, f.k_step));
  if (p.a_by_k) p.block_k = std::min(p.block_k, lines_in_l2(caches, m.a_k * a_bytes));
  bool many_k = all_k > p.block_k;
  int64_t depth = std::max<int64_t>(p.block_k, 1);
  int64_t rows = caches.l2 / 2 / (depth * a_bytes);
  int64_t most_rows = round_down(max_block_rows, p.tile_rows); // whole tiles, so that few heights occur
  p.block_rows = std::clamp<int64_t>(round_down(rows, p.tile_rows), p.tile_rows, most_rows);
  if (int64_t tiles = ceil_div(ceil_div(m.m, p.tile_rows), p.splits.rows); tiles > 0 && p.use != BUse::Stream) // an item's, in equal blocks
    p.block_rows = even_block(tiles, p.block_rows / p.tile_rows) * p.tile_rows;
  int64_t columns = caches.l2 * (p.pack_a ? 8 : 2) / (depth * b_bytes); // each chunk packs A anew
  if (!p.direct && many_k) columns = std::min<int64_t>(columns, 256);
  p.chunk_panels = std::clamp<int64_t>(columns / p.panels.width(), 1, std::max<int64_t>(p.panels.count(), 1));
  if (p.in_place())
    p.chunk_panels = p.turned(m) ? std::max<int64_t>(turned_columns / p.panels.width(), 1) : std::max<int64_t>(p.panels.count(), 1);
  if (p.held && p.direct) p.block_rows = held_block_rows(p, f, caches, m);
  p.super_rows = p.block_rows;
  if (many_k) p.super_rows = p.direct ? round_up(m.m, p.block_rows) : std::max(p.block_rows, round_down(max_super_rows, p.block_rows));
  p.group_panels = p.chunk_panels;
  if (!p.direct && !many_k) p.group_panels = std::clamp<int64_t>(tile_bytes / (p.block_rows * p.panels.width() * sum), 1, p.chunk_panels);
  if (p.use == BUse::Stream) p.group_panels = std::min(p.chunk_panels, stream_bytes / (p.panels.width() * b_bytes));
}

void measure_scratch(MatmulPlan& p, const GemmFamily& f, const Matmul& m) {
  int64_t sum = static_cast<int64_t>(size_of(f.sum));
  int64_t most_panels = std::min(p.chunk_panels, ceil_div(p.panels.count(), p.splits.panels));
  if (p.use == BUse::Pack) p.b_bytes = round_up(most_panels * p.panels.width() * p.panels.column_bytes(p.panels.depth(p.split_k)), 64);
  if (p.use == BUse::GatherDot) p.b_bytes = round_up(m.n * (p.split_k * p.panels.element_bytes + 64), 64);
  int64_t depth = p.panels.depth(std::min(p.block_k, p.split_k)), rows = round_up(std::min(p.block_rows, m.m), p.tile_rows);
  bool partial_tile = f.is_tiled() && m.m % f.row_step != 0;
  if (p.pack_a || partial_tile) p.a_bytes = round_up(rows * (depth * static_cast<int64_t>(size_of(f.a)) + 64), 64);
  if (p.direct) return;
  int64_t columns = std::min(p.split_k > p.block_k ? p.chunk_panels : p.group_panels, most_panels) * p.panels.width();
  p.c_stride = columns + (columns * sum % 1024 == 0 ? f.lanes : 0); // rows not all in the same sets of L1
  p.c_bytes = round_up(round_up(std::min(p.super_rows, round_up(m.m, p.tile_rows)), p.tile_rows) * p.c_stride * sum, 64);
  if (!p.turned(m) || m.c) return;
  p.turned_stride = round_up(std::min(p.block_rows, m.m), f.lanes) + f.lanes; // rows not all in the same sets of L1
  p.turned_bytes = round_up(p.turned_stride * columns * sum, 64);
}

bool is_one_block(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  if (p.held) return false;
  bool small = !f.is_tiled() && !p.looks_ahead && p.panels.bytes() <= caches.l2 / 4 && p.panels.count() <= p.chunk_panels;
  return (p.in_place() ? p.use != BUse::GatherDot && p.use != BUse::Stream : small) && p.direct && !p.pack_a && m.m <= p.block_rows &&
         m.k <= p.block_k && p.splits.items() * p.splits_k == 1 &&
         p.panels.count() * ceil_div(m.m, p.tile_rows) <= MatmulPlan::most_batch_tiles;
}

/// Batches that a tile takes in a series: all that are one tile, else those that L1 holds while the other tiles read them.
int64_t batches_in_series(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  if (!p.one_block || p.use == BUse::Pack || m.epilogue.fn) return 1;
  if (p.panels.count() == 1 && m.m <= p.tile_rows) return std::max<int64_t>(m.batch[1], 1);
  int64_t bytes = (m.m * m.k * static_cast<int64_t>(size_of(f.a)) + p.panels.bytes() + m.m * m.n * static_cast<int64_t>(size_of(f.sum)));
  return std::max<int64_t>(caches.l1 / 2 / std::max<int64_t>(bytes, 1), 1);
}

/// What the panels of a compensated family end with is known after all k.
bool packs_in_tiles(const MatmulPlan& p, const GemmFamily& f, const Matmul& m) {
  bool fits = f.packing_rows[static_cast<size_t>(p.panels.vectors)] >= p.tile_rows && (!f.compensated || p.split_k <= p.block_k);
  return p.use == BUse::Pack && !p.held && !p.one_block && m.b_n == 1 && may_pack_in_tiles(f, m) && fits && m.k > 0;
}

uint64_t heights(const GemmFamily& f, int64_t m, int tile_rows) {
  if (!f.is_tiled()) return tile_heights(m, tile_rows);
  return uint64_t{1} << f.row_step | uint64_t{1} << tile_rows;
}

/// Of operands that are packed in the call, other than choose_panels gives: tiles of six rows, and of many.
constexpr int panel_vectors_in_call[] = {4, 2};

/// A family that may multiply either way round.
bool can_exchange(const GemmFamily& f, const Matmul& m) {
  return f.reads_in_place() && f.a == f.b && f.b == m.b_type && m.a_type == m.b_type;
}

/// Both operands lie along k, and A is the one that is packed sooner; then sums are turned back.
bool pays_to_pack_a(const KernelTable& kernels, const Caches& caches, const Matmul& m) {
  constexpr double turning = 0.5, clearly = 0.97; // cycles for an element
  if (m.packed || m.b_k != 1 || m.a_k != 1 || m.m <= in_place_rows || m.n <= in_place_rows || m.a_type != m.b_type) return false;
  const GemmFamily& f = kernels.family(m.family >= 0 ? m.family : choose_family(kernels, m.a_type, m.b_type, m.m, m.n, m.k));
  if (!can_exchange(f, m) || f.group > 1 || held_vectors(f, m.k) > 0) return false;
  double straight = std::min(cycles_of(BUse::Pack, f, caches, m), cycles_of(BUse::Dot, f, caches, m)),
         turned = cycles_of(BUse::Pack, f, caches, exchanged(m)) + static_cast<double>(m.m) * static_cast<double>(m.n) * turning;
  return turned < clearly * straight;
}

/// Rows of A would be converted, and the few columns are less: as rows, they meet what lies along k in place.
bool pays_to_convert_b(const GemmFamily& f, const Matmul& m) {
  bool converts = m.a_type == m.b_type && m.a_type != f.a && m.b_type == f.b && f.dot_rows[1] > 0;
  return converts && !m.packed && m.a_k == 1 && m.n <= in_place_rows;
}

/// What lies by columns times few columns: the columns are the rows of a row-major matrix.
bool pays_exchanged(const KernelTable& kernels, const Caches& caches, const Matmul& m) {
  if (pays_to_pack_a(kernels, caches, m)) return true;
  if (m.n > in_place_rows || m.m <= 4 * m.n || m.k <= 1 || m.packed || m.a_type != m.b_type) return false;
  if (m.n == 1 && m.c && m.c_row != 1) return false;
  const GemmFamily& f = kernels.family(m.family >= 0 ? m.family : choose_family(kernels, m.a_type, m.b_type, m.n, m.m, m.k));
  bool is_vector = m.n == 1 && m.c && m.a_k == 1 && m.b_k == 1 && can_exchange(f, m) && has_single_rows(f, exchanged(m));
  return is_vector || pays_to_convert_b(f, m) || (m.a_row == 1 && m.a_k != 1 && can_exchange(f, m));
}

// ---- what may be needed

/// What prepares the kernels of one family for one number of columns.
struct Preparation {
  const KernelTable& kernels;
  int family;
  const Matmul& m;

  const GemmFamily& f() const { return kernels.family(family); }
  int64_t first_row() const { return m.m == any_size ? 1 : m.m; }

  void tiles(const Panels& panels, GemmKind kind, int64_t rows, bool masked) const {
    bool may_be_by_k = reads_by_k(f(), m) && (kind == GemmKind::Packed || kind == GemmKind::InPlace || kind == GemmKind::Packing);
    uint64_t all = 0;
    for (bool near : {false, true}) all |= heights(f(), rows, most_tile_rows(f(), panels, kind, near));
    if (kind == GemmKind::Packed && may_pack_in_tiles(f(), m))
      all |= heights(f(), rows, most_tile_rows(f(), panels, GemmKind::Packing, true));
    for (bool by_k : {false, true})
      if (may_be_by_k || !by_k) tile_kernels(kernels, family, panels, kind, all, masked, by_k);
  }
  /// Few rows take tiles that depend on how many they are; more do where all of B is small.
  void in_place(int64_t n) const {
    bool row_major = m.b_n == 1 || m.b_n == 0;
    if (!row_major || !f().reads_in_place()) return;
    if (first_row() == 1 && f().group == 1) kernels.gemm({family, 1, 1, false, GemmKind::Stream});
    int64_t last = m.m == any_size ? in_place_rows : std::min(m.m, in_place_rows);
    for (bool asks : {false, true}) {
      for (int64_t rows = first_row(); rows <= last; rows++) tiles(in_place_panels(f(), rows, n, 1, asks), GemmKind::InPlace, rows, true);
      if (m.m == any_size || m.m > in_place_rows) tiles(in_place_panels(f(), m.m, n, 1, asks), GemmKind::InPlace, m.m, true);
    }
  }
  void dots(int64_t n) const {
    if (f().dot_rows[1] == 0 || (m.b_n == 1 && n > most_gathered)) return;
    if (first_row() == 1 && f().dot_rows[GemmFamily::row_dot_columns] > 0) tiles(dot_panels(f(), n, 1, true), GemmKind::Dot, 1, false);
    for (GemmKind kind : {GemmKind::Dot, GemmKind::DotRows})
      if (kind == GemmKind::Dot || n <= most_gathered) tiles(dot_panels(f(), n, 1, false), kind, m.m, false);
  }
  void any_dots() const {
    for (int64_t n = m.n == any_size ? 1 : m.n, last = m.n == any_size ? 2 * GemmFamily::row_dot_columns : m.n; n <= last; n++) dots(n);
  }
  void columns(int64_t n) const {
    held(n);
    Panels panels = choose_panels(f(), n, 1, m.panel_vectors, !m.packed);
    tiles(panels, GemmKind::Packed, m.m, m.c && !f().is_tiled());
    bool low = most_tile_rows(f(), panels, GemmKind::Packing, true) <= f().packing_rows[static_cast<size_t>(panels.vectors)];
    if (may_pack_in_tiles(f(), m) && low) tiles(panels, GemmKind::Packing, m.m, true);
    if (f().is_tiled() && m.packed && (m.m == any_size || m.m <= most_streamed_rows)) tiles(panels, GemmKind::PackedRows, m.m, false);
    if (m.packed) return;
    if (panels.count() > 0 && f().lanes == kernels.lanes()) {
      kernels.copy(panels.panel_vectors(0));
      kernels.copy(panels.panel_vectors(panels.count() - 1));
    }
    if (m.b_type != f().b) return;
    in_place(n);
    dots(n);
  }
  void held(int64_t n) const {
    bool any = m.k == any_size;
    for (int64_t k = any ? 1 : m.k; k <= (any ? f().held * f().group : m.k); k += f().group) {
      int vectors = held_vectors(f(), k);
      Panels panels = choose_panels(f(), n, k, m.packed ? m.panel_vectors : vectors);
      if (vectors > 0) held_kernels(kernels, family, panels, std::min(vectors, panels.vectors));
    }
  }
  void any_columns() const {
    if (m.n != any_size) return columns(m.n);
    // Twice the widest tile: each width, alone and before each narrower last one.
    for (int64_t vectors = 1; vectors <= 2 * GemmFamily::max_vectors; vectors++)
      for (int64_t missing : {0, 1}) columns(vectors * f().lanes - missing);
    any_dots();
  }
};

/// Of a B that is not packed: packing it for the fastest family may take longer than to do without.
int family_in_call(const KernelTable& kernels, const Caches& caches, const Matmul& m) {
  int fastest = choose_family(kernels, m.a_type, m.b_type, m.m, m.n, m.k),
      other = m.packed ? -1 : in_place_family(kernels, m.a_type, m.b_type);
  if (other < 0 || other == fastest) return fastest;
  auto least = [&](int family) {
    const GemmFamily& f = kernels.family(family);
    double converted = m.a_type == f.a ? 0 : padded(m.m, 1) * padded(m.k, 1) / converted_per_cycle,
           cycles = cycles_of(BUse::Pack, f, caches, m);
    for (BUse use : {BUse::InPlace, BUse::Stream, BUse::Dot}) cycles = std::min(cycles, cycles_of(use, f, caches, m));
    return cycles + converted;
  };
  return least(other) < least(fastest) ? other : fastest;
}

/// The families that products of these types and sizes may take, as bits: how much of a tile small sizes leave unused decides. The winner
/// between two of them is that at either end of a range.
uint64_t possible_families(const KernelTable& kernels, const Matmul& m) {
  auto ends = [](int64_t size) { return size == any_size ? std::array{int64_t{1}, any_size} : std::array{size, size}; };
  uint64_t all = 0;
  for (int64_t rows : ends(m.m))
    for (int64_t columns : ends(m.n))
      for (int64_t depth : ends(m.k)) {
        all |= uint64_t{1} << choose_family(kernels, m.a_type, m.b_type, rows, columns, depth);
        if (int other = m.packed ? -1 : in_place_family(kernels, m.a_type, m.b_type); other >= 0) all |= uint64_t{1} << other;
        if (!m.packed && m.a_type == m.b_type) all |= uint64_t{1} << choose_family(kernels, m.b_type, m.a_type, columns, rows, depth);
      }
  return all;
}

void prepare_family(const KernelTable& kernels, int family, const Matmul& m) {
  const GemmFamily& f = kernels.family(family);
  prepare_packing(kernels, f, m.a_type);
  Preparation{kernels, family, m}.any_columns();
  bool converts = pays_to_convert_b(f, m);
  if (m.n == 0 || m.packed || !(converts || can_exchange(f, m))) return;
  Matmul row = m;
  row.m = m.n, row.n = m.m, row.c = nullptr;
  if (m.n == 1 && m.a_k == 1) row.b_n = m.a_row, Preparation{kernels, family, row}.any_dots();
  if (converts) row.b_n = m.a_row;
  else if (m.n <= in_place_rows && m.a_k != 1) row.c = m.c, row.b_n = 1;
  else if (f.group == 1 && m.m > in_place_rows && m.n > in_place_rows && m.b_k <= 1 && m.a_k <= 1) row.a_k = 1, row.b_n = m.a_row;
  else return;
  Preparation{kernels, family, row}.any_columns();
  if (m.a_k > 1) return;
  for (int vectors : panel_vectors_in_call) {
    if (f.rows[static_cast<size_t>(vectors)] == 0) continue;
    row.panel_vectors = vectors;
    Preparation{kernels, family, row}.any_columns();
  }
}

} // namespace

Matmul exchanged(const Matmul& m) {
  Matmul e = m;
  e.m = m.n, e.n = m.m;
  e.a_type = m.b_type, e.a = m.b, e.a_row = m.b_n, e.a_k = m.b_k;
  e.b_type = m.a_type, e.b = m.a, e.b_k = m.a_k, e.b_n = m.a_row;
  for (int i = 0; i < 2; i++) e.a_batch[i] = m.b_batch[i], e.b_batch[i] = m.a_batch[i];
  e.c_row = m.n == 1 ? m.m : m.c_row; // sums of more are turned back
  return e;
}

int64_t packed_b_bytes(const KernelTable& kernels, int family, int64_t k, int64_t n) {
  return choose_panels(kernels.family(family), n, k).bytes();
}

/// The plan of a product that is exchanged already, if it is to be.
static MatmulPlan plan_as_given(const KernelTable& kernels, const Caches& caches, int threads, const Matmul& m, bool exchanged) {
  MatmulPlan p;
  p.exchanged = exchanged;
  p.family = m.family >= 0 ? m.family : family_in_call(kernels, caches, m);
  const GemmFamily& f = kernels.family(p.family);
  choose_use(p, f, caches, m);
  constexpr double bytes_per_cycle = 16; // of a B that comes from far away
  p.work = std::max(cycles_of(p.use, f, caches, m), padded(m.n, 1) * padded(m.k, 1) * static_cast<double>(size_of(f.b)) / bytes_per_cycle);
  choose_parts(p, f, m);
  choose_items(p, f, caches, threads, m);
  choose_blocks(p, f, caches, m);
  measure_scratch(p, f, m);
  p.looks_ahead = looks_for_results(f, caches, m);
  p.reads_ahead = asks_for_rows(caches, p, m);
  p.one_block = is_one_block(p, f, caches, m);
  p.held_batch = is_held_batch(p, m);
  p.batch_series = batches_in_series(p, f, caches, m);
  p.packs_in_tiles = packs_in_tiles(p, f, m);
  if (p.packs_in_tiles)
    p.packing = tile_kernels(kernels, p.family, p.panels, GemmKind::Packing, heights(f, m.m, p.tile_rows), true, p.a_by_k);
  GemmKind kind = kind_of(p.use, p.rows_first, p.panel_k > 0);
  if (p.held) return p.kernels = held_kernels(kernels, p.family, p.panels, p.held), p;
  p.kernels = tile_kernels(kernels, p.family, p.panels, kind, heights(f, m.m, p.tile_rows),
                           !is_dot(kind) && kind != GemmKind::Stream && !f.is_tiled() && (p.direct || kind == GemmKind::InPlace), p.a_by_k);
  return p;
}

MatmulPlan plan_matmul(const KernelTable& kernels, const Caches& caches, int threads, const Matmul& given) {
  bool exchanges = pays_exchanged(kernels, caches, given);
  Matmul m = exchanges ? exchanged(given) : given;
  MatmulPlan p = plan_as_given(kernels, caches, threads, m, exchanges);
  if (!p.turned(m) || p.use != BUse::Pack || m.panel_vectors) return p;
  // Where panels share out evenly, each worker packs its own.
  double least = expected_cycles(p, kernels.family(p.family), threads, m);
  for (int vectors : panel_vectors_in_call) {
    if (kernels.family(p.family).rows[static_cast<size_t>(vectors)] == 0) continue;
    m.panel_vectors = vectors;
    MatmulPlan other = plan_as_given(kernels, caches, threads, m, exchanges);
    double share = expected_cycles(other, kernels.family(p.family), threads, m);
    if (share < least) p = other, least = share;
  }
  return p;
}

bool pays_as_dots(const KernelTable& kernels, const Caches& caches, const Matmul& given) {
  constexpr int64_t many = 64; // rows, where they are not known
  Matmul m = given, ahead = given;
  if (m.m == any_size) m.m = ahead.m = many;
  if (m.n > most_gathered || (given.m == any_size && m.b_k != 1)) return false; // a few rows do not pay for columns gathered in the call
  MatmulPlan left = plan_matmul(kernels, caches, 1, m);
  ahead.packed = true;
  const GemmFamily &f = kernels.family(left.family), &other = kernels.family(choose_family(kernels, m.a_type, m.b_type, m.m, m.n, m.k));
  return uses_dots(left.use) && !left.exchanged && cycles_of(left.use, f, caches, m) < cycles_of(BUse::Packed, other, caches, ahead);
}

void prepare_matmul(const KernelTable& kernels, const Matmul& m) {
  uint64_t families = m.family >= 0 ? uint64_t{1} << m.family : possible_families(kernels, m);
  for (; families; families &= families - 1) prepare_family(kernels, std::countr_zero(families), m);
}

std::string describe_matmul(const KernelTable& kernels, const MatmulPlan& p, const Matmul& m) {
  const char* uses[] = {"B packed ahead", p.exchanged ? "A packed in the call" : "B packed in the call",
                        "B in place",     "B row by row",
                        "dot products",   "dot products, B gathered"};
  return std::string(kernels.family(p.family).name) + " tiles of " + std::to_string(p.tile_rows) + "x" + std::to_string(p.panels.width()) +
         ", " + uses[static_cast<int>(p.use)] + (p.held ? ", held in registers, " : ", ") +
         std::to_string(m.batch[0] * m.batch[1] * p.splits.items() * p.splits_k) + " items";
}

} // namespace tenon
