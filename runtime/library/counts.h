// Counting into bins on all threads: each has bins of its own, which are added up in the end, always in the same order.
#pragma once
#include "runtime/library/order.h"

namespace tenon::library {

template <class I> TENON_WIDE void range_of(const I* x, int64_t n, I& least, I& most) {
  I low = x[0], high = x[0];
  for (int64_t i = 0; i < n; i++) low = std::min(low, x[i]), high = std::max(high, x[i]);
  least = low, most = high;
}
/// Least and greatest of n > 0 integers.
template <class I> void value_range(const LibraryCall& c, const I* x, int64_t n, I& least, I& most) {
  int64_t parts = std::min(threads_of(c), (n + 65535) / 65536);
  std::vector<I> low(static_cast<size_t>(parts)), high(static_cast<size_t>(parts));
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) range_of(x + n * p / parts, n * (p + 1) / parts - n * p / parts, low[static_cast<size_t>(p)], high[static_cast<size_t>(p)]);
  });
  least = *std::min_element(low.begin(), low.end()), most = *std::max_element(high.begin(), high.end());
}

/// A message where an index is negative or not below `size`.
inline const char* check_indices(const LibraryCall& c, const LibraryTensor& t, int64_t size) {
  int64_t n = t.numel();
  if (n == 0) return nullptr;
  auto within = [&](auto zero) {
    decltype(zero) least, most;
    value_range(c, t.as<const decltype(zero)>(), n, least, most);
    return least >= 0 && most < size;
  };
  if (t.dtype == DType::I64 ? within(int64_t{}) : t.dtype == DType::I32 && within(int32_t{})) return nullptr;
  for (int64_t k = 0; k < n; k++)
    if (int64_t i = integer_at(t, k); i < 0 || i >= size) return out_of_range(i, size);
  return nullptr;
}

/// count(begin, end, add) calls add(bin, amount) for the items [begin, end) of n. Where bins are few, neighbouring items go to tables of
/// their own, or equal ones would wait for each other.
template <class Amount, class Out, class Count> void count_all(const LibraryCall& c, int64_t n, int64_t bins, Out* out, Count count) {
  int64_t tables = bins <= 4096 ? 4 : 1;
  int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(16384, bins * tables), 1, threads_of(c));
  std::vector<Amount> sums(static_cast<size_t>(parts * tables * bins), Amount(0));
  parallel(c, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) {
      Amount* sum = sums.data() + p * tables * bins;
      int64_t table = 0, step = tables == 1 ? 0 : bins, wrap = tables * step;
      count(n * p / parts, n * (p + 1) / parts, [=](int64_t bin, Amount amount) mutable {
        sum[table + bin] += amount;
        table = table + step >= wrap ? 0 : table + step;
      });
    }
  });
  for (int64_t b = 0; b < bins; b++) {
    Amount total = 0;
    for (int64_t t = 0; t < parts * tables; t++) total += sums[static_cast<size_t>(t * bins + b)];
    out[b] = static_cast<Out>(total);
  }
}

} // namespace tenon::library
