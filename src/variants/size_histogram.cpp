#include "variants/size_histogram.h"

#include <algorithm>
#include <utility>

namespace tenon {

// Of time spent in calls, and of fewer calls than these it is chance which sizes come often.
static constexpr double half_life_ns = 2e9;
static constexpr uint64_t half_life_calls = 512;

SizeUse* SizeHistogram::find(std::span<const int64_t> sizes) {
  auto at = std::ranges::find_if(entries_, [&](const SizeUse& e) { return std::ranges::equal(e.sizes, sizes); });
  return at == entries_.end() ? nullptr : &*at;
}

SizeUse& SizeHistogram::entry(std::span<const int64_t> sizes) {
  if (SizeUse* known = find(sizes)) return *known;
  SizeUse fresh{.sizes = {sizes.begin(), sizes.end()}, .generic = {}, .own = {}};
  if (entries_.size() < most) return entries_.emplace_back(std::move(fresh));
  auto rank = [](const SizeUse& e) { return std::pair(e.is_held, e.heat); };
  return *std::ranges::min_element(entries_, {}, rank) = std::move(fresh);
}

SizeUse& SizeHistogram::add(std::span<const int64_t> sizes, const CallTimes& times, bool own) {
  SizeUse& e = entry(sizes);
  (own ? e.own : e.generic).add(times);
  double spent = times.total();
  e.heat += spent, heat_ += spent, total_ns_ += spent, since_ns_ += spent, since_calls_ += times.calls;
  if (since_ns_ > half_life_ns && since_calls_ >= half_life_calls) {
    for (SizeUse& u : entries_) u.heat /= 2;
    heat_ /= 2, since_ns_ = 0, since_calls_ = 0;
  }
  return e;
}

} // namespace tenon
