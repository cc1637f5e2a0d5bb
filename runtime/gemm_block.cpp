// Panels, tiles and the loops around the micro-kernels.
#include "runtime/gemm_block.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"

namespace tenon {

int64_t tiled_depth(const GemmFamily& f, const Caches& caches, int64_t k) {
  constexpr int64_t line = 64;
  int64_t rows = 2 * f.row_step, bytes = static_cast<int64_t>(size_of(f.a)),
          most = std::max<int64_t>(caches.l1 * 5 / 6 / rows / line * line / bytes, f.k_step);
  int64_t parts = k * rows * bytes <= caches.l1 ? 1 : (k + most - 1) / most;
  return std::max<int64_t>(((k + parts - 1) / std::max<int64_t>(parts, 1) + f.k_step - 1) / f.k_step * f.k_step, f.k_step);
}

/// Time of one row of a panel per step of k, in vectors: tiles of one vector are bound by loads of A, not by
/// multiply-add.
static double panel_cost(int vectors) { return vectors == 1 ? 1.25 : vectors; }

static int choose_vectors(const GemmFamily& f, int64_t n, bool packed_in_call) {
  int64_t all = std::max<int64_t>((n + f.lanes - 1) / f.lanes, 1);
  if (f.is_tiled()) return all > 1 ? 2 : 1; // two by two tiles of sums load least
  int best = 1;
  double best_cost = 1e30;
  // Near the same cost the tile closest to square wins: it reads least per multiply-add. That of four vectors is closer than that of three,
  // but has fewer rows, which costs products of few rows more; doubles, twice the bytes from L2, gain where there are many, and rows of
  // groups are woven four vectors at a time.
  bool wide = f.rows[8] > 0;
  int first = !wide ? 2 : packed_in_call && (size_of(f.b) == 8 || f.group > 1) ? 4 : 3;
  for (int v : {first, 4, 3, 2, 1}) {
    if (v > all || f.rows[static_cast<size_t>(v)] == 0 || (!wide && v > 3)) continue;
    double cost = static_cast<double>(all / v) * panel_cost(v) + (all % v ? panel_cost(static_cast<int>(all % v)) : 0);
    if (cost < best_cost * 0.99) {
      best = v;
      best_cost = cost;
    }
  }
  return best;
}

Panels choose_panels(const GemmFamily& f, int64_t n, int64_t k, int vectors, bool packed_in_call) {
  return {n,
          k,
          f.lanes,
          vectors ? vectors : choose_vectors(f, n, packed_in_call),
          f.group,
          f.k_step,
          static_cast<int>(size_of(f.b)),
          f.compensated ? 4 : 0};
}

int64_t even_block(int64_t tiles, int64_t most) {
  int64_t best = ceil_div(tiles, ceil_div(tiles, most));
  for (int64_t fewer = best - 1; fewer * 4 >= most * 3; fewer--)
    if (round_up(tiles, fewer) < round_up(tiles, best)) best = fewer;
  return best;
}

uint64_t tile_heights(int64_t rows, int most) {
  uint64_t all = ((uint64_t{1} << most) - 1) << 1;
  if (rows == any_size) return all;
  if (rows <= most) return rows > 0 ? uint64_t{1} << rows : 0;
  uint64_t heights = uint64_t{1} << most;
  for (int64_t whole = 0; whole <= rows / most && heights != all; whole++) {
    Tiles tiles(whole * most + rows % most, most);
    if (tiles.count == 0) continue;
    if (tiles.larger < tiles.count) heights |= uint64_t{1} << tiles.small;
    if (tiles.larger > 0) heights |= uint64_t{1} << (tiles.small + 1);
    if (tiles.small >= most - 1) break; // and so have all that are longer
  }
  return heights;
}

TileKernels tile_kernels(const KernelTable& kernels, int family, const Panels& panels, GemmKind kind, uint64_t heights, bool masked,
                         bool a_by_k) {
  TileKernels out;
  int64_t last = panels.count() - 1;
  if (last < 0) return out;
  out.beside = kernels.family(family).is_tiled() && kind != GemmKind::PackedRows;
  out.ahead_k = kernels.family(family).ahead_k;
  out.in_series = !out.beside && kind != GemmKind::Stream;
  bool partial = masked && panels.columns(last) != panels.panel_width(last);
  if (last > 0) kernels.gemm({family, 0, panels.vectors, false, kind, a_by_k}, heights, out.full.data());
  kernels.gemm({family, 0, panels.panel_vectors(last), partial, kind, a_by_k}, heights, out.last.data());
  return out;
}

int64_t series_of(const RowTile* t, const RowTile* end) {
  int64_t tiles = 1;
  for (; t + tiles < end; tiles++) {
    const RowTile& next = t[tiles];
    if (next.count != t->count || next.rows != t->rows || next.first - t[tiles - 1].first != t[1].first - t->first) break;
  }
  return tiles;
}

/// Cycles that are worth a parallel chunk: about 5 us of one core.
static constexpr double chunk_work = 16'000;
/// Products with an element of B take longer than to read it from memory that other threads read, too.
static constexpr int64_t least_kept_rows = 64;

int64_t kept_ranges(int64_t rows, int threads) { return rows >= threads * least_kept_rows ? rows / least_kept_rows : 0; }

Splits choose_splits(const SplitRequest& r) {
  Splits s;
  if (r.threads == 1 || r.batch < 1) return s;
  double most = static_cast<double>(r.threads * r.per_thread) / static_cast<double>(r.batch);
  int64_t wanted = static_cast<int64_t>(std::min(r.work / chunk_work, most));
  if (wanted <= 1) return s;
  if (std::min({r.kept_ranges, r.tiles, wanted}) >= r.threads && r.batch == 1) {
    int64_t panels = std::clamp<int64_t>(r.panels, 1, wanted / r.threads), most_rows = std::min(r.kept_ranges, r.tiles);
    return {.rows = std::min(wanted / panels, most_rows) / r.threads * r.threads, .panels = panels, .keeps_rows = true};
  }
  auto cut = [&](int64_t& first, int64_t most_first, int64_t& second, int64_t most_second) {
    first = std::min(most_first, wanted);
    second = std::min(most_second, (wanted + first - 1) / first);
  };
  if (r.panels_first) cut(s.panels, r.panels, s.rows, r.tiles);
  else cut(s.rows, r.tiles, s.panels, r.panels);
  return s;
}

int64_t item_grain(double item_work) { return static_cast<int64_t>(std::max(1.0, chunk_work / std::max(item_work, 1.0))); }

namespace {

GemmArgs panel_args(const GemmBlock& g) {
  return {.rows = nullptr,
          .first = 0,
          .zeros = g.zeros,
          .b = nullptr,
          .c = nullptr,
          .init = nullptr,
          .c_stride = g.c_stride,
          .b_stride = 0,
          .a_stride = g.a_stride,
          .depth = g.depth / g.panels.group,
          .positions = g.positions,
          .columns = 0,
          .mode = g.mode,
          .rest = g.rest,
          .part = g.part};
}

/// Memory that tiles on vector registers ask for.
class Ahead {
public:
  explicit Ahead(const GemmBlock& g) : rounds_(g.positions * (g.depth / std::max(g.kernels.ahead_k, 1))) {}

