#include "runtime/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rounding.h"
#include "runtime/conv.h"
#include "runtime/wide.h"
#include "runtime/winograd_kernels.h"

namespace tenon {
namespace {

constexpr int elements = 16;
constexpr int64_t most_block_tiles = 256;
constexpr int64_t piece_bytes = 32 << 10; // of finished sums that are handed on at a time
constexpr int64_t float_bytes = 4;

/// Of f32, also where weights are narrower: their transforms are not.
int winograd_family(const KernelTable& kernels) {
  return choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size, Windows::Yes);
}
Panels panels_of(const KernelTable& kernels, const Conv& c) {
  return choose_panels(kernels.family(winograd_family(kernels)), c.out_channels, c.in_channels);
}
int tile_rows_of(const GemmFamily& f, const Panels& panels) {
  return std::min<int>(f.rows[static_cast<size_t>(panels.vectors)], panels.vectors == 1 ? 12 : GemmFamily::max_rows);
}

/// Tiles of a block: their patches and sums stay in L2, beside the weights that stream past.
int64_t block_tiles(const Caches& caches, const Conv& c, const Panels& panels, int tile_rows) {
  int64_t bytes = elements * float_bytes * (c.in_channels + panels.width());
  return std::clamp<int64_t>(caches.l2 / 2 / bytes, tile_rows, most_block_tiles);
}

/// Whether sums of nine of these numbers, times the factor, stay far from overflow.
TENON_WIDE bool are_small(const float* w, int64_t count, float factor) {
  bool all = true;
  for (int64_t i = 0; i < count; i++) all &= std::abs(w[i] * factor) < 1e18f;
  return all;
}

bool is_dense(const Conv& c) {
  const int64_t* s = c.weight_strides;
  return s[1] == 9 && s[3] == 3 && s[4] == 1;
}

/// The weights of output o with inputs [i0, i1), nine of each: where they lie, or copied to `room`.
const float* weights_of(const Conv& c, int64_t o, int64_t i0, int64_t i1, float* room) {
  const int64_t* s = c.weight_strides;
  if (is_dense(c) && c.weight_type == DType::F32) return static_cast<const float*>(c.weights) + o * s[0] + i0 * 9;
  for (int64_t i = i0; i < i1; i++)
    for (int64_t q = 0; q < 9; q++) room[(i - i0) * 9 + q] = weight_at(c, o * s[0] + i * s[1] + q / 3 * s[3] + q % 3 * s[4]);
  return room;
}

bool is_finite(const Conv& c) {
  constexpr int64_t inputs = 64; // at a time
  float room[inputs * 9];
  for (int64_t o = 0; o < c.out_channels; o++)
    for (int64_t i = 0; i < c.in_channels; i += inputs) {
      int64_t end = std::min(i + inputs, c.in_channels);
      if (!are_small(weights_of(c, o, i, end, room), (end - i) * 9, c.scales ? c.scales[o] : 1)) return false;
    }
  return true;
}

bool can_winograd(const KernelTable& kernels, const Conv& given) {
  const Conv c = as_read(kernels, given);
  const ConvWindow& w = c.window;
  bool three = w.kernel[0] == 1 && w.in[0] == 1 && w.out[0] == 1 && w.kernel[1] == 3 && w.kernel[2] == 3;
  for (int d = 0; d < 3; d++) three = three && w.stride[d] == 1 && w.dilation[d] == 1;
  return three && c.groups == 1 && !c.transposed && !c.by_lines && c.in_type == DType::F32 && depthwise_reads(c.weight_type);
}

/// Packed weights are in the order of their use: panel by panel, in each element by element. Bytes before those of an element.
int64_t weight_offset(const Panels& panels, int64_t panel, int64_t element) {
  return elements * panels.offset(panel) + element * panels.bytes(panel, panels.depth());
}

constexpr int64_t piece_inputs = 4; // whose weights are transformed at a time

/// The weights of a panel's outputs with inputs [i0, i1), as taps[i - i0][q][output].
void collect_weights(const KernelTable& kernels, const Conv& c, const Panels& panels, int64_t panel, int64_t i0, int64_t i1, float* taps) {
  const int64_t width = panels.panel_width(panel), n = panels.columns(panel), first = panel * panels.width();
  if (n < width) std::fill(taps, taps + (i1 - i0) * 9 * width, 0.0f);
  if (is_dense(c) && c.weight_type == DType::F32) {
    MoveArgs args{weights_of(c, first, i0, i1, nullptr), taps, c.weight_strides[0] * float_bytes, width * float_bytes, n, (i1 - i0) * 9};
    return kernels.transpose()(&args);
  }
  float room[piece_inputs * 9];
  for (int64_t j = 0; j < n; j++) {
    const float* from = weights_of(c, first + j, i0, i1, room);
    for (int64_t t = 0; t < (i1 - i0) * 9; t++) taps[t * width + j] = from[t];
  }
}

const library::WinogradKernels& transforms_of(const KernelTable& kernels) {
  return kernels.lanes() == 16 ? library::avx512::winograd_kernels : library::avx2::winograd_kernels;
}

// ---- running

struct WinogradCall {
  const KernelTable& kernels;
  const WinogradPlan& plan;
  const Conv& c;
  const library::WinogradKernels& transforms;

