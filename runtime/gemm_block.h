// What matmul and convolution share: how N is cut into packed panels, how rows are cut into register tiles, and the
// product of a block of rows with a range of panels.
#pragma once
#include <cstdint>

#include "runtime/micro_kernels.h"

namespace tenon {

/// Cache sizes in bytes, of one core.
struct Caches {
  int64_t l1 = 48 << 10, l2 = 1 << 20, l3 = 16 << 20;
};

/// Steps of k for which the rows of A of a tile on tile registers leave a sixth of L1 to others; all of k where they just fit.
int64_t tiled_depth(const GemmFamily& f, const Caches& caches, int64_t k);
/// At least so many bytes from a row of A to the next, such that rows lie in different sets of L1: an odd number of lines.
inline int64_t spread_rows(int64_t bytes) { return ((bytes + 63) / 64 | 1) * 64; }

/// How a B of k x n elements lies in packed form: panels of `vectors` vectors, the last one narrower. A panel holds groups
/// of k one after the other; a group has the family's `group` elements of each column together, for all columns of the
/// panel, zero-padded behind column n and behind k.
struct Panels {
  int64_t n, k;
  int lanes, vectors;
  int group, k_step, element_bytes;
  int tail = 0; // bytes of a column behind its k (GemmFamily::compensated)

  int64_t width() const { return int64_t{vectors} * lanes; }
  int64_t count() const { return (n + width() - 1) / width(); }
  /// Columns of panel p, the vectors that hold them, and columns with the padding.
  int64_t columns(int64_t p) const { return p + 1 < count() ? width() : n - p * width(); }
  int panel_vectors(int64_t p) const { return static_cast<int>((columns(p) + lanes - 1) / lanes); }
  int64_t panel_width(int64_t p) const { return int64_t{panel_vectors(p)} * lanes; }
  /// k and n with the padding.
  int64_t depth(int64_t of) const { return (of + k_step - 1) / k_step * k_step; }
  int64_t depth() const { return depth(k); }
  int64_t padded() const { return (n + lanes - 1) / lanes * lanes; }
  /// Bytes of so many k of panel p, of all panels, and of those before panel p.
  int64_t bytes(int64_t p, int64_t ks) const { return panel_width(p) * ks * element_bytes; }
  int64_t bytes() const { return padded() * column_bytes(depth()); }
  int64_t offset(int64_t p) const { return p * width() * column_bytes(depth()); }
  /// Bytes of a column of a panel that holds so many k.
  int64_t column_bytes(int64_t ks) const { return ks * element_bytes + tail; }
};
/// The layout for k x n, of panels of so many vectors or the best; it depends on nothing else, so weights can be packed ahead of time. What
/// is packed in the call has rows enough to pay for that.
Panels choose_panels(const GemmFamily& family, int64_t n, int64_t k, int vectors = 0, bool packed_in_call = false);

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

/// The tiles of a block, of at most so many, such that the last block is hardly smaller than others: each reads all of B.
int64_t even_block(int64_t tiles, int64_t most);

/// A size of a product that a plan does not know when it is made.
inline constexpr int64_t any_size = -1;
/// The heights of register tiles that blocks of `rows` rows are cut into, where a block starts at a multiple of `most`; bit h
/// stands for h rows.
uint64_t tile_heights(int64_t rows, int most);

/// The micro-kernels for the tiles of a product, by their rows, for all panels but the last and for the last one.
struct TileKernels {
  std::array<GemmFn, GemmFamily::max_rows + 1> full{}, last{};
  bool in_series = false; // they take series of tiles (GemmArgs::tiles)
  bool beside = false;    // series of tiles beside each other, panel by panel
  int ahead_k = 0;        // GemmFamily::ahead_k
  const auto& of(const Panels& panels, int64_t p) const { return p + 1 == panels.count() ? last : full; }
};
/// Generates what does not exist yet. `masked`: the last panel's kernels write valid columns only.
TileKernels tile_kernels(const KernelTable& kernels, int family, const Panels& panels, GemmKind kind, uint64_t heights, bool masked,
                         bool a_by_k = false);

/// How the product of one batch is cut into parallel items: ranges of register tiles by ranges of panels.
struct Splits {
  int64_t rows = 1, panels = 1;
  /// Items of a range of rows follow each other, so that a thread has the same rows in one step after the other: what it writes, it reads.
  /// Else those of a range of panels, whose B stays in cache.
  bool keeps_rows = false;

