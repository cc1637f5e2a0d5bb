// Which sizes calls come with, how often, and what they take.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// Calls of one choice of sizes, served by one kind of plan.
struct CallTimes {
  uint64_t calls = 0, timed = 0;
  double ns = 0; // of the timed ones

  double mean() const { return timed ? ns / static_cast<double>(timed) : 0; }
  double total() const { return mean() * static_cast<double>(calls); }
  void add(const CallTimes& more) { calls += more.calls, timed += more.timed, ns += more.ns; }
};

struct SizeUse {
  std::vector<int64_t> sizes;
  CallTimes generic, exact; // served by the plan for all sizes; by one for these
  double heat = 0;          // nanoseconds spent, where those long ago count less
  bool is_held = false;     // there is a plan for these sizes
  bool is_refused = false;  // there was one, and it was not worth its place
};

/// Holds the sizes that most of the time goes to; of others, none for long. Not for several threads at once.
class SizeHistogram {
public:
  static constexpr size_t most = 64;

  SizeUse& add(std::span<const int64_t> sizes, const CallTimes& times, bool exact);
  SizeUse* find(std::span<const int64_t> sizes);
  std::vector<SizeUse>& entries() { return entries_; }
  double heat() const { return heat_; }         // of all calls
  double total_ns() const { return total_ns_; } // of all calls, ever
  const CallTimes& all(bool exact) const { return exact ? exact_ : generic_; }

private:
  SizeUse& entry(std::span<const int64_t> sizes);

  std::vector<SizeUse> entries_;
  double heat_ = 0, total_ns_ = 0, since_ = 0;
  CallTimes generic_, exact_;
};

} // namespace tenon
