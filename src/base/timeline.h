// What threads do while somebody records it: spans of time with names, and the memory that calls hold. Threads that record wait for
// nobody: each has a buffer of its own. Where nobody records, asking costs one relaxed load.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon {

class Recording {
public:
  /// Of a text that `name` was given; texts live as long as the recording.
  using Name = uint32_t;
  struct Span {
    int64_t begin_ns, end_ns; // of steady_clock
    Name name;
    int64_t iterations; // of a part of a parallel loop; -1: it is none
  };
  struct Sample {
    int64_t at_ns;
    int64_t bytes;
  };
  /// What one thread did, in the order in which spans ended.
  struct Thread {
    int id = 0; // the system's
    std::vector<Span> spans = {};
    std::vector<Sample> memory = {}; // temporaries of the call that the thread makes, from then on
    int64_t dropped = 0;             // beyond most_events
  };
  struct Snapshot {
    std::vector<Thread> threads;
    std::vector<std::string> names; // of all spans
  };
  static constexpr size_t most_events = 1 << 20;

  /// The process's one; null where there is one already.
  static std::shared_ptr<Recording> start();
  /// Null: nobody records.
  static std::shared_ptr<Recording> current();
  static bool is_on() { return on_.load(std::memory_order_relaxed); }
  /// Others may start one. What is under way now is still recorded here.
  void stop();

  uint64_t id() const { return id_; }
  static int64_t now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); }
  Name name(std::string_view text);
  /// Of the calling thread.
  void span(Name name, int64_t begin_ns, int64_t end_ns, int64_t iterations = -1) noexcept;
  void memory(int64_t at_ns, int64_t bytes) noexcept;
  /// What there is so far.
  Snapshot snapshot();

  /// What the calling thread's parallel loops belong to; null: none is recorded. Scopes nest.
  struct Scope {
    Scope(Recording* recording, Name name) : recording(recording), name(name), outer_(of_thread_) { of_thread_ = this; }
    ~Scope() { of_thread_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Recording* recording;
    Name name;

  private:
    const Scope* outer_;
  };
  static const Scope* scope() { return of_thread_; }

private:
  using Clock = std::chrono::steady_clock;
  struct Buffer {
    std::mutex mutex;
    Thread thread;
  };
  Buffer& of_this_thread();

  static std::atomic<bool> on_;
  static thread_local const Scope* of_thread_;
  uint64_t id_ = 0;
  std::mutex mutex_; // of what follows
  std::deque<Buffer> buffers_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Name> known_;
};

/// A span from its construction to its end, where somebody records; parallel loops of the thread are parts of it.
class RecordedSpan {
public:
  explicit RecordedSpan(std::string_view name) : recording_(Recording::current()) {
    if (recording_) scope_.emplace(recording_.get(), recording_->name(name)), begin_ = Recording::now();
  }
  ~RecordedSpan() {
    if (recording_) recording_->span(scope_->name, begin_, Recording::now());
  }
  RecordedSpan(const RecordedSpan&) = delete;
  RecordedSpan& operator=(const RecordedSpan&) = delete;

private:
  std::shared_ptr<Recording> recording_;
  std::optional<Recording::Scope> scope_;
  int64_t begin_ = 0;
};

} // namespace tenon
