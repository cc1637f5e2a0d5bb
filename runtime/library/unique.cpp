// Unique elements, or unique slices along a dim, with the inverse and the counts. Each NaN is unlike every other.
// Elements of a small range are counted in a table; others are sorted.
#include <numeric>

#include "runtime/library/bits.h"
#include "runtime/library/counts.h"

namespace tenon::library {

namespace {

// Outputs 1 and 2 of the sizes wanted. False where memory is refused.
bool allocate_details(const LibraryCall& c, std::span<const int64_t> sizes, int64_t groups, int64_t*& inverse, int64_t*& counts) {
  static constexpr int64_t none[] = {0};
  inverse = counts = nullptr;
  auto* given = allocate<int64_t>(c, 1, c.ints[1] ? sizes : std::span<const int64_t>(none));
  if (c.ints[1] && !(inverse = given)) return false;
  if (c.outputs.size() < 3) return true;
  given = allocate<int64_t>(c, 2, {c.ints[2] ? groups : 0});
  return !c.ints[2] || (counts = given);
}

// The outputs where equal items follow each other: item i is element position(i), and `starts` holds those that begin a
// group. Elements are moved as integers T of their size.
template <class T, class Position> const char* write_runs(const LibraryCall& c, const Found& starts, Position position) {
  const LibraryTensor& in = c.inputs[0];
  const T* data = in.as<const T>();
  int64_t groups = starts.count(), *inverse, *counts;
  T* out = allocate<T>(c, 0, {groups});
  if (!out || !allocate_details(c, in.sizes, groups, inverse, counts)) return no_memory;
  each_chunk(c, starts, [&](int64_t begin, int64_t end, int64_t before) {
    int64_t group = before - 1;
    int64_t k = before;
    starts.each(begin, end, [&](int64_t i) {
      if (counts) counts[k] = i; // for now, where it starts
      out[k++] = data[position(i)];
    });
    for (int64_t i = begin; inverse && i < end; i += 64) {
      uint64_t word = starts.words[static_cast<size_t>(i / 64)];
      for (int64_t k = i; k < std::min(i + 64, end); k++, word >>= 1) group += static_cast<int64_t>(word & 1), inverse[position(k)] = group;
    }
  });
  for (int64_t k = 0; counts && k < groups; k++) counts[k] = (k + 1 < groups ? counts[k + 1] : starts.n) - counts[k];
  return nullptr;
}

template <class T> using Equal = std::conditional_t<std::is_integral_v<T>, KeyOf<T>, T>;
constexpr auto in_order = [](int64_t i) { return i; };

// T: floats, or unsigned integers for all integers of their size.
template <class T> const char* unique_consecutive(const LibraryCall& c) {
  const T* data = c.inputs[0].as<const T>();
  int64_t n = c.inputs[0].numel();
  Found starts = find_where(c, n, [=](int64_t i) { return !(widen(data[i > 0 ? i - 1 : 0]) == widen(data[i])); });
  starts.include_first();
  return write_runs<KeyOf<T>>(c, starts, in_order);
}

// Whether a key stands for NaN, which equals nothing.
template <class T> bool is_nan_key(KeyOf<T> key) { return !std::is_integral_v<T> && key == static_cast<KeyOf<T>>(~KeyOf<T>{0}); }

// The element for a key; of a zero the sign is left open.
template <class T> T from_key(KeyOf<T> key) {
  using U = KeyOf<T>;
  constexpr U sign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(key);
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(key ^ sign);
  else return std::bit_cast<T>(static_cast<U>(key & sign ? key ^ sign : ~key));
}

// Elements whose keys are `width` neighbours from `least` on, none of them NaN: a table of their counts.
template <class T> const char* unique_by_table(const LibraryCall& c, const KeyOf<T>* keys, KeyOf<T> least, int64_t width) {
  using Key = KeyOf<T>;
  const LibraryTensor& in = c.inputs[0];
  const T* data = in.as<const T>();
  int64_t n = in.numel(), groups = 0;
  std::vector<int64_t> table(static_cast<size_t>(width));
  count_all<int64_t>(c, n, width, false, table.data(), [=](int64_t first, int64_t count, int64_t* bin, int64_t*) {
    for (int64_t i = 0; i < count; i++) bin[i] = static_cast<Key>(keys[first + i] - least);
  });
  for (int64_t k = 0; k < width; k++) groups += table[static_cast<size_t>(k)] != 0;
  int64_t *inverse, *counts, group = 0;
  T* out = allocate<T>(c, 0, {groups});
  if (!out || !allocate_details(c, in.sizes, groups, inverse, counts)) return no_memory;
  for (int64_t k = 0; k < width; k++) {
    int64_t& count = table[static_cast<size_t>(k)];
    if (count == 0) continue;
    auto key = static_cast<Key>(least + static_cast<Key>(k));
    out[group] = from_key<T>(key);
    if constexpr (!std::is_integral_v<T>)
      if (key == order_key(T(0.f)))
        out[group] = *std::find_if(data, data + n, [](T x) { return widen(x) == 0; }); // the sign of the first one
    if (counts) counts[group] = count;
    count = group++;
  }
  if (inverse)
    parallel(c, n, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) inverse[i] = table[static_cast<Key>(keys[i] - least)];
    });
  return nullptr;
}