  int64_t items() const { return rows * panels; }
  int64_t row_range(int64_t i) const { return keeps_rows ? i / panels % rows : i % rows; }
  int64_t panel_range(int64_t i) const { return keeps_rows ? i % panels : i / rows % panels; }
};
/// Of the sums that an epilogue takes at a time.
inline constexpr int64_t tile_bytes = 64 << 10;
/// Leaves the others something to take when one thread is held up.
inline constexpr int64_t items_per_thread = 4;
struct SplitRequest {
  int64_t tiles, panels, batch;
  double work; // cycles of one batch
  int threads;
  int64_t per_thread = items_per_thread; // items
  bool panels_first;                     // cut columns as far as possible before rows
  int64_t kept_ranges = 0;               // of rows, at most, where threads are to keep theirs, if there is one batch; 0: they are not
};
Splits choose_splits(const SplitRequest& r);
/// Ranges of so many rows in which there are enough that a thread reads all of B without waiting for it; 0: fewer than threads.
int64_t kept_ranges(int64_t rows, int threads);
/// Items of so much work that one parallel chunk should hold at least.
int64_t item_grain(double item_work);

/// The rows of A of one register tile: the pointers of GemmArgs::rows, `first` bytes. Tiles of the same shape share
/// pointers.
struct RowTile {
  const void* const* rows;
  int64_t first;
  int count;
};

/// Memory that is read next, asked for in even parts while there is something to compute: all at once would be waited for.
struct ReadNext {
  const char* at = nullptr;
  int64_t bytes = 0;

  static constexpr int64_t line = 64;

  ReadNext part(int64_t i, int64_t parts) const {
    int64_t first = bytes * i / parts & -line;
    return {at + first, bytes * (i + 1) / parts - first};
  }
  void ask() const {
    for (int64_t i = 0; i < bytes; i += line) __builtin_prefetch(at + i, 0, 2);
  }
};

/// How many tiles from `t` on make a series: of one height, their rows evenly apart.
int64_t series_of(const RowTile* t, const RowTile* end);

/// C[rows, columns of panels p0..p1) = A * B, plus what C holds if `mode` says so.
struct GemmBlock {
  const Panels& panels;
  const TileKernels& kernels;
  int64_t p0, p1;
  const void* b;        // packed panel p0
  int64_t panel_depth;  // k that a panel holds
  int64_t first_depth;  // the first k of it that takes part
  const RowTile* tiles; // from top to bottom
  int64_t first = 0;    // bytes from where their rows start to the first k that takes part
  int64_t tile_count;
  int64_t positions, depth; // depth: k of one position, a multiple of k_step
  int64_t rest = 0;         // and those of a last, partial group (GemmArgs)
  const void* zeros;        // row of padding; null: rows are no windows
  int64_t a_stride;         // bytes
  char* c;                  // of the first row, column 0 of panel p0
  int64_t c_stride;         // bytes
  int sum_bytes;
  GemmInit mode;
  int64_t part = 128; // GemmArgs::part
  bool rows_first;    // all panels for a tile, before the next tile: where A's tile is to stay in L1
  /// What follows a panel comes from afar and is asked for while tiles meet that one: evenly by all of them; on tile registers by the
  /// first, unless rows stream (part_depth).
  bool next_panel = false;
  /// What is to lie in L2 when the block is done: its first row, at column 0 of p0; bytes from row to row, and of an element.
  struct Wanted {
    const char* at = nullptr;
    int64_t row = 0, element_bytes = 0;
  };
  Wanted wanted[2] = {};   // null: nothing more
  ReadNext read_next = {}; // asked for by all tiles; not where rows come first
  int64_t part_depth = 0;  // PackedRows: k of a panel that stay in L1 while all rows stream past; else 0
  /// Rows of A that are read next, asked for by tile registers, and left behind those that were; null: none. Not PackedRows.
  struct RowsAhead {
    const char* at = nullptr;
    int64_t stride = 0, count = 0; // stride in bytes
  };
  RowsAhead* rows_ahead = nullptr;
  /// A row-major B that the first tile of each panel packs: p0's first column and k, bytes from k to k, how many k there are, the kernels.
  struct Source {
    const char* at = nullptr;
    int64_t stride = 0, depth = 0;
    const TileKernels* kernels = nullptr;
  };
  Source source = {}; // null: B is packed
};
void multiply_block(const GemmBlock& block) noexcept;

} // namespace tenon
