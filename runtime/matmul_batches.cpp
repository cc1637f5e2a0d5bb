// Batches of products of few tiles, which are set up once for all of them.
#include "runtime/gemm_pack.h"
#include "runtime/matmul_run.h"

namespace tenon {
namespace {

/// A tile of each batch, or a series: its kernel, and where its operands start in those of the batch, in bytes.
struct BatchTile {
  GemmFn kernel;
  int64_t a, b, c, columns;
  int64_t init_in_b; // behind b: what sums start from, if not negative
  int64_t tiles, next_a, next_b, next_c, next_init;
};

/// The tiles of a batch, each alone where batches make series.
int64_t set_up_batch(const MatmulRun& call, const BlockRows& block, bool compensated, BatchTile* to) {
  const Matmul& m = call.m;
  const Panels& panels = call.plan.panels;
  InPlace strides = strides_in_place(call);
  bool in_place = call.plan.in_place();
  int64_t bytes = call.sum_bytes(), count = 0;
  for_series(call, block, 0, panels.count(), [&](const TileSeries& s) {
    int64_t n = s.p * panels.width();
    const RowTile& tile = block.tiles[s.t];
    BatchTile b{call.plan.kernels.of(panels, s.p)[static_cast<size_t>(tile.count)],
                tile.first,
                in_place ? n * strides.n : panels.offset(s.p),
                (s.row * m.c_row + n) * bytes,
                panels.columns(s.p),
                compensated ? panels.bytes(s.p, panels.depth()) : -1,
                s.tiles,
                s.step,
                0,
                tile.count * m.c_row * bytes,
                0};
    if (s.beside)
      b.next_b = in_place ? panels.width() * strides.n : panels.offset(1), b.next_c = panels.width() * bytes,
      b.next_init = compensated ? b.next_b : 0;
    if (call.plan.batch_series == 1) return void(to[count++] = b);
    for (int64_t i = 0; i < s.tiles; i++, b.a += b.next_a, b.b += b.next_b, b.c += b.next_c) to[count++] = b;
  });
  return count;
}

} // namespace

void run_batches(const MatmulRun& call, int64_t begin, int64_t end, char* b_scratch) {
  const Matmul& m = call.m;
  bool packs = call.plan.use == BUse::Pack;
  const Panels& panels = call.plan.panels;
  int64_t bytes = call.sum_bytes(), a_bytes = static_cast<int64_t>(size_of(m.a_type)),
          b_bytes = m.packed ? 1 : static_cast<int64_t>(size_of(m.b_type));
  BlockRows block;
  MatmulItem all{};
  all.a = static_cast<const char*>(m.a);
  cut_rows(call, all, 0, m.m, 0, m.k, false, block);
  GemmArgs args = arguments_in_place(call, block, strides_in_place(call), m.c_row * bytes, m.k, true);
  bool compensated = panels.tail && !call.plan.in_place() && args.mode == GemmInit::Zero, series = call.plan.batch_series > 1;
  if (compensated) args.mode = GemmInit::Row;
  BatchTile tiles[MatmulPlan::most_batch_tiles];
  int64_t count = set_up_batch(call, block, compensated, tiles), batches;
  if (series)
    args.next_a = m.a_batch[1] * a_bytes, args.next_b = m.b_batch[1] * b_bytes, args.next_c = m.c_batch[1] * bytes,
    args.next_init = compensated ? args.next_b : 0;
  for (int64_t batch = begin; batch < end; batch += batches) {
    int64_t b0 = batch / m.batch[1], b1 = batch % m.batch[1];
    batches = std::min({call.plan.batch_series, end - batch, m.batch[1] - b1});
    int64_t a = (b0 * m.a_batch[0] + b1 * m.a_batch[1]) * a_bytes;
    const char* b = static_cast<const char*>(m.b) + (b0 * m.b_batch[0] + b1 * m.b_batch[1]) * b_bytes;
    char* c = static_cast<char*>(m.c) + (b0 * m.c_batch[0] + b1 * m.c_batch[1]) * bytes;
    if (packs) {
      pack_panels(call.kernels, call.family, panels, {b, m.b_type, m.b_k, m.b_n}, 0, m.k, 0, panels.count(), b_scratch);
      b = b_scratch;
    }
    for (const BatchTile *t = tiles, *last = tiles + count; t < last; t++) {
      args.first = t->a + a, args.b = b + t->b, args.c = c + t->c, args.columns = t->columns;
      args.init = t->init_in_b >= 0 ? b + t->b + t->init_in_b : nullptr;
      args.tiles = series ? batches : t->tiles;
      if (!series) args.next_a = t->next_a, args.next_b = t->next_b, args.next_c = t->next_c, args.next_init = t->next_init;
      t->kernel(&args);
    }
    report(call, {c, m.c_row, batch, 0, m.m, 0, m.n});
  }
}

} // namespace tenon
