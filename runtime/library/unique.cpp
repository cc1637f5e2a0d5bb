// Unique elements, or unique slices along a dim, with the inverse and the counts. Each NaN is unlike every other.
#include <numeric>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// The groups of equal items: items in group order, and where each group starts.
struct Groups {
  std::vector<int64_t> order, starts;
};

template <class Same> void find_groups(Groups& g, Same same) {
  for (size_t i = 0; i < g.order.size(); i++)
    if (i == 0 || !same(g.order[i - 1], g.order[i])) g.starts.push_back(static_cast<int64_t>(i));
}

// Outputs 1 and 2: the group of each item, the size of each group. Empty where not wanted.
const char* write_groups(const LibraryCall& c, const Groups& g, std::span<const int64_t> inverse_sizes) {
  bool want_inverse = c.ints[1] != 0, want_counts = c.ints[2] != 0;
  static constexpr int64_t none[] = {0};
  auto groups = static_cast<int64_t>(g.starts.size()), items = static_cast<int64_t>(g.order.size());
  auto* inverse = allocate<int64_t>(c, 1, want_inverse ? inverse_sizes : std::span<const int64_t>(none));
  if (!inverse && want_inverse) return no_memory;
  int64_t* counts = nullptr;
  if (c.outputs.size() > 2) {
    counts = allocate<int64_t>(c, 2, {want_counts ? groups : 0});
    if (!counts && want_counts) return no_memory;
  }
  for (int64_t k = 0; k < groups; k++) {
    int64_t begin = g.starts[static_cast<size_t>(k)], end = k + 1 < groups ? g.starts[static_cast<size_t>(k + 1)] : items;
    if (want_counts && counts) counts[k] = end - begin;
    if (want_inverse)
      for (int64_t i = begin; i < end; i++) inverse[g.order[static_cast<size_t>(i)]] = k;
  }
  return nullptr;
}

} // namespace

const char* unique(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using Key = KeyOf<T>;
    const T* data = in.as<const T>();
    auto n = static_cast<size_t>(in.numel());
    Groups g;
    g.order.resize(n);
    if (c.ints[0]) std::iota(g.order.begin(), g.order.end(), int64_t{0});
    else {
      std::vector<std::pair<Key, int64_t>> items(n);
      for (size_t i = 0; i < n; i++) items[i] = {order_key(data[i]), static_cast<int64_t>(i)};
      std::sort(items.begin(), items.end());
      for (size_t i = 0; i < n; i++) g.order[i] = items[i].second;
    }
    find_groups(g, [&](int64_t a, int64_t b) { return widen(data[a]) == widen(data[b]); });
    auto* out = allocate<T>(c, 0, {static_cast<int64_t>(g.starts.size())});
    if (!out) return no_memory;
    for (int64_t start : g.starts) *out++ = data[g.order[static_cast<size_t>(start)]];
    return write_groups(c, g, in.sizes);
  });
}

const char* unique_dim(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[3]);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    int64_t width = l.count();
    const T* data = in.as<const T>();
    auto at = [&](int64_t i, int64_t k) { return widen(data[(k / l.inner * l.n + i) * l.inner + k % l.inner]); };
    Groups g;
    g.order.resize(static_cast<size_t>(l.n));
    std::iota(g.order.begin(), g.order.end(), int64_t{0});
    if (!c.ints[0])
      std::sort(g.order.begin(), g.order.end(), [&](int64_t a, int64_t b) {
        for (int64_t k = 0; k < width; k++) {
          auto x = at(a, k), y = at(b, k);
          if (x < y || (nan(y) && !nan(x))) return true;
          if (y < x || (nan(x) && !nan(y))) return false;
        }
        return a < b;
      });
    find_groups(g, [&](int64_t a, int64_t b) {
      for (int64_t k = 0; k < width; k++)
        if (!(at(a, k) == at(b, k))) return false;
      return true;
    });
    std::vector<int64_t> sizes(in.sizes.begin(), in.sizes.end());
    auto groups = static_cast<int64_t>(g.starts.size());
    if (!sizes.empty()) sizes[static_cast<size_t>(c.ints[3])] = groups;
    auto* out = allocate<T>(c, 0, std::span<const int64_t>(sizes));
    if (!out) return no_memory;
    for (int64_t o = 0; o < l.outer; o++)
      for (int64_t k = 0; k < groups; k++) {
        const T* from = data + (o * l.n + g.order[static_cast<size_t>(g.starts[static_cast<size_t>(k)])]) * l.inner;
        out = std::copy(from, from + l.inner, out);
      }
    int64_t inverse_sizes[] = {l.n};
    return write_groups(c, g, inverse_sizes);
  });
}

} // namespace tenon::library
