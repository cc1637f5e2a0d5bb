// Workers on oneTBB's threads. TBB supplies and wakes threads, but a wake-up takes longer than many loops, and TBB lets
// a thread go as soon as its arena is empty. So a woken thread stays as a helper: it looks for published loops for a
// while after its last one. Ranges stay with the same worker from loop to loop, which keeps its caches warm.
#include "runtime/parallel.h"

#include <immintrin.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>

namespace tenon {
namespace {

/// How long a helper waits for the next loop. Longer than the serial stretches of a typical run, and far shorter than a
/// scheduler's time slice; most of it is spent yielding, so that other threads that want the core get it.
constexpr auto linger = std::chrono::microseconds(200);
constexpr int spins_before_yield = 2000; // about 20-50 us of pause
constexpr int patience = 300;            // spins, after which a part of a series is taken from its owner

struct alignas(64) Range {
  std::atomic<int64_t> next;
  int64_t end;
};

void relax(int& spins) {
  if (++spins < spins_before_yield) _mm_pause();
  else sched_yield();
}

/// What is published for helpers to join; lives on the caller's stack. False where there is nothing for the worker.
struct Job {
  bool (*join)(const Job& job, int worker);
};

/// One parallel loop.
struct Loop : Job {
  Workers::Body body;
  void* ctx;
  int64_t chunk;
  int parts;
  Range* ranges;

  /// Empties the worker's own range, then the others'.
  bool work(int worker) const {
    for (int i = 0; i < parts; i++) {
      Range& r = ranges[(worker + i) % parts];
      while (r.next.load(std::memory_order_relaxed) < r.end) {
        int64_t begin = r.next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= r.end) break;
        body(ctx, begin, std::min(begin + chunk, r.end), worker);
      }
    }
    return true;
  }
};

/// A series of loops. Part p has been claimed for `claimed` phases; phase k runs while k * parts <= done < (k + 1) * parts.
struct Series : Job {
  struct alignas(64) Claim {
    std::atomic<int64_t> claimed{0};
    std::atomic<bool> at_home{false}; // the last claim was the owner's, who is there to make the next one
  };
  Workers::Part body;
  void* ctx;
  int64_t phases;
  int parts;
  Claim* claims;
  std::atomic<int64_t>* done;

  void try_part(int64_t phase, int part, int worker) const {
    Claim& c = claims[part];
    int64_t now = phase;
    if (c.claimed.load(std::memory_order_relaxed) != phase || !c.claimed.compare_exchange_strong(now, phase + 1)) return;
    c.at_home.store(part == worker, std::memory_order_relaxed);
    body(ctx, phase, part, worker);
    done->fetch_add(1, std::memory_order_acq_rel);
  }
  /// Worker w is part w's owner. Who waits for others takes the parts whose owner has not come, and at last any.
  bool work(int worker) const {
    if (worker >= parts) return false;
    for (int64_t phase; (phase = done->load(std::memory_order_acquire) / parts) < phases;) {
      try_part(phase, worker, worker);
      for (int spins = 0; done->load(std::memory_order_acquire) < (phase + 1) * parts; relax(spins))
        for (int p = 0; p < parts; p++)
          if (spins > patience || !claims[p].at_home.load(std::memory_order_relaxed)) try_part(phase, p, worker);
    }
    return true;
  }
};

/// Where a job is published. A helper counts itself in before it reads `job`, the caller clears `job` before it
/// reads `guests`: one of the two always sees the other, so no helper touches a job that has returned.
struct alignas(64) Slot {
  std::atomic<bool> taken{false};
  std::atomic<const Job*> job{nullptr};
  std::atomic<int> guests{0};
};

} // namespace

struct Workers::Shared {
  explicit Shared(int threads) : arena(threads - 1, 0) {
    if (threads > tbb::info::default_concurrency())
      more_threads.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  }

  std::optional<tbb::global_control> more_threads; // TBB starts no more threads than cores unless told
  tbb::task_arena arena;
  std::atomic<bool> stop{false};
  std::atomic<int> helpers{0}; // asked for and not gone
  std::array<Slot, 16> slots;
  std::array<std::atomic<bool>, max_threads> active{}; // by worker number
  std::atomic<std::chrono::steady_clock::rep> last_asked{std::numeric_limits<std::chrono::steady_clock::rep>::min() /
                                                         2}; // for awake threads, in vain

