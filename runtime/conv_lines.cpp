// The driver of the kernels for lines of planes.
#include "runtime/conv_lines.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/rounding.h"
#include "runtime/conv.h"
#include "runtime/wide.h"

namespace tenon {
namespace {

constexpr int64_t item_bytes = 32 << 10; // of an item's outputs: they stay in cache for the epilogue
constexpr int64_t few_channels = 4;      // of an item that is not whole planes
constexpr int64_t most_products = 1024;  // of a step: they are written out
constexpr int64_t outputs_by_two = 6;    // whose sums of two vectors sixteen registers hold beside what they read

/// The outputs of each group, in blocks that one kernel computes.
struct Blocks {
  int64_t inputs, outputs, count, size; // inputs: as kernels read them, channels or pairs

  Blocks(const Conv& c, int lanes, bool dot) : inputs(ceil_div(c.group_inputs(), dot ? 2 : 1)), outputs(c.group_outputs()) {
    count = ceil_div(outputs, lanes == 16 ? LineKey::max_outputs : outputs_by_two);
    size = ceil_div(outputs, std::max<int64_t>(count, 1));
  }
  int64_t last_size() const { return outputs - (count - 1) * size; }
  /// The first output of block i of all groups'.
  int64_t first(int64_t i) const { return i / count * outputs + i % count * size; }
};

/// Elements of a remainder's columns in a parted line: as far as windows of whole vectors of outputs reach. 0: lines
/// stay as they are, where few outputs read each, and kernels take even and odd columns apart. Short lines that many
/// read are parted for their padding alone, which spares masks; those of pairs, which are copied anyway, always.
int64_t part_of(const Conv& c, int lanes, bool dot) {
  const ConvWindow& w = c.window;
  constexpr int64_t many = 8;
  int64_t outputs = c.group_outputs(), step = w.stride[2];
  bool is_short = outputs >= many && w.out[2] <= int64_t{4} * lanes;
  bool stay = step == 1 ? !is_short : step == 2 && outputs < (w.dilation[2] == 1 ? many : 2);
  if (stay && !dot) return 0;
  return ceil_div(w.out[2], lanes) * lanes + (w.kernel[2] - 1) * w.dilation[2] / step;
}

/// A key for tiles of so many rows and vectors, with `kernel` lines of the window a step.
LineKey key_of(const Conv& c, int64_t outputs, int64_t rows, int64_t vectors, int64_t kernel) {
  const ConvWindow& w = c.window;
  auto number = [](int64_t i) { return static_cast<int>(i); };
  LineKey k{.rows = number(rows), .vectors = number(vectors), .outputs = number(outputs)};
  k.taps = number(w.kernel[2]), k.step = number(w.stride[2]), k.dilation = number(w.dilation[2]);
  if (kernel > 1) k.kernel = number(kernel), k.line_step = number(w.stride[1]), k.line_dilation = number(w.dilation[1]);
  return k;
}

struct TileSize {
  int64_t rows, vectors;
};

/// Cycles for a vector of products: a multiply-add, or what is loaded for it. A weight serves all vectors, where
/// weights are not kept; a load of a line, which crosses cache lines, all outputs and rows whose windows hold it.
double cost_of(const LineKey& k, bool wide) {
  int window = k.kernel * k.taps;
  bool kept = k.outputs == 1 && k.rows > 1 && k.registers(wide) + window <= (wide ? 32 : 16);
  double served = k.outputs * static_cast<double>(k.rows * k.kernel) / k.in_lines();
  double loads = (kept ? 0 : 1.0 / k.vectors) + (k.loads() == 1 ? 2 : k.pairs() ? 3 : 5) / served;
  return std::max(loads, 1.0) * std::max(8.0 / k.sums(), 1.0);
}

/// The cheapest of the tiles that fit the registers, and whose products can be written out.
TileSize tile_size(const Conv& c, int lanes, bool dot) {
  const ConvWindow& w = c.window;
  int64_t outputs = Blocks(c, lanes, dot).size, vectors = std::max<int64_t>(ceil_div(w.out[2], lanes), 1);
  TileSize best{1, 1};
  double best_cost = 1e30;
  for (int64_t rows : {1, 2, 4, 8}) {
    if (rows > 1 && (w.kernel[1] == 1 || w.out[1] < rows)) break;
    for (int64_t v = 1; v <= std::min<int64_t>(vectors, 8); v++) {
      if (Tiles(vectors, static_cast<int>(v)).rows(0) < v) continue;
      LineKey key = key_of(c, outputs, rows, v, rows > 1 ? w.kernel[1] : 1);
      key.part = static_cast<int>(part_of(c, lanes, dot));
      key.masked = true;
      bool fits = key.registers(lanes == 16) <= 2 * lanes && key.kernel * key.taps * key.sums() <= most_products;
      double cost = cost_of(key, lanes == 16);
      if (!fits || cost > best_cost) continue;
      best = {rows, v}, best_cost = cost;
    }
  }
  return best;
}

/// Lanes of [0, lanes) that are columns of [0, width), where lane 0 is column `first`.
void add_mask(std::vector<char>& masks, int lanes, int64_t first, int64_t width) {
  int64_t begin = std::clamp<int64_t>(-first, 0, lanes), end = std::clamp<int64_t>(width - first, begin, lanes);
  if (lanes == 16) {
    auto bits = static_cast<uint16_t>(((1u << end) - 1) & ~((1u << begin) - 1));
    masks.insert(masks.end(), reinterpret_cast<char*>(&bits), reinterpret_cast<char*>(&bits + 1));
  } else {
    for (int64_t i = 0; i < lanes; i++) masks.insert(masks.end(), 4, static_cast<char>(i >= begin && i < end ? 0xff : 0));
  }
}

/// The masks of a tile's loads and stores that starts with output column x.
void add_masks(std::vector<char>& masks, const LineKey& k, int lanes, const ConvWindow& w, int64_t x) {
  for (int g = 0; g < k.groups() && !k.part; g++)
    for (int v = 0; v < k.vectors; v++)
      for (int half = 0; half < k.step; half++) {
        int64_t first = x * k.step - w.pad[2] + g * (k.pairs() ? 2 : 1) * k.dilation + (v * k.step + half) * lanes;
        add_mask(masks, lanes, first, w.in[2]);
      }
  for (int v = 0; v < k.vectors; v++) add_mask(masks, lanes, x + v * lanes, w.out[2]);
  for (; lanes == 16 && masks.size() % 4; masks.push_back(0)) {}
}

/// True if all that a tile at x loads lies within the line.
bool is_inside(const LineKey& k, int lanes, const ConvWindow& w, int64_t x) {
  if (k.part) return x + int64_t{k.vectors} * lanes <= w.out[2];
  int64_t first = x * k.step - w.pad[2], columns = int64_t{k.vectors} * lanes;
  int64_t end = first + columns * k.step + (k.groups() - 1) * (k.pairs() ? 2 : 1) * k.dilation;
  return first >= 0 && end <= w.in[2] && x + columns <= w.out[2];
}

void cut_line(LinePlan& plan, const KernelTable& kernels, const Conv& c, TileSize tile) {
  const ConvWindow& w = c.window;
  int lanes = kernels.lanes();
  Blocks blocks(c, lanes, plan.dot);
  Tiles pieces(ceil_div(w.out[2], lanes), static_cast<int>(tile.vectors));
  int64_t x = 0;
  for (int64_t t = 0; t < pieces.count; x += int64_t{pieces.rows(t++)} * lanes) {
    LineKey key = key_of(c, blocks.size, 1, pieces.rows(t), plan.is_shared ? w.kernel[1] : 1);
    LinePlan::Piece piece{x, -1, {}};
    key.part = static_cast<int>(plan.part), key.dot = plan.dot;
    key.masked = !is_inside(key, lanes, w, x);
    if (key.masked) {
      piece.masks = static_cast<int64_t>(plan.masks.size());
      add_masks(plan.masks, key, lanes, w, x);
    }
    for (int larger = 0; larger < 2; larger++) {
      key.rows = static_cast<int>(plan.bands.small + larger);
      if (larger ? plan.bands.larger == 0 : plan.bands.larger == plan.bands.count) continue;
      for (int last = 0; last < 2; last++) {
        key.outputs = static_cast<int>(last ? blocks.last_size() : blocks.size);
        piece.kernels[larger][last] = kernels.lines(key);
      }
    }
    plan.pieces.push_back(piece);
  }
}

struct LineBand {
  int64_t z, y; // its first output line
  int rows, larger;
};

LineBand band_at(const LinePlan& p, int64_t index) {
  int64_t t = index % p.bands.count;
  return {index / p.bands.count, t * p.bands.small + std::min(t, p.bands.larger), p.bands.rows(t), t < p.bands.larger};
}

/// Output pixels before a band.
int64_t pixels_before(const ConvWindow& w, const LineBand& b) { return (b.z * w.out[1] + b.y) * w.out[2]; }

/// Input lines under so many adjacent output lines.
int64_t lines_under(const ConvWindow& w, int64_t rows) { return (rows - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1; }

/// The lines that an item reads, of some channels: where line y of plane z is, or, of parted ones, of the kernel's
/// plane z.
struct Source {
  const char* data;
  int64_t first_y, plane_lines, line_bytes, channel_bytes;
};

/// Points at the input lines under a band, of one channel; returns the steps.
int64_t point_at_lines(const LinePlan& p, const Conv& c, const LineBand& b, const Source& from, const char** to) {
  const ConvWindow& w = c.window;
  int64_t lines = p.is_shared ? lines_under(w, b.rows) : w.kernel[1];
  for (int64_t k = 0; k < w.kernel[0]; k++)
    for (int64_t i = 0; i < lines; i++) {
      int64_t z = b.z * w.stride[0] - w.pad[0] + k * w.dilation[0],
              y = b.y * w.stride[1] - w.pad[1] + i * (p.is_shared ? 1 : w.dilation[1]);
      bool inside = z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1];
      *to++ = inside ? from.data + ((p.copies() ? k : z) * from.plane_lines + y - from.first_y) * from.line_bytes : nullptr;
    }
  return p.is_shared ? w.kernel[0] : w.kernel[0] * w.kernel[1];
}

struct LineItem {
  int64_t batch, block0, block1, band0, band1;
};

/// Columns first, first + step, ... of a line of `width`, `count` of them; 0 for those outside.
template <int64_t fixed_step>
[[gnu::always_inline]] inline void take_columns(const float* line, int64_t width, int64_t first, int64_t any_step, int64_t count,
                                                float* to) {
  const int64_t step = fixed_step ? fixed_step : any_step;
  int64_t begin = std::min(first < 0 ? ceil_div(-first, step) : 0, count),
          end = std::clamp(first < width ? ceil_div(width - first, step) : 0, begin, count);
  std::fill(to, to + begin, 0.0f);
  for (int64_t j = begin; j < end; j++) to[j] = line[first + j * step];
  std::fill(to + end, to + count, 0.0f);
}
TENON_WIDE void part_line(const float* line, const ConvWindow& w, int64_t part, float* to) {
  int64_t step = w.stride[2];
  for (int64_t r = 0; r < step; r++, to += part) {
    if (step == 2) take_columns<2>(line, w.in[2], r - w.pad[2], step, part, to);
    else if (step == 4) take_columns<4>(line, w.in[2], r - w.pad[2], step, part, to);
    else take_columns<0>(line, w.in[2], r - w.pad[2], step, part, to);
  }
}

/// Those of two channels side by side, zeros for a second that is not there.
TENON_WIDE void pair_elements(const uint16_t* first, const uint16_t* second, int64_t count, uint32_t* to) {
  if (second)
    for (int64_t i = 0; i < count; i++) to[i] = first[i] | uint32_t{second[i]} << 16;
  else
    for (int64_t i = 0; i < count; i++) to[i] = first[i];
}

/// The lines of an item in the images, or parted in a worker's memory, where those of the item before may be the same.
class Sources {
public:
  Sources(const LinePlan& plan, const Conv& conv, char* room) : p_(plan), c_(conv), room_(room) {}

