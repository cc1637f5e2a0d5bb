// The driver of the kernels for lines of planes.
#include "runtime/depthwise_lines.h"

#include <algorithm>
#include <cstring>

#include "runtime/conv.h"

namespace tenon {
namespace {

constexpr int64_t item_bytes = 32 << 10; // of an item's outputs: they stay in cache for the epilogue
constexpr int64_t few_channels = 4;      // of an item that is not whole planes

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t up64(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

/// Lines and vectors of a tile: eight sums or less, so that their multiply-adds overlap. AVX2 has few registers for
/// taps of step 2.
struct TileSize {
  int rows, vectors;
};
TileSize tile_size(const Conv& c, int lanes) {
  const ConvWindow& w = c.window;
  bool shares = w.kernel[1] > 1 && w.kernel[1] * w.kernel[2] <= LineKey::max_window;
  int64_t vectors = std::max<int64_t>(ceil_div(w.out[2], lanes), 1);
  int most_rows = !shares || w.out[1] < 2 ? 1 : vectors == 1 ? 8 : w.out[1] == 2 ? 2 : 4, most = 8 / most_rows;
  if (most_rows > 1 && lanes == 8 && w.stride[2] == 2) most = std::max(most / 2, 1);
  return {static_cast<int>(std::min<int64_t>(most_rows, std::max<int64_t>(w.out[1], 1))),
          static_cast<int>(std::min<int64_t>(most, vectors))};
}

LineKey key_of(const Conv& c, TileSize tile) {
  const ConvWindow& w = c.window;
  LineKey k{.rows = tile.rows, .vectors = tile.vectors};
  if (tile.rows > 1) {
    k.kernel = static_cast<int>(w.kernel[1]), k.line_step = static_cast<int>(w.stride[1]),
    k.line_dilation = static_cast<int>(w.dilation[1]);
  }
  k.taps = static_cast<int>(w.kernel[2]), k.step = static_cast<int>(w.stride[2]),
  k.dilation = static_cast<int>(w.dilation[2]);
  return k;
}

/// Lanes of [0, lanes) that are columns of [0, width), where lane 0 is column `first`.
void add_mask(std::vector<char>& masks, int lanes, int64_t first, int64_t width) {
  int64_t begin = std::clamp<int64_t>(-first, 0, lanes), end = std::clamp<int64_t>(width - first, begin, lanes);
  if (lanes == 16) {
    auto bits = static_cast<uint16_t>(((1u << end) - 1) & ~((1u << begin) - 1));
    masks.insert(masks.end(), reinterpret_cast<char*>(&bits), reinterpret_cast<char*>(&bits + 1));
  } else {
    for (int64_t i = 0; i < lanes; i++)
      masks.insert(masks.end(), 4, static_cast<char>(i >= begin && i < end ? 0xff : 0));
  }
}

/// The masks of a tile's loads and stores that starts with output column x.
void add_masks(std::vector<char>& masks, const LineKey& k, int lanes, const ConvWindow& w, int64_t x) {
  for (int g = 0; g < k.groups(); g++)
    for (int v = 0; v < k.vectors; v++)
      for (int half = 0; half < k.step; half++) {
        int64_t first = x * k.step - w.pad[2] + g * (k.pairs() ? 2 : 1) * k.dilation + (v * k.step + half) * lanes;
        add_mask(masks, lanes, first, w.in[2]);
      }
  for (int v = 0; v < k.vectors; v++) add_mask(masks, lanes, x + v * lanes, w.out[2]);
  for (; lanes == 16 && masks.size() % 4; masks.push_back(0)) {
  }
}

/// True if all that a tile at x loads lies within the line.
bool is_inside(const LineKey& k, int lanes, const ConvWindow& w, int64_t x) {
  int64_t first = x * k.step - w.pad[2], columns = int64_t{k.vectors} * lanes;
  int64_t end = first + columns * k.step + (k.groups() - 1) * (k.pairs() ? 2 : 1) * k.dilation;
  return first >= 0 && end <= w.in[2] && x + columns <= w.out[2];
}

void cut_line(LinePlan& plan, const KernelTable& kernels, const Conv& c, TileSize tile) {
  const ConvWindow& w = c.window;
  int lanes = kernels.lanes();
  for (int64_t x = 0; x < w.out[2]; x += int64_t{tile.vectors} * lanes) {
    TileSize now{tile.rows, static_cast<int>(std::min<int64_t>(tile.vectors, ceil_div(w.out[2] - x, lanes)))};
    LineKey key = key_of(c, now);
    LinePlan::Piece piece{x, -1, {}};
    key.masked = !is_inside(key, lanes, w, x);
    if (key.masked) {
      piece.masks = static_cast<int64_t>(plan.masks.size());
      add_masks(plan.masks, key, lanes, w, x);
    }
    for (int larger = 0; larger < 2; larger++) {
      key.rows = static_cast<int>(plan.bands.small + larger);
      if (larger ? plan.bands.larger > 0 : plan.bands.larger < plan.bands.count)
        piece.kernels[larger] = kernels.lines(key);
    }
    plan.pieces.push_back(piece);
  }
}

struct Band {
  int64_t z, y; // its first output line
  int rows, larger;
};

Band band_at(const LinePlan& p, int64_t index) {
  int64_t t = index % p.bands.count;
  return {index / p.bands.count, t * p.bands.small + std::min(t, p.bands.larger), p.bands.rows(t), t < p.bands.larger};
}

/// Output pixels before a band.
int64_t pixels_before(const LinePlan& p, const ConvWindow& w, int64_t index) {
  Band b = band_at(p, index);
  return (b.z * w.out[1] + b.y) * w.out[2];
}

/// Points at the input lines under a band, of one channel; returns the steps.
int64_t point_at_lines(const LinePlan& p, const Conv& c, const Band& b, const char* plane, const char** to) {
  const ConvWindow& w = c.window;
  bool shares = p.kernel > 1;
  int64_t lines = shares ? (b.rows - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1 : w.kernel[1];
  for (int64_t k = 0; k < w.kernel[0]; k++)
    for (int64_t i = 0; i < lines; i++) {
      int64_t z = b.z * w.stride[0] - w.pad[0] + k * w.dilation[0],
              y = b.y * w.stride[1] - w.pad[1] + i * (shares ? 1 : w.dilation[1]);
      bool inside = z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1];
      *to++ = inside ? plane + (z * w.in[1] + y) * w.in[2] * 4 : nullptr;
    }
  return shares ? w.kernel[0] : w.kernel[0] * w.kernel[1];
}

struct Item {
  int64_t batch, n0, n1, band0, band1;
};

/// Where an item's outputs go: its first one, and elements from channel to channel.
struct Out {
  float* data;
  int64_t channel;
};

void run_band(const LinePlan& p, const Conv& c, const Item& item, const Band& b, const char** lines, float* to,
              int64_t out_channel) {
  const ConvWindow& w = c.window;
  int64_t plane = w.in_pixels() * 4, multiplier = c.group_outputs(), together = multiplier == 1 ? item.n1 - item.n0 : 1;
  const char* image = static_cast<const char*>(c.input) + item.batch * c.in_batch * 4;
  LineArgs args{.lines = lines,
                .first = 0,
                .weights = nullptr,
                .c = nullptr,
                .c_row = w.out[2] * 4,
                .c_channel = out_channel * 4,
                .in_channel = plane,
                .steps = point_at_lines(p, c, b, image, lines),
                .channels = together,
                .masks = nullptr};
  for (int64_t n = item.n0; n < item.n1; n += together)
    for (const LinePlan::Piece& piece : p.pieces) {
      args.first = n / multiplier * plane + (piece.x * w.stride[2] - w.pad[2]) * 4;
      args.weights = static_cast<const float*>(c.weights) + n * w.positions();
      args.c = to + (n - item.n0) * out_channel + piece.x;
      args.masks = piece.masks < 0 ? nullptr : p.masks.data() + piece.masks;
      piece.kernels[b.larger](&args);
    }
}

void run_item(const LinePlan& p, const Conv& c, const Item& item, char* scratch) {
  const ConvWindow& w = c.window;
  int64_t m0 = pixels_before(p, w, item.band0),
          m1 = item.band1 == p.bands.count * w.out[0] ? w.out_pixels() : pixels_before(p, w, item.band1);
  auto** lines = reinterpret_cast<const char**>(scratch);
  Out out{reinterpret_cast<float*>(scratch + p.pointer_bytes), m1 - m0};
  if (c.output)
    out = {static_cast<float*>(c.output) + item.batch * c.out_batch + item.n0 * w.out_pixels() + m0, w.out_pixels()};
  for (int64_t i = item.band0; i < item.band1; i++)
    run_band(p, c, item, band_at(p, i), lines, out.data + pixels_before(p, w, i) - m0, out.channel);
  if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, {out.data, out.channel, item.batch, m0, m1, item.n0, item.n1});
}

/// Multiply-adds of a vector cost a cycle; the loads, some more.
double work_of(const Conv& c) {
  return static_cast<double>(c.batch * c.window.out_pixels() * (c.window.positions() + 3)) *
         static_cast<double>(c.out_channels) / 16;
}

} // namespace

bool has_line_kernels(const Conv& c) {
  return c.depthwise() && c.window.kernel[2] <= LineKey::max_taps && c.window.stride[2] <= 2;
}

int64_t packed_line_bytes(const Conv& c) { return up64(c.out_channels * c.window.positions() * 4); }

void pack_line_weights(const Conv& c, float* to) noexcept {
  const int64_t *k = c.window.kernel, *s = c.weight_strides;
  auto* weights = static_cast<const float*>(c.weights);
  for (int64_t o = 0; o < c.out_channels; o++)
    for (int64_t z = 0; z < k[0]; z++)
      for (int64_t y = 0; y < k[1]; y++)
        for (int64_t x = 0; x < k[2]; x++) *to++ = weights[o * s[0] + z * s[2] + y * s[3] + x * s[4]];
}

LinePlan plan_lines(const KernelTable& kernels, int threads, const Conv& c) {
  LinePlan p;
  const ConvWindow& w = c.window;
  if (w.out_pixels() <= 0 || c.out_channels <= 0) return p;
  TileSize tile = tile_size(c, kernels.lanes());
  p.bands = Tiles(w.out[1], tile.rows);
  tile.rows = p.bands.rows(0);
  p.kernel = tile.rows > 1 ? static_cast<int>(w.kernel[1]) : 1;
  cut_line(p, kernels, c, tile);
  // Whole planes where they are small; some items for every thread.
  int64_t bands = p.bands.count * w.out[0], plane = w.out_pixels() * 4, items = int64_t{threads} * items_per_thread;
  if (plane * few_channels <= item_bytes) {
    p.channels = std::clamp<int64_t>(std::min(item_bytes / plane, c.batch * c.out_channels / items), 1, c.out_channels);
    p.item_bands = bands;
  } else {
    p.channels = std::min(few_channels, c.out_channels);
    p.item_bands = std::clamp<int64_t>(item_bytes / (p.channels * tile.rows * w.out[2] * 4), 1, bands);
  }
  int64_t lines = (tile.rows - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
  p.pointer_bytes = up64(w.kernel[0] * std::max(lines, w.kernel[1]) * static_cast<int64_t>(sizeof(char*)));
  if (!c.output) p.sum_bytes = up64(p.channels * std::min(p.item_bands * tile.rows * w.out[2], w.out_pixels()) * 4);
  return p;
}

void run_lines(const Workers& workers, const LinePlan& p, const Conv& c, void* scratch) noexcept {
  int64_t bands = p.bands.count * c.window.out[0], ranges = ceil_div(bands, p.item_bands),
          blocks = ceil_div(c.out_channels, p.channels);
  int64_t items = c.batch * ranges * blocks;
  workers.run(items, item_grain(work_of(c) / static_cast<double>(std::max<int64_t>(items, 1))),
              [&](int64_t begin, int64_t end, int worker) {
                char* own = static_cast<char*>(scratch) + worker * p.worker_bytes();
                for (int64_t i = begin; i < end; i++) {
                  int64_t range = i % ranges, block = i / ranges % blocks;
                  Item item{i / ranges / blocks, block * p.channels, std::min((block + 1) * p.channels, c.out_channels),
                            range * p.item_bands, std::min((range + 1) * p.item_bands, bands)};
                  run_item(p, c, item, own);
                }
              });
}

} // namespace tenon