template <class Key> const char* unique_by_sorting(const LibraryCall& c, const Key* keys, Key least, Key most, bool may_be_nan) {
  int64_t n = c.inputs[0].numel();
  Packing p(least, most, n);
  auto words = scratch<uint64_t>(2 * n);
  sort_keys(c, keys, n, p, words.get());
  const uint64_t* w = words.get();
  Key nan_key = static_cast<Key>(~Key{0});
  Found starts = find_where(c, n, [=](int64_t i) {
    uint64_t before = w[i - (i > 0)];
    return !p.alike(before, w[i]) || ((may_be_nan || p.dropped) && (keys[p.position(before)] != keys[p.position(w[i])] ||
                                                                    (may_be_nan && keys[p.position(w[i])] == nan_key)));
  });
  starts.include_first();
  return write_runs<Key>(c, starts, [w, p](int64_t i) { return p.position(w[i]); });
}

template <class T> const char* unique_sorted(const LibraryCall& c) {
  using Key = KeyOf<T>;
  const T* data = c.inputs[0].as<const T>();
  int64_t n = c.inputs[0].numel(), chunk = 65536, chunks = (n + chunk - 1) / chunk;
  auto keys = scratch<Key>(n);
  std::vector<Key> lows(static_cast<size_t>(chunks)), highs(static_cast<size_t>(chunks));
  parallel(c, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
      int64_t first = k * chunk, count = std::min(chunk, n - first);
      lane_keys(data + first, count, 1, 1, false, keys.get() + first);
      key_range(keys.get() + first, count, lows[static_cast<size_t>(k)], highs[static_cast<size_t>(k)]);
    }
  });
  if (n == 0) return unique_consecutive<Equal<T>>(c);
  Key least = *std::min_element(lows.begin(), lows.end()), most = *std::max_element(highs.begin(), highs.end());
  uint64_t width = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (width < static_cast<uint64_t>(std::max<int64_t>(1024, n / 2)) && !is_nan_key<T>(most))
    return unique_by_table<T>(c, keys.get(), least, static_cast<int64_t>(width) + 1);
  return unique_by_sorting<Key>(c, keys.get(), least, most, is_nan_key<T>(most));
}

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

// Slices along the dim of `l`, told apart by the keys of their elements.
template <class Key> const char* unique_slices(const LibraryCall& c, Lanes l, const Key* keys, bool floats) {
  const LibraryTensor& in = c.inputs[0];
  int64_t width = l.count();
  auto at = [&](int64_t i, int64_t k) { return keys[(k / l.inner * l.n + i) * l.inner + k % l.inner]; };
  Groups g;
  g.order.resize(static_cast<size_t>(l.n));
  std::iota(g.order.begin(), g.order.end(), int64_t{0});
  if (!c.ints[0])
    std::sort(g.order.begin(), g.order.end(), [&](int64_t a, int64_t b) {
      for (int64_t k = 0; k < width; k++)
        if (Key x = at(a, k), y = at(b, k); x != y) return x < y;
      return a < b;
    });
  find_groups(g, [&](int64_t a, int64_t b) {
    for (int64_t k = 0; k < width; k++)
      if (Key x = at(a, k); x != at(b, k) || (floats && x == static_cast<Key>(~Key{0}))) return false; // NaN equals nothing
    return true;
  });
  std::vector<int64_t> sizes(in.sizes.begin(), in.sizes.end());
  auto groups = static_cast<int64_t>(g.starts.size());
  if (!sizes.empty()) sizes[static_cast<size_t>(c.ints[3])] = groups;
  auto* out = allocate<Key>(c, 0, std::span<const int64_t>(sizes));
  if (!out) return no_memory;
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t k = 0; k < groups; k++) {
      const Key* from = in.as<const Key>() + (o * l.n + g.order[static_cast<size_t>(g.starts[static_cast<size_t>(k)])]) * l.inner;
      out = std::copy(from, from + l.inner, out);
    }
  int64_t inverse_sizes[] = {l.n};
  return write_groups(c, g, inverse_sizes);
}

} // namespace

const char* unique(const LibraryCall& c) {
  return for_real(c.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return c.ints[0] ? unique_consecutive<Equal<T>>(c) : unique_sorted<T>(c);
  });
}

const char* unique_dim(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    auto keys = scratch<KeyOf<T>>(in.numel());
    parallel(c, in.numel(), 16384,
             [&](int64_t begin, int64_t end) { lane_keys(in.as<const T>() + begin, end - begin, 1, 1, false, keys.get() + begin); });
    return unique_slices<KeyOf<T>>(c, Lanes(in.sizes, c.ints[3]), keys.get(), !std::is_integral_v<T>);
  });
}

} // namespace tenon::library
