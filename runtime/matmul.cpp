// The matmul driver. C is cut into items, a range of panels by a range of rows each, which the workers share out. An item
// goes through B by chunks of columns that stay in cache, packs a chunk if B is not packed, and multiplies blocks of rows
// with it, by chunks of k. Sums go to C, or to the worker's scratch, whence the epilogue takes them.
#include "runtime/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/numeric.h"
#include "base/rounding.h"
#include "runtime/gemm_pack.h"
#include "runtime/gemm_shuffle.h"
#include "runtime/matmul_held.h"
#include "runtime/matmul_run.h"

namespace tenon {
namespace {

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

GemmInit init_mode(bool first_k) { return first_k ? GemmInit::Zero : GemmInit::C; }
/// Bytes from a gathered column to the next.
int64_t gathered_stride(const MatmulRun& call) { return call.plan.split_k * call.plan.panels.element_bytes + 64; }
bool is_row_major(BUse use) { return use == BUse::InPlace || use == BUse::Stream; }

} // namespace

void cut_rows(const MatmulRun& call, const MatmulItem& item, int64_t m0, int64_t m1, int64_t k0, int64_t k1, bool again, BlockRows& block) {
  const Matmul& m = call.m;
  const GemmFamily& f = call.family;
  int64_t bytes = static_cast<int64_t>(size_of(m.a_type));
  const char* a = item.a + (m0 * m.a_row + k0 * m.a_k) * bytes;
  int64_t stride = m.a_row * bytes;
  if (call.plan.pack_a || (m1 - m0) % f.row_step != 0) {
    int64_t depth = ceil_div(k1 - k0, f.k_step) * f.k_step;
    stride = depth * static_cast<int64_t>(size_of(f.a));
    if (f.is_tiled()) stride = spread_rows(stride);
    else if (stride % 1024 == 0) stride += 64;
    if (!again) pack_rows(call.kernels, f, {item.a, m.a_type, m.a_k, m.a_row}, m0, m1, k0, k1, item.a_scratch, stride);
    a = item.a_scratch;
  }
  point_at_rows(f, a, stride, m1 - m0, call.plan.tile_rows, block);
  if (call.plan.a_by_k) block.a_stride = m.a_k * bytes;
  else if (call.plan.a_near) block.a_stride = 0;
}

InPlace strides_in_place(const MatmulRun& call) {
  int64_t bytes = call.plan.panels.element_bytes;
  if (call.plan.use == BUse::GatherDot) return {bytes, gathered_stride(call)};
  return {call.m.b_k * bytes, call.m.b_n * bytes};
}

GemmArgs arguments_in_place(const MatmulRun& call, const BlockRows& block, InPlace strides, int64_t c_stride, int64_t depth, bool first_k) {
  int group = call.plan.use == BUse::Dot || call.plan.use == BUse::GatherDot ? 1 : call.family.group;
  return {.rows = block.rows,
          .first = 0,
          .zeros = nullptr,
          .b = nullptr,
          .c = nullptr,
          .init = nullptr,
          .c_stride = c_stride,
          .b_stride = is_row_major(call.plan.use) ? strides.k : strides.n,
          .a_stride = call.plan.a_by_k ? block.a_stride : 0,
          .depth = depth / group,
          .positions = 1,
          .columns = 0,
          .mode = init_mode(first_k),
          .rest = depth % group,
          .b_ahead = call.plan.b_ahead ? strides.k : 0};
}

void report(const MatmulRun& call, const SumTile& t) {
  const Epilogue& e = call.m.epilogue;
  if (!e.fn) return;
  e.fn(e.ctx, call.plan.exchanged ? SumTile{t.sums, 1, t.batch, t.n0, t.n1, t.m0, t.m1} : t);
}

namespace {

/// Where the sums of a block go: its first row, column 0 of its first panel.
struct MatmulTarget {
  char* c;
  int64_t stride; // elements
};

struct MatmulPart {
  int64_t m0, m1, k0, k1, p0, p1;
  const char* b;            // packed panel p0, or B in place from column 0 on; its first k is b_first
  int64_t b_first, b_depth; // b_depth: k that a packed panel holds
  bool first_k, last_k;     // of the item
  bool first_rows;          // of the item
};

void multiply_in_place(const MatmulRun& call, const MatmulPart& part, const BlockRows& block, MatmulTarget to) {
  const Panels& panels = call.plan.panels;
  InPlace strides = strides_in_place(call);
  int64_t bytes = call.sum_bytes();
  GemmArgs args = arguments_in_place(call, block, strides, to.stride * bytes, part.k1 - part.k0, part.first_k);
  if (call.plan.use == BUse::Stream) {
    int64_t n = part.p0 * panels.width();
    args.b = part.b + n * strides.n, args.c = to.c;
    args.columns = std::min(part.p1 * panels.width(), call.m.n) - n;
    return call.plan.kernels.last[1](&args);
  }
  for_series(call, block, part.p0, part.p1, [&](const TileSeries& s) {
    int64_t n = s.p * panels.width();
    args.first = block.tiles[s.t].first;
    if (!call.plan.a_by_k) args.a_stride = s.beside || s.p > part.p0 ? 0 : block.a_stride; // the other panels find the rows in cache
    args.b = part.b + (part.k0 - part.b_first) * strides.k + n * strides.n;
    args.c = to.c + (s.row * to.stride + (s.p - part.p0) * panels.width()) * bytes;
    args.columns = panels.columns(s.p);
    args.tiles = s.tiles;
    args.next_a = s.beside ? 0 : s.step;
    args.next_b = s.beside ? panels.width() * strides.n : 0;
    args.next_c = s.beside ? panels.width() * bytes : block.tiles[s.t].count * args.c_stride;
    call.plan.kernels.of(panels, s.p)[static_cast<size_t>(block.tiles[s.t].count)](&args);
  });
}

/// What the epilogue, or the stores of C, will touch.
void want(const MatmulRun& call, const MatmulPart& part, int64_t batch, MatmulTarget to, GemmBlock::Wanted* wanted) {
  const Matmul& m = call.m;
  if (call.plan.exchanged || !part.last_k || !call.plan.looks_ahead) return;
  if (call.plan.direct && !m.epilogue.fn) wanted[0] = {to.c, to.stride * call.sum_bytes(), call.sum_bytes()};
  for (int i = 0; i < 2 && m.epilogue.beside[i].data; i++) {
    const Epilogue::Beside& b = m.epilogue.beside[i];
    wanted[i] = {b.data + ((batch * m.m + part.m0) * m.n + part.p0 * call.plan.panels.width()) * b.element_bytes, m.n * b.element_bytes,
                 b.element_bytes};
  }
}

/// The rows of A that follow a block's.
ReadNext rows_next(const MatmulRun& call, const MatmulItem& item, const MatmulPart& part) {
  if (!call.plan.reads_ahead || part.p0 > item.p0) return {};
  int64_t row = call.m.a_row * static_cast<int64_t>(size_of(call.m.a_type)), rows = std::min(part.m1 - part.m0, item.m1 - part.m1);
  return {item.a + part.m1 * row, rows * row};
}

void multiply_packed(const MatmulRun& call, const MatmulItem& item, const MatmulPart& part, const BlockRows& block, MatmulTarget to,
                     GemmBlock::RowsAhead& next) {
  const MatmulPlan& plan = call.plan;
  int64_t ks = part.k1 - part.k0, rest = plan.pack_a ? 0 : ks % call.family.k_step; // packed rows are padded
  GemmBlock g{.panels = plan.panels,
              .kernels = plan.kernels,
              .p0 = part.p0,
              .p1 = part.p1,
              .b = part.b,
              .panel_depth = part.b_depth,
              .first_depth = part.k0 - part.b_first,
              .tiles = block.tiles,
              .tile_count = block.count,
              .positions = 1,
              .depth = rest ? ks - rest : plan.panels.depth(ks),
              .rest = rest,
              .zeros = nullptr,
              .a_stride = block.a_stride,
              .c = to.c,
              .c_stride = to.stride * call.sum_bytes(),
              .sum_bytes = static_cast<int>(call.sum_bytes()),
              .mode = init_mode(part.first_k),
              .rows_first = plan.rows_first,
              .next_panel = plan.use == BUse::Packed && (!plan.rows_first || part.first_rows),
              .part_depth = plan.panel_k,
              .rows_ahead = &next};
  if (plan.packs_in_tiles && part.first_rows)
    g.source = {item.b + (part.k0 * call.m.b_k + part.p0 * plan.panels.width()) * plan.panels.element_bytes,
                call.m.b_k * plan.panels.element_bytes, ks, &plan.packing};
  want(call, part, item.batch, to, g.wanted);
  g.read_next = rows_next(call, item, part);
  multiply_block(g);
}

/// A small B stays in registers.
void multiply_small(const MatmulRun& call, const MatmulItem& item, const MatmulPart& part, MatmulTarget to) {
  const MatmulPlan& plan = call.plan;
  const Matmul& m = call.m;
  int64_t bytes = static_cast<int64_t>(size_of(m.a_type));
  multiply_held({.panels = plan.panels,
                 .kernels = plan.kernels,
                 .held = plan.held,
                 .p0 = part.p0,
                 .p1 = part.p1,
                 .a = item.a + part.m0 * m.a_row * bytes,
                 .a_stride = m.a_row * bytes,
                 .rows = part.m1 - part.m0,
                 .packed = !plan.in_place(),
                 .b = part.b + (plan.in_place() ? part.p0 * plan.panels.width() * plan.panels.element_bytes : 0),
                 .b_stride = strides_in_place(call).k,
                 .c = to.c,
                 .c_stride = to.stride * call.sum_bytes(),
                 .sum_bytes = static_cast<int>(call.sum_bytes())});
}

/// Sums in scratch go to C.
void copy_sums(const MatmulRun& call, const MatmulItem& item, int64_t m0, int64_t m1, int64_t n0, int64_t n1, MatmulTarget sums) {
  const Matmul& m = call.m;
  int64_t bytes = call.sum_bytes();
  for (int64_t i = m0; i < m1; i++) {
    const char* row = sums.c + (i - m0) * sums.stride * bytes;
    std::memcpy(item.c + (i * m.c_row + n0) * bytes, row, static_cast<size_t>((n1 - n0) * bytes));
  }
}

/// Sums of an exchanged product, turned back: into C, or beside them where there is none.
void turn_back(const MatmulRun& call, const MatmulItem& item, const MatmulPart& part, int64_t n0, int64_t n1, MatmulTarget from) {
  const Matmul& m = call.m;
  int64_t bytes = call.sum_bytes(), stride = item.c ? m.c_row : call.plan.turned_stride;
  char* to = item.c ? item.c + (n0 * stride + part.m0) * bytes : item.c_scratch + call.plan.c_bytes;
  MoveArgs args{from.c, to, from.stride * bytes, stride * bytes, part.m1 - part.m0, n1 - n0};
  if (bytes == 4) call.kernels.transpose()(&args);
  else transpose_elements(args.from, args.from_stride, static_cast<int>(bytes), args.rows, args.columns, args.to, args.to_stride);
  if (const Epilogue& e = m.epilogue; e.fn) e.fn(e.ctx, {args.to, stride, item.batch, n0, n1, part.m0, part.m1});
}

/// The sums of a block are final: C gets them if it has not, and the epilogue.
void finish(const MatmulRun& call, const MatmulItem& item, const MatmulPart& part, MatmulTarget from) {
  const Matmul& m = call.m;
  int64_t n0 = part.p0 * call.plan.panels.width(), n1 = std::min(part.p1 * call.plan.panels.width(), m.n);
  if (call.plan.turned(m)) return turn_back(call, item, part, n0, n1, from);
  if (!call.plan.direct && m.c) copy_sums(call, item, part.m0, part.m1, n0, n1, from);
  report(call, {from.c, from.stride, item.batch, part.m0, part.m1, n0, n1});
}

/// Rows [m0, m1) of a super block that starts at s0, with panels [p0, p1) whose packed form starts at b, k [k0, k1).
void run_block(const MatmulRun& call, const MatmulItem& item, int64_t s0, const MatmulPart& all, GemmBlock::RowsAhead next) {
  const MatmulPlan& plan = call.plan;
  int64_t bytes = call.sum_bytes(), width = plan.panels.width();
  BlockRows block;
  bool again = plan.panel_k > 0 && all.p0 > item.p0; // all rows and k of an item are a block
  if (!plan.held) cut_rows(call, item, all.m0, all.m1, all.k0, all.k1, again, block);
  for (int64_t p = all.p0; p < all.p1; p += plan.group_panels) {
    MatmulPart part = all;
    part.p0 = p;
    part.p1 = std::min(p + plan.group_panels, all.p1);
    MatmulTarget to{item.c_scratch, plan.c_stride};
    if (plan.splits_k > 1) to = {item.c + (all.m0 * call.m.n + p * width) * bytes, call.m.n};
    else if (plan.direct) to = {item.c + (all.m0 * call.m.c_row + p * width) * bytes, call.m.c_row};
    else if (call.many_k()) to.c += ((all.m0 - s0) * plan.c_stride + (p - all.p0) * width) * bytes;
    if (!plan.in_place()) part.b += (p - all.p0) * width * plan.panels.column_bytes(all.b_depth);
    if (plan.held) multiply_small(call, item, part, to);
    else if (plan.in_place()) multiply_in_place(call, part, block, to);
    else multiply_packed(call, item, part, block, to, next);
    if (all.last_k && plan.splits_k == 1) finish(call, item, part, to);
  }
}

/// B of an item as the kernels read it, for a chunk of panels.
void read_b(const MatmulRun& call, const MatmulItem& item, MatmulPart& part) {
  const Matmul& m = call.m;
  const MatmulPlan& plan = call.plan;
  PackSource source{item.b, m.b_type, m.b_k, m.b_n};
  part.b = item.b, part.b_first = 0, part.b_depth = plan.panels.depth();
  if (plan.use == BUse::Packed) part.b += plan.panels.offset(part.p0);
  if (plan.use != BUse::Pack && plan.use != BUse::GatherDot) return;
  part.b = item.b_scratch, part.b_first = item.k0, part.b_depth = plan.panels.depth(item.k1 - item.k0);
  if (plan.packs_in_tiles) return;
  if (plan.use == BUse::Pack)
    pack_panels(call.kernels, call.family, plan.panels, source, item.k0, item.k1, part.p0, part.p1, item.b_scratch);
  else pack_columns(m.n, source, item.k0, item.k1, item.b_scratch, gathered_stride(call));
}

/// The rows of A that come after a part of the super block [s0, s1), on tile registers: its next ones, those of the next k, of the next
/// super block, of the next chunk of columns.
GemmBlock::RowsAhead rows_after(const MatmulRun& call, const MatmulItem& item, int64_t s0, int64_t s1, const MatmulPart& part) {
  const Matmul& m = call.m;
  if (!call.family.is_tiled() || call.plan.panel_k > 0 || m.a_k != 1 || m.a_type != call.family.a) return {};
  int64_t row = part.m1, k = part.k0, bytes = static_cast<int64_t>(size_of(m.a_type));
  if (row == s1) row = s0, k = part.k1;
  if (k == item.k1) row = s1, k = item.k0;
  if (row == item.m1 && part.p1 == item.p1) return {};
  if (row == item.m1) row = item.m0;
  return {item.a + (row * m.a_row + k) * bytes, m.a_row * bytes, std::min(call.plan.block_rows, item.m1 - row)};
}

void run_item(const MatmulRun& call, const MatmulItem& item) {
  const MatmulPlan& plan = call.plan;
  for (int64_t p0 = item.p0; p0 < item.p1; p0 += plan.chunk_panels) {
    MatmulPart part{};
    part.p0 = p0, part.p1 = std::min(p0 + plan.chunk_panels, item.p1);
    read_b(call, item, part);
    for (int64_t s0 = item.m0; s0 < item.m1; s0 += plan.super_rows) {
      int64_t s1 = std::min(s0 + plan.super_rows, item.m1);
      part.k0 = item.k0;
      do {
        part.k1 = std::min(part.k0 + plan.block_k, item.k1);
        part.first_k = part.k0 == item.k0, part.last_k = part.k1 == item.k1;
        for (int64_t m0 = s0; m0 < s1; m0 += plan.block_rows) {
          part.m0 = m0, part.m1 = std::min(m0 + plan.block_rows, s1), part.first_rows = m0 == item.m0;
          run_block(call, item, s0, part, rows_after(call, item, s0, s1, part));
        }
        part.k0 = part.k1;
      } while (part.k0 < item.k1);
    }
  }
}

/// Cuts items out of the grid parts of k x batch x splits.
void run_items(const MatmulRun& call, int64_t begin, int64_t end, int worker) {
  const Matmul& m = call.m;
  const MatmulPlan& plan = call.plan;
  char* scratch = call.scratch + worker * plan.private_bytes();
  if (plan.one_block) return run_batches(call, begin, end, scratch + plan.a_bytes);
  if (plan.held_batch) return multiply_held_batches(call, begin, end);
  int64_t tiles = ceil_div(m.m, plan.tile_rows), panels = plan.panels.count(), batches = m.batch[0] * m.batch[1];
  int64_t a_bytes = static_cast<int64_t>(size_of(m.a_type)), b_bytes = m.packed ? 1 : static_cast<int64_t>(size_of(m.b_type));
  if (call.family.is_tiled()) call.kernels.begin_tiles();
  for (int64_t i = begin; i < end; i++) {
    int64_t im = plan.splits.row_range(i), in = plan.splits.panel_range(i), batch = i / plan.splits.items() % batches;
    int64_t part = i / (plan.splits.items() * batches);
    int64_t b0 = batch / m.batch[1], b1 = batch % m.batch[1];
    char* c = m.c ? static_cast<char*>(m.c) + (b0 * m.c_batch[0] + b1 * m.c_batch[1]) * call.sum_bytes() : nullptr;
    run_item(call, {.a = static_cast<const char*>(m.a) + (b0 * m.a_batch[0] + b1 * m.a_batch[1]) * a_bytes,
                    .b = static_cast<const char*>(m.b) + (b0 * m.b_batch[0] + b1 * m.b_batch[1]) * b_bytes,
                    .c = plan.splits_k > 1 ? call.parts() + part * plan.part_bytes : c,
                    .batch = batch,
                    .m0 = tiles * im / plan.splits.rows * plan.tile_rows,
                    .m1 = std::min(tiles * (im + 1) / plan.splits.rows * plan.tile_rows, m.m),
                    .p0 = panels * in / plan.splits.panels,
                    .p1 = panels * (in + 1) / plan.splits.panels,
                    .k0 = part * plan.split_k,
                    .k1 = std::min((part + 1) * plan.split_k, m.k),
                    .a_scratch = scratch,
                    .b_scratch = scratch + plan.a_bytes,
                    .c_scratch = scratch + plan.a_bytes + plan.b_bytes});
  }
  if (call.family.is_tiled()) call.kernels.end_tiles();
}

template <class T> void add_row(T* to, const T* from, int64_t n) { std::transform(from, from + n, to, to, std::plus<T>()); }

/// The parts of the sums added up, in their order.
void add_parts(const MatmulRun& call) {
  const Matmul& m = call.m;
  for (int64_t part = 1; part < call.plan.splits_k; part++)
    dispatch(call.family.sum, [&]<class T>(T) {
      if constexpr (std::is_arithmetic_v<T>)
        add_row(reinterpret_cast<T*>(call.parts()), reinterpret_cast<const T*>(call.parts() + part * call.plan.part_bytes), m.m * m.n);
    });
  MatmulTarget sums{call.parts(), m.n};
  MatmulItem all{};
  all.c = static_cast<char*>(m.c);
  if (m.c) copy_sums(call, all, 0, m.m, 0, m.n, sums);
  report(call, {sums.c, sums.stride, 0, 0, m.m, 0, m.n});
}

} // namespace

int64_t items_of(const MatmulPlan& plan, const Matmul& m) { return m.m > 0 && m.n > 0 ? m.batch[0] * m.batch[1] * plan.splits.items() : 0; }

void run_matmul_items(const KernelTable& kernels, const MatmulPlan& plan, const Matmul& given, void* scratch, int64_t begin, int64_t end,
                      int worker, bool backward) noexcept {
  const Matmul m = plan.exchanged ? exchanged(given) : given;
  MatmulRun call{kernels, kernels.family(plan.family), m, plan, static_cast<char*>(scratch)};
  if (begin < end && !backward) run_items(call, begin, end, worker);
  for (int64_t i = end; backward && i-- > begin;) run_items(call, i, i + 1, worker);
}

void run_matmul(const KernelTable& kernels, const Workers& workers, const MatmulPlan& plan, const Matmul& given, void* scratch) noexcept {
  if (given.m <= 0 || given.n <= 0) return;
  const Matmul m = plan.exchanged ? exchanged(given) : given;
  const GemmFamily& f = kernels.family(plan.family);
  MatmulRun call{kernels, f, m, plan, static_cast<char*>(scratch)};
  int64_t parts = plan.splits.items() * plan.splits_k;
  constexpr double least_work = 64; // cycles of an item, however small
  int64_t items = m.batch[0] * m.batch[1] * parts;
  if (plan.brief && !workers.awake()) run_items(call, 0, items, 0);
  else
    workers.run(items, plan.brief ? 1 : item_grain(std::max(plan.work / static_cast<double>(parts), least_work)),
                [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
  if (plan.splits_k > 1) add_parts(call);
}

} // namespace tenon
