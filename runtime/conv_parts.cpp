// Parts of convolutions, and their packed weights.
#include "runtime/conv_parts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/numeric.h"
#include "base/rounding.h"
#include "runtime/conv.h"
#include "runtime/gemm_pack.h"
#include "runtime/wide.h"

namespace tenon {
namespace {

/// Rows of so many channels are long enough to pay for the loop over positions.
constexpr int64_t fold_below = 16;

/// One dimension of a part of a transposed convolution: the outputs with residue r modulo the stride.
void choose_taps(const ConvWindow& w, int d, int64_t r, ConvPart& part) {
  int64_t s = w.stride[d], step = s / std::gcd(s, w.dilation[d]);
  int64_t first = 0;
  while (first < step && ((r + w.pad[d] - first * w.dilation[d]) % s + s) % s != 0) first++;
  int64_t taps = first < step && first < w.kernel[d] ? ceil_div(w.kernel[d] - first, step) : 0;
  part.first[d] = r, part.step[d] = s;
  part.window.stride[d] = 1;
  if (w.out[d] != any_size) part.window.out[d] = std::max<int64_t>(ceil_div(w.out[d] - r, s), 0);
  part.window.kernel[d] = std::max<int64_t>(taps, 1);
  part.is_empty = part.is_empty || taps == 0;
  if (taps == 0) return;
  // Input i of tap t gives output i * s + t * dilation - pad: later taps see earlier inputs.
  int64_t nearest = (r + w.pad[d] - first * w.dilation[d]) / s;
  part.window.dilation[d] = step * w.dilation[d] / s;
  part.window.pad[d] = (taps - 1) * part.window.dilation[d] - nearest;
  part.tap[d] = first + (taps - 1) * step, part.tap_step[d] = -step;
}

/// How the elements of one group's weights are addressed, in elements.
struct WeightAddress {
  int64_t group, out, in;
  const int64_t* taps; // [3]

