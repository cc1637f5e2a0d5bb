// The matmul driver. C is cut into items, a range of panels by a range of rows each, which the workers share out. An item
// goes through B by chunks of columns that stay in cache, packs a chunk if B is not packed, and multiplies blocks of rows
// with it, by chunks of k. Sums go to C, or to the worker's scratch, whence the epilogue takes them.
#include "runtime/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/numeric.h"
#include "runtime/gemm_pack.h"

namespace tenon {
namespace {

constexpr int64_t max_block_tiles = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Call {
  const KernelTable& kernels;
  const GemmFamily& family;
  const Matmul& m;
  const MatmulPlan& plan;
  char* scratch;

  int64_t sum_bytes() const { return static_cast<int64_t>(size_of(family.sum)); }
  bool many_k() const { return m.k > plan.block_k; }
};

/// One item's operands, after its batch and worker are known.
struct Item {
  const char *a, *b;
  char* c;
  int64_t batch, m0, m1, p0, p1;
  char *a_scratch, *b_scratch, *c_scratch;
};

/// A block of rows as register tiles; those of one height share one set of pointers.
struct BlockRows {
  const void* rows[GemmFamily::max_rows];
  RowTile tiles[max_block_tiles];
  int64_t count;
  int64_t a_stride; // bytes
};

void point_at_rows(const GemmFamily& f, const char* a, int64_t stride, int64_t rows, int tile_rows, BlockRows& block) {
  block.a_stride = stride;
  int64_t pointers = std::min<int64_t>(ceil_div(rows, f.row_step), GemmFamily::max_rows);
  for (int64_t i = 0; i < pointers; i++) block.rows[i] = a + i * f.row_step * stride;
  block.count = 0;
  if (f.is_tiled()) { // whole tile registers: a last, partial one was padded
    for (int64_t row = 0; row < rows; row += tile_rows) {
      int64_t left = std::min<int64_t>(tile_rows, rows - row);
      block.tiles[block.count++] = {block.rows, row * stride, static_cast<int>(ceil_div(left, f.row_step) * f.row_step)};
    }
    return;
  }
  Tiles tiles(rows, tile_rows);
  for (int64_t t = 0, row = 0; t < tiles.count; t++) {
    int height = tiles.rows(t);
    block.tiles[block.count++] = {block.rows, row * stride, height};
    row += height;
  }
}

/// Rows [m0, m1) of A, k [k0, k1): in place, or packed where the kernels cannot read them so.
void cut_rows(const Call& call, const Item& item, int64_t m0, int64_t m1, int64_t k0, int64_t k1, BlockRows& block) {
  const Matmul& m = call.m;
  const GemmFamily& f = call.family;
  int64_t bytes = static_cast<int64_t>(size_of(m.a_type));
  const char* a = item.a + (m0 * m.a_row + k0 * m.a_k) * bytes;
  int64_t stride = m.a_row * bytes;
  if (call.plan.pack_a || (m1 - m0) % f.row_step != 0) {
    int64_t depth = ceil_div(k1 - k0, f.k_step) * f.k_step;
    stride = depth * static_cast<int64_t>(size_of(f.a));
    if (stride % 1024 == 0) stride += 64;
    pack_rows(call.kernels, f, {item.a, m.a_type, m.a_k, m.a_row}, m0, m1, k0, k1, item.a_scratch, stride);
    a = item.a_scratch;
  }
  point_at_rows(f, a, stride, m1 - m0, call.plan.tile_rows, block);
}

GemmInit init_mode(const Call& call, int64_t k0) {
  if (k0 > 0 || (call.m.accumulate && call.plan.direct)) return GemmInit::C;
  return call.m.bias && call.plan.direct ? GemmInit::Row : GemmInit::Zero;
}

/// Where the sums of a block go: its first row, column 0 of its first panel.
struct Target {
  char* c;
  int64_t stride; // elements
};

struct Part {
  int64_t m0, m1, k0, k1, p0, p1;
  const char* b; // packed panel p0
};

const void* bias_at(const Call& call, int64_t n) {
  return call.m.bias ? static_cast<const char*>(call.m.bias) + n * call.sum_bytes() : nullptr;
}

void multiply_in_place(const Call& call, const Item& item, const Part& part, const BlockRows& block, Target to) {
  const Matmul& m = call.m;
  const Panels& panels = call.plan.panels;
  int64_t bytes = call.sum_bytes();
  for (int64_t p = part.p0; p < part.p1; p++) {
    int64_t n = p * panels.width();
    GemmArgs args{.rows = block.rows,
                  .first = 0,
                  .zeros = nullptr,
                  .b = item.b + (part.k0 * m.b_k + n) * bytes,
                  .c = to.c + (p - part.p0) * panels.width() * bytes,
                  .init = bias_at(call, n),
                  .c_stride = to.stride * bytes,
                  .b_stride = m.b_k * bytes,
                  .a_stride = 0,
                  .depth = part.k1 - part.k0,
                  .positions = 1,
                  .columns = panels.columns(p),
                  .mode = init_mode(call, part.k0)};
    auto& kernels = p + 1 == panels.count() ? call.plan.kernels.last : call.plan.kernels.full;
    for (int64_t t = 0; t < block.count; t++) {
      const RowTile& tile = block.tiles[t];
      args.first = tile.first;
      kernels[static_cast<size_t>(tile.count)](&args);
      args.c = static_cast<char*>(args.c) + tile.count * to.stride * bytes;
    }
  }
}

void multiply_packed(const Call& call, const Part& part, const BlockRows& block, Target to) {
  const MatmulPlan& plan = call.plan;
  multiply_block({.panels = plan.panels,
                  .kernels = plan.kernels,
                  .p0 = part.p0,
                  .p1 = part.p1,
                  .b = part.b,
                  .panel_depth = plan.panels.depth(),
                  .first_depth = part.k0,
                  .tiles = block.tiles,
                  .tile_count = block.count,
                  .positions = 1,
                  .depth = plan.panels.depth(part.k1 - part.k0),
                  .zeros = nullptr,
                  .a_stride = block.a_stride,
                  .c = to.c,
                  .c_stride = to.stride * call.sum_bytes(),
                  .sum_bytes = static_cast<int>(call.sum_bytes()),
                  .init = bias_at(call, part.p0 * plan.panels.width()),
                  .mode = init_mode(call, part.k0),
                  .rows_first = call.family.is_tiled()});
}

template <class T> void add_row(T* to, const T* from, int64_t n) {
  for (int64_t j = 0; j < n; j++) to[j] += from[j];
}

/// What C, and the bias, add to sums in scratch; and C where it was not written directly.
void complete(const Call& call, const Item& item, const Part& part, Target sums, int64_t n0, int64_t n1) {
  const Matmul& m = call.m;
  int64_t bytes = call.sum_bytes();
  for (int64_t i = part.m0; i < part.m1; i++) {
    char* row = sums.c + (i - part.m0) * sums.stride * bytes;
    char* c = item.c ? item.c + (i * m.c_row + n0) * bytes : nullptr;
    for (const void* other : {bias_at(call, n0), m.accumulate ? static_cast<const void*>(c) : nullptr})
      if (other) dispatch(call.family.sum, [&]<class T>(T) {
        if constexpr (std::is_arithmetic_v<T>) add_row(reinterpret_cast<T*>(row), static_cast<const T*>(other), n1 - n0);
      });
    if (c) std::memcpy(c, row, static_cast<size_t>((n1 - n0) * bytes));
  }
}

/// The sums of a block are final: C gets them if it has not, and the epilogue.
void finish(const Call& call, const Item& item, const Part& part, Target from) {
  const Matmul& m = call.m;
  int64_t n0 = part.p0 * call.plan.panels.width(), n1 = std::min(part.p1 * call.plan.panels.width(), m.n);
  if (!call.plan.direct && (m.c || m.bias)) complete(call, item, part, from, n0, n1);
  if (m.epilogue.fn) m.epilogue.fn(m.epilogue.ctx, {from.c, from.stride, item.batch, part.m0, part.m1, n0, n1});
}

/// Rows [m0, m1) of a super block that starts at s0, with panels [p0, p1) whose packed form starts at b, k [k0, k1).
void run_block(const Call& call, const Item& item, int64_t s0, const Part& all) {
  const MatmulPlan& plan = call.plan;
  int64_t bytes = call.sum_bytes(), width = plan.panels.width();
  BlockRows block;
  cut_rows(call, item, all.m0, all.m1, all.k0, all.k1, block);
  for (int64_t p = all.p0; p < all.p1; p += plan.group_panels) {
    Part part = all;
    part.p0 = p;
    part.p1 = std::min(p + plan.group_panels, all.p1);
    part.b = all.b + (p - all.p0) * width * plan.panels.depth() * plan.panels.element_bytes;
    Target to{item.c_scratch, plan.c_stride};
    if (plan.direct)
      to = {item.c + (all.m0 * call.m.c_row + p * width) * bytes, call.m.c_row};
    else if (call.many_k())
      to.c += ((all.m0 - s0) * plan.c_stride + (p - all.p0) * width) * bytes;
    if (plan.use == BUse::InPlace)
      multiply_in_place(call, item, part, block, to);
    else
      multiply_packed(call, part, block, to);
    if (all.k1 == call.m.k) finish(call, item, part, to);
  }
}

void run_item(const Call& call, const Item& item) {
  const Matmul& m = call.m;
  const MatmulPlan& plan = call.plan;
  const Panels& panels = plan.panels;
  for (int64_t p0 = item.p0; p0 < item.p1; p0 += plan.chunk_panels) {
    int64_t p1 = std::min(p0 + plan.chunk_panels, item.p1);
    const char* b = item.b + panels.offset(p0);
    if (plan.use == BUse::Pack) {
      pack_panels(call.kernels, call.family, panels, {item.b, m.b_type, m.b_k, m.b_n}, 0, m.k, p0, p1, item.b_scratch);
      b = item.b_scratch;
    }
    for (int64_t s0 = item.m0; s0 < item.m1; s0 += plan.super_rows) {
      int64_t s1 = std::min(s0 + plan.super_rows, item.m1);
      for (int64_t k0 = 0; k0 == 0 || k0 < m.k; k0 += plan.block_k) {
        int64_t k1 = std::min(k0 + plan.block_k, m.k);
        for (int64_t m0 = s0; m0 < s1; m0 += plan.block_rows)
          run_block(call, item, s0, {m0, std::min(m0 + plan.block_rows, s1), k0, k1, p0, p1, b});
        if (plan.block_k == 0) break;
      }
    }
  }
}

/// Cuts items out of the grid batch x splits_n x splits_m, rows fastest: neighbours share a part of B.
void run_items(const Call& call, int64_t begin, int64_t end, int worker) {
  const Matmul& m = call.m;
  const MatmulPlan& plan = call.plan;
  char* scratch = call.scratch + worker * plan.worker_bytes();
  int64_t tiles = ceil_div(m.m, plan.tile_rows), panels = plan.panels.count();
  int64_t a_bytes = static_cast<int64_t>(size_of(m.a_type)), b_bytes = m.packed ? 1 : static_cast<int64_t>(size_of(m.b_type));
  if (call.family.is_tiled()) call.kernels.begin_tiles();
  for (int64_t i = begin; i < end; i++) {
    int64_t im = i % plan.splits_m, in = i / plan.splits_m % plan.splits_n, batch = i / (plan.splits_m * plan.splits_n);
    int64_t b0 = batch / m.batch[1], b1 = batch % m.batch[1];
    run_item(call, {.a = static_cast<const char*>(m.a) + (b0 * m.a_batch[0] + b1 * m.a_batch[1]) * a_bytes,
                    .b = static_cast<const char*>(m.b) + (b0 * m.b_batch[0] + b1 * m.b_batch[1]) * b_bytes,
                    .c = m.c ? static_cast<char*>(m.c) + (b0 * m.c_batch[0] + b1 * m.c_batch[1]) * call.sum_bytes() : nullptr,
                    .batch = batch,
                    .m0 = tiles * im / plan.splits_m * plan.tile_rows,
                    .m1 = std::min(tiles * (im + 1) / plan.splits_m * plan.tile_rows, m.m),
                    .p0 = panels * in / plan.splits_n,
                    .p1 = panels * (in + 1) / plan.splits_n,
                    .a_scratch = scratch,
                    .b_scratch = scratch + plan.a_bytes,
                    .c_scratch = scratch + plan.a_bytes + plan.b_bytes});
  }
  if (call.family.is_tiled()) call.kernels.end_tiles();
}

} // namespace

void run_matmul(const KernelTable& kernels, const Workers& workers, const MatmulPlan& plan, const Matmul& m,
                void* scratch) noexcept {
  if (m.m <= 0 || m.n <= 0) return;
  const GemmFamily& f = kernels.families()[static_cast<size_t>(plan.family)];
  Call call{kernels, f, m, plan, static_cast<char*>(scratch)};
  int64_t parts = plan.splits_m * plan.splits_n;
  double work = static_cast<double>(m.m) * static_cast<double>(m.n) * static_cast<double>(std::max<int64_t>(m.k, 16)) / f.speed;
  workers.run(m.batch[0] * m.batch[1] * parts, item_grain(work / static_cast<double>(parts)),
              [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

} // namespace tenon
