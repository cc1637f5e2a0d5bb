// Memory for what lives between steps: where each buffer lies, so that those alive at the same time do not overlap.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

struct Interval {
  int first, last; // steps
  size_t bytes;    // whole cache lines
  size_t offset;   // what is looked for
};

/// Which of them live at the same time. Steps beyond `steps` count as that one.
class Overlaps {
public:
  Overlaps() = default;
  Overlaps(const std::vector<Interval>& intervals, int steps);
  /// Whether those of one interval are few: only then are they known.
  bool are_few() const { return are_few_; }
  std::span<const uint32_t> of(uint32_t i) const { return std::span(others_).subspan(begin_[i], begin_[i + 1] - begin_[i]); }

private:
  std::vector<uint32_t> begin_, others_; // of interval i: others[begin[i]] to others[begin[i + 1]]
  bool are_few_ = true;
};

/// Sets the offsets, largest intervals first, each at the lowest place that is free between its steps; gives the bytes of all. Shared:
/// threads write each a range of every buffer, the same part of it. So buffers lie around the same middles, where this takes at most a
/// quarter more memory: a thread's halves lie where its own halves lay before, and stores find lines that no other core holds.
size_t place_intervals(std::vector<Interval>& intervals, const Overlaps& overlaps, bool shared);

} // namespace tenon
