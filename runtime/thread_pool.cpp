// The only door to oneTBB, which supplies and wakes threads. A wake-up takes longer than many loops, and TBB lets a thread go as soon as
// its arena is empty: so a woken thread stays as a helper for a while after its last job. It leaves to callers the cores that they take:
// their own parts of the work are done there with less waiting.
#include "runtime/thread_pool.h"

#include <immintrin.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <climits>
#include <mutex>
#include <utility>

#include "base/cores.h"

namespace tenon {

namespace {

/// How long a helper waits for the next job. Longer than the serial stretches of a typical run, and far shorter than a
/// scheduler's time slice; most of it is spent yielding, so that other threads that want the core get it.
constexpr auto linger = std::chrono::microseconds(200);
constexpr int spins_before_yield = 2000; // about 20-50 us of pause
/// How long a helper stays before TBB may give its thread another task.
constexpr auto turn = std::chrono::milliseconds(1);
/// How long a caller is reckoned with after its last loop.
constexpr auto recently = std::chrono::milliseconds(1);

thread_local int budget = INT_MAX;
thread_local bool is_counted = false; // among the callers or the helpers of a pool

/// Whether this process is the child of one that had helpers. TBB does not start threads anew in a child: its loops run in the callers.
std::atomic<bool> lost_threads{false};

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { lost_threads.store(true); }); });
}

/// TBB starts no more threads than cores unless told.
void allow_threads(int threads) {
  static std::mutex mutex;
  static auto& more = *new std::unique_ptr<tbb::global_control>;
  static int allowed = tbb::info::default_concurrency();
  std::scoped_lock lock(mutex);
  if (threads <= allowed) return;
  more = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  allowed = threads;
}

int clamp_threads(int threads) { return std::clamp(threads > 0 ? threads : usable_cores(), 1, Workers::max_threads); }

} // namespace

void relax(int& spins) {
  if (++spins < spins_before_yield) _mm_pause();
  else sched_yield();
}

int thread_budget() { return budget; }

ThreadBudget::ThreadBudget(int threads) : before_(budget) {
  if (threads > 0) budget = std::min(budget, threads);
}
ThreadBudget::~ThreadBudget() { budget = before_; }

ThreadPool::ThreadPool(int threads) : impl_(std::make_shared<Impl>(threads)) {}
ThreadPool::ThreadPool(int threads, void* arena, Enqueue enqueue) : impl_(std::make_shared<Impl>(threads, arena, enqueue)) {}
int ThreadPool::threads() const { return impl_ ? impl_->threads() : clamp_threads(0); }

ThreadPool::Impl::Impl(int threads, void* arena, Enqueue enqueue) : threads_(clamp_threads(threads)), arena_(arena), enqueue_(enqueue) {
  if (threads_ == 1) return;
  watch_forks();
  if (arena_) return;
  allow_threads(threads_);
  own_arena_.reset(new tbb::task_arena(threads_ - 1, 0), [](tbb::task_arena* a) {
    if (!lost_threads) delete a; // what it holds may have been changing when the process forked
  });
  arena_ = own_arena_.get(), enqueue_ = enqueue_in<tbb::task_arena>;
}

const std::shared_ptr<ThreadPool::Impl>& ThreadPool::Impl::of_process(int threads) {
  static std::mutex mutex;
  static auto& pools = *new std::array<std::shared_ptr<Impl>, Workers::max_threads + 1>;
  threads = clamp_threads(threads);
  std::scoped_lock lock(mutex);
  auto& pool = pools[static_cast<size_t>(threads)];
  if (!pool) pool = std::make_shared<Impl>(threads);
  return pool;
}

// ---- publishing

ThreadPool::Impl::Slot* ThreadPool::Impl::take_slot() {
  for (size_t i = 0; i < slots_.size(); i++) {
    Slot& s = slots_[i];
    if (s.taken.load(std::memory_order_relaxed) || s.taken.exchange(true)) continue;
    int number = static_cast<int>(i) + 1;
    for (int now = used_slots_.load(std::memory_order_relaxed); now < number && !used_slots_.compare_exchange_weak(now, number);) {}
    return &s;
  }
  return nullptr;
}

void ThreadPool::Impl::note_callers(int callers) noexcept {
  int recent = recent_callers_.load(std::memory_order_relaxed);
  if (callers <= 1 && recent == 1) return;
  auto now = Clock::now().time_since_epoch();
  auto age = now - Clock::duration(noted_at_.load(std::memory_order_relaxed));
  if (callers < recent ? age < recently : callers == recent && age < recently / 8) return;
  recent_callers_.store(std::max(callers, 1), std::memory_order_relaxed);
  noted_at_.store(now.count(), std::memory_order_relaxed);
}

