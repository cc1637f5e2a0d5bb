// Row pointers of convolution windows.
#include "runtime/conv_window.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

/// Units of an image that are enough for parallel items.
constexpr int64_t few_units = 16;

bool in_range(int64_t i, int64_t n) { return static_cast<uint64_t>(i) < static_cast<uint64_t>(n); }

/// The state of cutting one block.
struct Cutter {
  const ConvWindow& w;
  const WindowInput& in;
  int64_t q0, q1;
  const void** next;
  char* copies;
  // the last aligned tile without padding on its sides: others of its shape share the pointers
  const void** shared = nullptr;
  int shared_rows = 0;
  int64_t shared_y = 0, shared_z = 0, shared_x = 0;

  int64_t width_positions() const { return in.folded ? 1 : w.kernel[2]; }
  /// Columns that a row of a position takes beyond its first.
  int64_t reach() const { return in.folded ? w.kernel[2] - 1 : 0; }
  const char* pixel_at(int64_t z, int64_t y, int64_t x) const { return in.image + ((z * w.in[1] + y) * w.in[2] + x) * in.pixel; }
  struct Position {
    int64_t z, y, x;
  };
  Position position(int64_t q) const {
    int64_t wide = width_positions();
    return {q / (wide * w.kernel[1]) * w.dilation[0], q / wide % w.kernel[1] * w.dilation[1], q % wide * w.dilation[2]};
  }

  void advance(Position& p) const {
    p.x += w.dilation[2];
    if (p.x < width_positions() * w.dilation[2]) return;
    p.x = 0;
    p.y += w.dilation[1];
    if (p.y < w.kernel[1] * w.dilation[1]) return;
    p.y = 0;
    p.z += w.dilation[0];
  }

  /// The row pointer of one window at input coordinates (z, y, x), any of which may lie in the padding.
  const char* row_at(int64_t z, int64_t y, int64_t x) {
    if (!in_range(z, w.in[0]) || !in_range(y, w.in[1]) || x + reach() < 0 || x >= w.in[2]) return in.zeros;
    if (x >= 0 && x + reach() < w.in[2]) return pixel_at(z, y, x);
    int64_t run = w.kernel[2], first = std::max<int64_t>(-x, 0), last = std::min<int64_t>(w.in[2] - x, run);
    char* to = copies;
    copies += run * in.pixel;
    std::memcpy(to, in.zeros, static_cast<size_t>(run * in.pixel));
    std::memcpy(to + first * in.pixel, pixel_at(z, y, x + first), static_cast<size_t>((last - first) * in.pixel));
    return to;
  }

  /// The row pointers of `count` windows side by side, the first at input coordinates (z, y, x). Returns whether any is not of the padding.
  bool point_at_line(const void** to, int64_t z, int64_t y, int64_t x, int64_t count) {
    if (!in_range(z, w.in[0]) || !in_range(y, w.in[1])) return std::fill_n(to, count, in.zeros), false;
    int64_t step = w.stride[2], whole = w.in[2] - reach(), i = 0; // windows that start in [0, whole) lie inside
    bool any = false;
    auto point_at = [&](int64_t end) {
      for (; i < end; i++) to[i] = row_at(z, y, x + i * step), any = any || to[i] != in.zeros;
    };
    if (x < 0) point_at(std::min(count, (step - 1 - x) / step));
    int64_t end = x + (count - 1) * step < whole ? count : std::clamp<int64_t>((whole - x + step - 1) / step, i, count);
    if (i < end) {
      const char* first = pixel_at(z, y, x);
      any = true;
      for (int64_t bytes = step * in.pixel; i < end; i++) to[i] = first + i * bytes;
    }
    point_at(count);
    return any;
  }

  /// A tile of output pixels from (oz, oy, ox) on, all in one output row.
  RowTile aligned_tile(int64_t oz, int64_t oy, int64_t ox, int rows) {
    int64_t z = oz * w.stride[0] - w.pad[0], y = oy * w.stride[1] - w.pad[1], x = ox * w.stride[2] - w.pad[2];
    int64_t last = x + (rows - 1) * w.stride[2] + (w.kernel[2] - 1) * w.dilation[2];
    bool inside = x >= 0 && last < w.in[2];
    if (inside && shared && shared_rows == rows && shared_z == z && same_rows(y) && (in.padding == 0 || is_inside(z, y)))
      return {shared, ((y - shared_y) * w.in[2] + x - shared_x) * in.pixel, rows};
    const void** to = next;
    Position p = position(q0);
    for (int64_t q = q0; q < q1; q++, next += rows, advance(p)) {
      bool any = point_at_line(next, z + p.z, y + p.y, x + p.x, rows);
      if (!any && in.padding == 0) next[0] = nullptr;
    }
    if (inside) {
      shared = to;
      shared_rows = rows;
      shared_z = z;
      shared_y = y;
      shared_x = x;
    }
    return {to, 0, rows};
  }
  bool is_inside(int64_t first, int d) const { return first >= 0 && first + (w.kernel[d] - 1) * w.dilation[d] < w.in[d]; }
  bool is_inside(int64_t z, int64_t y) const { return is_inside(z, 0) && is_inside(y, 1); }
  /// True if a window that starts in input row y has the same rows in the padding as the shared one.
  bool same_rows(int64_t y) const { return y == shared_y || (is_inside(y, 1) && is_inside(shared_y, 1)); }

