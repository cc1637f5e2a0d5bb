// Ordering by keys: what sort, topk, median, mode and unique share. Elements become unsigned keys (order_key), keys with their positions
// become words where both fit into 64 bits, which they nearly always do once the least key is taken off; the words are sorted digit by
// digit. Short lanes are sorted by counting for each word how many are less.
#pragma once
#include <bit>
#include <memory>

#include "runtime/library/common.h"

namespace tenon::library {

/// A key beside its position, where the two do not fit into one word.
template <class Key> struct Keyed {
  Key key;
  int64_t index;
};
using Pair = Keyed<uint64_t>;
inline uint64_t sort_bits(uint64_t word) { return word; }
inline uint64_t sort_bits(const Pair& p) { return p.key; }

template <class T> KeyOf<T> directed_key(T x, bool descending) {
  KeyOf<T> k = order_key(x);
  return descending ? static_cast<KeyOf<T>>(~k) : k;
}

/// The keys of `lanes` lanes beside each other, n elements each, `step` apart, one lane after the other.
template <class T> TENON_WIDE void lane_keys(const T* in, int64_t n, int64_t step, int64_t lanes, bool descending, KeyOf<T>* keys) {
  auto flip = static_cast<KeyOf<T>>(descending ? ~uint64_t{0} : 0);
  if (step == 1) {
    for (int64_t i = 0; i < n; i++) keys[i] = static_cast<KeyOf<T>>(order_key(in[i]) ^ flip);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = 0; l < lanes; l++) keys[l * n + i] = static_cast<KeyOf<T>>(order_key(in[i * step + l]) ^ flip);
}

template <class Key> TENON_WIDE void key_range(const Key* keys, int64_t n, Key& least, Key& most) {
  Key low = static_cast<Key>(~Key{0}), high = 0;
  for (int64_t i = 0; i < n; i++) low = std::min(low, keys[i]), high = std::max(high, keys[i]);
  least = low, most = high;
}

/// How keys between two and their positions share a word: (key - least) << shift | position.
struct Packing {
  uint64_t least = 0;
  int shift = 0, bits = 0; // of the position, of the key
  Packing(uint64_t low, uint64_t high, int64_t n) : least(low), shift(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(n, 1) - 1))), bits(std::bit_width(high - low)) {}
  bool fits() const { return shift + bits <= 64; }
  uint64_t word(uint64_t key, int64_t position) const { return (key - least) << shift | static_cast<uint64_t>(position); }
  int64_t position(uint64_t word) const { return static_cast<int64_t>(word & ((uint64_t{1} << shift) - 1)); }
  uint64_t key(uint64_t word) const { return (word >> shift) + least; }
};

constexpr int64_t count_up_to = 96; // below, counting beats sorting by digits

/// Sorts few words, no two alike: each goes where as many are less.
TENON_WIDE inline void sort_by_counting(uint64_t* words, int64_t n) {
  alignas(64) uint64_t x[count_up_to];
  int64_t padded = (n + 7) / 8 * 8;
  std::copy_n(words, n, x);
  std::fill(x + n, x + padded, ~uint64_t{0});
  for (int64_t i = 0; i < n; i++) {
    uint64_t less = 0, word = x[i];
    for (int64_t k = 0; k < padded; k++) less += x[k] < word;
    words[less] = word;
  }
}