  const char* weights() const { return static_cast<const char*>(c.weights); }
  const float* zeros() const { return reinterpret_cast<const float*>(weights() + elements * plan.panels.bytes()); }
  bool direct() const { return !c.epilogue.fn && !c.row_major; }
};

/// Tiles [t0, t1) of an image.
struct WinogradBlock {
  int64_t batch, t0, t1;
  char *patches, *sums, *turned;
  float* out;
};

/// Part of a row of tiles with panels [p0, p0 + 1): the pixels it covers.
struct Piece {
  int64_t y, rows, x, width; // pixels
  int64_t t0, t1;
  int64_t n0, columns;
};

void point_at_patch(const WinogradCall& call, int64_t batch, int64_t tile, const float** to) {
  const Conv& c = call.c;
  const ConvWindow& w = c.window;
  const float* image = static_cast<const float*>(c.input) + batch * c.in_batch;
  int64_t y = tile / call.plan.tiles_x * 2 - w.pad[1], x = tile % call.plan.tiles_x * 2 - w.pad[2];
  for (int64_t i = 0; i < 4; i++)
    for (int64_t j = 0; j < 4; j++) {
      bool inside = y + i >= 0 && y + i < w.in[1] && x + j >= 0 && x + j < w.in[2];
      *to++ = inside ? image + ((y + i) * w.in[2] + x + j) * c.in_pixel : call.zeros();
    }
}

/// The products of all elements with one panel.
void multiply(const WinogradCall& call, const WinogradBlock& block, int64_t panel) {
  const WinogradPlan& p = call.plan;
  const void* rows[GemmFamily::max_rows];
  for (int i = 0; i < p.tile_rows; i++) rows[i] = block.patches + i * p.patch_row;
  RowTile tiles[most_block_tiles];
  Tiles cut(block.t1 - block.t0, p.tile_rows);
  for (int64_t e = 0; e < elements; e++) {
    for (int64_t t = 0, row = 0; t < cut.count; row += tiles[t++].count)
      tiles[t] = {rows, e * p.patch_plane + row * p.patch_row, cut.rows(t)};
    multiply_block({.panels = p.panels,
                    .kernels = p.kernels,
                    .p0 = panel,
                    .p1 = panel + 1,
                    .b = call.weights() + weight_offset(p.panels, panel, e),
                    .panel_depth = call.c.in_channels,
                    .first_depth = 0,
                    .tiles = tiles,
                    .tile_count = cut.count,
                    .positions = 1,
                    .depth = call.c.in_channels,
                    .zeros = nullptr,
                    .a_stride = p.patch_row,
                    .c = block.sums + e * p.sum_plane,
                    .c_stride = p.sum_row,
                    .sum_bytes = float_bytes,
                    .mode = GemmInit::Zero,
                    .part = 32, // its sums are larger than the results: so errors come near those of direct sums
                    .rows_first = false});
  }
}

/// Where pixel (y, x) of a piece goes; what lies outside of the image goes behind the others.
float* pixel_at(const WinogradCall& call, const WinogradBlock& block, const Piece& piece, int64_t y, int64_t x) {
  const Conv& c = call.c;
  int64_t row = call.plan.panels.width(), end = 2 * piece.width;
  bool inside = y < piece.y + piece.rows && x < piece.x + piece.width;
  if (call.direct() && inside)
    return static_cast<float*>(c.output) + block.batch * c.out_batch + (y * c.window.out[2] + x) * c.out_pixel + piece.n0;
  return block.out + (inside ? (y - piece.y) * piece.width + x - piece.x : end) * row;
}

void report(const WinogradCall& call, const WinogradBlock& block, const Piece& piece) {
  const Conv& c = call.c;
  if (call.direct()) return;
  int64_t stride = call.plan.panels.width(), width = c.window.out[2];
  bool whole = piece.width == width; // its rows adjoin
  for (int64_t y = 0; y < (whole ? 1 : piece.rows); y++) {
    int64_t m0 = (piece.y + y) * width + piece.x, m1 = m0 + (whole ? piece.rows * width : piece.width);
    SumTile tile{block.out + y * piece.width * stride, stride, block.batch, m0, m1, piece.n0, piece.n0 + piece.columns};
    finish_sums(call.kernels, c, tile, false, block.turned);
  }
}

void finish_piece(const WinogradCall& call, const WinogradBlock& block, const Piece& piece, int64_t panel) {
  const WinogradPlan& p = call.plan;
  for (int64_t t = piece.t0; t < piece.t1; t++) {
    int64_t x = piece.x + (t - piece.t0) * 2;
    float* to[4];
    for (int64_t i = 0; i < 4; i++) to[i] = pixel_at(call, block, piece, piece.y + i / 2, x + i % 2);
    const float* sums = reinterpret_cast<const float*>(block.sums + (t - block.t0) * p.sum_row);
    if (call.transforms.output(sums, p.sum_plane / float_bytes, piece.columns, to)) continue;
    const float* patch[elements];
    point_at_patch(call, block.batch, t, patch);
    const float* weights = reinterpret_cast<const float*>(call.weights() + weight_offset(p.panels, panel, 0));
    call.transforms.direct(patch, call.c.in_channels, weights, p.panels.bytes(panel, p.panels.depth()) / float_bytes,
                           p.panels.panel_width(panel), piece.columns, to);
  }
  report(call, block, piece);
}

void run_block(const WinogradCall& call, const WinogradBlock& block) {
  const WinogradPlan& p = call.plan;
  const ConvWindow& w = call.c.window;
  for (int64_t t = block.t0; t < block.t1; t++) {
    const float* patch[elements];
    point_at_patch(call, block.batch, t, patch);
    call.transforms.input(patch, call.c.in_channels, reinterpret_cast<float*>(block.patches + (t - block.t0) * p.patch_row),
                          p.patch_plane / float_bytes);
  }
  for (int64_t panel = 0; panel < p.panels.count(); panel++) {
    multiply(call, block, panel);
    for (int64_t t = block.t0, end; t < block.t1; t = end) {
      int64_t row = t / p.tiles_x, x = t % p.tiles_x;
      end = std::min({block.t1, (row + 1) * p.tiles_x, t + p.piece_tiles});
      Piece piece{2 * row, std::min<int64_t>(2, w.out[1] - 2 * row), 2 * x, 0, t, end, panel * p.panels.width(), p.panels.columns(panel)};
      piece.width = std::min(2 * (x + end - t), w.out[2]) - piece.x;
      finish_piece(call, block, piece, panel);
    }
  }
}

} // namespace

