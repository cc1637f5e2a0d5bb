// The matmul driver. C is cut into items, a range of panels by a range of rows each, which the workers share out. An
// item goes through B by chunks of columns and of k that stay in cache, packs a chunk if B is not packed, and
// multiplies blocks of rows with it. Few rows of A do not repay packing: a row-major B is then read in place by wide
// tiles.
#include "runtime/matmul.h"

#include <algorithm>

namespace tenon {
namespace {

/// Up to so many rows a row-major B is read in place: packing costs about as much as 16 rows of products.
constexpr int64_t in_place_rows = 16;
/// Steps of k before a B in place is continued in the next columns: keeps the pages in use few.
constexpr int64_t in_place_depth = 256;
constexpr int64_t max_block_rows = 256;

enum class BUse { Packed, Pack, InPlace };

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// All decisions for one call; a function of sizes, strides and caches alone.
struct Plan {
  BUse use;
  bool pack_a;
  Panels panels;
  int tile_rows;
  int64_t block_k, block_rows, chunk_panels;
  int64_t splits_m, splits_n; // items of a batch
  int64_t a_bytes, b_bytes;   // scratch of one worker

  int64_t items(const Matmul& m) const { return m.batch[0] * m.batch[1] * splits_m * splits_n; }
  int64_t worker_bytes() const { return a_bytes + b_bytes; }
};

/// The widest tile for a B in place that still takes all rows at once, else the squarest.
Panels in_place_panels(const Matmul& m, const KernelTable& kernels) {
  int lanes = kernels.lanes(), best = lanes == 16 ? 3 : 2;
  int most = static_cast<int>(std::clamp<int64_t>(ceil_div(m.n, lanes), 1, KernelTable::max_vectors)); // n may be 0
  for (int v = most; v > best; v--)
    if (kernels.gemm_rows(v) >= m.m) best = v;
  while (best > most || kernels.gemm_rows(best) == 0) best--;
  return {m.n, lanes, best};
}

void choose_blocks(Plan& p, const Matmul& m, const Caches& caches) {
  // A chunk of k of one panel takes a quarter of L2, so that C is passed over rarely; blocks of A take another half.
  int64_t most_k = std::max<int64_t>(caches.l2 / 4 / (p.panels.width() * 4) / 64 * 64, 64);
  int64_t parts = std::max<int64_t>(ceil_div(m.k, most_k), 1);
  p.block_k = p.use == BUse::InPlace ? std::min<int64_t>(m.k, in_place_depth) : ceil_div(ceil_div(m.k, parts), 4) * 4;
  int64_t rows = caches.l2 / 2 / std::max<int64_t>(p.block_k * 4, 1);
  int64_t most_rows = max_block_rows / p.tile_rows * p.tile_rows; // whole tiles, so that few heights occur
  p.block_rows = std::clamp<int64_t>(rows / p.tile_rows * p.tile_rows, p.tile_rows, most_rows);
  int64_t columns = caches.l2 * 2 / std::max<int64_t>(p.block_k * 4, 1);
  p.chunk_panels = std::clamp<int64_t>(columns / p.panels.width(), 1, std::max<int64_t>(p.panels.count(), 1));
}

double work_of(const Matmul& m) {
  return static_cast<double>(m.m) * static_cast<double>(m.n) * static_cast<double>(std::max<int64_t>(m.k, 16));
}

Plan make_plan(const KernelTable& kernels, const Caches& caches, int threads, const Matmul& m) {
  Plan p{};
  p.use = m.packed ? BUse::Packed : m.b_n == 1 && m.m <= in_place_rows ? BUse::InPlace : BUse::Pack;
  p.pack_a = m.a_k != 1 && m.k > 1;
  p.panels = p.use == BUse::InPlace ? in_place_panels(m, kernels) : choose_panels(m.n, kernels);
  p.tile_rows = kernels.gemm_rows(p.panels.vectors);
  choose_blocks(p, m, caches);
  // Each item packs its own part of B: splitting rows would pack it again.
  Splits splits = choose_splits({.tiles = ceil_div(m.m, p.tile_rows),
                                 .panels = p.panels.count(),
                                 .batch = m.batch[0] * m.batch[1],
                                 .work = work_of(m),
                                 .threads = threads,
                                 .panels_first = p.use == BUse::Pack || m.n > m.m});
  p.splits_m = splits.rows;
  p.splits_n = splits.panels;
  int64_t span = std::min(p.chunk_panels, ceil_div(p.panels.count(), p.splits_n)) * p.panels.width();
  if (p.use == BUse::Pack) p.b_bytes = span * p.block_k * 4;
  if (p.pack_a) p.a_bytes = ceil_div(std::min(p.block_rows, m.m) * p.block_k * 4, 64) * 64;
  return p;
}

struct Call {
  const KernelTable& kernels;
  const Matmul& m;
  Plan plan;
  char* scratch;
};

/// One item's operands, after its batch and worker are known.
struct Item {
  const float *a, *b;
  float* c;
  int64_t batch, m0, m1, p0, p1;
  float *a_scratch, *b_scratch;
};

/// A block of rows as register tiles; all share one set of pointers.
struct BlockRows {
  const float* rows[KernelTable::max_rows];
  RowTile tiles[max_block_rows];
  int64_t count;
};

/// Rows [m0, m1) of A from k0 on; packs them if the elements of a row are apart.
void cut_rows(const Call& call, const Item& item, int64_t m0, int64_t m1, int64_t k0, int64_t k1, BlockRows& block) {
  const Matmul& m = call.m;
  const float* a = item.a + m0 * m.a_row + k0 * m.a_k;
  int64_t stride = m.a_row;
  if (call.plan.pack_a) {
    int64_t depth = k1 - k0;
    if (m.a_row == 1) {
      MoveArgs args{a, item.a_scratch, m.a_k * 4, depth * 4, depth, m1 - m0};
      call.kernels.transpose()(&args);
    } else {
      for (int64_t i = 0; i < m1 - m0; i++)
        for (int64_t k = 0; k < depth; k++) item.a_scratch[i * depth + k] = a[i * m.a_row + k * m.a_k];
    }
    a = item.a_scratch;
    stride = depth;
  }
  for (int64_t i = 0; i < std::min<int64_t>(m1 - m0, KernelTable::max_rows); i++) block.rows[i] = a + i * stride;
  Tiles tiles(m1 - m0, call.plan.tile_rows);
  block.count = tiles.count;
  for (int64_t t = 0, row = 0; t < tiles.count; t++) {
    int rows = tiles.rows(t);
    block.tiles[t] = {block.rows, row * stride, rows};
    row += rows;
  }
}

GemmInit init_mode(const Matmul& m, int64_t k0) {
  return k0 > 0 || m.accumulate ? GemmInit::C : m.bias ? GemmInit::Row : GemmInit::Zero;
}

void multiply_in_place(const Call& call, const Item& item, int64_t k0, int64_t k1, int64_t m0, const BlockRows& block) {
  const Matmul& m = call.m;
  const Panels& panels = call.plan.panels;
  for (int64_t p = item.p0; p < item.p1; p++) {
    int64_t n = p * panels.width(), columns = panels.columns(p);
    int vectors = panels.panel_vectors(p);
    GemmArgs args{.rows = block.rows,
                  .first = 0,
                  .zeros = nullptr,
                  .b = item.b + k0 * m.b_k + n,
                  .c = item.c + m0 * m.c_row + n,
                  .init = m.bias ? m.bias + n : nullptr,
                  .c_stride = m.c_row * 4,
                  .b_stride = m.b_k * 4,
                  .depth = k1 - k0,
                  .positions = 1,
                  .columns = columns,
                  .mode = init_mode(m, k0)};
    for (int64_t t = 0; t < block.count; t++) {
      const RowTile& tile = block.tiles[t];
      args.first = tile.first;
      call.kernels.gemm({tile.count, vectors, columns != vectors * panels.lanes, GemmKind::InPlace})(&args);
      args.c += tile.count * m.c_row;
    }
  }
}

void multiply_packed(const Call& call, const Item& item, int64_t p0, int64_t p1, int64_t k0, int64_t k1, const float* b,
                     int64_t panel_depth, int64_t m0, const BlockRows& block) {
  const Matmul& m = call.m;
  multiply_block(call.kernels, {.panels = call.plan.panels,
                                .p0 = p0,
                                .p1 = p1,
                                .b = b,
                                .panel_depth = panel_depth,
                                .first_depth = call.plan.use == BUse::Packed ? k0 : 0,
                                .tiles = block.tiles,
                                .tile_count = block.count,
                                .positions = 1,
                                .depth = k1 - k0,
                                .zeros = nullptr,
                                .c = item.c + m0 * m.c_row,
                                .c_stride = m.c_row,
                                .init = m.bias,
                                .mode = init_mode(m, k0)});
}

void run_item(const Call& call, const Item& item) {
  const Matmul& m = call.m;
  const Plan& plan = call.plan;
  const Panels& panels = plan.panels;
  BlockRows block;
  int64_t chunk = plan.use == BUse::InPlace ? item.p1 - item.p0 : plan.chunk_panels;
  for (int64_t p0 = item.p0; p0 < item.p1; p0 += chunk) {
    int64_t p1 = std::min(p0 + chunk, item.p1);
    for (int64_t k0 = 0; k0 == 0 || k0 < m.k; k0 += plan.block_k) {
      int64_t k1 = std::min(k0 + plan.block_k, m.k);
      const float* b = item.b + p0 * panels.width() * m.k;
      if (plan.use == BUse::Pack) {
        pack_panels(call.kernels, panels, {item.b, m.b_k, m.b_n}, k0, k1, p0, p1, item.b_scratch);
        b = item.b_scratch;
      }
      for (int64_t m0 = item.m0; m0 < item.m1; m0 += plan.block_rows) {
        int64_t m1 = std::min(m0 + plan.block_rows, item.m1);
        cut_rows(call, item, m0, m1, k0, k1, block);
        if (plan.use == BUse::InPlace)
          multiply_in_place(call, item, k0, k1, m0, block);
        else
          multiply_packed(call, item, p0, p1, k0, k1, b, plan.use == BUse::Pack ? k1 - k0 : m.k, m0, block);
        if (k1 == m.k && m.epilogue.fn)
          m.epilogue.fn(m.epilogue.ctx, item.batch, m0, m1, p0 * panels.width(), std::min(p1 * panels.width(), m.n));
      }
      if (plan.block_k == 0) break;
    }
  }
}

/// Cuts items out of the grid batch x splits_n x splits_m, rows fastest: neighbours share a part of B.
void run_items(const Call& call, int64_t begin, int64_t end, int worker) {
  const Matmul& m = call.m;
  const Plan& plan = call.plan;
  char* scratch = call.scratch + worker * plan.worker_bytes();
  int64_t tiles = ceil_div(m.m, plan.tile_rows), panels = plan.panels.count();
  for (int64_t i = begin; i < end; i++) {
    int64_t im = i % plan.splits_m, in = i / plan.splits_m % plan.splits_n, batch = i / (plan.splits_m * plan.splits_n);
    int64_t b0 = batch / m.batch[1], b1 = batch % m.batch[1];
    run_item(call, {.a = m.a + b0 * m.a_batch[0] + b1 * m.a_batch[1],
                    .b = m.b + b0 * m.b_batch[0] + b1 * m.b_batch[1],
                    .c = m.c + b0 * m.c_batch[0] + b1 * m.c_batch[1],
                    .batch = batch,
                    .m0 = tiles * im / plan.splits_m * plan.tile_rows,
                    .m1 = std::min(tiles * (im + 1) / plan.splits_m * plan.tile_rows, m.m),
                    .p0 = panels * in / plan.splits_n,
                    .p1 = panels * (in + 1) / plan.splits_n,
                    .a_scratch = reinterpret_cast<float*>(scratch),
                    .b_scratch = reinterpret_cast<float*>(scratch + plan.a_bytes)});
  }
}

} // namespace

int64_t packed_b_size(const KernelTable& kernels, int64_t k, int64_t n) {
  return choose_panels(n, kernels).padded() * k;
}

void pack_b(const KernelTable& kernels, int64_t k, int64_t n, const float* b, int64_t b_k, int64_t b_n,
            float* to) noexcept {
  Panels panels = choose_panels(n, kernels);
  pack_panels(kernels, panels, {b, b_k, b_n}, 0, k, 0, panels.count(), to);
}

int64_t matmul_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers,
                       const Matmul& m) noexcept {
  return make_plan(kernels, caches, workers.threads(), m).worker_bytes() * workers.threads();
}