/// Sorts by the bits [low, high) of sort_bits, stable, by digits from the lowest on. Returns where the result is: items or spare.
template <class E> E* sort_by_digits(E* items, E* spare, int64_t n, int low, int high) {
  constexpr int most_passes = 8, most_buckets = 2048;
  if (high <= low) return items;
  int passes = (high - low + (n < 6000 ? 7 : 10)) / (n < 6000 ? 8 : 11), digit = (high - low + passes - 1) / passes;
  uint64_t mask = (uint64_t{1} << digit) - 1;
  uint32_t counts[most_passes * most_buckets];
  std::fill_n(counts, passes << digit, 0u);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = sort_bits(items[i]) >> low;
    for (int p = 0; p < passes; p++, bits >>= digit) counts[(static_cast<uint64_t>(p) << digit) + (bits & mask)]++;
  }
  for (int p = 0; p < passes; p++) {
    uint32_t* place = counts + (p << digit);
    int shift = low + p * digit;
    if (place[(sort_bits(items[0]) >> shift) & mask] == n) continue; // all alike
    for (uint32_t b = 0, at = 0; b <= mask; b++) at += std::exchange(place[b], at);
    for (int64_t i = 0; i < n; i++) spare[place[(sort_bits(items[i]) >> shift) & mask]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

/// The same, the result in `items`. The words hold their positions in the bits below `low`, in ascending order at first.
inline void sort_items(uint64_t* items, uint64_t* spare, int64_t n, int low, int high) {
  if (n > UINT32_MAX) return std::sort(items, items + n);
  if (n <= count_up_to) return sort_by_counting(items, n);
  if (uint64_t* at = sort_by_digits(items, spare, n, low, high); at != items) std::copy_n(at, n, items);
}
inline void sort_items(Pair* items, Pair* spare, int64_t n, int low, int high) {
  if (n <= count_up_to || n > UINT32_MAX) return std::sort(items, items + n, [](const Pair& a, const Pair& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; });
  if (Pair* at = sort_by_digits(items, spare, n, low, high); at != items) std::copy_n(at, n, items);
}

constexpr int64_t long_lane = 65536; // from here on, one lane is sorted by all threads

/// Sorts a long lane on all threads: first into buckets by the highest digit, then each bucket.
template <class E> void sort_items(const LibraryCall& c, E* items, E* spare, int64_t n, int low, int high) {
  int64_t parts = threads_of(c);
  if (n < long_lane || n > UINT32_MAX || high <= low) return sort_items(items, spare, n, low, high);
  int top = std::max(low, high - 11);
  uint64_t mask = (uint64_t{1} << (high - top)) - 1;
  size_t buckets = mask + 1;
  std::vector<uint32_t> counts(static_cast<size_t>(parts) * buckets, 0);
  auto each_part = [&](auto f) {
    parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) f(counts.data() + static_cast<size_t>(p) * buckets, n * p / parts, n * (p + 1) / parts);
    });
  };
  each_part([&](uint32_t* count, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) count[(sort_bits(items[i]) >> top) & mask]++;
  });
  std::vector<uint32_t> starts;
  uint32_t at = 0;
  for (size_t b = 0; b < buckets; b++) {
    if (starts.empty() || starts.back() != at) starts.push_back(at);
    for (size_t p = 0; p < static_cast<size_t>(parts); p++) at += std::exchange(counts[p * buckets + b], at);
  }
  if (starts.back() != at) starts.push_back(at);
  each_part([&](uint32_t* place, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) spare[place[(sort_bits(items[i]) >> top) & mask]++] = items[i];
  });
  parallel(c, std::ssize(starts) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      int64_t first = starts[static_cast<size_t>(b)], count = starts[static_cast<size_t>(b + 1)] - first;
      E *from = spare + first, *to = items + first;
      if (count <= count_up_to) sort_items(from, to, count, low, top);
      else from = sort_by_digits(from, to, count, low, top);
      if (from != to) std::copy_n(from, count, to);
    }
  });
}

template <class T> std::unique_ptr<T[]> scratch(int64_t n) { return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n)); }

/// Pieces of work over lanes: f(first lane's start, first lane, lanes). Lanes that lie beside each other go together, so that each
/// line of memory is read once. `f` is made anew for each thread's share by `make`, with its memory for at most `width` lanes.
inline int64_t lanes_together(Lanes l) { return l.inner == 1 ? 1 : std::clamp<int64_t>(65536 / std::max<int64_t>(1, l.n), 1, std::min<int64_t>(16, l.inner)); }
template <class Make> void each_tile(const LibraryCall& c, Lanes l, Make make) {
  int64_t width = lanes_together(l), across = (l.inner + width - 1) / std::max<int64_t>(1, width);
  parallel(c, l.outer * across, std::max<int64_t>(1, 2048 / std::max<int64_t>(1, l.n * width)), [&](int64_t begin, int64_t end) {
    auto f = make(width);
    for (int64_t t = begin; t < end; t++) {
      int64_t lane = t % across * width;
      f(t / across * l.n * l.inner + lane, t / across * l.inner + lane, std::min(width, l.inner - lane));
    }
  });
}

} // namespace tenon::library
