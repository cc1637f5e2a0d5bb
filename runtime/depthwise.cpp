// The depthwise driver. Weights are packed [channels / lanes][position][channel of the group][lanes], in f32.
#include "runtime/depthwise.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/rounding.h"

namespace tenon {
namespace {

const char* image_of(const Conv& c, int64_t batch) { return static_cast<const char*>(c.input) + batch * c.in_batch * c.in_bytes(); }
float* output_of(const Conv& c, int64_t batch) { return static_cast<float*>(c.output) + batch * c.out_batch; }

struct DepthwisePlan {
  int vectors;
  int64_t channels, padded; // output channels
  int group;                // input channels of one
  PixelCut cut;
  Splits splits;
  int64_t pointer_bytes, sum_bytes;

  int64_t worker_bytes() const { return pointer_bytes + sum_bytes; }
};

/// Vectors of a block of channels: a number that leaves few over, wide ones first (they load fewer pointers).
int block_vectors(const KernelTable& kernels, int64_t all, int64_t group) {
  int best = 1;
  int64_t least = -1;
  for (int v = 4; v >= 1; v--)
    if (int64_t over = all % v; v <= all && kernels.depthwise_rows(v, group) > 0 && (least < 0 || (over == 0 && least > 0))) {
      best = v;
      least = over;
    }
  return best;
}

double depthwise_work(const Conv& c) {
  // Loads limit it, not multiply-adds: about a third of the matrix kernels' speed, one lane counted as one product of a
  // vector.
  return 3.0 / 32 * static_cast<double>(c.window.out_pixels() * c.window.positions()) *
         static_cast<double>(c.group_inputs() * c.out_channels);
}

DepthwisePlan make_plan(const KernelTable& kernels, int threads, const Conv& c) {
  DepthwisePlan p{};
  p.channels = c.out_channels;
  p.group = static_cast<int>(c.group_inputs());
  int64_t all = std::max<int64_t>(ceil_div(p.channels, kernels.lanes()), 1);
  p.padded = all * kernels.lanes();
  p.vectors = block_vectors(kernels, all, p.group);
  p.cut = cut_pixels(c.window, kernels.depthwise_rows(p.vectors, p.group), p.vectors);
  p.splits = choose_splits(
      {.tiles = p.cut.units(), .panels = 1, .batch = c.batch, .work = depthwise_work(c), .threads = threads, .panels_first = false});
  int64_t pointers = std::min(max_block_pixels, c.window.out_pixels()) * c.window.positions();
  p.pointer_bytes = up64(pointers * static_cast<int64_t>(sizeof(float*)));
  if (!c.output) p.sum_bytes = up64(std::min(max_block_pixels, c.window.out_pixels()) * p.channels * 4);
  return p;
}

struct DepthwiseCall {
  const KernelTable& kernels;
  const Conv& c;
  DepthwisePlan plan;
  bool reads_ahead;
  const char* zeros;
  char* scratch;
};

/// Where sums go: the first output pixel, and elements from one to the next.
struct DepthwiseOut {
  float* data;
  int64_t pixel;
};

/// Blocks of so many channels, each of which asks for a part of what is read next.
void run_blocks(DepthwiseFn kernel, const Conv& c, int64_t channels, DepthwiseArgs args, const ReadNext& next) {
  if (next.bytes == 0) return kernel(&args);
  int64_t blocks = std::exchange(args.blocks, 1);
  for (int64_t i = 0; i < blocks; i++) {
    next.part(i, blocks).ask();
    kernel(&args);
    args.first += channels * c.in_bytes();
    args.weights += channels * args.positions * c.group_inputs();
    args.c += channels;
  }
}

void run_tile(const DepthwiseCall& call, const RowTile& tile, DepthwiseOut to, const ReadNext& next) {
  const Conv& c = call.c;
  const DepthwisePlan& p = call.plan;
  int64_t block = int64_t{p.vectors} * call.kernels.lanes(), full = p.channels / block;
  DepthwiseShape shape{.rows = tile.count, .vectors = p.vectors, .group = p.group, .in = c.in_type};
  DepthwiseArgs args{.pixels = tile.rows,
                     .first = tile.first,
                     .weights = static_cast<const float*>(c.weights),
                     .c = to.data,
                     .c_pixel = to.pixel * 4,
                     .c_row = 0,
                     .positions = c.window.positions(),
                     .blocks = full,
                     .columns = 0};
  if (full > 0) run_blocks(call.kernels.depthwise(shape), c, block, args, next);
  int64_t done = full * block;
  args.columns = p.channels - done;
  if (args.columns == 0) return;
  args.first += done * c.in_bytes();
  args.weights += done * c.window.positions() * p.group;
  args.c += done;
  args.blocks = 1;
  shape.vectors = static_cast<int>(ceil_div(args.columns, call.kernels.lanes()));
  shape.masked = args.columns % call.kernels.lanes() != 0;
  call.kernels.depthwise(shape)(&args);
}

/// Units [u0, u1) of those before `end`.
void run_units(const DepthwiseCall& call, int64_t batch, int64_t u0, int64_t u1, int64_t end, char* scratch) {
  const Conv& c = call.c;
  const DepthwisePlan& p = call.plan;
  auto** pointers = reinterpret_cast<const void**>(scratch);
  RowTile tiles[max_block_pixels];
  WindowInput in{.image = image_of(c, batch), .pixel = c.in_pixel * c.in_bytes(), .zeros = call.zeros};
  int64_t count = cut_windows(c.window, p.cut, in, u0, u1, 0, c.window.positions(), pointers, tiles);
  ReadNext next = call.reads_ahead
                      ? first_met(c.window, in.image, in.pixel, p.cut.begin(u1), p.cut.begin(std::min(u1 + p.cut.block_units, end)))
                      : ReadNext{};
  DepthwiseOut out{reinterpret_cast<float*>(scratch + p.pointer_bytes), c.out_channels};
  if (c.output) out = {output_of(c, batch) + p.cut.begin(u0) * c.out_pixel, c.out_pixel};
  DepthwiseOut to = out;
  for (int64_t t = 0; t < count; t++) {
    run_tile(call, tiles[t], to, next.part(t, count));
    to.data += tiles[t].count * to.pixel;
  }
  if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, {out.data, out.pixel, batch, p.cut.begin(u0), p.cut.begin(u1), 0, c.out_channels});
}

void run_items(const DepthwiseCall& call, int64_t begin, int64_t end, int worker) {
  const DepthwisePlan& p = call.plan;
  char* scratch = call.scratch + worker * p.worker_bytes();
  int64_t units = p.cut.units();
  for (int64_t i = begin; i < end; i++) {
    int64_t im = i % p.splits.rows, last = units * (im + 1) / p.splits.rows;
    for (int64_t u = units * im / p.splits.rows; u < last; u += p.cut.block_units)
      run_units(call, i / p.splits.rows, u, std::min(u + p.cut.block_units, last), last, scratch);
  }
}

/// Pointers to the input pixels under one tile of outputs.
struct PlanePixels {
  static constexpr int most = 13 * 19; // under 4 x 7 outputs with a 7 x 7 kernel and stride 2
  const void* at[most];
};

/// The tiles of one band of output rows share the pointers of a tile without padding at its sides.
struct PlaneBand {
  const KernelTable& kernels;
  const Conv& c;
  RowRing image;
  DepthwiseOut out;
  int64_t y; // first input row, may lie in the padding
  int rows;  // of output
  ReadNext next;
};

void point_at_plane(const PlaneBand& b, const PlaneShape& s, int64_t x, PlanePixels& to) {
  const ConvWindow& w = b.c.window;
  const void** next = to.at;
  int64_t pixel = b.c.in_pixel * b.c.in_bytes();
  for (int64_t i = b.y; i < b.y + s.in_rows(); i++) {
    bool in = i >= 0 && i < w.in[1];
    const char* row = in ? b.image.data + (i - b.image.first) % b.image.count * w.in[2] * pixel : nullptr;
    for (int64_t j = x; j < x + s.in_pixels(); j++) *next++ = in && j >= 0 && j < w.in[2] ? row + j * pixel : nullptr;
  }
}

void run_plane(const PlaneBand& b, PlaneShape s, const PlanePixels& pixels, int64_t first, float* to, const ReadNext& next) {
  const Conv& c = b.c;
  int64_t lanes = b.kernels.lanes(), full = c.out_channels / lanes, done = full * lanes;
  DepthwiseArgs args{.pixels = pixels.at,
                     .first = first * c.in_bytes(),
                     .weights = static_cast<const float*>(c.weights),
                     .c = to,
                     .c_pixel = b.out.pixel * 4,
                     .c_row = c.window.out[2] * b.out.pixel * 4,
                     .positions = c.window.positions(),
                     .blocks = full,
                     .columns = c.out_channels - done};
  if (full > 0) run_blocks(b.kernels.plane(s), c, lanes, args, next);
  if (args.columns == 0) return;
  args.first += done * c.in_bytes();
  args.weights += done * args.positions;
  args.c += done;
  args.blocks = 1;
  s.masked = true;
  b.kernels.plane(s)(&args);
}

/// Output rows of a tile: as many as registers hold sums of, beside the weights of a 3x3 kernel.
int plane_rows(int lanes, int kernel) { return lanes == 16 && kernel > 3 ? 4 : 2; }

PlaneShape plane_shape(const Conv& c, int rows, int pixels) {
  return {.kernel = static_cast<int>(c.window.kernel[1]),
          .stride = static_cast<int>(c.window.stride[1]),
          .rows = rows,
          .pixels = pixels,
          .in = c.in_type};
}

void run_band(PlaneBand& band, int64_t batch, int64_t oy) {
  const Conv& c = band.c;
  const ConvWindow& w = c.window;
  Tiles tiles(w.out[2], PlaneShape::max_pixels);
  PlanePixels pixels;
  int shared = 0; // pixels of the tile whose pointers are kept
  int64_t shared_x = 0;
  for (int64_t t = 0, ox = 0; t < tiles.count; t++) {
    PlaneShape s = plane_shape(c, band.rows, tiles.rows(t));
    int64_t x = ox * w.stride[2] - w.pad[2];
    bool inside = x >= 0 && x + s.in_pixels() <= w.in[2];
    if (!inside || shared != s.pixels) {
      point_at_plane(band, s, x, pixels);
      shared = inside ? s.pixels : 0;
      shared_x = x;
    }
    run_plane(band, s, pixels, (x - shared_x) * c.in_pixel, band.out.data + ox * band.out.pixel, band.next.part(t, tiles.count));
    ox += s.pixels;
  }
  if (c.epilogue.fn)
    c.epilogue.fn(c.epilogue.ctx, {band.out.data, band.out.pixel, batch, oy * w.out[2], (oy + band.rows) * w.out[2], 0, c.out_channels});
}

} // namespace

