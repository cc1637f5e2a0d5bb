// Where buffers lie: none over another that lives at the same time, each as low as the order by size allows, or around the middle of
// others.
#include "runtime/intervals.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tenon::intervals_test {

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

/// Intervals of some steps, up to `longest` or without end, and the number of steps.
std::vector<Interval> random_intervals(std::mt19937& random, int n, int longest, int& steps) {
  steps = n + 3;
  std::vector<Interval> all;
  for (int i = 0; i < n; i++) {
    int first = static_cast<int>(random() % static_cast<unsigned>(steps));
    int last = random() % 16 == 0 ? INT32_MAX : first + static_cast<int>(random() % static_cast<unsigned>(longest));
    all.push_back({first, last, (random() % 9 + 1) * 64, 0});
  }
  return all;
}

size_t end_of(const std::vector<Interval>& all) {
  size_t end = 0;
  for (const Interval& i : all) end = std::max(end, i.offset + i.bytes);
  return end;
}

} // namespace

TEST_CASE("intervals lie as low as those before them allow") {
  std::mt19937 random(1);
  for (int n : {0, 1, 2, 7, 40, 150, 400})
    for (int longest : {1, 4, 1000}) { // many of them at once in the last case
      CAPTURE(n);
      CAPTURE(longest);
      int steps;
      std::vector<Interval> all = random_intervals(random, n, longest, steps);
      size_t bytes = place_intervals(all, Overlaps(all, steps), false);
      std::vector<size_t> order(all.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].bytes > all[b].bytes; });
      for (size_t i = 0; i < all.size(); i++) CHECK(all[i].offset == lowest(all, order, i));
      CHECK(bytes == end_of(all));
    }
}

TEST_CASE("intervals that threads share out overlap nowhere and take at most a quarter more") {
  std::mt19937 random(2);
  for (int n : {0, 1, 2, 7, 40, 150})
    for (int longest : {1, 4, 1000}) {
      CAPTURE(n);
      CAPTURE(longest);
      int steps;
      std::vector<Interval> all = random_intervals(random, n, longest, steps), apart = all;
      size_t least = place_intervals(apart, Overlaps(apart, steps), false), bytes = place_intervals(all, Overlaps(all, steps), true);
      CHECK(bytes == end_of(all));
      CHECK(bytes <= least + least / 4);
      int64_t bad = 0;
      for (size_t a = 0; a < all.size(); a++) {
        bad += all[a].offset % 64 != 0;
        for (size_t b = 0; b < a; b++)
          bad += overlap(all[a], all[b]) && all[a].offset < all[b].offset + all[b].bytes && all[b].offset < all[a].offset + all[a].bytes;
      }
      CHECK(bad == 0);
    }
}

TEST_CASE("what follows in a chain lies around the same middles") {
  auto middle = [](const Interval& i) { return i.offset + i.bytes / 2; };
  std::vector<Interval> all;
  for (int i = 0; i < 12; i++) all.push_back({i, i + 1, static_cast<size_t>(4096 - 256 * i), 0}); // two at a time, ever smaller
  place_intervals(all, Overlaps(all, 13), true);
  for (size_t i = 2; i < all.size(); i++) CHECK(middle(all[i]) == middle(all[i - 2]));
  // Two halves of a large one: around its middle, beside it, they take a third more.
  std::vector<Interval> halves{{0, 0, 384, 0}, {1, 1, 192, 0}, {1, 2, 192, 0}};
  CHECK(place_intervals(halves, Overlaps(halves, 3), true) == 384);
}

} // namespace tenon::intervals_test
