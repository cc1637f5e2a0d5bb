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

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t up64(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

bool is_matmul(const Conv& c) {
  bool plain = c.groups == 1 && c.window.positions() == 1;
  for (int d = 0; d < 3; d++)
    plain = plain && c.window.stride[d] == 1 && c.window.pad[d] == 0 && c.window.in[d] == c.window.out[d];
  return plain;
}

Matmul as_matmul(const Conv& c) {
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
          .c = c.output,
          .c_row = c.out_pixel,
          .c_batch = {0, c.out_batch},
          .bias = c.bias,
          .accumulate = c.accumulate,
          .epilogue = c.epilogue};
}

/// All decisions for one call; a function of sizes alone.
struct Plan {
  bool folded;
  int64_t positions, depth; // as the kernels see them
  Panels panels;            // of one group
  PixelCut cut;
  int64_t block_positions;
  Splits splits;
  int64_t pointer_bytes, copy_bytes;

  int64_t worker_bytes() const { return pointer_bytes + copy_bytes; }
};

double work_of(const Conv& c) {
  return static_cast<double>(c.window.out_pixels() * c.window.positions()) *
         static_cast<double>(c.group_inputs() * c.out_channels);
}

Plan make_plan(const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  Plan p{};
  const ConvWindow& w = c.window;
  p.folded = c.groups == 1 && c.in_channels < fold_below && c.in_pixel == c.in_channels && w.dilation[2] == 1 &&
             w.kernel[2] > 1;
  p.positions = p.folded ? w.kernel[0] * w.kernel[1] : w.positions();
  p.depth = p.folded ? w.kernel[2] * c.in_channels : c.group_inputs();
  p.panels = choose_panels(c.group_outputs(), kernels);
  p.cut = cut_pixels(w, kernels.gemm_rows(p.panels.vectors), p.panels.vectors);
  // As in matmul, the part of a panel in use takes about a quarter of L2; it is a number of whole positions.
  int64_t most_k = caches.l2 / 4 / (p.panels.width() * 4);
  int64_t parts = std::max<int64_t>(ceil_div(p.positions * p.depth * 4, std::max<int64_t>(most_k, 1) * 5), 1);
  p.block_positions = std::max<int64_t>(ceil_div(p.positions, parts), 1);
  bool weights_larger = c.out_channels * w.positions() > w.in_pixels();
  p.splits = choose_splits({.tiles = p.cut.units(),
                            .panels = p.panels.count(),
                            .batch = c.batch,
                            .work = work_of(c),
                            .threads = threads,
                            .panels_first = weights_larger});
  int64_t rows = std::min(max_block_pixels, w.out_pixels());
  p.pointer_bytes = up64(rows * p.block_positions * static_cast<int64_t>(sizeof(float*)));
  if (p.folded) p.copy_bytes = up64(rows * p.block_positions * p.depth * 4);
  return p;
}

struct Call {
  const KernelTable& kernels;
  const Conv& c;
  Plan plan;
  const float* zeros;
  char* scratch;
};

struct Item {
  int64_t batch, u0, u1, p0, p1;
  const float** rows;
  float* copies;
};

/// One group's product of a block's tiles and kernel positions [q0, q1) of the item's panels; `out` is the block's
/// first pixel.
void multiply_group(const Call& call, const Item& item, int64_t group, const RowTile* tiles, int64_t count, int64_t q0,
                    int64_t q1, float* out) {
  const Conv& c = call.c;
  const Plan& plan = call.plan;
  int64_t first_out = group * c.group_outputs(), panel_depth = plan.positions * plan.depth;
  multiply_block(call.kernels,
                 {.panels = plan.panels,
                  .p0 = item.p0,
                  .p1 = item.p1,
                  .b = c.weights + (group * plan.panels.padded() + item.p0 * plan.panels.width()) * panel_depth,
                  .panel_depth = panel_depth,
                  .first_depth = q0 * plan.depth,
                  .tiles = tiles,
                  .tile_count = count,
                  .positions = q1 - q0,
                  .depth = plan.depth,
                  .zeros = call.zeros,
                  .c = out + first_out,
                  .c_stride = c.out_pixel,
                  .init = c.bias ? c.bias + first_out : nullptr,
                  .mode = q0 > 0 || c.accumulate ? GemmInit::C
                          : c.bias               ? GemmInit::Row
                                                 : GemmInit::Zero});
}

