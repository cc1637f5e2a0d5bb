// A line on the terminal that says what is waited for, rewritten in place.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tenon/progress.h"

namespace tenon::cli {

/// The line itself: it appears when something has taken half a second, and only on a terminal.
class StatusLine {
public:
  explicit StatusLine(bool quiet);
  ~StatusLine() { erase(); }
  bool is_on() const { return on_; }
  /// From now on time counts.
  void begin() { begin_ = Clock::now(); }
  /// "tenon: TEXT, 2.1 s", if it is time for it.
  void show(const std::string& text);
  void erase();

private:
  using Clock = std::chrono::steady_clock;
  bool on_, shown_ = false;
  Clock::time_point begin_ = Clock::now();
};

/// While it lives, loads and compilations of this thread have such a line. Printing goes on below: the line is gone when they return.
class ProgressLine {
public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();

private:
  struct Stage {
    std::string name;
    size_t done, total;
  };
  void hear(const Progress& p);
  void tick();
  std::string text() const;

  StatusLine line_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::vector<Stage> stages_; // that go on, in the order of their beginning
  std::optional<ReportProgress> report_;
  std::thread ticker_;
};

} // namespace tenon::cli