  explicit WeightAddress(const Conv& c) : taps(c.weight_strides + 2) {
    const int64_t* s = c.weight_strides;
    group = c.transposed ? c.group_inputs() * s[0] : c.group_outputs() * s[0];
    out = c.transposed ? s[1] : s[0];
    in = c.transposed ? s[0] : s[1];
  }
};

int64_t tap_offset(const ConvPart& p, int64_t position, const int64_t strides[3]) {
  const int64_t* k = p.window.kernel;
  int64_t at[3] = {position / (k[2] * k[1]), position / k[2] % k[1], position % k[2]}, offset = 0;
  for (int d = 0; d < 3; d++) offset += (p.tap[d] + at[d] * p.tap_step[d]) * strides[d];
  return offset;
}

/// A panel in the making.
struct PanelTo {
  int64_t width, columns;
  char* data;
  const float* scales; // of its columns; null: none
};

/// Rows of k in the order [position][depth], each `depth` filled up by zeros (the memory is zero before).
template <class T, class To>
void fill_panel(const GemmFamily& f, const ConvLayout::Part& p, const Conv& c, const T* from, const PanelTo& to) {
  WeightAddress at(c);
  To* panel = reinterpret_cast<To*>(to.data);
  int64_t inputs = c.group_inputs(), taps = p.is_empty ? 0 : p.window.positions(), width = p.folded ? p.window.kernel[2] : 1;
  for (int64_t i = 0; i < inputs; i++)
    for (int64_t q = 0; q < taps; q++) {
      const T* column = from + i * at.in + tap_offset(p, q, at.taps);
      int64_t k = q / width * p.depth + q % width * inputs + i;
      To* row = panel + k / f.group * to.width * f.group + k % f.group;
      for (int64_t j = 0; j < to.columns; j++) row[j * f.group] = static_cast<To>(column[j * at.out]);
    }
}

/// Whether an output's weights lie together, in the order [input][position], and are 4 bytes each, packed as they are.
bool lies_by_outputs(const GemmFamily& f, const ConvLayout::Part& p, const Conv& c) {
  const int64_t *k = p.window.kernel, *s = c.weight_strides;
  bool dense =
      s[1] == p.window.positions() && (k[2] == 1 || s[4] == 1) && (k[1] == 1 || s[3] == k[2]) && (k[0] == 1 || s[2] == k[1] * k[2]);
  return dense && !c.transposed && f.group == 1 && c.weight_type == f.b && size_of(f.b) == 4;
}

/// The same panel, from a matrix with outputs as rows, which is turned some columns at a time.
void turn_panel(const KernelTable& kernels, const ConvLayout::Part& p, const Conv& c, const char* from, const PanelTo& to) {
  constexpr int64_t room = 8192;
  alignas(64) float turned[room];
  int64_t taps = p.window.positions(), all = c.group_inputs() * taps, width = p.folded ? p.window.kernel[2] : 1, inputs = c.group_inputs(),
          bytes = to.width * 4, together = room / to.width;
  std::memset(turned, 0, sizeof turned);
  for (int64_t first = 0; first < all; first += together) {
    int64_t count = std::min(together, all - first);
    MoveArgs args{from + first * 4, turned, c.weight_strides[0] * 4, bytes, to.columns, count};
    kernels.transpose()(&args);
    if (to.scales) scale_columns(turned, count, to.width, to.scales, to.columns);
    for (int64_t r = 0; r < count; r++) {
      int64_t i = (first + r) / taps, q = (first + r) % taps, k = q / width * p.depth + q % width * inputs + i;
      std::memcpy(to.data + k * bytes, turned + r * to.width, static_cast<size_t>(bytes));
    }
  }
}

void pack_panel(const KernelTable& kernels, const GemmFamily& f, const ConvLayout::Part& p, const Conv& c, int64_t offset,
                const PanelTo& to) {
  const char* from = static_cast<const char*>(c.weights) + offset * static_cast<int64_t>(size_of(c.weight_type));
  bool turned = lies_by_outputs(f, p, c);
  if (!turned || p.run != p.depth)
    std::memset(to.data, 0, static_cast<size_t>(to.width * p.positions * p.depth * static_cast<int64_t>(size_of(f.b))));
  if (turned) return turn_panel(kernels, p, c, from, to);
  auto as = [&]<class T, class To>(T, To) { fill_panel<T, To>(f, p, c, reinterpret_cast<const T*>(from), to); };
  if (c.weight_type == f.b) {
    switch (size_of(f.b)) {
    case 1: return as(uint8_t{}, uint8_t{});
    case 2: return as(uint16_t{}, uint16_t{});
    case 4: return as(uint32_t{}, uint32_t{});
    default: return as(uint64_t{}, uint64_t{});
    }
  }
  if (c.weight_type == DType::U8) return as(uint8_t{}, int16_t{});
  return as(int8_t{}, int16_t{});
}

TENON_WIDE void multiply_columns(float* rows, int64_t count, int64_t width, const float* factors, int64_t columns) {
  for (int64_t r = 0; r < count; r++)
    for (int64_t j = 0; j < columns; j++) rows[r * width + j] *= factors[j];
}

} // namespace

std::vector<ConvPart> conv_parts(const Conv& c) {
  const ConvWindow& w = c.window;
  if (!c.transposed) return {{.window = w}};
  std::vector<ConvPart> parts;
  for (int64_t z = 0; z < w.stride[0]; z++)
    for (int64_t y = 0; y < w.stride[1]; y++)
      for (int64_t x = 0; x < w.stride[2]; x++) {
        ConvPart p{.window = w};
        choose_taps(w, 0, z, p);
        choose_taps(w, 1, y, p);
        choose_taps(w, 2, x, p);
        parts.push_back(p);
      }
  return parts;
}

int conv_family(const KernelTable& kernels, const Conv& c) {
  auto& all = kernels.families();
  bool windows = c.groups > 1 || c.window.positions() > 1;
  DType in = c.by_lines && !dots_lines(kernels, c) ? DType::F32 : c.in_type; // widened
  for (size_t i = 0; i < all.size() && windows; i++)
    if (is_narrow(kernels, all[i]) && all[i].a == in && all[i].b == c.weight_type && c.group_outputs() <= all[i].lanes)
      return static_cast<int>(i);
  return choose_family(kernels, in, c.weight_type, any_size, any_size, any_size, Windows::Yes);
}

ConvLayout conv_layout(const KernelTable& kernels, const Conv& c) {
  ConvLayout l;
  l.family = c.family >= 0 ? c.family : conv_family(kernels, c);
  const GemmFamily& f = kernels.family(l.family);
  int64_t inputs = c.group_inputs(), outputs = c.group_outputs();
  bool converted = f.is_tiled() || c.in_type != f.a, fold = c.groups == 1 && (converted || inputs < fold_below || inputs % f.k_step != 0);
  l.copied = converted;
  int64_t most_rows = 0, row = 0;
  for (const ConvPart& part : conv_parts(c)) {
    ConvLayout::Part p{part, false, 0, 0, 0, 0};
    const ConvWindow& w = p.window;
    p.folded = fold && w.dilation[2] == 1 && w.kernel[2] > 1;
    p.run = p.folded ? w.kernel[2] * inputs : inputs;
    p.depth = round_up(p.run, f.k_step);
    p.positions = p.is_empty ? 0 : p.folded ? w.kernel[0] * w.kernel[1] : w.positions();
    l.copied = l.copied || p.depth != p.run;
    l.parts.push_back(p);
    most_rows = std::max(most_rows, l.panel_rows(p));
    row = std::max(row, c.in_channels * (p.folded ? w.kernel[2] : 1));
  }
  l.panels = choose_panels(f, outputs, most_rows);
  for (ConvLayout::Part& p : l.parts) {
    p.weights = l.bytes;
    l.bytes += l.group_bytes(p) * c.groups;
  }
  l.padding = round_up(l.bytes, 64);
  l.bytes = round_up(l.padding + row * static_cast<int64_t>(size_of(c.in_type)), 64);
  return l;
}

int64_t num_panels(const ConvLayout& l, const Conv& c) { return static_cast<int64_t>(l.parts.size()) * c.groups * l.panels.count(); }

bool windows_pack_scaled(const KernelTable& kernels, const ConvLayout& l, const Conv& c) {
  const GemmFamily& f = kernels.family(l.family);
  return c.weight_type == DType::F32 && std::all_of(l.parts.begin(), l.parts.end(), [&](auto& p) { return lies_by_outputs(f, p, c); });
}

void scale_columns(float* rows, int64_t count, int64_t width, const float* factors, int64_t columns) {
  multiply_columns(rows, count, width, factors, columns);
}

void pack_windows(const KernelTable& kernels, const ConvLayout& l, const Conv& c, int64_t begin, int64_t end, void* to) noexcept {
  const GemmFamily& f = kernels.family(l.family);
  char* base = static_cast<char*>(to);
  if (begin == 0 && c.in_type != DType::I16) std::memset(base + l.padding, c.padding, static_cast<size_t>(l.bytes - l.padding));
  else if (begin == 0)
    std::fill_n(reinterpret_cast<int16_t*>(base + l.padding), (l.bytes - l.padding) / 2, static_cast<int16_t>(c.padding));
  WeightAddress at(c);
  int64_t count = l.panels.count();
  for (int64_t i = begin; i < end; i++) {
    const ConvLayout::Part& p = l.parts[static_cast<size_t>(i / count / c.groups)];
    int64_t group = i / count % c.groups, panel = i % count, rows = l.panel_rows(p);
    PanelTo panel_to{l.panels.panel_width(panel), l.panels.columns(panel), nullptr, nullptr};
    if (c.scales) panel_to.scales = c.scales + group * c.group_outputs() + panel * l.panels.width();
    panel_to.data = base + p.weights + group * l.group_bytes(p) + panel * l.panels.width() * rows * l.panels.element_bytes;
    pack_panel(kernels, f, p, c, group * at.group + panel * l.panels.width() * at.out, panel_to);
  }
}

} // namespace tenon
