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
#include <optional>

namespace tenon {
namespace {

/// How long a helper waits for the next loop. Longer than the serial stretches of a typical run, and far shorter than a
/// scheduler's time slice; most of it is spent yielding, so that other threads that want the core get it.
constexpr auto linger = std::chrono::microseconds(200);
constexpr int spins_before_yield = 2000; // about 20-50 us of pause

struct alignas(64) Range {
  std::atomic<int64_t> next;
  int64_t end;
};

/// One parallel loop; lives on the caller's stack.
struct Loop {
  Workers::Body body;
  void* ctx;
  int64_t chunk;
  int parts;
  Range* ranges;

  /// Empties the worker's own range, then the others'.
  void work(int worker) const {
    for (int i = 0; i < parts; i++) {
      Range& r = ranges[(worker + i) % parts];
      while (r.next.load(std::memory_order_relaxed) < r.end) {
        int64_t begin = r.next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= r.end) break;
        body(ctx, begin, std::min(begin + chunk, r.end), worker);
      }
    }
  }
};

/// Where a loop is published. A helper counts itself in before it reads `loop`, the caller clears `loop` before it
/// reads `guests`: one of the two always sees the other, so no helper touches a loop that has returned.
struct alignas(64) Slot {
  std::atomic<bool> taken{false};
  std::atomic<Loop*> loop{nullptr};
  std::atomic<int> guests{0};
};

void relax(int& spins) {
  if (++spins < spins_before_yield)
    _mm_pause();
  else
    sched_yield();
}

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

  bool help(int worker) {
    bool found = false;
    for (Slot& s : slots) {
      if (!s.loop.load(std::memory_order_relaxed)) continue;
      s.guests.fetch_add(1);
      if (Loop* l = s.loop.load()) {
        l->work(worker);
        found = true;
      }
      s.guests.fetch_sub(1);
    }
    return found;
  }
  bool anything_published() const {
    return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.loop.load() != nullptr; });
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

void Workers::run(int64_t n, int64_t grain, Body body, void* ctx) const noexcept {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  Slot* slot = nullptr;
  if (n > grain && threads_ > 1)
    for (Slot& s : shared_->slots)
      if (!s.taken.load(std::memory_order_relaxed) && !s.taken.exchange(true)) {
        slot = &s;
        break;
      }
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
  Loop loop{body, ctx, std::max(grain, n / (parts * 4)), parts, ranges};
  slot->loop.store(&loop);
  wake(parts);
  loop.work(0);
  slot->loop.store(nullptr);
  for (int spins = 0; slot->guests.load() != 0;) relax(spins);
  slot->taken.store(false, std::memory_order_release);
}

} // namespace tenon
