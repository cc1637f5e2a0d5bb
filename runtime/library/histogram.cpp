// Histograms: of all elements over equal bins (histc), and of points in D dims over equal bins or given edges.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// a op b rounded to T, as torch computes in T.
template <class T> T rounded(Wide<T> x) { return narrow<T>(x); }

// Least and greatest of a strided column; false where an element is not finite.
template <class T> bool find_range(const T* data, int64_t n, int64_t stride, double& low, double& high) {
  if (n == 0) return low = 0, high = 1, true;
  low = high = static_cast<double>(widen(data[0]));
  bool finite = true;
  for (int64_t i = 0; i < n; i++) {
    auto x = static_cast<double>(widen(data[i * stride]));
    finite &= std::isfinite(x);
    low = std::min(low, x), high = std::max(high, x);
  }
  return finite;
}

// A range of one point is widened on both sides.
const char* settle_range(bool finite, double& low, double& high, double margin) {
  if (!finite || !std::isfinite(low) || !std::isfinite(high)) return message("the range [{}, {}] of the histogram is not finite", low, high);
  if (low > high) return message("the range [{}, {}] of the histogram is empty", low, high);
  if (low == high) low -= margin, high += margin;
  return nullptr;
}

// Evenly spaced edges, from both ends as torch.linspace has them.
template <class T> void write_edges(T* edges, int64_t bins, double low, double high) {
  using W = Wide<T>;
  W first = widen(narrow<T>(low)), last = widen(narrow<T>(high)), step = (last - first) / static_cast<W>(bins);
  for (int64_t i = 0; i <= bins; i++)
    edges[i] = narrow<T>(i < (bins + 1) / 2 ? first + step * static_cast<W>(i) : last - step * static_cast<W>(bins - i));
}

// The bin of x among `bins` with these edges, or -1. Bins are half open, the last one is closed.
template <class T> int64_t find_bin(const T* edges, int64_t bins, Wide<T> x) {
  if (!(x >= widen(edges[0]) && x <= widen(edges[bins]))) return -1;
  int64_t at = std::upper_bound(edges, edges + bins + 1, x, [](Wide<T> a, T b) { return a < widen(b); }) - edges - 1;
  return std::min(at, bins - 1);
}

template <class T> struct Grid {
  std::vector<const T*> edges;
  std::vector<int64_t> bins;
};

// Counts points (rows of `self`) into the row-major grid.
template <class T> void count_points(const LibraryTensor& self, const Grid<T>& g, const T* weight, bool density, T* out) {
  auto dims = static_cast<int64_t>(g.bins.size());
  int64_t points = dims ? self.numel() / dims : 0, cells = product(g.bins);
  using W = Wide<T>;
  std::vector<W> sums(static_cast<size_t>(cells), W(0));
  for (int64_t p = 0; p < points; p++) {
    int64_t cell = 0;
    for (int64_t d = 0; d < dims && cell >= 0; d++) {
      auto k = static_cast<size_t>(d);
      int64_t bin = find_bin(g.edges[k], g.bins[k], widen(self.as<const T>()[p * dims + d]));
      cell = bin < 0 ? -1 : cell * g.bins[k] + bin;
    }
    if (cell >= 0) sums[static_cast<size_t>(cell)] += weight ? widen(weight[p]) : W(1);
  }
  W total = 0;
  for (W s : sums) total += s;
  for (int64_t cell = 0; cell < cells; cell++) {
    W value = sums[static_cast<size_t>(cell)];
    if (density) {
      value /= total;
      int64_t rest = cell;
      for (size_t d = g.bins.size(); d-- > 0; rest /= g.bins[d]) value /= widen(g.edges[d][rest % g.bins[d] + 1]) - widen(g.edges[d][rest % g.bins[d]]);
    }
    out[cell] = narrow<T>(value);
  }
}

} // namespace