bool fits_plane(const Conv& c) {
  const ConvWindow& w = c.window;
  int64_t k = w.kernel[1], s = w.stride[1];
  return c.depthwise() && w.kernel[0] == 1 && w.in[0] == 1 && w.pad[0] == 0 && w.out[0] == 1 && w.kernel[2] == k &&
         (k == 3 || k == 5 || k == 7) && w.stride[2] == s && (s == 1 || s == 2) && w.dilation[1] == 1 && w.dilation[2] == 1;
}

int64_t plane_sum_bytes(const KernelTable& kernels, const Conv& c) {
  int rows = plane_rows(kernels.lanes(), static_cast<int>(c.window.kernel[1]));
  return c.output ? 0 : up64(std::min<int64_t>(rows, c.window.out[1]) * c.window.out[2] * c.out_channels * 4);
}

static void run_rows(const KernelTable& kernels, const Conv& c, int64_t batch, int64_t y, int rows, const RowRing& image, float* to,
                     ReadNext next = {}) {
  const ConvWindow& w = c.window;
  PlaneBand band{.kernels = kernels,
                 .c = c,
                 .image = image,
                 .out = {to, c.output ? c.out_pixel : c.out_channels},
                 .y = y * w.stride[1] - w.pad[1],
                 .rows = rows,
                 .next = next};
  run_band(band, batch, y);
}

