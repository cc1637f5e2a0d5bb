// Memory of weights that has small pages, as large ones did not come quickly, gets large ones after the first result: in the background.
#pragma once
#include <atomic>

#include "base/background.h"
#include "base/large_memory.h"

namespace tenon {

class PageJoiner {
public:
  explicit PageJoiner(LargeMemory memory) : memory_(std::move(memory)) {}
  /// Each call but the first may start it. Thread-safe.
  void begin_call() noexcept {
    if (calls_.load(std::memory_order_relaxed) < 2 && calls_++ == 1) background_.start([this] { return memory_.join_pages(); });
  }
  bool is_running() { return background_.is_running(); }
  /// Until it is done, if it was started.
  void wait() { background_.wait(); }

private:
  LargeMemory memory_;
  std::atomic<int> calls_ = 0;
  Background background_{Background::Priority::Low}; // ends before the rest does
};

} // namespace tenon
