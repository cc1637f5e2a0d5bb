// Recordings: buffers of threads, names.
#include "base/timeline.h"

#include <unistd.h>

#include <new>

namespace tenon {

std::atomic<bool> Recording::on_{false};
thread_local const Recording::Scope* Recording::of_thread_ = nullptr;

namespace {

struct Current {
  std::mutex mutex;
  std::shared_ptr<Recording> recording;
  uint64_t last_id = 0;
};
Current& the_current() {
  static Current current;
  return current;
}

} // namespace

std::shared_ptr<Recording> Recording::start() {
  Current& c = the_current();
  std::scoped_lock lock(c.mutex);
  if (c.recording) return nullptr;
  c.recording = std::make_shared<Recording>();
  c.recording->id_ = ++c.last_id;
  on_.store(true, std::memory_order_relaxed);
  return c.recording;
}

std::shared_ptr<Recording> Recording::current() {
  if (!is_on()) return nullptr;
  Current& c = the_current();
  std::scoped_lock lock(c.mutex);
  return c.recording;
}

void Recording::stop() {
  Current& c = the_current();
  std::scoped_lock lock(c.mutex);
  if (c.recording.get() != this) return;
  on_.store(false, std::memory_order_relaxed);
  c.recording = nullptr;
}

Recording::Name Recording::name(std::string_view text) {
  std::scoped_lock lock(mutex_);
  auto [at, is_new] = known_.try_emplace(std::string(text), static_cast<Name>(names_.size()));
  if (is_new) names_.emplace_back(text);
  return at->second;
}

Recording::Snapshot Recording::snapshot() {
  Snapshot s;
  std::vector<Buffer*> buffers;
  {
    std::scoped_lock lock(mutex_);
    for (Buffer& b : buffers_) buffers.push_back(&b);
  }
  for (Buffer* b : buffers) {
    std::scoped_lock lock(b->mutex);
    s.threads.push_back(b->thread);
  }
  std::scoped_lock lock(mutex_); // at last: no span has a name that is not among them
  s.names = names_;
  return s;
}

Recording::Buffer& Recording::of_this_thread() {
  thread_local uint64_t recording = 0;
  thread_local Buffer* buffer = nullptr;
  if (recording == id_) return *buffer;
  std::scoped_lock lock(mutex_);
  buffer = &buffers_.emplace_back();
  buffer->thread.id = gettid();
  recording = id_;
  return *buffer;
}

// What there is no memory for is not recorded.
void Recording::span(Name name, int64_t begin_ns, int64_t end_ns, int64_t iterations) noexcept {
  try {
    Buffer& b = of_this_thread();
    std::scoped_lock lock(b.mutex);
    if (b.thread.spans.size() < most_events) b.thread.spans.push_back({begin_ns, end_ns, name, iterations});
    else b.thread.dropped++;
  } catch (const std::bad_alloc&) {}
}

void Recording::memory(int64_t at_ns, int64_t bytes) noexcept {
  try {
    Buffer& b = of_this_thread();
    std::scoped_lock lock(b.mutex);
    if (b.thread.memory.size() < most_events) b.thread.memory.push_back({at_ns, bytes});
  } catch (const std::bad_alloc&) {}
}

} // namespace tenon
