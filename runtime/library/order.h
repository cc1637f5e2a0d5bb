// Ordering by keys: what sort, topk, median, mode and unique share. Elements become unsigned keys (order_key), keys
// with their positions become words of 64 bits, which are sorted digit by digit; where the two do not fit, the key's
// lowest bits are left out, and what they tell apart is put in order in the end. Short lanes are sorted by counting for
// each word how many are less.
#pragma once
#include <bit>
#include <memory>

#include "runtime/library/common.h"
#include "runtime/library/std_order.h"

namespace tenon::library {

/// A key beside its position.
template <class Key> struct Keyed {
  Key key;
  int64_t index;
};

/// The keys of `lanes` lanes beside each other, n elements each, `step` apart, one lane after the other.
template <class T> void lane_keys(const T* in, int64_t n, int64_t step, int64_t lanes, bool descending, KeyOf<T>* keys);
/// Least and greatest of n keys.
template <class Key> void key_range(const Key* keys, int64_t n, Key& least, Key& most);

/// How keys between two and their positions share a word: (key - least) >> dropped << shift | position.
struct Packing {
  uint64_t least = 0;
  int shift = 0, bits = 0, dropped = 0; // of the position; of the key, in the word and left out
  Packing(uint64_t low, uint64_t high, int64_t n)
      : least(low), shift(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(n, 1) - 1))), bits(std::bit_width(high - low)) {
    dropped = std::max(0, bits - std::min(64 - shift, 2 * shift + 16)); // more bits seldom tell more apart
    bits -= dropped;
  }
  uint64_t word(uint64_t key, int64_t position) const {
    return (bits ? (key - least) >> dropped << shift : 0) | static_cast<uint64_t>(position);
  }
  int64_t position(uint64_t word) const { return static_cast<int64_t>(word & ((uint64_t{1} << shift) - 1)); }
  bool alike(uint64_t a, uint64_t b) const { return a >> shift == b >> shift; } ///< the keys, as far as the words hold them
};

/// Sorts by the bits [low, high) into `words`. These hold their positions in the bits below `low`, in ascending order at
/// first; `spare` has room for n.
void sort_words(uint64_t* words, uint64_t* spare, int64_t n, int low, int high);
/// The same on all threads: a long lane first into buckets by the highest digit, then each bucket.
void sort_words(const LibraryCall& c, uint64_t* words, uint64_t* spare, int64_t n, int low, int high);

constexpr int64_t long_lane = 65536; // from here on, one lane is sorted by all threads

/// Puts words in order whose keys differ only in bits that were left out.
template <class Key> void settle(const Key* keys, int64_t n, const Packing& p, uint64_t* words) {
  if (p.dropped == 0) return;
  for (int64_t i = 1, first = 0; i <= n; i++) {
    if (i < n && p.alike(words[i - 1], words[i])) continue;
    if (i - first > 1)
      std::sort(words + first, words + i, [&](uint64_t a, uint64_t b) {
        Key x = keys[p.position(a)], y = keys[p.position(b)];
        return x != y ? x < y : a < b;
      });
    first = i;
  }
}

/// The words of n keys, sorted. `words` has room for 2n.
template <class Key> void sort_keys(const Key* keys, int64_t n, const Packing& p, uint64_t* words) {
  for (int64_t i = 0; i < n; i++) words[i] = p.word(keys[i], i);
  sort_words(words, words + n, n, p.shift, p.shift + p.bits);
  settle(keys, n, p, words);
}
/// The same, on all threads where the lane is long.
template <class Key> void sort_keys(const LibraryCall& c, const Key* keys, int64_t n, const Packing& p, uint64_t* words) {
  parallel(c, n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) words[i] = p.word(keys[i], i);
  });
  sort_words(c, words, words + n, n, p.shift, p.shift + p.bits);
  settle(keys, n, p, words);
}

/// The words of n keys as std::sort leaves them that compares the keys alone.
template <class Key> void sort_keys_as_std(const Key* keys, int64_t n, const Packing& p, uint64_t* words) {
  for (int64_t i = 0; i < n; i++) words[i] = p.word(keys[i], i);
  if (p.dropped) sort_as_std(words, n, [=](uint64_t a, uint64_t b) { return keys[p.position(a)] < keys[p.position(b)]; });
  else sort_as_std(words, n, [shift = p.shift](uint64_t a, uint64_t b) { return a >> shift < b >> shift; });
}

template <class T> std::unique_ptr<T[]> scratch(int64_t n) { return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n)); }

/// Pieces of work over lanes: f(first lane's start, first lane, lanes). Lanes that lie beside each other go together,
/// so that each line of memory is read once. `f` is made anew for each thread's share by `make`, with its memory for at
/// most `width` lanes.
inline int64_t lanes_together(Lanes l) {
  return l.inner == 1 ? 1 : std::clamp<int64_t>(65536 / std::max<int64_t>(1, l.n), 1, std::min<int64_t>(16, l.inner));
}
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