  /// So many bytes, by so many tiles.
  void begin(const char* at, int64_t bytes, int64_t tiles, GemmArgs& args) {
    constexpr int64_t line = 64;
    int64_t lines = (bytes + line - 1) / line, rounds = rounds_ * tiles;
    args.ahead = at;
    args.ahead_lines = rounds > 0 ? std::min<int64_t>((lines + rounds - 1) / rounds, GemmFamily::most_ahead) : 0;
    rounds = rounds_ * args.ahead_lines;
    tiles_ = rounds > 0 ? (lines + rounds - 1) / rounds : 0;
  }
  /// Of so many tiles those that a call takes: all ask, or none.
  int64_t take(int64_t tiles, GemmArgs& args) {
    if (tiles_ == 0) args.ahead_lines = 0;
    else tiles = std::min(tiles, tiles_), tiles_ -= tiles;
    return tiles;
  }

private:
  int64_t rounds_, tiles_ = 0; // rounds of one tile; tiles that ask
};

/// Asks for rows [row, row + rows) of some columns.
void look_for(const GemmBlock::Wanted& w, int64_t column, int64_t columns, int64_t row, int64_t rows) {
  constexpr int64_t line = 64;
  int64_t first = column * w.element_bytes, bytes = columns * w.element_bytes;
  for (const char *at = w.at + row * w.row + first, *end = at + rows * w.row; at < end; at += w.row)
    for (int64_t b = 0; b < bytes; b += line) __builtin_prefetch(at + b, 0, 2);
}

/// A tile that packs panel p, whose B holds no more k than there are, and takes away itself what the panel's last row does for others.
void run_packing_tile(const GemmBlock& g, const RowTile& t, GemmArgs args, int64_t p) {
  args.rows = t.rows, args.first = t.first + g.first;
  args.packed = const_cast<void*>(args.b);
  args.b = g.source.at + (p - g.p0) * g.panels.width() * g.panels.element_bytes;
  args.b_stride = args.b_ahead = g.source.stride;
  args.depth = g.source.depth / g.panels.group, args.rest = g.source.depth % g.panels.group;
  args.mode = g.mode;
  g.source.kernels->of(g.panels, p)[static_cast<size_t>(t.count)](&args);
}

void run_tile(const GemmBlock& g, const RowTile& t, GemmArgs& args, bool last, int64_t first = 0) {
  args.rows = t.rows;
  args.first = t.first + g.first + first;
  (last ? g.kernels.last : g.kernels.full)[static_cast<size_t>(t.count)](&args);
}

/// The tiles from `t` on that a call takes. Those whose results are looked for are not many.
int64_t tiles_of_call(const GemmBlock& g, const RowTile* t) {
  constexpr int64_t depth_ahead = 64;
  if (!g.kernels.in_series || g.read_next.bytes > 0) return 1;
  int64_t most =
      g.wanted[0].at || g.wanted[1].at ? std::max<int64_t>(depth_ahead / std::max<int64_t>(g.depth * g.positions, 1), 1) : g.tile_count;
  return series_of(t, std::min(t + most, g.tiles + g.tile_count));
}

/// Of so many tiles of a series those that a call takes: all ask for rows, or none.
int64_t ask_for_rows(GemmBlock::RowsAhead* rows, int64_t tiles, GemmArgs& args) {
  constexpr int64_t each = GemmArgs::rows_ahead_of_tile;
  args.rows_ahead = nullptr;
  if (!rows || rows->count < each) return tiles;
  args.rows_ahead = rows->at, args.rows_ahead_stride = rows->stride;
  tiles = std::min(tiles, rows->count / each);
  rows->at += tiles * each * rows->stride, rows->count -= tiles * each;
  return tiles;
}

/// The arguments for panel p, whose packed k start at `b`.
void enter_panel(const GemmBlock& g, int64_t p, const char* b, GemmArgs& args) {
  int64_t column = (p - g.p0) * g.panels.width() * g.sum_bytes;
  args.b = b + g.panels.bytes(p, g.first_depth);
  args.c = g.c + column;
  args.columns = g.panels.columns(p);
  if (g.panels.tail && g.mode == GemmInit::Zero) {
    args.mode = GemmInit::Row;
    args.init = b + g.panels.bytes(p, g.panel_depth);
  }
}

/// Lines that a step asks for, so that the tiles of a panel ask for the next one evenly, and the tiles that do.
struct Share {
  int64_t lines, tiles;
};
Share share_of(int64_t lines, int64_t tiles) {
  constexpr int64_t least = 2;
  int64_t each = std::max<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((lines + tiles - 1) / tiles))), least);
  return {each, lines / each};
}

