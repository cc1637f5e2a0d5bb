// Observers are found by thread; a stage takes the one of the thread that began it along to the threads that help.
#include "base/stage.h"

#include <mutex>
#include <utility>

namespace tenon {

struct ReportProgress::Observer {
  std::function<void(const Progress&)> call;
  std::mutex mutex;
};

static thread_local ReportProgress::Observer* current_observer = nullptr;

ReportProgress::ReportProgress(std::function<void(const Progress&)> observer)
    : observer_(new Observer{.call = std::move(observer), .mutex = {}}), outer_(std::exchange(current_observer, observer_)) {}
ReportProgress::~ReportProgress() {
  current_observer = outer_;
  delete observer_;
}

Stage::Stage(std::string_view name, size_t total) : observer_(current_observer), name_(name), total_(total) {
  if (!observer_) return;
  std::lock_guard lock(observer_->mutex);
  observer_->call({.stage = name_, .done = 0, .total = total_, .is_over = false});
}

void Stage::tell(bool is_over) {
  std::lock_guard lock(observer_->mutex);
  done_ += !is_over;
  observer_->call({.stage = name_, .done = done_, .total = total_, .is_over = is_over});
}

} // namespace tenon
