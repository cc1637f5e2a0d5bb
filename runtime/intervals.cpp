// Greedy by size, the order of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.
#include "runtime/intervals.h"

#include <algorithm>
#include <numeric>

namespace tenon {

namespace {

using Numbers = std::vector<uint32_t>;
constexpr size_t cache_line = 64;

/// The intervals by their first steps.
Numbers by_first(const std::vector<Interval>& all, int steps) {
  Numbers begin(static_cast<size_t>(steps) + 2), order(all.size());
  auto step = [&](const Interval& i) { return static_cast<size_t>(std::clamp(i.first, 0, steps)); };
  for (const Interval& i : all) begin[step(i) + 1]++;
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (uint32_t i = 0; i < all.size(); i++) order[begin[step(all[i])]++] = i;
  return order;
}

bool overlap(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

/// The lowest place beside those taken, which are in the order of their offsets.
size_t lowest(const std::vector<Interval>& all, const Numbers& taken, const Interval& wanted) {
  size_t at = 0;
  for (uint32_t t : taken) {
    if (!overlap(all[t], wanted)) continue;
    if (all[t].offset >= at + wanted.bytes) break;
    at = std::max(at, all[t].offset + all[t].bytes);
  }
  return at;
}

/// A middle is where threads that share out a buffer meet: of one at `offset`.
size_t middle(size_t offset, size_t bytes) { return offset + bytes / (2 * cache_line) * cache_line; }

/// Whether [at, at + wanted.bytes) is free of those taken.
bool is_free(const std::vector<Interval>& all, const Numbers& taken, const Interval& wanted, size_t at) {
  return std::none_of(taken.begin(), taken.end(), [&](uint32_t t) {
    return all[t].offset < at + wanted.bytes && at < all[t].offset + all[t].bytes && overlap(all[t], wanted);
  });
}

/// The places in order of size: each at the lowest one that is free, or around the first of the middles there are where that is.
struct Placing {
  std::vector<Interval>& all;
  const Overlaps& overlaps;
  bool by_middles;
  std::vector<size_t> middles = {};
  static constexpr size_t most_middles = 16; // so many are tried

  size_t choose(const Numbers& taken, const Interval& wanted) {
    size_t before = middle(0, wanted.bytes);
    for (size_t m : middles)
      if (m >= before && is_free(all, taken, wanted, m - before)) return m - before;
    size_t at = lowest(all, taken, wanted);
    if (by_middles && middles.size() < most_middles) middles.push_back(at + before);
    return at;
  }
  size_t place() {
    Numbers order(all.size()), taken;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return all[a].bytes != all[b].bytes ? all[a].bytes > all[b].bytes : a < b; });
    auto by_offset = [&](uint32_t a, uint32_t b) { return all[a].offset < all[b].offset; };
    std::vector<bool> is_placed(all.size());
    size_t bytes = 0;
    for (uint32_t i : order) {
      if (overlaps.are_few()) {
        taken.clear();
        for (uint32_t other : overlaps.of(i))
          if (is_placed[other]) taken.push_back(other);
        std::sort(taken.begin(), taken.end(), by_offset);
      }
      all[i].offset = choose(taken, all[i]);
      if (!overlaps.are_few()) taken.insert(std::upper_bound(taken.begin(), taken.end(), i, by_offset), i);
      is_placed[i] = true;
      bytes = std::max(bytes, all[i].offset + all[i].bytes);
    }
    return bytes;
  }
};

} // namespace

Overlaps::Overlaps(const std::vector<Interval>& all, int steps) : begin_(all.size() + 1) {
  const size_t few = 64 * all.size();
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  Numbers alive;
  for (uint32_t i : by_first(all, steps)) {
    std::erase_if(alive, [&](uint32_t a) { return all[a].last < all[i].first; });
    for (uint32_t a : alive) pairs.emplace_back(a, i), begin_[a]++, begin_[i]++;
    alive.push_back(i);
    if (!(are_few_ = pairs.size() <= few)) return;
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  others_.resize(2 * pairs.size());
  for (auto& [a, b] : pairs) others_[--begin_[a]] = b, others_[--begin_[b]] = a;
}

size_t place_intervals(std::vector<Interval>& all, const Overlaps& overlaps, bool shared) {
  size_t least = Placing{all, overlaps, false}.place();
  if (!shared || !overlaps.are_few()) return least; // among many at once all middles are taken, and looking takes long
  std::vector<Interval> by_middles = all;
  size_t bytes = Placing{by_middles, overlaps, true}.place();
  if (bytes > least + least / 4) return least;
  all = std::move(by_middles);
  return bytes;
}

} // namespace tenon
