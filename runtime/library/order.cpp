// Keys of elements, and words sorted by digits or by counting.
#include "runtime/library/order.h"

namespace tenon::library {

namespace {

template <class T> TENON_WIDE void make_keys(const T* in, int64_t n, int64_t step, int64_t lanes, bool descending, KeyOf<T>* keys) {
  auto flip = static_cast<KeyOf<T>>(descending ? ~uint64_t{0} : 0);
  if (step == 1) {
    for (int64_t i = 0; i < n; i++) keys[i] = static_cast<KeyOf<T>>(order_key(in[i]) ^ flip);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = 0; l < lanes; l++) keys[l * n + i] = static_cast<KeyOf<T>>(order_key(in[i * step + l]) ^ flip);
}

template <class Key> TENON_WIDE void range_of_keys(const Key* keys, int64_t n, Key& least, Key& most) {
  Key low = static_cast<Key>(~Key{0}), high = 0;
  for (int64_t i = 0; i < n; i++) {
    Key v = keys[i]; // a copy, or the compiler sees branches
    low = v < low ? v : low, high = v > high ? v : high;
  }
  least = low, most = high;
}

constexpr int64_t count_up_to = 96; // below, counting beats sorting by digits

// Sorts few words, no two alike: each goes where as many are less.
TENON_WIDE void sort_by_counting(uint64_t* words, int64_t n) {
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

// Sorts by the bits [low, high), stable, by digits from the lowest on. Returns where the result is: words or spare.
uint64_t* sort_by_digits(uint64_t* words, uint64_t* spare, int64_t n, int low, int high) {
  constexpr int most_passes = 8, most_buckets = 2048;
  if (high <= low) return words;
  int passes = (high - low + (n < 6000 ? 7 : 10)) / (n < 6000 ? 8 : 11), digit = (high - low + passes - 1) / passes;
  uint64_t mask = (uint64_t{1} << digit) - 1;
  uint32_t counts[most_passes * most_buckets];
  std::fill_n(counts, passes << digit, 0u);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = words[i] >> low;
    for (int p = 0; p < passes; p++, bits >>= digit) counts[(static_cast<uint64_t>(p) << digit) + (bits & mask)]++;
  }
  for (int p = 0; p < passes; p++) {
    uint32_t* place = counts + (p << digit);
    int shift = low + p * digit;
    if (place[(words[0] >> shift) & mask] == n) continue; // all alike
    for (uint32_t b = 0, at = 0; b <= mask; b++) at += std::exchange(place[b], at);
    for (int64_t i = 0; i < n; i++) spare[place[(words[i] >> shift) & mask]++] = words[i];
    std::swap(words, spare);
  }
  return words;
}

} // namespace

template <class T> void lane_keys(const T* in, int64_t n, int64_t step, int64_t lanes, bool descending, KeyOf<T>* keys) {
  make_keys(in, n, step, lanes, descending, keys);
}
template void lane_keys(const bool*, int64_t, int64_t, int64_t, bool, uint8_t*);
template void lane_keys(const uint8_t*, int64_t, int64_t, int64_t, bool, uint8_t*);
template void lane_keys(const int8_t*, int64_t, int64_t, int64_t, bool, uint8_t*);
template void lane_keys(const int16_t*, int64_t, int64_t, int64_t, bool, uint16_t*);
template void lane_keys(const int32_t*, int64_t, int64_t, int64_t, bool, uint32_t*);
template void lane_keys(const int64_t*, int64_t, int64_t, int64_t, bool, uint64_t*);
template void lane_keys(const uint64_t*, int64_t, int64_t, int64_t, bool, uint64_t*);
template void lane_keys(const F16*, int64_t, int64_t, int64_t, bool, uint16_t*);
template void lane_keys(const BF16*, int64_t, int64_t, int64_t, bool, uint16_t*);
template void lane_keys(const float*, int64_t, int64_t, int64_t, bool, uint32_t*);
template void lane_keys(const double*, int64_t, int64_t, int64_t, bool, uint64_t*);

template <class Key> void key_range(const Key* keys, int64_t n, Key& least, Key& most) { range_of_keys(keys, n, least, most); }
template void key_range(const uint8_t*, int64_t, uint8_t&, uint8_t&);
template void key_range(const uint16_t*, int64_t, uint16_t&, uint16_t&);
template void key_range(const uint32_t*, int64_t, uint32_t&, uint32_t&);
template void key_range(const uint64_t*, int64_t, uint64_t&, uint64_t&);

void sort_words(uint64_t* words, uint64_t* spare, int64_t n, int low, int high) {
  if (n > UINT32_MAX) return std::sort(words, words + n);
  if (n <= count_up_to) return sort_by_counting(words, n);
  if (uint64_t* at = sort_by_digits(words, spare, n, low, high); at != words) std::copy_n(at, n, words);
}

void sort_words(const LibraryCall& c, uint64_t* words, uint64_t* spare, int64_t n, int low, int high) {
  int64_t parts = threads_of(c);
  if (n < long_lane || n > UINT32_MAX || high <= low) return sort_words(words, spare, n, low, high);
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
    for (int64_t i = begin; i < end; i++) count[(words[i] >> top) & mask]++;
  });
  std::vector<uint32_t> starts;
  uint32_t at = 0;
  for (size_t b = 0; b < buckets; b++) {
    if (starts.empty() || starts.back() != at) starts.push_back(at);
    for (size_t p = 0; p < static_cast<size_t>(parts); p++) at += std::exchange(counts[p * buckets + b], at);
  }
  if (starts.back() != at) starts.push_back(at);
  each_part([&](uint32_t* place, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) spare[place[(words[i] >> top) & mask]++] = words[i];
  });
  parallel(c, std::ssize(starts) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      int64_t first = starts[static_cast<size_t>(b)], count = starts[static_cast<size_t>(b + 1)] - first;
      uint64_t *from = spare + first, *to = words + first;
      if (count <= count_up_to) sort_by_counting(from, count);
      else from = sort_by_digits(from, to, count, low, top);
      if (from != to) std::copy_n(from, count, to);
    }
  });
}

} // namespace tenon::library
