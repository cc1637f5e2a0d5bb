// Counting into bins on all threads: each has bins of its own, which are added up in the end, always in the same order.
#pragma once
#include <limits>

#include "runtime/library/order.h"

namespace tenon::library {

template <class I> TENON_WIDE void range_of(const I* x, int64_t n, I& least, I& most) {
  I low = x[0], high = x[0];
  for (int64_t i = 0; i < n; i++) {
    I v = x[i]; // a copy, or the compiler sees branches
    low = v < low ? v : low, high = v > high ? v : high;
  }
  least = low, most = high;
}
/// Least and greatest of n > 0 integers.
template <class I> void value_range(const LibraryCall& c, const I* x, int64_t n, I& least, I& most) {
  int64_t parts = std::min(threads_of(c), (n + 65535) / 65536);
  std::vector<I> low(static_cast<size_t>(parts)), high(static_cast<size_t>(parts));
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++)
      range_of(x + n * p / parts, n * (p + 1) / parts - n * p / parts, low[static_cast<size_t>(p)], high[static_cast<size_t>(p)]);
  });
  least = *std::min_element(low.begin(), low.end()), most = *std::max_element(high.begin(), high.end());
}

template <class I> TENON_WIDE bool all_below(const I* x, int64_t n, I size) {
  I outside = 0; // negative in the end if an index is, or is not below size
  for (int64_t i = 0; i < n; i++) {
    I v = x[i];
    outside |= v | static_cast<I>(size - 1 - v);
  }
  return outside >= 0;
}
/// Whether all n indices are in [0, size).
template <class I> bool all_within(const LibraryCall& c, const I* x, int64_t n, int64_t size) {
  std::atomic<bool> within = true;
  auto limit = static_cast<I>(std::min<int64_t>(size, std::numeric_limits<I>::max()));
  parallel(c, n, 65536, [&](int64_t begin, int64_t end) {
    if (!all_below(x + begin, end - begin, limit)) within = false;
  });
  return within || n == 0;
}

/// A message where an index is negative or not below `size`.
inline const char* check_indices(const LibraryCall& c, const LibraryTensor& t, int64_t size) {
  int64_t n = t.numel();
  if (t.dtype == DType::I64 ? all_within(c, t.as<const int64_t>(), n, size)
                            : t.dtype == DType::I32 && all_within(c, t.as<const int32_t>(), n, size))
    return nullptr;
  for (int64_t k = 0; k < n; k++)
    if (int64_t i = integer_at(t, k); i < 0 || i >= size) return out_of_range(i, size);
  return nullptr;
}

constexpr int64_t count_block = 512;

// Adds a block to the tables in turn: where bins are few, neighbouring items go to tables of their own, or equal ones
// would wait for each other.
template <class Amount> void add_block(Amount* sum, int64_t bins, int64_t tables, const int64_t* bin, const Amount* amount, int64_t n) {
  int64_t i = 0, step = tables == 1 ? 0 : bins;
  for (; i + 4 <= n; i += 4)
    for (int64_t t = 0; t < 4; t++) sum[t * step + bin[i + t]] += amount ? amount[i + t] : Amount(1);
  for (; i < n; i++) sum[bin[i]] += amount ? amount[i] : Amount(1);
}

/// fill(first, n, bin, amount) gives the bins of n <= count_block items from `first` on, and, where `weighted`, what
/// each adds.
template <class Amount, class Out, class Fill>
void count_all(const LibraryCall& c, int64_t n, int64_t bins, bool weighted, Out* out, Fill fill) {
  int64_t tables = bins <= 4096 ? 4 : 1;
  int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(16384, bins * tables), 1, threads_of(c));
  std::vector<Amount> sums(static_cast<size_t>(parts * tables * bins), Amount(0));
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    int64_t bin[count_block];
    Amount amount[count_block];
    for (int64_t p = begin; p < end; p++)
      for (int64_t i = n * p / parts, last = n * (p + 1) / parts, count; i < last; i += count) {
        count = std::min(count_block, last - i);
        fill(i, count, bin, amount);
        add_block(sums.data() + p * tables * bins, bins, tables, bin, weighted ? amount : nullptr, count);
      }
  });
  for (int64_t b = 0; b < bins; b++) {
    Amount total = 0;
    for (int64_t t = 0; t < parts * tables; t++) total += sums[static_cast<size_t>(t * bins + b)];
    out[b] = static_cast<Out>(total);
  }
}

} // namespace tenon::library
