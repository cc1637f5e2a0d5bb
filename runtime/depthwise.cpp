// The depthwise driver. Weights are packed [position][channel]. Several outputs per input channel (a depth multiplier) need
// the input's channels repeated: each worker expands the rows its block of pixels reads, then the same kernels run on them.
#include "runtime/depthwise.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t up64(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

/// Blocks of rows between epilogues; the pointers of one block stay in L1.
constexpr int64_t max_block_rows = 128;

struct Plan {
  int vectors, tile_rows;
  int64_t channels, padded, multiplier; // output channels
  int64_t block_rows;
  Splits splits;
  int64_t pointer_bytes, copy_bytes;

  int64_t worker_bytes() const { return pointer_bytes + copy_bytes; }
};

/// Vectors of a block of channels: a number that leaves few over, wide ones first (they load fewer pointers).
int block_vectors(const KernelTable& kernels, int64_t all) {
  int best = 1;
  int64_t least = -1;
  for (int v = 4; v >= 1; v--)
    if (int64_t over = all % v; v <= all && kernels.depthwise_rows(v) > 0 && (least < 0 || (over == 0 && least > 0))) {
      best = v;
      least = over;
    }
  return best;
}

double work_of(const Conv& c) {
  // Loads limit it, not multiply-adds: about a third of the matrix kernels' speed, one lane counted as one product of a vector.
  return 3.0 * static_cast<double>(c.window.out_pixels() * c.window.positions()) * static_cast<double>(c.out_channels);
}

Plan make_plan(const KernelTable& kernels, int threads, const Conv& c) {
  Plan p{};
  p.channels = c.out_channels;
  p.multiplier = c.group_outputs();
  int64_t all = std::max<int64_t>(ceil_div(p.channels, kernels.lanes()), 1);
  p.padded = all * kernels.lanes();
  p.vectors = block_vectors(kernels, all);
  p.tile_rows = kernels.depthwise_rows(p.vectors);
  // An expanded row is written once per position: keep the copies of a block near 256 KB.
  int64_t rows = max_block_rows;
  if (p.multiplier > 1) rows = (256 << 10) / std::max<int64_t>(c.window.positions() * p.channels * 4, 1);
  p.block_rows = std::clamp<int64_t>(rows / p.tile_rows, 1, max_block_rows / p.tile_rows) * p.tile_rows;
  p.splits = choose_splits({.tiles = ceil_div(c.window.out_pixels(), p.tile_rows),
                            .panels = 1,
                            .batch = c.batch,
                            .work = work_of(c),
                            .threads = threads,
                            .panels_first = false});
  int64_t pointers = std::min(p.block_rows, c.window.out_pixels()) * c.window.positions();
  p.pointer_bytes = up64(pointers * static_cast<int64_t>(sizeof(float*)));
  if (p.multiplier > 1) p.copy_bytes = up64(pointers * p.channels * 4);
  return p;
}

struct Call {
  const KernelTable& kernels;
  const Conv& c;
  Plan plan;
  const float* zeros;
  char* scratch;
};

/// Repeats every channel of the rows behind `pointers` and points at the copies.
void expand_rows(const Call& call, int64_t count, const float** pointers, float* copies) {
  int64_t multiplier = call.plan.multiplier;
  for (int64_t i = 0; i < count; i++) {
    const float* from = pointers[i];
    if (from == call.zeros) continue;
    pointers[i] = copies;
    for (int64_t ch = 0; ch < call.c.in_channels; ch++)
      for (int64_t j = 0; j < multiplier; j++) *copies++ = from[ch];
  }
}

void run_tile(const Call& call, int rows, const float* const* pointers, float* to) {
  const Conv& c = call.c;
  const Plan& p = call.plan;
  int64_t block = int64_t{p.vectors} * call.kernels.lanes(), full = p.channels / block;
  DepthwiseArgs args{.rows = pointers,
                     .first = 0,
                     .weights = c.weights,
                     .weights_stride = p.padded * 4,
                     .c = to,
                     .c_stride = c.out_pixel * 4,
                     .init = c.bias,
                     .positions = c.window.positions(),
                     .blocks = full,
                     .columns = 0,
                     .mode = c.accumulate ? GemmInit::C : c.bias ? GemmInit::Row : GemmInit::Zero};
  if (full > 0) call.kernels.depthwise({.rows = rows, .vectors = p.vectors})(&args);
  int64_t done = full * block;
  args.columns = p.channels - done;
  if (args.columns == 0) return;
  args.first = done * 4;
  args.weights += done;
  args.c += done;
  if (args.init) args.init += done;
  args.blocks = 1;
  int vectors = static_cast<int>(ceil_div(args.columns, call.kernels.lanes()));
  bool masked = args.columns % call.kernels.lanes() != 0;
  call.kernels.depthwise({.rows = rows, .vectors = vectors, .masked = masked})(&args);
}

