// What tenon's threads do over time, for ui.perfetto.dev.
#pragma once
#include <memory>
#include <string>

#include "tenon/error.h"

namespace tenon {

class Recording;

/// Records loading, the stages of compiling, and runs: each step in the thread that makes the call, parts of parallel steps in the threads
/// that compute them, the temporaries of the call at each step, and how many threads are busy. Steps take some hundred nanoseconds more
/// while that goes on; of a thread the first million of spans are kept. One at a time in a process.
class TENON_API Timeline {
public:
  /// Errors: BadInput where another one records.
  static Result<Timeline> start();
  ~Timeline(); ///< records no more
  Timeline(Timeline&&) noexcept = default;

  /// Ends recording. Again: nothing.
  void stop();
  /// What was recorded so far, as a Perfetto trace: a protobuf message of type perfetto.protos.Trace. `process` is what the page calls this
  /// process.
  std::string trace(const std::string& process = "tenon") const;
  /// Writes that to a file. Errors: BadInput with the system's reason where it cannot be written.
  Status write(const std::string& path, const std::string& process = "tenon") const;

private:
  explicit Timeline(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
  std::shared_ptr<Recording> recording_;
};

} // namespace tenon
