// Which elements hold, as bits, and how many do before each chunk: what steps need that write the elements found one
// after another, on all threads.
#pragma once
#include <bit>
#include <memory>

#include "runtime/library/common.h"

namespace tenon::library {

/// Eight bytes of 0 or 1 as eight bits, the first lowest.
inline uint64_t bits_of(const uint8_t* bytes) {
  uint64_t x;
  std::memcpy(&x, bytes, 8);
  return (x * 0x0102040810204080) >> 56;
}

/// Bits of test(i) for i in [begin, end), begin a multiple of 64; returns how many hold.
template <class Test> TENON_WIDE int64_t write_bits(uint64_t* words, int64_t begin, int64_t end, Test test) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; i += 64) {
    uint8_t bytes[64] = {};
    if (i + 64 <= end)
      for (int64_t k = 0; k < 64; k++) bytes[k] = test(i + k);
    else
      for (int64_t k = 0; k < end - i; k++) bytes[k] = test(i + k);
    uint64_t word = 0;
    for (int k = 0; k < 8; k++) word |= bits_of(bytes + 8 * k) << (8 * k);
    words[i / 64] = word;
    count += std::popcount(word);
  }
  return count;
}

struct Found {
  static constexpr int64_t chunk = 16384; // elements
  int64_t n = 0;
  std::unique_ptr<uint64_t[]> words;
  std::vector<int64_t> before; ///< how many are found before each chunk; all of them last

  int64_t chunks() const { return std::ssize(before) - 1; }
  int64_t count() const { return before.back(); }
  /// Element 0 too, where it was not found.
  void include_first() {
    if (n == 0 || (words[0] & 1)) return;
    words[0] |= 1;
    for (size_t k = 1; k < before.size(); k++) before[k]++;
  }
  /// f(element) for those found in [begin, end), begin a multiple of 64, in order.
  template <class F> [[gnu::always_inline]] void each(int64_t begin, int64_t end, F&& f) const {
    for (int64_t i = begin; i < end; i += 64)
      for (uint64_t word = words[static_cast<size_t>(i / 64)]; word; word &= word - 1) f(i + std::countr_zero(word));
  }
};

template <class Test> Found find_where(const LibraryCall& c, int64_t n, Test test) {
  Found f;
  f.n = n;
  f.words = std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>((n + 63) / 64));
  int64_t chunks = (n + Found::chunk - 1) / Found::chunk;
  f.before.assign(static_cast<size_t>(chunks + 1), 0);
  parallel(c, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++)
      f.before[static_cast<size_t>(k + 1)] = write_bits(f.words.get(), k * Found::chunk, std::min(n, (k + 1) * Found::chunk), test);
  });
  for (size_t k = 1; k < f.before.size(); k++) f.before[k] += f.before[k - 1];
  return f;
}

/// f(begin, end, found before) for every chunk, on all threads.
template <class F> void each_chunk(const LibraryCall& c, const Found& found, F f) {
  parallel(c, found.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++)
      f(k * Found::chunk, std::min(found.n, (k + 1) * Found::chunk), found.before[static_cast<size_t>(k)]);
  });
}

} // namespace tenon::library
