// What stands behind ThreadPool: helpers, and the places where jobs are published for them.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>

#include "runtime/parallel.h"

namespace tenon {

/// What helpers can join; lives with whoever published it. False where there was nothing to do.
struct Job {
  bool (*join)(const Job& job, int helper);
};

/// Helpers look for published jobs; which worker of a job a helper is, the job says. They have numbers from 1 on, and there are as many as
/// the pool has threads besides a caller; where there are more callers than one, the last helpers keep off.
struct ThreadPool::Impl : std::enable_shared_from_this<ThreadPool::Impl> {
  /// Without an arena: one of its own.
  explicit Impl(int threads, void* arena = nullptr, Enqueue enqueue = nullptr);
  /// The process's own for so many threads; 0: as many as there are cores. Lives as long as the process.
  static const std::shared_ptr<Impl>& of_process(int threads);

  int threads() const { return threads_; }

  /// Where a job is published. A helper counts itself in before it reads `job`, who published clears `job` before it reads `guests`: one
  /// of the two always sees the other, so no helper touches a job that has been retracted.
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<const Job*> job{nullptr};
    std::atomic<int> guests{0};
    bool bounded = false; // by a ThreadBudget
    uint64_t load = 0;
  };
  /// Wakes helpers for a job that `wanted` of them may join, and that the caller works at. Null: no helper will come.
  Slot* publish(const Job& job, int wanted) noexcept;
  /// Returns when nobody is at the job any more.
  void retract(Slot& slot) noexcept;
  /// Whether helpers are awake that would join a caller to come; callers that follow one another quickly wake up to `wanted`.
  bool awake(int wanted) noexcept;
  /// Runs f in another thread, some time; never where there is none.
  void start(std::function<void()> f);

private:
  using Clock = std::chrono::steady_clock;

  /// How often something was published, the callers at work, and the helpers that they want, in one word.
  struct Load {
    uint64_t bits;
    static constexpr uint64_t one_more = uint64_t{1} << 32, one_caller = uint64_t{1} << 16;
    uint64_t count() const { return bits >> 32; }
    int callers() const { return static_cast<int>(bits >> 16 & 0xffff); }
    int wanted() const { return static_cast<int>(bits & 0xffff); }
  };
  Load load() const { return {load_.load()}; }
  /// Helpers besides the callers that there are, or were just now: one that waits for its next loop is not gone.
  int room(Load now) const { return threads_ - std::max(now.callers(), recent_callers_.load(std::memory_order_relaxed)); }
  int useful(Load now) const { return std::min(now.wanted(), room(now)); }
  void note_callers(int callers) noexcept;

  Slot* take_slot();
  void wake(int helpers) noexcept;
  void enter(int helper) noexcept;
  bool help(int helper);
  void serve(int helper);

  /// What the arena is given of a helper. `pool` is written last and read first: what a thread does is seen by TSan, what TBB does is not.
  struct Ticket {
    std::shared_ptr<Impl> keep;
    int helper = 0;
    std::atomic<Impl*> pool{nullptr};
  };
  int threads_;
  std::shared_ptr<void> own_arena_;
  void* arena_;
  Enqueue enqueue_;
  alignas(64) std::atomic<uint64_t> load_{0};
  alignas(64) std::atomic<int> used_slots_{0};
  std::atomic<int> recent_callers_{1}; // the most for a while
  std::atomic<Clock::rep> noted_at_{0};
  std::array<std::atomic<bool>, Workers::max_threads> active_{}; // by helper: awake, or about to be
  std::array<Ticket, Workers::max_threads> tickets_;             // by helper
  std::array<Slot, 64> slots_;
  std::atomic<Clock::rep> last_asked_{std::numeric_limits<Clock::rep>::min() / 2}; // for awake helpers, in vain
};

/// Spins for a while, then lets others have the core.
void relax(int& spins);

/// The least budget of the calling thread.
int thread_budget();

} // namespace tenon
