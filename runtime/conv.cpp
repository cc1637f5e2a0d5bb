// The convolution driver. A convolution is a matrix product whose rows are windows: the micro-kernels sum over kernel
// positions through row pointers, so the input is never copied. Few channels make short rows; then the kernel's width
// is folded into them. 1x1 convolution without stride is a plain matrix product.
#include "runtime/conv.h"

#include <algorithm>
#include <cstring>

#include "runtime/depthwise.h"

namespace tenon {
namespace {

/// Rows of so many channels are long enough to pay for the loop over positions.
constexpr int64_t fold_below = 16;
constexpr int64_t tile_bytes = 64 << 10;          // of sums that an epilogue takes at a time
constexpr int64_t most_waiting_bytes = 512 << 10; // of sums that wait for more positions of the kernel

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t up64(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

int conv_family(const KernelTable& kernels) {
  return choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size);
}

bool is_matmul(const Conv& c) {
  bool plain = c.groups == 1 && c.window.positions() == 1;
  for (int d = 0; d < 3; d++)
    plain = plain && c.window.stride[d] == 1 && c.window.pad[d] == 0 && c.window.in[d] == c.window.out[d];
  return plain;
}

Matmul as_matmul(const KernelTable& kernels, const Conv& c) {
  int64_t pixels = c.window.out_pixels();
  return {.batch = {1, c.batch},
          .m = pixels,
          .n = c.out_channels,
          .k = c.in_channels,
          .a = c.input,
          .a_row = c.in_pixel,
          .a_batch = {0, c.in_batch},
          .b = c.weights,
          .packed = true,
          .family = conv_family(kernels),
          .c = c.output,
          .c_row = c.out_pixel,
          .c_batch = {0, c.out_batch},
          .accumulate = c.accumulate,
          .epilogue = c.epilogue};
}

const GemmFamily& family_of(const KernelTable& kernels) { return kernels.families()[static_cast<size_t>(conv_family(kernels))]; }

/// Panels of one group's weights.
Panels group_panels(const KernelTable& kernels, const Conv& c) {
  return choose_panels(family_of(kernels), c.group_outputs(), c.window.positions() * c.group_inputs());
}

/// Cycles.
double work_of(const Conv& c, double speed) {
  return static_cast<double>(c.window.out_pixels() * c.window.positions()) *
         static_cast<double>(c.group_inputs() * c.out_channels) / speed;
}

/// Most pixels of an item.
int64_t item_pixels(const ConvPlan& p) {
  int64_t most = 0, units = p.cut.units(), rows = p.splits.rows;
  for (int64_t i = 0; i < rows; i++)
    most = std::max(most, p.cut.begin(units * (i + 1) / rows) - p.cut.begin(units * i / rows));
  return most;
}

/// Sums of a block, or of a whole item while positions of the kernel are still to come.
void choose_sums(ConvPlan& p, const ConvWindow& w, const Conv& c) {
  int64_t panels = ceil_div(p.panels.count(), p.splits.panels), width = p.panels.width();
  p.group_panels = p.panels.count();
  p.direct = c.output != nullptr;
  if (p.direct) return;
  int64_t rows = std::min(max_block_pixels, w.out_pixels());
  if (p.block_positions < p.positions && item_pixels(p) * panels * width * 4 > most_waiting_bytes) p.block_positions = p.positions;
  bool wait = p.block_positions < p.positions;
  if (wait) rows = item_pixels(p);
  if (c.groups == 1 && !wait) p.group_panels = std::clamp<int64_t>(tile_bytes / (rows * width * 4), 1, panels);
  int64_t columns = c.groups > 1 ? c.out_channels : std::min(p.group_panels, panels) * width;
  p.c_stride = columns + (columns % 256 == 0 ? p.panels.lanes : 0); // rows not all in the same sets of L1
  p.sum_bytes = up64(rows * p.c_stride * 4);
}

void plan_windows(ConvPlan& p, const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  const ConvWindow& w = c.window;
  p.family = conv_family(kernels);
  const GemmFamily& f = family_of(kernels);
  p.folded = c.groups == 1 && c.in_channels < fold_below && c.in_pixel == c.in_channels && w.dilation[2] == 1 &&
             w.kernel[2] > 1;
  p.positions = p.folded ? w.kernel[0] * w.kernel[1] : w.positions();
  p.depth = p.folded ? w.kernel[2] * c.in_channels : c.group_inputs();
  p.panels = group_panels(kernels, c);
  int tile_rows = f.rows[static_cast<size_t>(p.panels.vectors)];
  p.cut = cut_pixels(w, tile_rows, p.panels.vectors);
  // As in matmul, the part of a panel in use takes about a quarter of L2; it is a number of whole positions.
  int64_t most_k = caches.l2 / 4 / (p.panels.width() * 4);
  int64_t parts = std::max<int64_t>(ceil_div(p.positions * p.depth * 4, std::max<int64_t>(most_k, 1) * 5), 1);
  p.block_positions = std::max<int64_t>(ceil_div(p.positions, parts), 1);
  bool weights_larger = c.out_channels * w.positions() > w.in_pixels();
  p.splits = choose_splits({.tiles = p.cut.units(),
                            .panels = p.panels.count(),
                            .batch = c.batch,
                            .work = work_of(c, f.speed),
                            .threads = threads,
                            .panels_first = weights_larger});
  choose_sums(p, w, c);
  int64_t rows = std::min(max_block_pixels, w.out_pixels());
  p.pointer_bytes = up64(rows * p.block_positions * static_cast<int64_t>(sizeof(float*)));
  if (p.folded) p.copy_bytes = up64(rows * p.block_positions * p.depth * 4);
  uint64_t heights = window_heights(w, tile_rows, p.panels.vectors);
  p.kernels = tile_kernels(kernels, p.family, p.panels, GemmKind::Windows, heights, p.direct || c.groups > 1);
}

struct Call {
  const KernelTable& kernels;
  const Conv& c;
  const ConvPlan& plan;
  const float* zeros;
  char* scratch;
};

struct Item {
  int64_t batch, u0, u1, p0, p1;
  const void** rows;
  float *copies, *sums;
};

/// Where the sums of a block go: its first pixel, column 0 of group 0's panel p0.
struct Target {
  float* c;
  int64_t stride;
};

/// One group's product of a block's tiles and kernel positions [q0, q1) of panels [p0, p1).
void multiply_group(const Call& call, int64_t group, int64_t p0, int64_t p1, const RowTile* tiles, int64_t count, int64_t q0,
                    int64_t q1, Target to) {
  const Conv& c = call.c;
  const ConvPlan& plan = call.plan;
  int64_t panel_depth = plan.positions * plan.depth;
  multiply_block({.panels = plan.panels,
                  .kernels = plan.kernels,
                  .p0 = p0,
                  .p1 = p1,
                  .b = c.weights + (group * plan.panels.padded() + p0 * plan.panels.width()) * panel_depth,
                  .panel_depth = panel_depth,
                  .first_depth = q0 * plan.depth,
                  .tiles = tiles,
                  .tile_count = count,
                  .positions = q1 - q0,
                  .depth = plan.depth,
                  .zeros = call.zeros,
                  .a_stride = 0,
                  .c = reinterpret_cast<char*>(to.c + group * c.group_outputs()),
                  .c_stride = to.stride * 4,
                  .sum_bytes = 4,
                  .init = nullptr,
                  .mode = q0 > 0 || c.accumulate ? GemmInit::C : GemmInit::Zero,
                  .rows_first = false});
}

/// Tells the epilogue about the channels of panels [p0, p1) in every group; all of them at once where they adjoin.
void finish_units(const Call& call, const Item& item, int64_t u0, int64_t u1, int64_t p0, int64_t p1, Target from) {
  const Conv& c = call.c;
  const ConvPlan& plan = call.plan;
  SumTile tile{from.c, from.stride, item.batch, plan.cut.begin(u0), plan.cut.begin(u1), 0, c.out_channels};
  bool whole = p0 == 0 && p1 == plan.panels.count();
  int64_t n0 = p0 * plan.panels.width(), n1 = std::min(p1 * plan.panels.width(), c.group_outputs());
  for (int64_t g = 0; g < (whole ? 1 : c.groups); g++) {
    int64_t first = g * c.group_outputs();
    if (!whole) tile.n0 = first + n0, tile.n1 = first + n1, tile.sums = from.c + first;
    c.epilogue.fn(c.epilogue.ctx, tile);
  }
}

/// The block of units [u0, u1) times kernel positions [q0, q1) of the item's panels, for all groups: they share pointers.
void run_block(const Call& call, const Item& item, int64_t u0, int64_t u1, int64_t q0, int64_t q1) {
  const Conv& c = call.c;
  const ConvPlan& plan = call.plan;
  const PixelCut& cut = plan.cut;
  WindowInput in{.image = c.input + item.batch * c.in_batch,
                 .pixel = c.in_pixel,
                 .zeros = call.zeros,
                 .folded = plan.folded,
                 .copies = item.copies};
  RowTile tiles[max_block_pixels];
  int64_t count = cut_windows(c.window, cut, in, u0, u1, q0, q1, item.rows, tiles), width = plan.panels.width();
  for (int64_t p = item.p0; p < item.p1; p += plan.group_panels) {
    int64_t p1 = std::min(p + plan.group_panels, item.p1);
    Target to{item.sums, plan.c_stride};
    if (plan.direct)
      to = {c.output + item.batch * c.out_batch + cut.begin(u0) * c.out_pixel + p * width, c.out_pixel};
    else if (plan.block_positions < plan.positions)
      to.c += (cut.begin(u0) - cut.begin(item.u0)) * plan.c_stride;
    for (int64_t g = 0; g < c.groups; g++) {
      multiply_group(call, g, p, p1, tiles, count, q0, q1, to);
      for (int64_t t = 0; t < count; t++) tiles[t].first += c.group_inputs() * 4;
    }
    for (int64_t t = 0; t < count; t++) tiles[t].first -= c.in_channels * 4;
    if (q1 == plan.positions && c.epilogue.fn) finish_units(call, item, u0, u1, p, p1, to);
  }
}

void run_item(const Call& call, const Item& item) {
  const ConvPlan& plan = call.plan;
  for (int64_t q0 = 0; q0 == 0 || q0 < plan.positions; q0 += plan.block_positions) {
    int64_t q1 = std::min(q0 + plan.block_positions, plan.positions);
    for (int64_t u0 = item.u0; u0 < item.u1; u0 += plan.cut.block_units)
      run_block(call, item, u0, std::min(u0 + plan.cut.block_units, item.u1), q0, q1);
  }
}

void run_items(const Call& call, int64_t begin, int64_t end, int worker) {
  const ConvPlan& plan = call.plan;
  const Splits& s = plan.splits;
  char* scratch = call.scratch + worker * plan.worker_bytes();
  int64_t units = plan.cut.units(), panels = plan.panels.count();
  for (int64_t i = begin; i < end; i++) {
    int64_t im = i % s.rows, in = i / s.rows % s.panels;
    run_item(call, {.batch = i / (s.rows * s.panels),
                    .u0 = units * im / s.rows,
                    .u1 = units * (im + 1) / s.rows,
                    .p0 = panels * in / s.panels,
                    .p1 = panels * (in + 1) / s.panels,
                    .rows = reinterpret_cast<const void**>(scratch),
                    .copies = reinterpret_cast<float*>(scratch + plan.pointer_bytes),
                    .sums = reinterpret_cast<float*>(scratch + plan.pointer_bytes + plan.copy_bytes)});
  }
}

/// Elements of the zero row that stands for padding, at the end of the packed weights.
int64_t zero_row(const Conv& c) { return c.in_channels * c.window.kernel[2]; }

} // namespace

int64_t packed_conv_size(const KernelTable& kernels, const Conv& c) {
  if (c.depthwise()) return packed_depthwise_size(kernels, c);
  return group_panels(kernels, c).padded() * c.groups * c.window.positions() * c.group_inputs() +
         zero_row(c);
}

void pack_conv_weights(const KernelTable& kernels, const Conv& c, const float* weights, const int64_t s[5],
                       float* to) noexcept {
  if (c.depthwise()) return pack_depthwise_weights(kernels, c, weights, s, to);
  Panels panels = group_panels(kernels, c);
  const int64_t* k = c.window.kernel;
  int64_t inputs = c.group_inputs(), depth = c.window.positions() * inputs;
  std::memset(to, 0, static_cast<size_t>(packed_conv_size(kernels, c)) * 4);
  for (int64_t g = 0; g < c.groups; g++)
    for (int64_t p = 0; p < panels.count(); p++) {
      int64_t width = int64_t{panels.panel_vectors(p)} * panels.lanes;
      for (int64_t j = 0; j < panels.columns(p); j++) {
        const float* from = weights + (g * c.group_outputs() + p * panels.width() + j) * s[0];
        for (int64_t i = 0; i < inputs; i++)
          for (int64_t q = 0; q < c.window.positions(); q++)
            to[(q * inputs + i) * width + j] =
                from[i * s[1] + q / (k[2] * k[1]) * s[2] + q / k[2] % k[1] * s[3] + q % k[2] * s[4]];
      }
      to += depth * width;
    }
}

void prepare_conv(const KernelTable& kernels, const Conv& c) {
  const ConvWindow& w = c.window;
  if (c.depthwise()) return void(plan_depthwise(kernels, 1, c));
  if (is_matmul(c)) {
    Matmul m = as_matmul(kernels, c);
    m.m = known_pixels(w);
    return prepare_matmul(kernels, m);
  }
  Panels panels = group_panels(kernels, c);
  uint64_t heights = window_heights(w, family_of(kernels).rows[static_cast<size_t>(panels.vectors)], panels.vectors);
  tile_kernels(kernels, conv_family(kernels), panels, GemmKind::Windows, heights, c.output || c.groups > 1);
}

ConvPlan plan_conv(const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  ConvPlan p;
  if (c.depthwise()) {
    p.kind = ConvPlan::Kind::Depthwise;
    p.depthwise_bytes = plan_depthwise(kernels, threads, c);
  } else if (is_matmul(c)) {
    p.kind = ConvPlan::Kind::Product;
    p.product = plan_matmul(kernels, caches, threads, as_matmul(kernels, c));
  } else {
    plan_windows(p, kernels, caches, threads, c);
  }
  return p;
}

void run_conv(const KernelTable& kernels, const Workers& workers, const ConvPlan& plan, const Conv& c, void* scratch) noexcept {
  if (c.window.out_pixels() <= 0 || c.out_channels <= 0 || c.batch <= 0) return;
  if (plan.kind == ConvPlan::Kind::Depthwise) return run_depthwise(kernels, workers, c, scratch);
  if (plan.kind == ConvPlan::Kind::Product) return run_matmul(kernels, workers, plan.product, as_matmul(kernels, c), scratch);
  Call call{kernels, c, plan, nullptr, static_cast<char*>(scratch)};
  call.zeros = c.weights + packed_conv_size(kernels, c) - zero_row(c);
  const Splits& s = plan.splits;
  double work = work_of(c, family_of(kernels).speed) / static_cast<double>(s.rows * s.panels);
  workers.run(c.batch * s.rows * s.panels, item_grain(work),
              [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

} // namespace tenon