void run_rows(const Call& call, int64_t batch, int64_t m0, int64_t m1, char* scratch) {
  const Conv& c = call.c;
  auto** pointers = reinterpret_cast<const float**>(scratch);
  WindowRows rows{.image = c.input + batch * c.in_batch,
                  .pixel = c.in_pixel,
                  .zeros = call.zeros,
                  .m0 = m0, .m1 = m1, .q0 = 0, .q1 = c.window.positions(),
                  .tile_rows = call.plan.tile_rows};
  point_at_pixels(c.window, rows, pointers);
  if (call.plan.multiplier > 1)
    expand_rows(call, (m1 - m0) * rows.q1, pointers, reinterpret_cast<float*>(scratch + call.plan.pointer_bytes));
  Tiles tiles(m1 - m0, call.plan.tile_rows);
  float* to = c.output + batch * c.out_batch + m0 * c.out_pixel;
  for (int64_t t = 0; t < tiles.count; t++) {
    int n = tiles.rows(t);
    run_tile(call, n, pointers, to);
    pointers += n * rows.q1;
    to += n * c.out_pixel;
  }
  if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, batch, m0, m1, 0, c.out_channels);
}

void run_items(const Call& call, int64_t begin, int64_t end, int worker) {
  const Plan& p = call.plan;
  char* scratch = call.scratch + worker * p.worker_bytes();
  int64_t pixels = call.c.window.out_pixels(), tiles = ceil_div(pixels, p.tile_rows);
  for (int64_t i = begin; i < end; i++) {
    int64_t im = i % p.splits.rows, batch = i / p.splits.rows;
    int64_t first = tiles * im / p.splits.rows * p.tile_rows;
    int64_t last = std::min(tiles * (im + 1) / p.splits.rows * p.tile_rows, pixels);
    for (int64_t m = first; m < last; m += p.block_rows)
      run_rows(call, batch, m, std::min(m + p.block_rows, last), scratch);
  }
}

} // namespace

int64_t packed_depthwise_size(const KernelTable& kernels, const Conv& c) {
  int64_t padded = ceil_div(c.out_channels, kernels.lanes()) * kernels.lanes();
  return (c.window.positions() + 1) * padded; // and a row of zeros that stands for padding
}

void pack_depthwise_weights(const KernelTable& kernels, const Conv& c, const float* weights, const int64_t s[5],
                            float* to) noexcept {
  const int64_t* k = c.window.kernel;
  int64_t padded = ceil_div(c.out_channels, kernels.lanes()) * kernels.lanes();
  std::memset(to, 0, static_cast<size_t>(packed_depthwise_size(kernels, c)) * 4);
  for (int64_t o = 0; o < c.out_channels; o++)
    for (int64_t q = 0; q < c.window.positions(); q++)
      to[q * padded + o] = weights[o * s[0] + q / (k[2] * k[1]) * s[2] + q / k[2] % k[1] * s[3] + q % k[2] * s[4]];
}

int64_t depthwise_scratch(const KernelTable& kernels, const Workers& workers, const Conv& c) noexcept {
  return make_plan(kernels, workers.threads(), c).worker_bytes() * workers.threads();
}

void run_depthwise(const KernelTable& kernels, const Workers& workers, const Conv& c, void* scratch) noexcept {
  Call call{kernels, c, make_plan(kernels, workers.threads(), c), nullptr, static_cast<char*>(scratch)};
  call.zeros = c.weights + c.window.positions() * call.plan.padded;
  int64_t grain = item_grain(work_of(c) / static_cast<double>(call.plan.splits.rows));
  workers.run(c.batch * call.plan.splits.rows, grain,
              [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

} // namespace tenon
