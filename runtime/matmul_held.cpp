#include "runtime/matmul_held.h"

#include <algorithm>

#include "base/rounding.h"

namespace tenon {

constexpr int held_tile_rows = 8; // of a block of the kernels

int held_vectors(const GemmFamily& f, int64_t k) {
  int64_t groups = ceil_div(k, f.group);
  return k < 1 || groups > f.held ? 0 : static_cast<int>(std::min<int64_t>(f.held / groups, GemmFamily::most_held_together));
}

/// Bytes from a row of C to the next, and whether such rows share a set of L1.
static int64_t row_bytes(const GemmFamily& f, const Matmul& m) { return m.c_row * static_cast<int64_t>(size_of(f.sum)); }
static bool rows_crowd(const GemmFamily& f, const Matmul& m) { return m.c && m.n > f.lanes && row_bytes(f, m) % 4096 == 0; }

int64_t held_block_rows(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m) {
  constexpr int64_t all = 4096, most = 256, least = 32;
  if (p.panels.count() == 1) return all;
  if (rows_crowd(f, m)) return held_tile_rows;
  return std::clamp(round_down(caches.l2 / 2 / std::max<int64_t>(row_bytes(f, m), 1), held_tile_rows), least, most);
}

/// Whether the kernels hold all of B, as it lies.
static bool takes_batches(const MatmulPlan& p) { return p.in_place() && p.panels.count() == 1 && p.panels.panel_vectors(0) <= p.held; }
bool is_held_batch(const MatmulPlan& p, const Matmul& m) {
  return p.held && p.direct && takes_batches(p) && m.m <= p.block_rows && p.splits.items() * p.splits_k == 1;
}

void choose_held(MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m, double cycles) {
  constexpr int64_t rows_of_batch = 64;                            // of fewer the kernels take all batches
  constexpr double stored = 1. / 16, entered = 35, next_batch = 8; // cycles for an element, to enter a kernel, from batch to batch
  constexpr double crowded = 0.65; // for an element, at least, where tiles write rows that share sets of caches
  int held = held_vectors(f, m.k);
  bool plain = m.a_type == f.a && (m.a_k == 1 || m.k == 1) && (m.packed || m.b_type == f.b);
  bool batched = m.batch[0] * m.batch[1] > 1, small = batched && m.m < rows_of_batch;
  if (held == 0 || !plain || (!batched && m.m < held_tile_rows)) return;
  MatmulPlan changed = p;
  if (!m.packed) changed.use = m.b_n == 1 && f.group == 1 ? BUse::InPlace : BUse::Pack, changed.panels = choose_panels(f, m.n, m.k, held);
  changed.held = std::min(held, changed.panels.vectors);
  if (f.group > 1 && changed.held == 1 && m.n > f.lanes) return; // tiles read a group of A for more than one vector
  changed.tile_rows = held_tile_rows;
  changed.pack_a = changed.a_by_k = changed.rows_first = false;
  if (small && !takes_batches(changed)) return;
  double entries =
      static_cast<double>(ceil_div(m.m, held_block_rows(changed, f, caches, m)) * ceil_div(m.n, int64_t{changed.held} * f.lanes));
  double enter = small ? next_batch + static_cast<double>(m.k * changed.held) : entered,
         mine = static_cast<double>(m.m) * padded(m.n, f.lanes) * (padded(m.k, f.group) / f.speed + stored) + entries * enter;
  if (rows_crowd(f, m)) cycles = std::max(cycles, crowded * static_cast<double>(m.m) * static_cast<double>(m.n));
  if (mine < cycles) p = changed;
}

TileKernels held_kernels(const KernelTable& kernels, int family, const Panels& panels, int held) {
  TileKernels out;
  int64_t last = panels.count() - 1;
  if (last < 0) return out;
  auto add = [&](int vectors, bool masked, auto& to) {
    to[static_cast<size_t>(vectors)] =
        kernels.gemm({family, static_cast<int>(ceil_div(panels.k, panels.group)), vectors, masked, GemmKind::Held});
  };
  auto add_panel = [&](int vectors) {
    if (vectors >= held) add(held, false, out.full);
    if (vectors % held) add(vectors % held, false, out.full);
  };
  if (last > 0) add_panel(panels.panel_vectors(0));
  add_panel(panels.panel_vectors(last));
  int rest = (panels.panel_vectors(last) - 1) % held + 1;
  add(rest, panels.columns(last) != panels.panel_width(last), out.last);
  return out;
}

void multiply_held(const HeldBlock& h) noexcept {
  const Panels& panels = h.panels;
  const void* rows[] = {h.a};
  GemmArgs args{.rows = rows,
                .first = 0,
                .zeros = nullptr,
                .b = nullptr,
                .c = nullptr,
                .init = nullptr,
                .c_stride = h.c_stride,
                .b_stride = h.b_stride,
                .a_stride = h.a_stride,
                .depth = panels.k,
                .positions = h.batches,
                .columns = 0,
                .mode = panels.tail ? GemmInit::Row : GemmInit::Zero,
                .rest = panels.k % panels.group,
                .tiles = h.rows,
                .next_a = h.next_a,
                .next_b = h.next_b,
                .next_c = h.next_c};
  const int64_t group_bytes = panels.element_bytes * panels.group;
  const int64_t panel_bytes = panels.width() * (h.packed ? panels.column_bytes(panels.depth()) : panels.element_bytes);
  for (int64_t p = h.p0; p < h.p1; p++) {
    const char* panel = h.b + (p - h.p0) * panel_bytes;
    int of_panel = panels.panel_vectors(p);
    if (h.packed) args.b_stride = panels.panel_width(p) * group_bytes;
    for (int v = 0; v < of_panel; v += h.held) {
      int64_t columns = int64_t{v} * panels.lanes;
      int vectors = std::min(h.held, of_panel - v);
      bool last = p + 1 == panels.count() && v + vectors == of_panel;
      args.b = panel + columns * group_bytes;
      args.init = panel + panels.bytes(p, panels.depth()) + columns * panels.tail;
      args.c = h.c + ((p - h.p0) * panels.width() + columns) * h.sum_bytes;
      args.columns = panels.columns(p) - columns;
      (last ? h.kernels.last : h.kernels.full)[static_cast<size_t>(vectors)](&args);
    }
  }
}

void multiply_held_batches(const MatmulRun& call, int64_t begin, int64_t end) noexcept {
  const Matmul& m = call.m;
  const MatmulPlan& plan = call.plan;
  int64_t bytes = call.sum_bytes();
  HeldBlock h{.panels = plan.panels,
              .kernels = plan.kernels,
              .held = plan.held,
              .p0 = 0,
              .p1 = 1,
              .a = nullptr,
              .a_stride = m.a_row * bytes,
              .rows = m.m,
              .packed = false,
              .b = nullptr,
              .b_stride = m.b_k * bytes,
              .c = nullptr,
              .c_stride = m.c_row * bytes,
              .sum_bytes = static_cast<int>(bytes),
              .next_a = m.a_batch[1] * bytes,
              .next_b = m.b_batch[1] * bytes,
              .next_c = m.c_batch[1] * bytes};
  for (int64_t batch = begin; batch < end; batch += h.batches) {
    int64_t b0 = batch / m.batch[1], b1 = batch % m.batch[1];
    h.batches = m.epilogue.fn ? 1 : std::min(end - batch, m.batch[1] - b1);
    h.a = static_cast<const char*>(m.a) + (b0 * m.a_batch[0] + b1 * m.a_batch[1]) * bytes;
    h.b = static_cast<const char*>(m.b) + (b0 * m.b_batch[0] + b1 * m.b_batch[1]) * bytes;
    h.c = static_cast<char*>(m.c) + (b0 * m.c_batch[0] + b1 * m.c_batch[1]) * bytes;
    multiply_held(h);
    report(call, {h.c, m.c_row, batch, 0, m.m, 0, m.n});
  }
}

} // namespace tenon
