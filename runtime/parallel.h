// Parallel loops of one executable, on the threads of a pool. A loop is cut into one range per worker; who has finished
// its own takes chunks of the others'. A series of short loops that need each other's results is published once.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "tenon/threads.h"

namespace tenon {

class Workers {
public:
  /// Runs iterations [begin, end); `worker` < threads() is unlike that of every call running at the same time for this
  /// loop.
  using Body = void (*)(void* ctx, int64_t begin, int64_t end, int worker);
  static constexpr int max_threads = 256;

  /// Loops run on `threads` threads of the pool at most, the caller's included; 0: on all of them. The process's own pool is one for each
  /// number of threads, of which 0 means all cores the process may use (base/cores.h).
  explicit Workers(int threads, const ThreadPool& pool = ThreadPool());

  int threads() const { return threads_; }

  /// Whether another thread is awake and free, so that it pays to share work that takes less time than waking one (some 30 us). Calls that
  /// follow one another quickly wake the threads for those to come.
  bool awake() const noexcept;

  /// Runs body over [0, n) in chunks of at least `grain` iterations, in the calling thread alone if n <= grain. Returns
  /// when all is done. Any number of threads may call at once, bodies too.
  void run(int64_t n, int64_t grain, Body body, void* ctx) const noexcept;

  /// The same for a callable f(begin, end, worker).
  template <class F> void run(int64_t n, int64_t grain, const F& f) const noexcept {
    run(n, grain, [](void* ctx, int64_t b, int64_t e, int w) { (*static_cast<const F*>(ctx))(b, e, w); }, const_cast<F*>(&f));
  }

  /// Runs phases one after the other, each of `parts` <= threads() parts side by side: a part runs when all parts of the
  /// phase before have returned. A part stays with one worker from phase to phase, unless that worker is held up.
  using Part = void (*)(void* ctx, int64_t phase, int part, int worker);
  void run_series(int64_t phases, int parts, Part body, void* ctx) const noexcept;

  /// The same for a callable f(phase, part, worker).
  template <class F> void run_series(int64_t phases, int parts, const F& f) const noexcept {
    run_series(
        phases, parts, [](void* ctx, int64_t phase, int part, int w) { (*static_cast<const F*>(ctx))(phase, part, w); },
        const_cast<F*>(&f));
  }

  /// Calls f in up to all of the threads at once.
  void together(const std::function<void()>& f) const noexcept;
  /// Runs f in another thread, some time: maybe when nobody waits for it any more. Never, where there is no other.
  void start(std::function<void()> f) const;

private:
  /// Of a loop of the calling thread now.
  int allowed() const noexcept;

  std::shared_ptr<ThreadPool::Impl> pool_;
  int threads_;
};

} // namespace tenon
