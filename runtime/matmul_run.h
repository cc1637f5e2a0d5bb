// What the parts of the matmul driver have in common: internal to them.
#pragma once
#include <algorithm>

#include "runtime/matmul.h"

namespace tenon {

inline constexpr int64_t max_block_tiles = 256;

struct MatmulRun {
  const KernelTable& kernels;
  const GemmFamily& family;
  const Matmul& m;
  const MatmulPlan& plan;
  char* scratch;
  int64_t sum_bytes() const { return static_cast<int64_t>(size_of(family.sum)); }
  char* parts() const { return scratch + plan.threads * plan.private_bytes(); }
  bool many_k() const { return plan.split_k > plan.block_k; }
};

/// One item's operands, after its batch and worker are known.
struct MatmulItem {
  const char *a, *b;
  char* c;
  int64_t batch, m0, m1, p0, p1, k0, k1;
  char *a_scratch, *b_scratch, *c_scratch;
};

/// A block of rows as register tiles; those of one height share one set of pointers.
struct BlockRows {
  const void* rows[GemmFamily::max_rows];
  RowTile tiles[max_block_tiles];
  int64_t count;
  int64_t a_stride; // bytes
};

/// Rows [m0, m1) of A, k [k0, k1): in place, or packed where the kernels cannot read them so; `again`: as the last time.
void cut_rows(const MatmulRun& call, const MatmulItem& item, int64_t m0, int64_t m1, int64_t k0, int64_t k1, bool again, BlockRows& block);

/// Strides in bytes of a B that kernels read in place, or that was gathered.
struct InPlace {
  int64_t k, n;
};
InPlace strides_in_place(const MatmulRun& call);

/// What the tiles of a product in place have in common.
GemmArgs arguments_in_place(const MatmulRun& call, const BlockRows& block, InPlace strides, int64_t c_stride, int64_t depth, bool first_k);

/// Tiles that a kernel takes one after the other: the panel, number and row of the first one. The others lie below it, `step` bytes of
/// A apart, or beside it in further panels.
struct TileSeries {
  int64_t p, t, row, tiles, step;
  bool beside;
};
/// All tiles of a block in panels [p0, p1): panel by panel; all panels for a tile, where that is the order, or there is one.
template <class F> void for_series(const MatmulRun& call, const BlockRows& block, int64_t p0, int64_t p1, const F& f) {
  const MatmulPlan& plan = call.plan;
  int64_t last = plan.panels.count() - 1, tiles;
  if (p1 - p0 > 1 && (plan.rows_first || block.count == 1)) {
    for (int64_t t = 0, row = 0; t < block.count; row += block.tiles[t++].count)
      for (int64_t p = p0; p < p1; p += tiles) {
        bool alone = p == last || (p == p0 && plan.rows_first) || !plan.kernels.in_series; // the first one looks for the next rows
        tiles = alone ? 1 : std::min(p1, last) - p;
        f(TileSeries{p, t, row, tiles, 0, tiles > 1});
      }
    return;
  }
  for (int64_t p = p0; p < p1; p++)
    for (int64_t t = 0, row = 0; t < block.count; row += tiles * block.tiles[t].count, t += tiles) {
      tiles = plan.kernels.in_series ? series_of(block.tiles + t, block.tiles + block.count) : 1;
      f(TileSeries{p, t, row, tiles, tiles > 1 ? block.tiles[t + 1].first - block.tiles[t].first : 0, false});
    }
}

/// The sums of a tile are final.
void report(const MatmulRun& call, const SumTile& tile);

/// Batches of one block each, whose tiles are set up once.
void run_batches(const MatmulRun& call, int64_t begin, int64_t end, char* b_scratch);

} // namespace tenon