  bool help(int worker) {
    bool found = false;
    for (Slot& s : slots) {
      if (!s.job.load(std::memory_order_relaxed)) continue;
      s.guests.fetch_add(1);
      if (const Job* j = s.job.load()) found |= j->join(*j, worker);
      s.guests.fetch_sub(1);
    }
    return found;
  }
  bool anything_published() const {
    return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.job.load() != nullptr; });
  }
  Slot* take_slot() {
    for (Slot& s : slots)
      if (!s.taken.load(std::memory_order_relaxed) && !s.taken.exchange(true)) return &s;
    return nullptr;
  }

  /// The life of a helper. It leaves when nothing came for a while; what is published just then brings it back.
  void serve(int worker) {
    using Clock = std::chrono::steady_clock;
    do {
      auto until = Clock::now() + linger;
      for (int spins = 0; !stop.load(std::memory_order_relaxed);) {
        if (help(worker)) {
          until = Clock::now() + linger;
          spins = 0;
        } else if (spins % 64 == 63 && Clock::now() > until) {
          break;
        }
        relax(spins);
      }
      active[static_cast<size_t>(worker)].store(false);
    } while (!stop.load() && anything_published() && !active[static_cast<size_t>(worker)].exchange(true));
    helpers.fetch_sub(1); // the last touch: the destructor waits for it
  }
};

Workers::Workers(int threads) {
  threads_ = std::clamp(threads > 0 ? threads : tbb::info::default_concurrency(), 1, max_threads);
  if (threads_ > 1) shared_ = std::make_unique<Shared>(threads_);
}

Workers::~Workers() {
  if (!shared_) return;
  shared_->stop.store(true);
  while (shared_->helpers.load() != 0) sched_yield();
}

void Workers::wake(int workers) const noexcept {
  for (int w = 1; w < std::min(workers, threads_); w++)
    if (auto& active = shared_->active[static_cast<size_t>(w)]; !active.load() && !active.exchange(true)) {
      shared_->helpers.fetch_add(1);
      shared_->arena.enqueue([shared = shared_.get(), w] { shared->serve(w); });
    }
}

bool Workers::awake() const noexcept {
  if (threads_ == 1) return false;
  if (shared_->active[1].load(std::memory_order_relaxed)) return true;
  using Clock = std::chrono::steady_clock;
  constexpr auto quickly = std::chrono::duration_cast<Clock::duration>(linger) / 4;
  auto now = Clock::now().time_since_epoch().count();
  if (now - shared_->last_asked.exchange(now, std::memory_order_relaxed) < quickly.count()) wake(threads_);
  return false;
}

template <class J> static bool join(const Job& job, int worker) { return static_cast<const J&>(job).work(worker); }

/// The caller's share of a job, until the last helper has left.
template <class J> static void finish(Slot& slot, const J& job) {
  job.work(0);
  slot.job.store(nullptr);
  for (int spins = 0; slot.guests.load() != 0;) relax(spins);
  slot.taken.store(false, std::memory_order_release);
}

void Workers::run(int64_t n, int64_t grain, Body body, void* ctx) const noexcept {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  Slot* slot = n > grain && threads_ > 1 ? shared_->take_slot() : nullptr;
  if (!slot) {
    body(ctx, 0, n, 0);
    return;
  }
  // Four chunks per range leave something to steal from a worker that the system has put aside.
  int parts = static_cast<int>(std::min<int64_t>(threads_, (n + grain - 1) / grain));
  Range ranges[max_threads];
  for (int i = 0; i < parts; i++) {
    ranges[i].next.store(n * i / parts, std::memory_order_relaxed);
    ranges[i].end = n * (i + 1) / parts;
  }
  Loop loop{{join<Loop>}, body, ctx, std::max(grain, n / (parts * 4)), parts, ranges};
  slot->job.store(&loop);
  wake(parts);
  finish(*slot, loop);
}

void Workers::run_series(int64_t phases, int parts, Part body, void* ctx) const noexcept {
  if (phases <= 0 || parts <= 0) return;
  Slot* slot = parts > 1 ? shared_->take_slot() : nullptr;
  if (!slot) {
    for (int64_t phase = 0; phase < phases; phase++)
      for (int part = 0; part < parts; part++) body(ctx, phase, part, 0);
    return;
  }
  Series::Claim claims[max_threads];
  std::atomic<int64_t> done{0};
  Series series{{join<Series>}, body, ctx, phases, parts, claims, &done};
  slot->job.store(&series);
  wake(parts);
  finish(*slot, series);
}

} // namespace tenon
