// Threads: pools that Executables share, and how many of them a call may use.
#pragma once
#include <memory>

#include "tenon/error.h"

namespace tenon {

/// Threads that help those that call: a call's own thread always does a part of the work, and all of it where no other is free; so calls
/// may be made from any number of threads, from inside of each other's operators and of a host's tasks. Helpers come from oneTBB, as many
/// as there are threads less those that call, wait at most 200 us for more work, most of that by yielding, and are free for other tasks of
/// oneTBB after a millisecond in any case. Handles are copied freely, by any thread; a pool lives as long as a handle or an Executable has
/// it. Constructors throw std::bad_alloc and nothing else.
///
/// A process may fork while nobody is inside a call of tenon: calls in its child go on, in the calling thread alone.
class TENON_API ThreadPool {
public:
  /// The process's own pool, which all share that name no other: those that ask for as many threads share the same ones.
  ThreadPool() = default;
  /// A pool of so many threads, those that call included, 256 at most; 0: as many as there are cores for the calling thread, by its
  /// affinity and the quotas of the process's cgroups.
  explicit ThreadPool(int threads);
  /// The threads of a host's arena, a tbb::task_arena: of anything with its max_concurrency() and enqueue(f), which must run f some time in
  /// another thread. The arena must outlive the last call that uses it.
  template <class Arena> static ThreadPool in_arena(Arena& arena) { return {arena.max_concurrency(), &arena, enqueue_in<Arena>}; }

  /// The most threads that a call can use, its own included.
  int threads() const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; } // null: the process's own

private:
  using Enqueue = void (*)(void* arena, void (*task)(void*), void* data);
  ThreadPool(int threads, void* arena, Enqueue enqueue);
  // Hidden: the library has one of its own for its arena, which is no part of what it exports.
  template <class Arena> [[gnu::visibility("hidden")]] static void enqueue_in(void* arena, void (*task)(void*), void* data) {
    static_cast<Arena*>(arena)->enqueue([=] { task(data); });
  }

  std::shared_ptr<Impl> impl_;
};

/// While it lives, what its thread calls uses at most so many threads, whatever the Executable: run() in all its forms, compile() and
/// load(), but not what is compiled in the background. Of nested ones the least counts; 0 sets no bound. Results do not depend on it. To be
/// destroyed by the thread that made it.
class TENON_API ThreadBudget {
public:
  explicit ThreadBudget(int threads);
  ~ThreadBudget();
  ThreadBudget(const ThreadBudget&) = delete;
  ThreadBudget& operator=(const ThreadBudget&) = delete;

private:
  int before_;
};

} // namespace tenon
