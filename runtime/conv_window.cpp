// Row pointers of convolution windows.
#include "runtime/conv_window.h"

#include <algorithm>
#include <cstring>

#include "runtime/gemm_block.h"

namespace tenon {
namespace {

constexpr int max_tile = KernelTable::max_rows;

/// The input coordinates of the windows' first elements for the rows of one tile.
struct Origins {
  int64_t at[max_tile][3];
  bool inside = true; // no window touches the padding
};

void locate(const ConvWindow& w, int64_t m, int rows, Origins& o) {
  o.inside = true;
  int64_t x = m % w.out[2], y = m / w.out[2] % w.out[1], z = m / w.out[2] / w.out[1];
  for (int i = 0; i < rows; i++) {
    int64_t out[3] = {z, y, x};
    for (int d = 0; d < 3; d++) {
      int64_t first = out[d] * w.stride[d] - w.pad[d];
      o.at[i][d] = first;
      if (first < 0 || first + (w.kernel[d] - 1) * w.dilation[d] >= w.in[d]) o.inside = false;
    }
    if (++x == w.out[2]) {
      x = 0;
      if (++y == w.out[1]) {
        y = 0;
        z++;
      }
    }
  }
}

bool in_range(int64_t i, int64_t n) { return static_cast<uint64_t>(i) < static_cast<uint64_t>(n); }

/// Offset in pixels of kernel position q from a window's origin.
struct Position {
  int64_t at[3];
  int64_t pixels;
};
Position position(const ConvWindow& w, int64_t q) {
  Position p{{q / (w.kernel[2] * w.kernel[1]) * w.dilation[0], q / w.kernel[2] % w.kernel[1] * w.dilation[1],
              q % w.kernel[2] * w.dilation[2]},
             0};
  p.pixels = (p.at[0] * w.in[1] + p.at[1]) * w.in[2] + p.at[2];
  return p;
}

const float* pixel_at(const ConvWindow& w, const WindowRows& r, int64_t z, int64_t y, int64_t x) {
  return r.image + ((z * w.in[1] + y) * w.in[2] + x) * r.pixel;
}

/// A tile's pointers for one position; without branches, borders are frequent.
void point_at_position(const ConvWindow& w, const WindowRows& r, const Origins& o, int rows, const Position& p,
                       const float* const* base, const float** to) {
  int64_t offset = p.pixels * r.pixel;
  if (o.inside) {
    for (int i = 0; i < rows; i++) to[i] = base[i] + offset;
    return;
  }
  for (int i = 0; i < rows; i++) {
    bool in = in_range(o.at[i][0] + p.at[0], w.in[0]) & in_range(o.at[i][1] + p.at[1], w.in[1]) &
              in_range(o.at[i][2] + p.at[2], w.in[2]);
    to[i] = in ? base[i] + offset : r.zeros;
  }
}

} // namespace

void point_at_pixels(const ConvWindow& w, const WindowRows& r, const float** to) noexcept {
  Tiles tiles(r.m1 - r.m0, r.tile_rows);
  int64_t m = r.m0;
  Origins o;
  const float* base[max_tile];
  for (int64_t t = 0; t < tiles.count; t++) {
    int rows = tiles.rows(t);
    locate(w, m, rows, o);
    for (int i = 0; i < rows; i++) base[i] = pixel_at(w, r, o.at[i][0], o.at[i][1], o.at[i][2]);
    for (int64_t q = r.q0; q < r.q1; q++, to += rows) point_at_position(w, r, o, rows, position(w, q), base, to);
    m += rows;
  }
}

void point_at_pixel_runs(const ConvWindow& w, const WindowRows& r, const float** to, float* copies) noexcept {
  Tiles tiles(r.m1 - r.m0, r.tile_rows);
  int64_t m = r.m0, run = w.kernel[2] * r.pixel;
  Origins o;
  for (int64_t t = 0; t < tiles.count; t++) {
    int rows = tiles.rows(t);
    locate(w, m, rows, o);
    for (int64_t q = r.q0; q < r.q1; q++)
      for (int i = 0; i < rows; i++, to++) {
        int64_t z = o.at[i][0] + q / w.kernel[1] * w.dilation[0], y = o.at[i][1] + q % w.kernel[1] * w.dilation[1];
        int64_t x = o.at[i][2];
        if (!in_range(z, w.in[0]) || !in_range(y, w.in[1])) {
          *to = r.zeros;
        } else if (x >= 0 && x + w.kernel[2] <= w.in[2]) {
          *to = pixel_at(w, r, z, y, x);
        } else {
          int64_t first = std::clamp<int64_t>(-x, 0, w.kernel[2]), last = std::clamp<int64_t>(w.in[2] - x, first, w.kernel[2]);
          std::memset(copies, 0, static_cast<size_t>(run) * 4);
          if (last > first)
            std::memcpy(copies + first * r.pixel, pixel_at(w, r, z, y, x + first),
                        static_cast<size_t>((last - first) * r.pixel) * 4);
          *to = copies;
          copies += run;
        }
      }
    m += rows;
  }
}

} // namespace tenon
