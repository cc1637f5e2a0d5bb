#include "base/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>

#include "base/stop_point.h"

namespace tenon {

namespace {

constexpr int low_priority = 10; // nice

std::timed_mutex working_turn; // held by the one that works, and by a process that forks
std::atomic<int> forking{0}, process{0};

// The child has none of the threads, and finds all that they touch at rest.
void hold_at_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { forking++, working_turn.lock(); }, [] { forking--, working_turn.unlock(); },
                   [] { forking--, process++, working_turn.unlock(); });
  });
}

} // namespace

void Background::run(const std::stop_token& stop, const std::function<bool()>& work) {
  if (priority_ == Priority::Low) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), low_priority);
  for (bool more = true; more;) {
    std::unique_lock own(working_turn, std::chrono::milliseconds(20));
    if (!stop.stop_requested() && (!own || forking > 0)) {
      if (own) own.unlock();
      std::this_thread::yield(); // to the process that forks
      continue;
    }
    try {
      Stoppable stoppable([&] { return stop.stop_requested() || forking > 0; });
      more = !stop.stop_requested() && work();
    } catch (const Stopped&) {}
    if (more) continue;
    std::scoped_lock lock(mutex_);
    running_ = false;
    done_.notify_all();
  }
}

bool Background::start(std::function<bool()> work) {
  hold_at_forks();
  std::scoped_lock lock(mutex_);
  if (process_ != process && thread_.joinable()) thread_.detach(), running_ = false; // it ran in the parent
  if (running_) return true;
  process_ = process;
  try {
    thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) { run(stop, work); });
  } catch (const std::system_error&) {
    return false;
  }
  return running_ = true;
}

bool Background::is_running() {
  std::scoped_lock lock(mutex_);
  return running_ && process_ == process;
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !running_ || process_ != process; });
}

void Background::wait_for(double ms) {
  std::unique_lock lock(mutex_);
  constexpr double most = 1e12; // some 30 years
  done_.wait_for(lock, std::chrono::duration<double, std::milli>(std::clamp(ms, 0.0, most)), [&] { return !running_; });
}

Background::~Background() {
  if (process_ != process && thread_.joinable()) thread_.detach();
}

} // namespace tenon