const char* histc(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  int64_t bins = c.ints[0], n = in.numel();
  double low = c.numbers[0], high = c.numbers[1];
  if (bins <= 0) return message("bins is {}, but must be positive", bins);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    const T* data = in.as<const T>();
    bool finite = low != high || n == 0 || find_range(data, n, 1, low, high);
    if (const char* error = settle_range(finite, low, high, 1)) return error;
    std::vector<int64_t> counts(static_cast<size_t>(bins), 0);
    W first = widen(narrow<T>(low)), last = widen(narrow<T>(high)), width = widen(rounded<T>(static_cast<W>(last - first)));
    for (int64_t i = 0; i < n; i++) {
      W x = widen(data[i]);
      if (!(x >= first && x <= last)) continue;
      W from_first = widen(rounded<T>(static_cast<W>(x - first)));
      auto bin = static_cast<int64_t>(widen(rounded<T>(static_cast<W>(widen(rounded<T>(static_cast<W>(from_first * static_cast<W>(bins)))) / width))));
      counts[static_cast<size_t>(std::min(bin, bins - 1))]++;
    }
    for (int64_t b = 0; b < bins; b++) c.outputs[0].as<T>()[b] = narrow<T>(counts[static_cast<size_t>(b)]);
    return nullptr;
  });
}

namespace {

// One weight a point, in the points' dtype.
const char* check_weight(const LibraryTensor& self, const LibraryTensor& weight, size_t dims) {
  if (weight.dtype == self.dtype && weight.numel() * static_cast<int64_t>(dims) == self.numel()) return nullptr;
  return message("{} weights of dtype {} for {} points of dtype {}", weight.numel(), name_of(weight.dtype), self.numel() / static_cast<int64_t>(std::max<size_t>(dims, 1)), name_of(self.dtype));
}

} // namespace

const char* histogram_counts(const LibraryCall& c) {
  const LibraryTensor& self = c.inputs[0];
  auto dims = static_cast<size_t>(c.ints[0]);
  bool has_weight = c.ints[dims + 1] != 0, density = c.ints[dims + 2] != 0, has_range = c.ints[dims + 3] != 0;
  if (has_range && c.numbers.size() != 2 * dims) return message("{} numbers for the ranges of {} dims", c.numbers.size(), dims);
  if (const char* error = has_weight ? check_weight(self, c.inputs[1], dims) : nullptr) return error;
  return for_float(self.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Grid<T> g;
    int64_t points = dims ? self.numel() / static_cast<int64_t>(dims) : 0;
    for (size_t d = 0; d < dims; d++) {
      int64_t bins = c.ints[d + 1];
      if (bins <= 0) return message("bins is {}, but must be positive", bins);
      double low = 0, high = 0;
      bool finite = true;
      if (has_range) low = c.numbers[2 * d], high = c.numbers[2 * d + 1];
      else finite = find_range(self.as<const T>() + d, points, static_cast<int64_t>(dims), low, high);
      if (const char* error = settle_range(finite, low, high, 0.5)) return error;
      T* edges = c.outputs[d + 1].as<T>();
      write_edges(edges, bins, low, high);
      g.edges.push_back(edges);
      g.bins.push_back(bins);
    }
    count_points(self, g, has_weight ? c.inputs[1].as<const T>() : nullptr, density, c.outputs[0].as<T>());
    return nullptr;
  });
}

const char* histogram_edges(const LibraryCall& c) {
  const LibraryTensor& self = c.inputs[0];
  bool has_weight = c.ints[0] != 0, density = c.ints[1] != 0;
  size_t dims = c.inputs.size() - 1 - has_weight;
  for (size_t k = 1; k <= dims; k++)
    if (c.inputs[k].dtype != self.dtype) return "edges of another dtype than the points";
  if (const char* error = has_weight ? check_weight(self, c.inputs.back(), dims) : nullptr) return error;
  return for_float(self.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Grid<T> g;
    for (size_t k = 1; k <= dims; k++) {
      g.edges.push_back(c.inputs[k].as<const T>());
      g.bins.push_back(c.inputs[k].numel() - 1);
      if (g.bins.back() < 0) return "a dim without edges";
    }
    count_points(self, g, has_weight ? c.inputs.back().as<const T>() : nullptr, density, c.outputs[0].as<T>());
    return nullptr;
  });
}

} // namespace tenon::library