  Source of(const LineItem& item) {
    const ConvWindow& w = c_.window;
    int64_t plane = w.in_pixels() * c_.in_bytes(), group = item.block0 / blocks_.count;
    const char* image = static_cast<const char*>(c_.input) + item.batch * c_.in_batch * c_.in_bytes() + group * c_.group_inputs() * plane;
    if (!p_.copies()) return {image, 0, w.in[1], w.in[2] * 4, plane};
    LineBand first = band_at(p_, item.band0), last = band_at(p_, item.band1 - 1);
    Source to{room_, first.y * w.stride[1] - w.pad[1], p_.copied_lines, p_.line_elements(w) * 4, 0};
    to.channel_bytes = w.kernel[0] * to.plane_lines * to.line_bytes;
    int64_t groups = (item.block1 - 1) / blocks_.count + 1 - group;
    if (std::tie(item.batch, item.band0, group, groups) != held_)
      copy(image, groups, first.z, lines_under(w, last.y + last.rows - first.y), to);
    held_ = {item.batch, item.band0, group, groups};
    return to;
  }

private:
  void copy(const char* image, int64_t groups, int64_t out_z, int64_t lines, const Source& to) {
    const ConvWindow& w = c_.window;
    int64_t plane = w.in_pixels() * c_.in_bytes();
    for (int64_t i = 0; i < groups * blocks_.inputs; i++) {
      int64_t input = i % blocks_.inputs * (p_.dot ? 2 : 1), channel = i / blocks_.inputs * c_.group_inputs() + input;
      bool alone = input + 1 == c_.group_inputs();
      int64_t y0 = std::max<int64_t>(to.first_y, 0), y1 = std::min(to.first_y + lines, w.in[1]), together = p_.part ? 1 : y1 - y0;
      for (int64_t k = 0; k < w.kernel[0]; k++) {
        int64_t z = out_z * w.stride[0] - w.pad[0] + k * w.dilation[0];
        if (z < 0 || z >= w.in[0]) continue;
        for (int64_t y = y0; y < y1; y += together) {
          const char* line = image + channel * plane + (z * w.in[1] + y) * w.in[2] * c_.in_bytes();
          char* at = room_ + i * to.channel_bytes + (k * to.plane_lines + y - to.first_y) * to.line_bytes;
          if (p_.part) part(line, alone ? nullptr : line + plane, reinterpret_cast<float*>(at));
          else take(line, nullptr, together * w.in[2], reinterpret_cast<float*>(at));
        }
      }
    }
  }
  /// A line; of pairs `second` is that of the other channel, if there is one.
  void part(const char* line, const char* second, float* to) {
    const ConvWindow& w = c_.window;
    if (w.stride[2] != 1) {
      if (c_.in_type == DType::F32) return part_line(reinterpret_cast<const float*>(line), w, p_.part, to);
      auto* whole = reinterpret_cast<float*>(room_ + p_.copied_bytes - up64(w.in[2] * 4));
      take(line, second, w.in[2], whole);
      return part_line(whole, w, p_.part, to);
    }
    int64_t begin = std::min(w.pad[2], p_.part), end = std::clamp(w.pad[2] + w.in[2], begin, p_.part);
    std::fill(to, to + begin, 0.0f);
    take(line, second, end - begin, to + begin);
    std::fill(to + end, to + p_.part, 0.0f);
  }
  /// Elements as kernels read them: pairs, or f32.
  void take(const char* line, const char* second, int64_t count, float* to) {
    if (c_.in_type == DType::F32) return static_cast<void>(std::memcpy(to, line, static_cast<size_t>(count) * 4));
    if (p_.dot)
      return pair_elements(reinterpret_cast<const uint16_t*>(line), reinterpret_cast<const uint16_t*>(second), count,
                           reinterpret_cast<uint32_t*>(to));
    MoveArgs args{line, to, 0, 0, 1, count};
    p_.widen(&args);
  }

