// Panels, packing and the loops around the micro-kernels.
#include "runtime/gemm_block.h"

#include <algorithm>
#include <cstring>

namespace tenon {

/// Time of one row of a panel per step of k, in vectors: tiles of one vector are bound by loads of A, not by
/// multiply-add.
static double panel_cost(int vectors) { return vectors == 1 ? 1.25 : vectors; }

Panels choose_panels(int64_t n, const KernelTable& kernels) {
  int64_t lanes = kernels.lanes();
  int64_t all = std::max<int64_t>((n + lanes - 1) / lanes, 1);
  int best = 1;
  double best_cost = 1e30;
  // Near the same cost the tile closest to square wins: it reads least per multiply-add.
  for (int v : {lanes == 16 ? 3 : 2, 4, 3, 2, 1}) {
    if (v > all || kernels.gemm_rows(v) == 0) continue;
    double cost = static_cast<double>(all / v) * panel_cost(v) + (all % v ? panel_cost(static_cast<int>(all % v)) : 0);
    if (cost < best_cost * 0.98) {
      best = v;
      best_cost = cost;
    }
  }
  return {n, static_cast<int>(lanes), best};
}

uint32_t tile_heights(int64_t rows, int most) {
  uint32_t all = ((uint32_t{1} << most) - 1) << 1;
  if (rows == any_size) return all;
  if (rows <= most) return rows > 0 ? uint32_t{1} << rows : 0;
  uint32_t heights = uint32_t{1} << most;
  for (int64_t whole = 0; whole <= rows / most && heights != all; whole++) {
    Tiles tiles(whole * most + rows % most, most);
    if (tiles.count == 0) continue;
    if (tiles.larger < tiles.count) heights |= uint32_t{1} << tiles.small;
    if (tiles.larger > 0) heights |= uint32_t{1} << (tiles.small + 1);
  }
  return heights;
}

void prepare_tiles(const KernelTable& kernels, const Panels& panels, GemmKind kind, uint32_t heights) {
  int64_t last = panels.count() - 1;
  for (int64_t p : {int64_t{0}, last}) {
    if (p < 0) continue;
    int vectors = panels.panel_vectors(p);
    bool masked = panels.columns(p) != int64_t{vectors} * panels.lanes;
    for (int rows = 1; rows <= KernelTable::max_rows; rows++)
      if (heights >> rows & 1) kernels.gemm({rows, vectors, masked, kind});
  }
}

/// Multiply-adds that are worth a parallel chunk: about 5 us of one core.
static constexpr double chunk_work = 500'000;
/// Items per thread: leaves the others something to take when one is held up.
static constexpr int64_t items_per_thread = 4;

Splits choose_splits(const SplitRequest& r) {
  Splits s;
  if (r.threads == 1 || r.batch < 1) return s;
  double most = static_cast<double>(r.threads * items_per_thread) / static_cast<double>(r.batch);
  int64_t wanted = static_cast<int64_t>(std::min(r.work / chunk_work, most));
  if (wanted <= 1) return s;
  auto cut = [&](int64_t& first, int64_t most_first, int64_t& second, int64_t most_second) {
    first = std::min(most_first, wanted);
    second = std::min(most_second, (wanted + first - 1) / first);
  };
  if (r.panels_first)
    cut(s.panels, r.panels, s.rows, r.tiles);
  else
    cut(s.rows, r.tiles, s.panels, r.panels);
  return s;
}

int64_t item_grain(double item_work) {
  return static_cast<int64_t>(std::max(1.0, chunk_work / std::max(item_work, 1.0)));
}

static void zero_columns(float* to, int64_t rows, int64_t width, int64_t first) {
  if (first == width) return;
  for (int64_t k = 0; k < rows; k++) std::memset(to + k * width + first, 0, static_cast<size_t>(width - first) * 4);
}

void pack_panels(const KernelTable& kernels, const Panels& panels, const BSource& b, int64_t k0, int64_t k1, int64_t p0,
                 int64_t p1, float* to) noexcept {
  int64_t depth = k1 - k0;
  if (depth <= 0) return;
  for (int64_t p = p0; p < p1; p++) {
    int64_t columns = panels.columns(p), width = int64_t{panels.panel_vectors(p)} * panels.lanes;
    const float* from = b.data + k0 * b.k_stride + p * panels.width() * b.n_stride;
    if (b.n_stride == 1) {
      MoveArgs args{from, to, b.k_stride * 4, width * 4, depth, columns};
      kernels.copy(panels.panel_vectors(p))(&args);
    } else if (b.k_stride == 1) {
      MoveArgs args{from, to, b.n_stride * 4, width * 4, columns, depth};
      kernels.transpose()(&args);
      zero_columns(to, depth, width, columns);
    } else {
      for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < columns; j++) to[k * width + j] = from[k * b.k_stride + j * b.n_stride];
      zero_columns(to, depth, width, columns);
    }
    to += depth * width;
  }
}

void multiply_block(const KernelTable& kernels, const GemmBlock& g) noexcept {
  const float* panel = g.b;
  GemmKind kind = g.zeros ? GemmKind::Windows : GemmKind::Packed;
  for (int64_t p = g.p0; p < g.p1; p++) {
    int vectors = g.panels.panel_vectors(p);
    int64_t width = int64_t{vectors} * g.panels.lanes, columns = g.panels.columns(p), n = p * g.panels.width();
    GemmShape shape{0, vectors, columns != width, kind};
    GemmArgs args{.rows = nullptr,
                  .first = 0,
                  .zeros = g.zeros,
                  .b = panel + g.first_depth * width,
                  .c = g.c + n,
                  .init = g.init ? g.init + n : nullptr,
                  .c_stride = g.c_stride * 4,
                  .b_stride = 0,
                  .depth = g.depth,
                  .positions = g.positions,
                  .columns = columns,
                  .mode = g.mode};
    GemmFn kernel = nullptr;
    for (const RowTile *t = g.tiles, *end = t + g.tile_count; t < end; t++) {
      if (t->count != shape.rows) {
        shape.rows = t->count;
        kernel = kernels.gemm(shape);
      }
      args.rows = t->rows;
      args.first = t->first;
      kernel(&args);
      args.c += t->count * g.c_stride;
    }
    panel += g.panel_depth * width;
  }
}

} // namespace tenon