int64_t matmul_scratch_limit(const KernelTable&, const Caches& caches) { return 4 * caches.l2; }

/// The sums over a B in place of at most so many rows, whose tiles depend on how many they are.
static void prepare_in_place(const KernelTable& kernels, Matmul m, int64_t first, int64_t last) {
  for (m.m = first; m.m <= last; m.m++) {
    Panels panels = in_place_panels(m, kernels);
    prepare_tiles(kernels, panels, GemmKind::InPlace, tile_heights(m.m, kernels.gemm_rows(panels.vectors)));
  }
}

static void prepare_columns(const KernelTable& kernels, const Matmul& m) {
  bool dense = m.b_n == 1 || m.b_n == 0, few = m.m != any_size && m.m <= in_place_rows;
  if (!m.packed && dense && m.m == any_size) prepare_in_place(kernels, m, 1, in_place_rows);
  if (!m.packed && dense && few) prepare_in_place(kernels, m, m.m, m.m);
  if (!m.packed && m.b_n == 1 && few) return;
  Panels panels = choose_panels(m.n, kernels);
  prepare_tiles(kernels, panels, GemmKind::Packed, tile_heights(m.m, kernels.gemm_rows(panels.vectors)));
  if (m.packed) return;
  if (m.b_n != 1) kernels.transpose();
  if (!dense) return;
  kernels.copy(panels.panel_vectors(0));
  kernels.copy(panels.panel_vectors(panels.count() - 1));
}