/// Panel by panel, of which a part of k at a time stays in L1, past which all rows stream.
void stream_rows(const GemmBlock& g) {
  GemmArgs args = panel_args(g);
  const char* packed = static_cast<const char*>(g.b);
  int64_t last = g.panels.count() - 1, panel_bytes = g.panels.width() * g.panels.column_bytes(g.panel_depth);
  for (int64_t p = g.p0; p < g.p1; p++)
    for (int64_t k = 0, depth; k < g.depth; k += depth) {
      depth = std::min(g.part_depth, g.depth - k);
      enter_panel(g, p, packed + (p - g.p0) * panel_bytes, args);
      args.b = static_cast<const char*>(args.b) + g.panels.bytes(p, k);
      args.depth = depth / g.panels.group;
      args.mode = k > 0 ? GemmInit::C : g.mode;
      const void* ahead = g.next_panel ? static_cast<const char*>(args.b) + g.panels.bytes(p, depth) : nullptr;
      Share share = share_of(16 * g.panels.panel_vectors(p), g.tile_count);
      int64_t tiles, first = k * g.panels.element_bytes; // A's are as wide
      for (const RowTile *t = g.tiles, *end = t + g.tile_count; t < end; t += tiles, share.tiles -= tiles) {
        tiles = series_of(t, end);
        if (share.tiles > 0) tiles = std::min(tiles, share.tiles);
        args.ahead = share.tiles > 0 ? ahead : nullptr, args.ahead_lines = share.lines;
        args.tiles = tiles, args.next_a = tiles > 1 ? t[1].first - t->first : 0, args.next_c = t->count * g.c_stride;
        run_tile(g, *t, args, p == last, first);
        ahead = args.ahead ? args.ahead : ahead;
        args.c = static_cast<char*>(args.c) + args.next_c; // of the last tile
      }
    }
}

} // namespace

