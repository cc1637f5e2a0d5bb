// Loops and series as jobs that helpers join. A helper takes the worker number that is its own where it can: ranges stay with the same
// worker from loop to loop, which keeps its caches warm.
#include "runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/timeline.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

constexpr int patience = 300; // spins, after which a part of a series is taken from its owner

/// A worker's number, for a helper to take while it is in a loop. Worker 0 is the caller.
struct Place {
  std::atomic<bool> taken{false};
  bool take() { return !taken.load(std::memory_order_relaxed) && !taken.exchange(true, std::memory_order_acquire); }
  void leave() { taken.store(false, std::memory_order_release); }
};

/// Joins a job as a worker < workers: `helper`, or another one where that is taken. `places` are structs with a Place.
template <class J, class P> bool join_as_any(const J& job, P* places, int workers, int helper) {
  for (int i = 0; i + 1 < workers; i++) {
    int w = 1 + (helper - 1 + i) % (workers - 1);
    if (!places[w].place.take()) continue;
    bool found = job.work(w);
    places[w].place.leave();
    return found;
  }
  return false;
}

/// Room for one of each worker, made for as many as there are.
template <class T> class PerWorker {
public:
  explicit PerWorker(int workers) { std::uninitialized_default_construct_n(get(), workers); }
  T* get() { return reinterpret_cast<T*>(memory_); }

private:
  alignas(T) std::byte memory_[Workers::max_threads * sizeof(T)];
};

struct alignas(64) Range {
  std::atomic<int64_t> next;
  int64_t end;
  Place place;
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
    bool found = false;
    for (int i = 0; i < parts; i++) {
      Range& r = ranges[(worker + i) % parts];
      while (r.next.load(std::memory_order_relaxed) < r.end) {
        int64_t begin = r.next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= r.end) break;
        body(ctx, begin, std::min(begin + chunk, r.end), worker);
        found = true;
      }
    }
    return found;
  }
  bool join(int helper) const { return join_as_any(*this, ranges, parts, helper); }
};

/// A series of loops. Part p has been claimed for `claimed` phases; phase k runs while k * parts <= done < (k + 1) * parts.
struct Series : Job {
  struct alignas(64) Claim {
    std::atomic<int64_t> claimed{0};
    std::atomic<bool> at_home{false}; // the last claim was the owner's, who is there to make the next one
    Place place;
  };
  Workers::Part body;
  void* ctx;
  int64_t phases;
  int parts, workers;
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
    for (int64_t phase; (phase = done->load(std::memory_order_acquire) / parts) < phases;) {
      try_part(phase, worker, worker);
      for (int spins = 0; done->load(std::memory_order_acquire) < (phase + 1) * parts; relax(spins))
        for (int p = 0; p < parts; p++)
          if (spins > patience || !claims[p].at_home.load(std::memory_order_relaxed)) try_part(phase, p, worker);
    }
    return true;
  }
  bool join(int helper) const { return join_as_any(*this, claims, workers, helper); }
};

template <class J> bool join(const Job& job, int helper) { return static_cast<const J&>(job).join(helper); }

} // namespace

/// What a worker runs in the place of a body, where somebody records.
struct RecordedBody {
  Workers::Body body;
  void* ctx;
  Recording* recording;
  Recording::Name name;
  static void run(void* self, int64_t begin, int64_t end, int worker) {
    auto& r = *static_cast<RecordedBody*>(self);
    int64_t start = Recording::now();
    r.body(r.ctx, begin, end, worker);
    r.recording->span(r.name, start, Recording::now(), end - begin);
  }
};
struct RecordedPart {
  Workers::Part part;
  void* ctx;
  Recording* recording;
  Recording::Name name;
  static void run(void* self, int64_t phase, int part, int worker) {
    auto& r = *static_cast<RecordedPart*>(self);
    int64_t start = Recording::now();
    r.part(r.ctx, phase, part, worker);
    r.recording->span(r.name, start, Recording::now(), 1);
  }
};

Workers::Workers(int threads, const ThreadPool& pool) : pool_(pool.impl() ? pool.impl() : ThreadPool::Impl::of_process(threads)) {
  threads_ = threads > 0 ? std::min(threads, pool_->threads()) : pool_->threads();
}

int Workers::allowed() const noexcept { return std::min(threads_, thread_budget()); }

bool Workers::awake() const noexcept {
  int threads = allowed();
  return threads > 1 && pool_->awake(threads - 1);
}

void Workers::together(const std::function<void()>& f) const noexcept {
  run(threads_, 1, [&](int64_t begin, int64_t end, int) {
    for (; begin < end; begin++) f();
  });
}

void Workers::start(std::function<void()> f) const {
  if (allowed() > 1) pool_->start(std::move(f));
}

/// The caller's share of a published job, and the helpers'.
template <class J> static void finish(ThreadPool::Impl& pool, ThreadPool::Impl::Slot& slot, const J& job) {
  {
    ThreadBudget alone(slot.bounded ? 1 : 0); // loops inside of this one
    job.work(0);
  }
  pool.retract(slot);
}

void Workers::run(int64_t n, int64_t grain, Body body, void* ctx) const noexcept {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  int parts = n > grain ? static_cast<int>(std::min<int64_t>(allowed(), (n + grain - 1) / grain)) : 1;
  if (parts == 1) return body(ctx, 0, n, 0);
  RecordedBody recorded;
  if (const Recording::Scope* scope = Recording::scope())
    recorded = {body, ctx, scope->recording, scope->name}, body = RecordedBody::run, ctx = &recorded;
  // Four chunks per range leave something to steal from a worker that the system has put aside.
  PerWorker<Range> ranges(parts);
  for (int i = 0; i < parts; i++) {
    ranges.get()[i].next.store(n * i / parts, std::memory_order_relaxed);
    ranges.get()[i].end = n * (i + 1) / parts;
  }
  Loop loop{{join<Loop>}, body, ctx, std::max(grain, n / (parts * 4)), parts, ranges.get()};
  if (auto* slot = pool_->publish(loop, parts - 1)) finish(*pool_, *slot, loop);
  else body(ctx, 0, n, 0);
}

void Workers::run_series(int64_t phases, int parts, Part body, void* ctx) const noexcept {
  if (phases <= 0 || parts <= 0) return;
  RecordedPart recorded;
  if (int workers = std::min(parts, allowed()); workers > 1) {
    if (const Recording::Scope* scope = Recording::scope())
      recorded = {body, ctx, scope->recording, scope->name}, body = RecordedPart::run, ctx = &recorded;
    PerWorker<Series::Claim> claims(parts);
    std::atomic<int64_t> done{0};
    Series series{{join<Series>}, body, ctx, phases, parts, workers, claims.get(), &done};
    if (auto* slot = pool_->publish(series, workers - 1)) return finish(*pool_, *slot, series);
  }
  for (int64_t phase = 0; phase < phases; phase++)
    for (int part = 0; part < parts; part++) body(ctx, phase, part, 0);
}

} // namespace tenon