void prepare_matmul(const KernelTable& kernels, const Matmul& m) {
  if (m.a_k != 1) kernels.transpose();
  if (m.n > 0) prepare_columns(kernels, m);
  if (m.n != any_size) return;
  Matmul some = m;
  // Twice the widest tile: each width, alone and before each narrower last one.
  for (int64_t vectors = 1; vectors <= 2 * KernelTable::max_vectors; vectors++)
    for (int64_t missing : {0, 1}) {
      some.n = vectors * kernels.lanes() - missing;
      prepare_columns(kernels, some);
    }
}

void run_matmul(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Matmul& m,
                void* scratch) noexcept {
  if (m.m <= 0 || m.n <= 0) return;
  Call call{kernels, m, make_plan(kernels, caches, workers.threads(), m), static_cast<char*>(scratch)};
  int64_t items = call.plan.items(m);
  int64_t grain = item_grain(work_of(m) / static_cast<double>(call.plan.splits_m * call.plan.splits_n));
  workers.run(items, grain, [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

std::string describe_matmul(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Matmul& m) {
  Plan p = make_plan(kernels, caches, workers.threads(), m);
  const char* uses[] = {"B packed ahead", "B packed in the call", "B in place"};
  return "tiles of " + std::to_string(p.tile_rows) + "x" + std::to_string(p.panels.width()) + ", " + uses[static_cast<int>(p.use)] + ", " + std::to_string(p.items(m)) + " items";
}

} // namespace tenon