bool suits_winograd(const KernelTable& kernels, const Caches& caches, const Conv& c) {
  if (!can_winograd(kernels, c) || c.in_channels < kernels.lanes() || c.out_channels < kernels.lanes()) return false;
  Panels panels = panels_of(kernels, c);
  const GemmFamily& f = kernels.family(winograd_family(kernels));
  double rows = tile_rows_of(f, panels), inputs = static_cast<double>(c.in_channels), outputs = static_cast<double>(c.out_channels);
  double products = inputs * outputs / f.speed * (panels.vectors == 1 ? 1.25 : 1); // cycles, of one tile or pixel with one element or tap
  auto half = [](int64_t out) { return out == any_size ? int64_t{32} : ceil_div(out, 2); };
  int64_t tiles = half(c.window.out[1]) * half(c.window.out[2]),
          pixels = known_pixels(c.window) == any_size ? tiles * 4 : known_pixels(c.window);
  // Calls of a kernel cost some 50 cycles, positions of a window 20; transforms 48 and 40 for a vector of channels and 60 for a tile.
  // Weights that do not stay in L2 come at 8 bytes a cycle.
  double transforms = 60 + (3 * inputs + 2.5 * outputs) * 16 / kernels.lanes(), weight_bytes = elements * float_bytes * inputs * outputs;
  double blocks = static_cast<double>(std::max<int64_t>(ceil_div(tiles, block_tiles(caches, c, panels, tile_rows_of(f, panels))), 2));
  double streamed = weight_bytes > static_cast<double>(caches.l2) / 4 ? blocks * weight_bytes / 8 : 0;
  double cycles = static_cast<double>(tiles) * (elements * (products + 50 / rows) + transforms) + streamed;
  if (!c.weights) cycles += inputs * outputs * (streamed > 0 ? 10 : 8) * 16 / kernels.lanes(); // beyond what others take
  return cycles < 9 * static_cast<double>(pixels) * (products + 20 / rows);
}