void run_depthwise_rows(const KernelTable& kernels, const Conv& c, int64_t batch, int64_t y0, int64_t y1, const RowRing& image,
                        float* to) noexcept {
  Tiles bands(y1 - y0, plane_rows(kernels.lanes(), static_cast<int>(c.window.kernel[1])));
  for (int64_t i = 0, y = y0; i < bands.count; y += bands.rows(i++)) {
    float* row = c.output ? to + (y - y0) * c.window.out[2] * c.out_pixel : to;
    run_rows(kernels, c, batch, y, bands.rows(i), image, row);
  }
}

static void run_planes(const KernelTable& kernels, const Workers& workers, const Conv& c, bool reads_ahead, char* scratch) {
  const ConvWindow& w = c.window;
  Tiles bands(w.out[1], plane_rows(kernels.lanes(), static_cast<int>(w.kernel[1])));
  double work = depthwise_work(c) / static_cast<double>(std::max<int64_t>(bands.count, 1));
  int64_t bytes = plane_sum_bytes(kernels, c);
  workers.run(c.batch * bands.count, item_grain(work), [&](int64_t begin, int64_t end, int worker) {
    auto* sums = reinterpret_cast<float*>(scratch + worker * bytes);
    for (int64_t i = begin; i < end; i++) {
      int64_t batch = i / bands.count, band = i % bands.count, y = band * bands.small + std::min(band, bands.larger);
      int64_t next = y + bands.rows(band), after = band + 1 < bands.count ? next + bands.rows(band + 1) : next;
      float* to = c.output ? output_of(c, batch) + y * w.out[2] * c.out_pixel : sums;
      run_rows(kernels, c, batch, y, bands.rows(band), {image_of(c, batch), 0, w.in[1]}, to,
               reads_ahead ? first_met(w, image_of(c, batch), c.in_pixel * c.in_bytes(), next * w.out[2], after * w.out[2]) : ReadNext{});
    }
  });
}

