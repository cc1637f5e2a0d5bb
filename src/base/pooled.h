// Objects that threads take and give back.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon {

/// Objects that are made once and used again and again, each by one thread at a time; without a lock where few are out at once.
template <class T> class Pooled {
public:
  /// One that waits, or what `make` gives, a std::unique_ptr<T>.
  template <class Make> T* take(const Make& make) {
    for (auto& place : ready_)
      if (place.load(std::memory_order_relaxed))
        if (T* t = place.exchange(nullptr, std::memory_order_acquire)) return t;
    std::scoped_lock lock(mutex_);
    if (!waiting_.empty()) {
      T* t = waiting_.back();
      waiting_.pop_back();
      return t;
    }
    waiting_.reserve(all_.size() + 1); // so that giving one back cannot fail
    return all_.emplace_back(make()).get();
  }

  void give_back(T* t) noexcept {
    for (auto& place : ready_)
      if (T* none = nullptr; place.compare_exchange_strong(none, t, std::memory_order_release, std::memory_order_relaxed)) return;
    std::scoped_lock lock(mutex_);
    waiting_.push_back(t);
  }

private:
  std::array<std::atomic<T*>, 4> ready_ = {}; // some that wait; more of them in waiting_
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> waiting_;
};

} // namespace tenon