bool pays_winograd(const KernelTable& kernels, const Caches& caches, const Conv& c) {
  return suits_winograd(kernels, caches, c) && (!c.weights || is_finite(c));
}

int64_t winograd_weight_bytes(const KernelTable& kernels, const Conv& c) {
  return round_up(elements * panels_of(kernels, c).bytes() + c.in_channels * float_bytes, 64);
}

int64_t winograd_items(const KernelTable& kernels, const Conv& c) {
  return panels_of(kernels, c).count() * ceil_div(c.in_channels, piece_inputs);
}

bool pack_winograd(const KernelTable& kernels, const Conv& c, int64_t begin, int64_t end, void* to) noexcept {
  Panels panels = panels_of(kernels, c);
  char* base = static_cast<char*>(to);
  if (begin == 0) std::memset(base + elements * panels.bytes(), 0, static_cast<size_t>(c.in_channels * float_bytes));
  int64_t pieces = ceil_div(c.in_channels, piece_inputs);
  bool all_small = true;
  alignas(64) float taps[piece_inputs * 9 * GemmFamily::max_vectors * 16];
  for (int64_t k = begin; k < end; k++) {
    int64_t p = k / pieces, i0 = k % pieces * piece_inputs, i1 = std::min(i0 + piece_inputs, c.in_channels), width = panels.panel_width(p);
    collect_weights(kernels, c, panels, p, i0, i1, taps);
    if (c.scales) scale_columns(taps, (i1 - i0) * 9, width, c.scales + p * panels.width(), panels.columns(p));
    for (int64_t i = i0; i < i1; i++) {
      float* at = reinterpret_cast<float*>(base + weight_offset(panels, p, 0)) + i * width;
      bool small =
          transforms_of(kernels).weights(taps + (i - i0) * 9 * width, width, width, at, panels.bytes(p, panels.depth()) / float_bytes);
      all_small = all_small && small;
    }
  }
  return all_small;
}

