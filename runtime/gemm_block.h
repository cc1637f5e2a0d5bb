// What matmul and convolution share: how N is cut into packed panels, how rows are cut into register tiles, and the
// product of a block of rows with a range of panels.
#pragma once
#include <cstdint>

#include "runtime/micro_kernels.h"

namespace tenon {

/// Cache sizes in bytes, of one core.
struct Caches {
  int64_t l1 = 48 << 10, l2 = 1 << 20;
};

/// How the columns of B lie in packed form: panels of `vectors` vectors, the last one narrower. A panel holds its rows
/// k = 0.. one after the other, each as wide as the panel, zero-padded behind column n.
struct Panels {
  int64_t n;
  int lanes, vectors;

  int64_t width() const { return int64_t{vectors} * lanes; }
  int64_t count() const { return (n + width() - 1) / width(); }
  /// Columns of panel p, and the vectors that hold them.
  int64_t columns(int64_t p) const { return p + 1 < count() ? width() : n - p * width(); }
  int panel_vectors(int64_t p) const { return static_cast<int>((columns(p) + lanes - 1) / lanes); }
  /// Columns in packed form, padding included.
  int64_t padded() const { return (n + lanes - 1) / lanes * lanes; }
};
/// The layout for n columns; it depends on nothing else, so weights can be packed ahead of time.
Panels choose_panels(int64_t n, const KernelTable& kernels);

/// Rows cut into the fewest register tiles, of sizes that differ by one at most.
struct Tiles {
  int64_t count, small; // tile t has small + 1 rows if t < larger, else small
  int64_t larger;

  Tiles(int64_t rows, int64_t most) {
    count = (rows + most - 1) / most;
    small = count ? rows / count : 0;
    larger = count ? rows % count : 0;
  }
  int rows(int64_t t) const { return static_cast<int>(small + (t < larger)); }
};

/// A size of a product that a plan does not know when it is made.
inline constexpr int64_t any_size = -1;
/// The heights of register tiles that blocks of `rows` rows are cut into, where a block starts at a multiple of `most`; bit h
/// stands for h rows.
uint32_t tile_heights(int64_t rows, int most);
/// Generates the micro-kernels for tiles of those heights in all panels.
void prepare_tiles(const KernelTable& kernels, const Panels& panels, GemmKind kind, uint32_t heights);

/// How the product of one batch is cut into parallel items: ranges of register tiles by ranges of panels.
struct Splits {
  int64_t rows = 1, panels = 1;
};
struct SplitRequest {
  int64_t tiles, panels, batch;
  double work; // multiply-adds of one batch
  int threads;
  bool panels_first; // cut columns as far as possible before rows
};
Splits choose_splits(const SplitRequest& r);
/// Items of so much work that one parallel chunk should hold at least.
int64_t item_grain(double item_work);

/// Source of a B to be packed, strides in elements.
struct BSource {
  const float* data;
  int64_t k_stride, n_stride;
};
/// Packs rows [k0, k1) of panels [p0, p1); the panels land one after the other with k1 - k0 rows each.
void pack_panels(const KernelTable& kernels, const Panels& panels, const BSource& b, int64_t k0, int64_t k1, int64_t p0,
                 int64_t p1, float* to) noexcept;

/// The rows of A of one register tile: row m at position p starts at rows[p * count + m] + first. Tiles of the same
/// shape share pointers.
struct RowTile {
  const float* const* rows;
  int64_t first; // elements
  int count;
};

/// C[rows, columns of panels p0..p1) = init + A * B.
struct GemmBlock {
  Panels panels;
  int64_t p0, p1;
  const float* b;       // packed panel p0
  int64_t panel_depth;  // rows a panel holds
  int64_t first_depth;  // the first row of it that takes part
  const RowTile* tiles; // from top to bottom
  int64_t tile_count;
  int64_t positions, depth;
  const float* zeros; // row of padding; null: rows are no windows
  float* c;           // of the first row, column 0
  int64_t c_stride;   // elements
  const float* init;
  GemmInit mode;
};
void multiply_block(const KernelTable& kernels, const GemmBlock& block) noexcept;

} // namespace tenon