void multiply_block(const GemmBlock& g) noexcept {
  if (g.part_depth) return stream_rows(g);
  GemmArgs args = panel_args(g);
  const char* packed = static_cast<const char*>(g.b);
  int64_t last = g.panels.count() - 1, panel_bytes = g.panels.width() * g.panels.column_bytes(g.panel_depth);
  const int64_t read = g.panels.bytes(0, g.positions * g.depth); // of a panel
  // A single tile reads panels as one stream, of which what comes next is asked for; several find a panel again, and ask for the next one.
  constexpr int64_t stream_ahead = 8192;
  const int64_t distance = g.tile_count == 1 ? std::min(panel_bytes, stream_ahead) : panel_bytes;
  Ahead ahead(g);
  if (!g.rows_first) {
    for (int64_t p = g.p0; p < g.p1; p++) {
      enter_panel(g, p, packed + (p - g.p0) * panel_bytes, args);
      if (g.next_panel) ahead.begin(static_cast<const char*>(args.b) + distance, read, g.tile_count, args);
      int64_t row = 0, tiles;
      for (const RowTile *t = g.tiles, *end = t + g.tile_count; t < end; t += tiles) {
        const bool packs = g.source.at && row == 0;
        tiles = packs ? 1 : ahead.take(tiles_of_call(g, t), args);
        if (g.read_next.bytes > 0) g.read_next.part((p - g.p0) * g.tile_count + (t - g.tiles), (g.p1 - g.p0) * g.tile_count).ask();
        for (const GemmBlock::Wanted& w : g.wanted)
          if (w.at) look_for(w, (p - g.p0) * g.panels.width(), g.panels.columns(p), row, t->count * tiles);
        args.tiles = tiles;
        args.next_a = tiles > 1 ? t[1].first - t->first : 0;
        args.next_c = t->count * g.c_stride;
        if (packs) run_packing_tile(g, *t, args, p);
        else run_tile(g, *t, args, p == last);
        args.c = static_cast<char*>(args.c) + args.next_c; // of the last tile
        row += t->count * tiles;
      }
    }
    return;
  }
  int64_t row = 0;
  for (const RowTile *t = g.tiles, *end = t + g.tile_count; t < end; t++) {
    for (int64_t p = g.p0, panels; p < g.p1; p += panels) {
      bool asks_for_panel = g.next_panel && row == 0;
      panels = g.kernels.beside ? std::max<int64_t>(std::min(g.p1, last) - p, 1) : 1;
      if (!asks_for_panel) panels = ask_for_rows(g.rows_ahead, panels, args);
      enter_panel(g, p, packed + (p - g.p0) * panel_bytes, args);
      args.c = static_cast<char*>(args.c) + row * g.c_stride;
      args.ahead = asks_for_panel ? static_cast<const char*>(args.b) + panel_bytes : nullptr;
      args.ahead_lines = 16 * g.panels.panel_vectors(p);
      args.tiles = panels, args.next_b = panel_bytes, args.next_c = g.panels.width() * g.sum_bytes;
      run_tile(g, *t, args, p == last);
    }
    row += t->count;
  }
}

} // namespace tenon