void prepare_winograd(const KernelTable& kernels, const Conv& c) {
  Panels panels = panels_of(kernels, c);
  int number = winograd_family(kernels);
  const GemmFamily& f = kernels.family(number);
  tile_kernels(kernels, number, panels, GemmKind::Packed, tile_heights(any_size, tile_rows_of(f, panels)), false);
}

WinogradPlan plan_winograd(const KernelTable& kernels, const Caches& caches, int threads, const Conv& c) {
  WinogradPlan p;
  p.family = winograd_family(kernels);
  p.panels = panels_of(kernels, c);
  const GemmFamily& f = kernels.family(p.family);
  p.tile_rows = tile_rows_of(f, p.panels);
  p.tiles_y = ceil_div(c.window.out[1], 2), p.tiles_x = ceil_div(c.window.out[2], 2);
  int64_t tiles = std::max<int64_t>(p.tiles(), 0), batch = std::max<int64_t>(c.batch, 1);
  p.blocks = ceil_div(tiles, block_tiles(caches, c, p.panels, p.tile_rows));
  // As many for each thread, where there are few.
  if (p.blocks * batch < threads * items_per_thread)
    p.blocks = std::min(ceil_div(round_up(p.blocks * batch, threads), batch), ceil_div(tiles, p.tile_rows));
  int64_t most = p.blocks > 0 ? ceil_div(tiles, p.blocks) : 0,
          skew = 5 * 64; // the planes of a tile fall into different sets of L1
  p.patch_row = round_up(c.in_channels, f.lanes) * float_bytes;
  if (p.patch_row % 1024 == 0) p.patch_row += 64;
  p.patch_plane = round_up(most * p.patch_row, 4096) + skew;
  p.sum_row = p.panels.width() * float_bytes;
  p.sum_plane = round_up(most * p.sum_row, 4096) + skew;
  p.piece_tiles = std::clamp<int64_t>(piece_bytes / (4 * p.sum_row), 1, std::max<int64_t>(p.tiles_x, 1));
  p.patch_bytes = elements * p.patch_plane;
  p.sum_bytes = elements * p.sum_plane;
  p.out_bytes = (4 * p.piece_tiles + 1) * p.sum_row;
  p.turned_bytes = c.row_major ? turned_room : 0;
  p.kernels = tile_kernels(kernels, p.family, p.panels, GemmKind::Packed, tile_heights(any_size, p.tile_rows), false);
  return p;
}

void run_winograd(const KernelTable& kernels, const Workers& workers, const WinogradPlan& plan, const Conv& c, char* scratch) noexcept {
  WinogradCall call{kernels, plan, c, transforms_of(kernels)};
  double work = static_cast<double>(elements * plan.tiles() * c.in_channels * c.out_channels) / kernels.family(plan.family).speed;
  workers.run(c.batch * plan.blocks, item_grain(work / static_cast<double>(plan.blocks)), [&](int64_t begin, int64_t end, int worker) {
    char* mine = scratch + worker * plan.worker_bytes();
    for (int64_t i = begin; i < end; i++) {
      int64_t block = i % plan.blocks;
      run_block(call, {.batch = i / plan.blocks,
                       .t0 = plan.tiles() * block / plan.blocks,
                       .t1 = plan.tiles() * (block + 1) / plan.blocks,
                       .patches = mine,
                       .sums = mine + plan.patch_bytes,
                       .turned = mine + plan.worker_bytes() - plan.turned_bytes,
                       .out = reinterpret_cast<float*>(mine + plan.patch_bytes + plan.sum_bytes)});
    }
  });
}

} // namespace tenon