  /// A tile of any output pixels from pixel m on.
  RowTile free_tile(int64_t m, int rows) {
    const void** to = next;
    next += rows * (q1 - q0);
    for (int64_t i = 0, count; i < rows; i += count, m += count) { // of an output row
      int64_t line = m / w.out[2], ox = m % w.out[2];
      count = std::min<int64_t>(rows - i, w.out[2] - ox);
      int64_t z = line / w.out[1] * w.stride[0] - w.pad[0], y = line % w.out[1] * w.stride[1] - w.pad[1], x = ox * w.stride[2] - w.pad[2];
      Position p = position(q0);
      for (int64_t q = q0; q < q1; q++, advance(p)) point_at_line(to + (q - q0) * rows + i, z + p.z, y + p.y, x + p.x, count);
    }
    return {to, 0, rows};
  }
};

/// The last input pixel, in order, that windows of output pixels up to m meet.
int64_t last_met(const ConvWindow& w, int64_t m) {
  const int64_t at[3] = {m / (w.out[1] * w.out[2]), m / w.out[2] % w.out[1], m % w.out[2]};
  int64_t pixel = 0;
  bool past = false; // those of a row that reaches past the last one have met all of that
  for (int d = 0; d < 3; d++) {
    int64_t last = w.in[d] - 1, i = past ? last : at[d] * w.stride[d] - w.pad[d] + (w.kernel[d] - 1) * w.dilation[d];
    past = past || i > last;
    pixel = pixel * w.in[d] + std::clamp<int64_t>(i, 0, last);
  }
  return pixel;
}

} // namespace

PixelCut cut_pixels(const ConvWindow& w, int tile_rows, int tile_vectors) {
  PixelCut c{.aligned = true, .tile_rows = tile_rows, .pieces = 1, .width = w.out[2], .pixels = w.out_pixels(), .block_units = 1};
  Tiles row(w.out[2], tile_rows);
  // Twelve accumulators per step of k keep the multiply-add units busy and spare the loads; nine lose less than pointers of their own cost.
  c.aligned = row.small * tile_vectors >= 9 || row.small >= tile_rows - 1;
  if (c.aligned) {
    // Few output rows are cut further, so that there is something to share out.
    int64_t rows = std::max<int64_t>(w.out[0] * w.out[1], 1), least = (w.out[2] + max_block_pixels - 1) / max_block_pixels;
    int64_t most = std::max<int64_t>(w.out[2] / (2 * tile_rows), 1);
    c.pieces = std::max(least, std::min(most, (few_units + rows - 1) / rows));
    if (c.pieces == 1) c.block_units = max_block_pixels / w.out[2];
  } else {
    c.block_units = max_block_pixels / tile_rows;
  }
  return c;
}

PixelCut cut_freely(const ConvWindow& w, int tile_rows) {
  return {.aligned = false,
          .tile_rows = tile_rows,
          .pieces = 1,
          .width = w.out[2],
          .pixels = w.out_pixels(),
          .block_units = std::max<int64_t>(max_block_pixels / tile_rows, 1)};
}

int64_t known_pixels(const ConvWindow& w) {
  bool known = w.out[0] != any_size && w.out[1] != any_size && w.out[2] != any_size;
  return known ? w.out_pixels() : any_size;
}

uint64_t window_heights(const ConvWindow& w, int tile_rows, int tile_vectors) {
  if (known_pixels(w) == any_size) return tile_heights(any_size, tile_rows);
  if (w.out_pixels() == 0) return 0;
  PixelCut cut = cut_pixels(w, tile_rows, tile_vectors);
  if (!cut.aligned) return tile_heights(cut.pixels, tile_rows);
  uint64_t heights = 0;
  for (int64_t u = 0; u < cut.pieces; u++) {
    Tiles piece(cut.begin(u + 1) - cut.begin(u), tile_rows);
    for (int64_t t : {int64_t{0}, piece.count - 1}) heights |= uint64_t{1} << piece.rows(t);
  }
  return heights;
}

ReadNext first_met(const ConvWindow& w, const char* image, int64_t pixel, int64_t m0, int64_t m1) {
  if (m0 >= m1 || w.in_pixels() == 0) return {};
  int64_t first = m0 == 0 ? 0 : last_met(w, m0 - 1) + 1, end = last_met(w, m1 - 1) + 1;
  return {image + first * pixel, std::max<int64_t>(end - first, 0) * pixel};
}

int64_t cut_windows(const ConvWindow& w, const PixelCut& cut, const WindowInput& in, int64_t u0, int64_t u1, int64_t q0, int64_t q1,
                    const void** pointers, RowTile* tiles) noexcept {
  Cutter cutter{.w = w, .in = in, .q0 = q0, .q1 = q1, .next = pointers, .copies = in.copies};
  int64_t count = 0;
  if (!cut.aligned) {
    int64_t m = cut.begin(u0);
    Tiles all(cut.begin(u1) - m, cut.tile_rows);
    for (; count < all.count; count++) {
      tiles[count] = cutter.free_tile(m, all.rows(count));
      m += all.rows(count);
    }
    return count;
  }
  for (int64_t u = u0; u < u1; u++) {
    int64_t m = cut.begin(u), row = m / cut.width, x = m % cut.width;
    Tiles piece(cut.begin(u + 1) - m, cut.tile_rows);
    for (int64_t t = 0; t < piece.count; t++) {
      tiles[count++] = cutter.aligned_tile(row / w.out[1], row % w.out[1], x, piece.rows(t));
      x += piece.rows(t);
    }
  }
  return count;
}

} // namespace tenon
