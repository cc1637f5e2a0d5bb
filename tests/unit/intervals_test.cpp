// Where buffers lie: none over another that lives at the same time, and each as low as the order by size allows.
#include "runtime/intervals.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace tenon;

namespace {

bool overlap(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

/// The lowest multiple of 64 at which `i` lies beside those before it in `order`.
size_t lowest(const std::vector<Interval>& all, const std::vector<size_t>& order, size_t i) {
  for (size_t at = 0;; at += 64) {
    bool fits = true;
    for (size_t k = 0; order[k] != i; k++) {
      const Interval& o = all[order[k]];
      fits &= !overlap(o, all[i]) || o.offset >= at + all[i].bytes || at >= o.offset + o.bytes;
    }
    if (fits) return at;
  }
}

} // namespace

TEST_CASE("intervals lie as low as those before them allow") {
  std::mt19937 random(1);
  for (int n : {0, 1, 2, 7, 40, 150, 400})
    for (int longest : {1, 4, 1000}) { // many of them at once in the last case
      CAPTURE(n);
      CAPTURE(longest);
      int steps = n + 3;
      std::vector<Interval> all;
      for (int i = 0; i < n; i++) {
        int first = static_cast<int>(random() % static_cast<unsigned>(steps));
        int last = random() % 16 == 0 ? INT32_MAX : first + static_cast<int>(random() % static_cast<unsigned>(longest));
        all.push_back({first, last, (random() % 9 + 1) * 64, 0});
      }
      size_t bytes = place_intervals(all, Overlaps(all, steps)), most = 0;
      std::vector<size_t> order(all.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].bytes > all[b].bytes; });
      for (size_t i = 0; i < all.size(); i++) {
        CHECK(all[i].offset == lowest(all, order, i));
        most = std::max(most, all[i].offset + all[i].bytes);
      }
      CHECK(bytes == most);
    }
}
