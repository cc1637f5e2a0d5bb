// Histograms: of all elements over equal bins (histc), and of points in D dims over equal bins or given edges.
#include "runtime/library/counts.h"

namespace tenon::library {

namespace {

// a op b rounded to T, as torch computes in T.
template <class T> T rounded(Wide<T> x) { return narrow<T>(x); }

// Least and greatest of a strided column; false where an element is not finite.
template <class T> TENON_WIDE bool find_range(const T* data, int64_t n, int64_t stride, double& low, double& high) {
  if (n == 0) return low = 0, high = 1, true;
  constexpr int64_t chains = 16;
  Wide<T> least[chains], most[chains];
  std::fill_n(least, chains, widen(data[0])), std::fill_n(most, chains, widen(data[0]));
  int unordered = 0;
  for (int64_t i = 0; i + chains <= n; i += chains)
    for (int64_t k = 0; k < chains; k++) {
      auto x = widen(data[(i + k) * stride]);
      unordered |= x != x;
      least[k] = x < least[k] ? x : least[k], most[k] = x > most[k] ? x : most[k];
    }
  for (int64_t i = n / chains * chains; i < n; i++) {
    auto x = widen(data[i * stride]);
    unordered |= x != x;
    least[0] = std::min(least[0], x), most[0] = std::max(most[0], x);
  }
  low = static_cast<double>(*std::min_element(least, least + chains)), high = static_cast<double>(*std::max_element(most, most + chains));
  return !unordered && std::isfinite(low) && std::isfinite(high);
}

// A range of one point is widened on both sides.
const char* settle_range(bool finite, double& low, double& high, double margin) {
  if (!finite || !std::isfinite(low) || !std::isfinite(high))
    return message("the range [{}, {}] of the histogram is not finite", low, high);
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

// The bins of points among those with these edges, or -1. Bins are half open, the last one is closed. Where the edges
// lie evenly, a guess is seldom wrong, else the search goes on without branches.
template <class T> TENON_WIDE void find_bins(const T* edges, int64_t bins, bool even, const T* x, int64_t step, int64_t n, int64_t* out) {
  using W = Wide<T>;
  W first = widen(edges[0]), last = widen(edges[bins]), scale = static_cast<W>(bins) / (last - first);
  for (int64_t i = 0; i < n; i++) {
    W v = widen(x[i * step]);
    int64_t at = 0;
    if (even) {
      W guess = (v - first) * scale;
      at = static_cast<int64_t>(guess > 0 && guess < static_cast<W>(bins) ? guess
                                                                          : W(0)); // beyond: the range decides below, or the last bin
      at = v >= last ? bins - 1 : std::min(at, bins - 1);
      while (at > 0 && v < widen(edges[at])) at--;
      while (at + 1 < bins && v >= widen(edges[at + 1])) at++;
    } else {
      for (int64_t left = bins; left > 1; left -= left / 2)
        at += left / 2 & -static_cast<int64_t>(v >= widen(edges[at + left / 2])); // not ?:, which becomes a branch
    }
    out[i] = v >= first && v <= last ? at : -1;
  }
}

template <class T> struct Grid {
  std::vector<const T*> edges;
  std::vector<int64_t> bins;
  bool even = false;
};

// Counts points (rows of `self`) into the row-major grid.
template <class T> void count_points(const LibraryCall& c, const Grid<T>& g, const T* weight, bool density, T* out) {
  using W = Wide<T>;
  const LibraryTensor& self = c.inputs[0];
  auto dims = static_cast<int64_t>(g.bins.size());
  int64_t points = dims ? self.numel() / dims : 0, cells = product(g.bins);
  std::vector<double> sums(static_cast<size_t>(cells + 1));
  count_all<double>(c, points, cells + 1, weight != nullptr, sums.data(),
                    [&](int64_t p, int64_t n, int64_t* cell, double* amount) { // the last cell is for what lies outside
                      int64_t bin[count_block];
                      std::fill_n(cell, n, int64_t{0});
                      for (int64_t d = 0; d < dims; d++) {
                        auto k = static_cast<size_t>(d);
                        if (g.bins[k] > 0) find_bins(g.edges[k], g.bins[k], g.even, self.as<const T>() + p * dims + d, dims, n, bin);
                        else std::fill_n(bin, n, int64_t{-1});
                        for (int64_t i = 0; i < n; i++) cell[i] = cell[i] < 0 || bin[i] < 0 ? -1 : cell[i] * g.bins[k] + bin[i];
                      }
                      for (int64_t i = 0; i < n; i++) cell[i] = cell[i] < 0 ? cells : cell[i];
                      for (int64_t i = 0; weight && i < n; i++) amount[i] = static_cast<double>(widen(weight[p + i]));
                    });
  double total = 0;
  for (int64_t cell = 0; cell < cells; cell++) total += sums[static_cast<size_t>(cell)];
  for (int64_t cell = 0; cell < cells; cell++) {
    auto value = static_cast<W>(sums[static_cast<size_t>(cell)]);
    if (density) {
      value /= static_cast<W>(total);
      int64_t rest = cell;
      for (size_t d = g.bins.size(); d-- > 0; rest /= g.bins[d])
        value /= widen(g.edges[d][rest % g.bins[d] + 1]) - widen(g.edges[d][rest % g.bins[d]]);
    }
    out[cell] = narrow<T>(value);
  }
}

// The bins of equal width that histc counts into, as torch computes them; `bins` for what lies outside.
template <class T>
TENON_WIDE void equal_bins(const T* x, int64_t n, Wide<T> first, Wide<T> last, Wide<T> width, int64_t bins, int64_t* out) {
  using W = Wide<T>;
  for (int64_t i = 0; i < n; i++) {
    W v = widen(x[i]);
    bool inside = v >= first && v <= last;
    W from_first = widen(rounded<T>(static_cast<W>((inside ? v : first) - first)));
    auto bin = static_cast<int64_t>(
        widen(rounded<T>(static_cast<W>(widen(rounded<T>(static_cast<W>(from_first * static_cast<W>(bins)))) / width))));
    out[i] = inside ? std::min(bin, bins - 1) : bins;
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
    std::vector<int64_t> counts(static_cast<size_t>(bins + 1), 0); // the last one for what lies outside
    W first = widen(narrow<T>(low)), last = widen(narrow<T>(high)), width = widen(rounded<T>(static_cast<W>(last - first)));
    if (width == W(0)) width = 1; // the ends are one number in this dtype
    count_all<int64_t>(c, n, bins + 1, false, counts.data(), [=](int64_t i, int64_t count, int64_t* bin, int64_t*) {
      equal_bins(data + i, count, first, last, width, bins, bin);
    });
    for (int64_t b = 0; b < bins; b++) c.outputs[0].as<T>()[b] = narrow<T>(counts[static_cast<size_t>(b)]);
    return nullptr;
  });
}

namespace {

// One weight a point, in the points' dtype.
const char* check_weight(const LibraryTensor& self, const LibraryTensor& weight, size_t dims) {
  if (weight.dtype == self.dtype && weight.numel() * static_cast<int64_t>(dims) == self.numel()) return nullptr;
  return message("{} weights of dtype {} for {} points of dtype {}", weight.numel(), name_of(weight.dtype),
                 self.numel() / static_cast<int64_t>(std::max<size_t>(dims, 1)), name_of(self.dtype));
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
    g.even = true;
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
    count_points(c, g, has_weight ? c.inputs[1].as<const T>() : nullptr, density, c.outputs[0].as<T>());
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
    count_points(c, g, has_weight ? c.inputs.back().as<const T>() : nullptr, density, c.outputs[0].as<T>());
    return nullptr;
  });
}

} // namespace tenon::library
