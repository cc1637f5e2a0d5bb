// Strips of rows of windows.
#include "runtime/conv_strip.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "runtime/conv.h"

namespace tenon {
namespace {

constexpr int64_t most_pixels = 512, most_width = 1 << 20, most_stride = 16;

/// Copies one input row, or clears a row of padding.
struct RowCopier {
  const ConvStrip& strip;
  const ConvLayout::Part& part;
  int64_t pixel, run, padded; // bytes of a pixel, of a window's run, and of that with whole steps of k
  int padding;                // the value of its bytes

  void clear(char* to) const {
    for (int64_t x = 0; x < strip.width; x++, to += strip.stride) {
      std::memset(to, padding, static_cast<size_t>(run));
      std::memset(to + run, 0, static_cast<size_t>(padded - run));
    }
  }
  void copy(const char* row, char* to) const {
    const ConvWindow& w = part.window;
    int64_t x = -w.pad[2];
    for (int64_t i = 0; i < strip.width; i++, x += w.stride[2], to += strip.stride) {
      if (x >= 0 && x + w.kernel[2] <= w.in[2]) copy_run(row + x * pixel, to);
      else copy_edge(row, x, to);
      if (padded > run) std::memset(to + run, 0, static_cast<size_t>(padded - run));
    }
  }
  /// By whole vectors, the last two of which overlap.
  void copy_run(const char* from, char* to) const {
    constexpr int64_t vector = 32;
    if (run < vector || run > 1024) return void(std::memcpy(to, from, static_cast<size_t>(run)));
    for (int64_t i = 0; i + vector < run; i += vector) std::memcpy(to + i, from + i, vector);
    std::memcpy(to + run - vector, from + run - vector, vector);
  }
  void copy_edge(const char* row, int64_t x, char* to) const {
    const ConvWindow& w = part.window;
    int64_t first = std::clamp<int64_t>(-x, 0, w.kernel[2]), last = std::clamp<int64_t>(w.in[2] - x, first, w.kernel[2]);
    std::memset(to, padding, static_cast<size_t>(run));
    if (last > first) std::memcpy(to + first * pixel, row + (x + first) * pixel, static_cast<size_t>((last - first) * pixel));
  }
};

} // namespace

ConvStrip choose_strip(const GemmFamily& f, const Caches& caches, const ConvLayout& l, const Conv& c) {
  const ConvLayout::Part& part = l.parts[0];
  const ConvWindow& w = part.window;
  bool rows = part.folded || w.kernel[2] == 1, flat = w.kernel[0] == 1 && w.in[0] == 1 && w.out[0] == 1 && w.pad[0] == 0;
  if (!f.is_tiled() || f.rows[static_cast<size_t>(l.panels.vectors)] != 2 * f.row_step || l.parts.size() != 1 || part.is_strided() ||
      part.is_empty || c.groups != 1 || c.in_type != f.a || !rows || !flat || c.in_pixel != c.in_channels || w.out_pixels() <= 0 ||
      w.in_pixels() <= 0)
    return {};
  ConvStrip s{.width = w.out[2]};
  s.stride = spread_rows(part.depth * static_cast<int64_t>(size_of(f.a)));
  int64_t apart = (w.kernel[1] - 1) * w.dilation[1] / w.stride[1];
  if (s.width > most_width || w.stride[1] > most_stride || apart > most_width || s.row_bytes() > caches.l2) return {};
  int64_t most_rows = caches.l2 / 4 / (w.stride[1] * s.row_bytes());
  // A block that starts within a row takes part of one more.
  int64_t pixels = std::clamp((most_rows - apart - 2) * s.width, 2 * int64_t{f.row_step}, most_pixels);
  s.pixels = round_up(std::min(pixels, w.out_pixels()), 2 * f.row_step);
  s.rows = (s.pixels - 1) / s.width + 2 + apart; // for whole tiles, which may go beyond the image
  if (s.bytes(w) > caches.l2) return {};
  return s;
}

int64_t fill_strip(const ConvStrip& s, const ConvLayout::Part& part, const Conv& c, const char* image, int64_t m0, int64_t m1,
                   char* to) noexcept {
  const ConvWindow& w = part.window;
  int64_t element = static_cast<int64_t>(size_of(c.in_type)), pixel = c.in_pixel * element;
  RowCopier copier{s, part, pixel, part.run * element, part.depth * element, c.padding};
  int64_t y0 = m0 / s.width, rows = (m1 - 1) / s.width + 1 - y0, first = y0 * w.stride[1] - w.pad[1];
  int64_t count = (rows - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
  for (int64_t remainder = 0; remainder < std::min(w.stride[1], count); remainder++) {
    bool read = false;
    for (int64_t q = 0; q < w.kernel[1]; q++) read = read || q * w.dilation[1] % w.stride[1] == remainder;
    for (int64_t r = remainder; read && r < count; r += w.stride[1]) {
      char* row = to + (remainder * s.rows + r / w.stride[1]) * s.row_bytes();
      if (int64_t y = first + r; y >= 0 && y < w.in[1]) copier.copy(image + y * w.in[2] * pixel, row);
      else copier.clear(row);
    }
  }
  return m0 % s.width * s.stride;
}

} // namespace tenon
