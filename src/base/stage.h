// A stage of work as its observer hears of it, if the calling thread has one (tenon/progress.h).
#pragma once
#include "tenon/progress.h"

namespace tenon {

class Stage {
public:
  /// It begins. `name` lives as long as this; `total` is how many parts will be done, 0 where they are not counted.
  explicit Stage(std::string_view name, size_t total = 0);
  ~Stage() {
    if (observer_) tell(true);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  /// A part is done, by whichever thread.
  void part_done() {
    if (observer_) tell(false);
  }

private:
  void tell(bool is_over);

  ReportProgress::Observer* observer_;
  std::string_view name_;
  size_t total_;
  size_t done_ = 0; // parts; written by one thread at a time
};

} // namespace tenon