void prepare_planes(const KernelTable& kernels, const Conv& c) {
  const ConvWindow& w = c.window;
  uint64_t rows = tile_heights(w.out[1], plane_rows(kernels.lanes(), static_cast<int>(w.kernel[1])));
  uint64_t pixels = tile_heights(w.out[2], PlaneShape::max_pixels);
  for (int r = 1; r <= KernelTable::max_rows; r++)
    for (int p = 1; p <= PlaneShape::max_pixels; p++) {
      if (!(rows >> r & 1) || !(pixels >> p & 1)) continue;
      PlaneShape s = plane_shape(c, r, p);
      if (c.out_channels >= kernels.lanes()) kernels.plane(s);
      s.masked = true;
      if (c.out_channels % kernels.lanes() != 0) kernels.plane(s);
    }
}

static void prepare_rows(const KernelTable& kernels, const Conv& c) {
  int64_t lanes = kernels.lanes(), all = std::max<int64_t>(ceil_div(c.out_channels, lanes), 1);
  int group = static_cast<int>(c.group_inputs()), vectors = block_vectors(kernels, all, group);
  int64_t block = vectors * lanes, left = c.out_channels % block;
  uint64_t heights = window_heights(c.window, kernels.depthwise_rows(vectors, group), vectors);
  for (int rows = 1; rows <= KernelTable::max_rows; rows++) {
    if (!(heights >> rows & 1)) continue;
    DepthwiseShape s{.rows = rows, .vectors = vectors, .group = group, .in = c.in_type};
    if (c.out_channels >= block) kernels.depthwise(s);
    s.vectors = static_cast<int>(ceil_div(left, lanes)), s.masked = left % lanes != 0;
    if (left) kernels.depthwise(s);
  }
}

bool has_depthwise_kernels(const KernelTable& kernels, const Conv& c) {
  if (!c.has_groups_of_floats() || kernels.depthwise_rows(1, c.group_inputs()) == 0 || c.group_inputs() != c.group_outputs()) return false;
  return c.depthwise() || !c.row_major;
}

int64_t packed_depthwise_bytes(const KernelTable& kernels, const Conv& c) {
  int64_t padded = ceil_div(c.out_channels, kernels.lanes()) * kernels.lanes();
  return (c.window.positions() * c.group_inputs() + 1) * padded * 4; // and a row of zeros that stands for padding
}

void pack_depthwise_weights(const KernelTable& kernels, const Conv& c, float* to) noexcept {
  const int64_t *k = c.window.kernel, *s = c.weight_strides;
  int64_t lanes = kernels.lanes(), positions = c.window.positions(), group = c.group_inputs();
  std::memset(to, 0, static_cast<size_t>(packed_depthwise_bytes(kernels, c)));
  for (int64_t o = 0; o < c.out_channels; o++)
    for (int64_t q = 0; q < positions; q++)
      for (int64_t i = 0; i < group; i++)
        to[((o / lanes * positions + q) * group + i) * lanes + o % lanes] =
            weight_at(c, o * s[0] + i * s[1] + q / (k[2] * k[1]) * s[2] + q / k[2] % k[1] * s[3] + q % k[2] * s[4]);
}

int64_t plan_depthwise(const KernelTable& kernels, int threads, const Conv& c) {
  if (fits_plane(c)) {
    prepare_planes(kernels, c);
    return plane_sum_bytes(kernels, c);
  }
  prepare_rows(kernels, c);
  return make_plan(kernels, threads, c).worker_bytes();
}

void run_depthwise(const KernelTable& kernels, const Workers& workers, const Conv& c, bool reads_ahead, void* scratch) noexcept {
  if (fits_plane(c)) return run_planes(kernels, workers, c, reads_ahead, static_cast<char*>(scratch));
  DepthwiseCall call{kernels, c, make_plan(kernels, workers.threads(), c), reads_ahead, nullptr, static_cast<char*>(scratch)};
  call.zeros = static_cast<const char*>(c.weights) + c.window.positions() * call.plan.group * call.plan.padded * 4;
  int64_t grain = item_grain(depthwise_work(c) / static_cast<double>(call.plan.splits.rows));
  workers.run(c.batch * call.plan.splits.rows, grain, [&](int64_t begin, int64_t end, int worker) { run_items(call, begin, end, worker); });
}

} // namespace tenon
