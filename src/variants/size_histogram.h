// Which sizes calls come with, how often, and what they take.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// Calls that one kind of plan served.
struct CallTimes {
  uint64_t calls = 0, timed = 0;
  double ns = 0, work = 0; // of the timed ones; work: elements of the inputs

  double mean() const { return timed ? ns / static_cast<double>(timed) : 0; }
  /// Comparable where sizes differ, too.
  double per_work() const { return work > 0 ? ns / work : 0; }
  double total() const { return mean() * static_cast<double>(calls); }
  void add(const CallTimes& more) { calls += more.calls, timed += more.timed, ns += more.ns, work += more.work; }
};

struct SizeUse {
  std::vector<int64_t> sizes; // -1: any
  CallTimes generic, own;     // served by a plan for more sizes than these; by one for these
  double heat = 0;            // nanoseconds spent, where those long ago count less
  bool is_held = false;       // there is a plan for these sizes
  bool is_refused = false;    // there was one, and it was not worth its place
};

/// Holds the sizes that most of the time goes to; of others, none for long. Not for several threads at once.
class SizeHistogram {
public:
  static constexpr size_t most = 64;

  SizeUse& add(std::span<const int64_t> sizes, const CallTimes& times, bool own);
  SizeUse* find(std::span<const int64_t> sizes);
  std::vector<SizeUse>& entries() { return entries_; }
  double heat() const { return heat_; }         // of all calls
  double total_ns() const { return total_ns_; } // of all calls, ever

private:
  SizeUse& entry(std::span<const int64_t> sizes);

  std::vector<SizeUse> entries_;
  double heat_ = 0, total_ns_ = 0, since_ns_ = 0;
  uint64_t since_calls_ = 0;
};

} // namespace tenon