ThreadPool::Impl::Slot* ThreadPool::Impl::publish(const Job& job, int wanted) noexcept {
  Slot* slot = threads_ > 1 && !lost_threads ? take_slot() : nullptr;
  if (!slot) return nullptr;
  slot->load = static_cast<uint64_t>(wanted) + (std::exchange(is_counted, true) ? 0 : Load::one_caller);
  slot->bounded = budget != INT_MAX;
  slot->job.store(&job);
  Load now{load_.fetch_add(slot->load + Load::one_more) + slot->load};
  note_callers(now.callers());
  wake(useful(now));
  return slot;
}

void ThreadPool::Impl::retract(Slot& slot) noexcept {
  slot.job.store(nullptr);
  Load now{load_.fetch_sub(slot.load) - slot.load};
  if (slot.load >= Load::one_caller) is_counted = false;
  for (int spins = 0; slot.guests.load() != 0;) relax(spins);
  slot.taken.store(false, std::memory_order_release);
  wake(useful(now)); // there may be room now for others' helpers
}

bool ThreadPool::Impl::awake(int wanted) noexcept {
  if (lost_threads) return false;
  int callers = load().callers() + !is_counted;
  int helpers = std::min(wanted, threads_ - std::max(callers, recent_callers_.load(std::memory_order_relaxed)));
  if (helpers < 1) return false;
  if (active_[1].load(std::memory_order_relaxed)) return true;
  constexpr auto quickly = std::chrono::duration_cast<Clock::duration>(linger) / 4;
  auto now = Clock::now().time_since_epoch().count();
  if (now - last_asked_.exchange(now, std::memory_order_relaxed) < quickly.count()) wake(helpers);
  return false;
}

void ThreadPool::Impl::start(std::function<void()> f) {
  struct Task {
    std::function<void()> work;
    std::atomic<bool> is_given{false};
  };
  if (threads_ == 1 || lost_threads) return;
  auto task = std::make_unique<Task>(std::move(f));
  task->is_given.store(true, std::memory_order_release);
  auto run = [](void* data) {
    std::unique_ptr<Task> given(static_cast<Task*>(data));
    if (given->is_given.load(std::memory_order_acquire)) given->work();
  };
  enqueue_(arena_, run, task.get());
  static_cast<void>(task.release());
}

// ---- helpers

void ThreadPool::Impl::wake(int helpers) noexcept {
  for (int h = 1; h <= helpers; h++)
    if (auto& active = active_[static_cast<size_t>(h)]; !active.load() && !active.exchange(true)) enter(h);
}

// Its `active` has been set by the caller: the ticket is his.
void ThreadPool::Impl::enter(int helper) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(helper)];
  ticket.keep = shared_from_this(), ticket.helper = helper;
  ticket.pool.store(this, std::memory_order_release);
  auto run = [](void* data) {
    auto* given = static_cast<Ticket*>(data);
    given->pool.load(std::memory_order_acquire)->serve(given->helper);
  };
  enqueue_(arena_, run, &ticket);
}

bool ThreadPool::Impl::help(int helper) {
  bool found = false;
  int count = used_slots_.load(std::memory_order_relaxed);
  for (int i = 0; i < count; i++) { // from different slots on, so that helpers spread
    Slot& s = slots_[static_cast<size_t>((i + helper - 1) % count)];
    if (!s.job.load(std::memory_order_relaxed)) continue;
    s.guests.fetch_add(1);
    if (const Job* j = s.job.load()) {
      ThreadBudget alone(s.bounded ? 1 : 0); // loops inside of this one
      found |= j->join(*j, helper);
    }
    s.guests.fetch_sub(1);
  }
  return found;
}

/// The life of a helper, or a turn of it. What is published just when it leaves brings it back.
void ThreadPool::Impl::serve(int helper) {
  auto& active = active_[static_cast<size_t>(helper)];
  std::shared_ptr<Impl> keep = std::move(tickets_[static_cast<size_t>(helper)].keep);
  bool was_counted = std::exchange(is_counted, true);
  Load seen{0};
  bool stays = false;
  auto began = Clock::now(), last = began;
  int spins = 0;
  for (unsigned round = 0; !stays; round++) {
    if (round % 64 == 0) { // callers write there for each loop
      seen = load();
      if (helper > room(seen)) break; // callers take the core
    }
    if (help(helper)) {
      last = Clock::now(), spins = 0;
      stays = last - began > turn;
    } else if ((spins % 64 == 63 || spins >= spins_before_yield) && Clock::now() - last > linger) {
      break;
    }
    relax(spins);
  }
  is_counted = was_counted;
  if (!stays) {
    active.store(false);
    Load now = load();
    bool is_new = now.count() != seen.count() || helper > room(seen);
    stays = is_new && helper <= useful(now) && !active.exchange(true);
  }
  if (stays) enter(helper);
}

} // namespace tenon