  const LinePlan& p_;
  const Conv& c_;
  char* room_;
  Blocks blocks_{c_, p_.lanes, p_.dot};
  std::tuple<int64_t, int64_t, int64_t, int64_t> held_{-1, 0, 0, 0}; // batch, band, groups
};

/// Where an item's outputs go: its first one, and elements from channel to channel.
struct LineOut {
  float* data;
  int64_t channel;
};

void run_band(const LinePlan& p, const Conv& c, const Blocks& blocks, const LineItem& item, const LineBand& b, const Source& from,
              const char** lines, LineOut to) {
  const ConvWindow& w = c.window;
  int64_t together = blocks.inputs == 1 && blocks.outputs == 1 ? item.block1 - item.block0 : 1, first_group = item.block0 / blocks.count,
          first_output = blocks.first(item.block0);
  LineArgs args{.lines = lines,
                .first = 0,
                .weights = nullptr,
                .c = nullptr,
                .c_row = w.out[2] * 4,
                .c_channel = to.channel * 4,
                .in_channel = from.channel_bytes,
                .inputs = blocks.inputs,
                .steps = point_at_lines(p, c, b, from, lines),
                .blocks = together,
                .masks = nullptr};
  for (int64_t i = item.block0; i < item.block1; i += together) {
    int64_t group = i / blocks.count, block = i - group * blocks.count, n = group * blocks.outputs + block * blocks.size;
    for (const LinePlan::Piece& piece : p.pieces) {
      int64_t column = p.part ? piece.x : piece.x * w.stride[2] - w.pad[2];
      args.first = (group - first_group) * blocks.inputs * from.channel_bytes + column * 4;
      args.weights = static_cast<const float*>(c.weights) + n * blocks.inputs * w.positions();
      args.c = to.data + (n - first_output) * to.channel + piece.x;
      args.masks = piece.masks < 0 ? nullptr : p.masks.data() + piece.masks;
      piece.kernels[b.larger][block == blocks.count - 1](&args);
    }
  }
}

void run_item(const LinePlan& p, const Conv& c, const LineItem& item, const Source& from, char* scratch) {
  const ConvWindow& w = c.window;
  Blocks blocks(c, p.lanes, p.dot);
  int64_t n0 = blocks.first(item.block0), n1 = blocks.first(item.block1);
  int64_t m0 = pixels_before(w, band_at(p, item.band0)),
          m1 = item.band1 == p.bands.count * w.out[0] ? w.out_pixels() : pixels_before(w, band_at(p, item.band1));
  auto** lines = reinterpret_cast<const char**>(scratch);
  LineOut out{reinterpret_cast<float*>(scratch + p.pointer_bytes), m1 - m0};
  if (c.output) out = {static_cast<float*>(c.output) + item.batch * c.out_batch + n0 * w.out_pixels() + m0, w.out_pixels()};
  for (int64_t i = item.band0; i < item.band1; i++) {
    LineBand b = band_at(p, i);
    run_band(p, c, blocks, item, b, from, lines, {out.data + pixels_before(w, b) - m0, out.channel});
  }
  if (c.epilogue.fn) c.epilogue.fn(c.epilogue.ctx, {out.data, out.channel, item.batch, m0, m1, n0, n1});
}

/// Multiply-adds of a vector cost a cycle; the loads, some more.
double line_work(const LinePlan& p, const Conv& c) {
  int64_t inputs = Blocks(c, p.lanes, p.dot).inputs;
  return static_cast<double>(c.batch * c.window.out_pixels() * (c.window.positions() * inputs + 3)) * static_cast<double>(c.out_channels) /
         16;
}

/// Whole planes where they are small; some items for every thread. Parted lines are of one plane, or of few channels.
void cut_items(LinePlan& p, int threads, const Conv& c, int64_t rows) {
  const ConvWindow& w = c.window;
  Blocks blocks(c, p.lanes, p.dot);
  int64_t bands = p.bands.count * w.out[0], plane = w.out_pixels() * 4, all = c.groups * blocks.count,
          items = int64_t{threads} * items_per_thread;
  int64_t few = ceil_div(few_channels, blocks.size), block_bytes = plane * blocks.size;
  if (block_bytes * few <= item_bytes && !(p.copies() && w.out[0] > 1)) {
    p.blocks = std::clamp<int64_t>(std::min(item_bytes / block_bytes, c.batch * all / items), 1, all);
    p.item_bands = bands;
    return;
  }
  p.by_planes = true;
  p.blocks = std::min(few, all);
  p.item_bands = std::clamp<int64_t>(item_bytes / (p.blocks * blocks.size * rows * w.out[2] * 4), 1, p.bands.count);
}

} // namespace

bool has_line_kernels(const Conv& c) {
  return !c.transposed && depthwise_reads(c.in_type) && depthwise_reads(c.weight_type) && c.window.kernel[2] <= LineKey::max_taps &&
         c.window.stride[2] <= LineKey::max_step;
}

bool dots_lines(const KernelTable& kernels, const Conv& c) {
  return kernels.dots_lines() && c.in_type == DType::BF16 && c.weight_type == DType::BF16 && c.group_inputs() > 1;
}

int64_t packed_line_bytes(const KernelTable& kernels, const Conv& c) {
  return up64(c.out_channels * Blocks(c, kernels.lanes(), dots_lines(kernels, c)).inputs * c.window.positions() * 4);
}

void pack_line_weights(const KernelTable& kernels, const Conv& c, void* to) noexcept {
  const int64_t *k = c.window.kernel, *s = c.weight_strides;
  bool dot = dots_lines(kernels, c);
  auto* sums = static_cast<float*>(to);
  auto* pairs = static_cast<uint32_t*>(to);
  auto bits = [&](int64_t element) { return uint32_t{static_cast<const BF16*>(c.weights)[element].bits}; };
  Blocks blocks(c, kernels.lanes(), dot);
  for (int64_t b = 0; b < c.groups * blocks.count; b++)
    for (int64_t i = 0; i < blocks.inputs; i++)
      for (int64_t q = 0; q < c.window.positions(); q++) {
        int64_t from = i * (dot ? 2 : 1) * s[1] + q / (k[2] * k[1]) * s[2] + q / k[2] % k[1] * s[3] + q % k[2] * s[4];
        bool alone = 2 * i + 1 == c.group_inputs();
        for (int64_t o = blocks.first(b); o < blocks.first(b + 1); o++)
          if (dot) *pairs++ = bits(from + o * s[0]) | (alone ? 0 : bits(from + o * s[0] + s[1]) << 16);
          else *sums++ = weight_at(c, from + o * s[0]);
      }
}

LinePlan plan_lines(const KernelTable& kernels, int threads, const Conv& c) {
  LinePlan p{.lanes = kernels.lanes(), .dot = dots_lines(kernels, c)};
  const ConvWindow& w = c.window;
  Blocks blocks(c, p.lanes, p.dot);
  if (w.out_pixels() <= 0 || blocks.outputs <= 0) return p;
  TileSize tile = tile_size(c, p.lanes, p.dot);
  p.part = part_of(c, p.lanes, p.dot);
  if (c.in_type != DType::F32 && !p.dot) p.widen = kernels.convert(c.in_type == DType::BF16 ? Conversion::BF16ToF32 : Conversion::F16ToF32);
  p.bands = Tiles(w.out[1], static_cast<int>(tile.rows));
  p.is_shared = tile.rows > 1;
  cut_line(p, kernels, c, tile);
  cut_items(p, threads, c, tile.rows);
  int64_t lines = std::max(lines_under(w, tile.rows), w.kernel[1]);
  p.pointer_bytes = up64(w.kernel[0] * lines * static_cast<int64_t>(sizeof(char*)));
  if (!c.output) p.sum_bytes = up64(p.blocks * blocks.size * std::min(p.item_bands * tile.rows * w.out[2], w.out_pixels()) * 4);
  if (!p.copies()) return p;
  int64_t groups = ceil_div(p.blocks - 1, blocks.count) + 1;
  p.copied_lines = lines_under(w, std::min(p.item_bands * tile.rows, w.out[1]));
  p.copied_bytes = up64(groups * blocks.inputs * w.kernel[0] * p.copied_lines * p.line_elements(w) * 4);
  if (p.part && c.in_type != DType::F32 && w.stride[2] != 1) p.copied_bytes += up64(w.in[2] * 4); // a whole line as kernels read it
  return p;
}

void run_lines(const Workers& workers, const LinePlan& p, const Conv& c, void* scratch) noexcept {
  int64_t all = c.groups * Blocks(c, p.lanes, p.dot).count, planes = p.by_planes ? c.window.out[0] : 1;
  int64_t bands = p.bands.count * c.window.out[0] / planes, cuts = ceil_div(bands, p.item_bands);
  int64_t ranges = planes * cuts, sets = ceil_div(all, p.blocks), items = c.batch * ranges * sets;
  workers.run(items, item_grain(line_work(p, c) / static_cast<double>(std::max<int64_t>(items, 1))),
              [&](int64_t begin, int64_t end, int worker) {
                char* own = static_cast<char*>(scratch) + worker * p.worker_bytes();
                Sources sources(p, c, own + p.pointer_bytes + p.sum_bytes);
                for (int64_t i = begin; i < end; i++) {
                  int64_t set = i % sets, range = i / sets % ranges, first = range / cuts * bands, cut = range % cuts * p.item_bands;
                  LineItem item{i / ranges / sets, set * p.blocks, std::min((set + 1) * p.blocks, all), first + cut,
                                first + std::min(cut + p.item_bands, bands)};
                  run_item(p, c, item, sources.of(item), own);
                }
              });
}

} // namespace tenon