/// The block of units [u0, u1) times kernel positions [q0, q1) of the item's panels, for all groups: they share
/// pointers.
void multiply_units(const Call& call, const Item& item, int64_t u0, int64_t u1, int64_t q0, int64_t q1) {
  const Conv& c = call.c;
  const PixelCut& cut = call.plan.cut;
  WindowInput in{.image = c.input + item.batch * c.in_batch,
                 .pixel = c.in_pixel,
                 .zeros = call.zeros,
                 .folded = call.plan.folded,
                 .copies = item.copies};
  RowTile tiles[max_block_pixels];
  int64_t count = cut_windows(c.window, cut, in, u0, u1, q0, q1, item.rows, tiles);
  float* out = c.output + item.batch * c.out_batch + cut.begin(u0) * c.out_pixel;
  for (int64_t g = 0; g < c.groups; g++) {
    multiply_group(call, item, g, tiles, count, q0, q1, out);
    for (int64_t t = 0; t < count; t++) tiles[t].first += c.group_inputs();
  }
}

/// Tells the epilogue about the channels of the item's panels in every group; all of them at once where they adjoin.
void finish_units(const Call& call, const Item& item, int64_t u0, int64_t u1) {
  const Conv& c = call.c;
  const Plan& plan = call.plan;
  int64_t m0 = plan.cut.begin(u0), m1 = plan.cut.begin(u1);
  if (plan.splits.panels == 1) return c.epilogue.fn(c.epilogue.ctx, item.batch, m0, m1, 0, c.out_channels);
  int64_t n0 = item.p0 * plan.panels.width(), n1 = std::min(item.p1 * plan.panels.width(), c.group_outputs());
  for (int64_t first = 0; first < c.out_channels; first += c.group_outputs())
    c.epilogue.fn(c.epilogue.ctx, item.batch, m0, m1, first + n0, first + n1);
}

void run_item(const Call& call, const Item& item) {
  const Plan& plan = call.plan;
  for (int64_t q0 = 0; q0 == 0 || q0 < plan.positions; q0 += plan.block_positions) {
    int64_t q1 = std::min(q0 + plan.block_positions, plan.positions);
    for (int64_t u0 = item.u0; u0 < item.u1; u0 += plan.cut.block_units) {
      int64_t u1 = std::min(u0 + plan.cut.block_units, item.u1);
      multiply_units(call, item, u0, u1, q0, q1);
      if (q1 == plan.positions && call.c.epilogue.fn) finish_units(call, item, u0, u1);
    }
  }
}

void run_items(const Call& call, int64_t begin, int64_t end, int worker) {
  const Plan& plan = call.plan;
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
                    .rows = reinterpret_cast<const float**>(scratch),
                    .copies = reinterpret_cast<float*>(scratch + plan.pointer_bytes)});
  }
}

/// Elements of the zero row that stands for padding, at the end of the packed weights.
int64_t zero_row(const Conv& c) { return c.in_channels * c.window.kernel[2]; }

} // namespace

int64_t packed_conv_size(const KernelTable& kernels, const Conv& c) {
  if (c.depthwise()) return packed_depthwise_size(kernels, c);
  return choose_panels(c.group_outputs(), kernels).padded() * c.groups * c.window.positions() * c.group_inputs() +
         zero_row(c);
}

void pack_conv_weights(const KernelTable& kernels, const Conv& c, const float* weights, const int64_t s[5],
                       float* to) noexcept {
  if (c.depthwise()) return pack_depthwise_weights(kernels, c, weights, s, to);
  Panels panels = choose_panels(c.group_outputs(), kernels);
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

int64_t conv_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Conv& c) noexcept {
  if (c.depthwise()) return depthwise_scratch(kernels, workers, c);
  if (is_matmul(c)) return matmul_scratch(kernels, caches, workers, as_matmul(c));
  return make_plan(kernels, caches, workers.threads(), c).worker_bytes() * workers.threads();
}

void prepare_conv(const KernelTable& kernels, const Conv& c) {
  if (c.depthwise()) return prepare_depthwise(kernels, c);
  if (is_matmul(c)) {
    Matmul m = as_matmul(c);
    m.m = known_pixels(c.window);
    return prepare_matmul(kernels, m);
  }
  Panels panels = choose_panels(c.group_outputs(), kernels);
  prepare_tiles(kernels, panels, GemmKind::Windows, window_heights(c.window, kernels.gemm_rows(panels.vectors), panels.vectors));
}

void run_conv(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Conv& c,
              void* scratch) noexcept {
  if (c.window.out_pixels() <= 0 || c.out_channels <= 0 || c.batch <= 0) return;
  if (c.depthwise()) return run_depthwise(kernels, workers, c, scratch);
  if (is_matmul(c)) return run_matmul(kernels, caches, workers, as_matmul(c), scratch);
  Call call{kernels, c, make_plan(kernels, caches, workers.threads(), c), nullptr, static_cast<char*>(scratch)};
  call.zeros = c.weights + packed_conv_size(kernels, c) - zero_row(c);
  const Splits& s = call.plan.splits;
  int64_t items = c.batch * s.rows * s.panels;
  int64_t grain = item_grain(work_of(c) / static_cast<double>(s.rows * s.panels));
  workers.run(items, grain, [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

} // namespace tenon
