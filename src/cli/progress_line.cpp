// The observer notes stages; a thread of its own draws, so that seconds go on where a stage takes long.
#include "cli/progress_line.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>

namespace tenon::cli {

using namespace std::chrono_literals;

constexpr auto patience = 500ms, interval = 200ms;

StatusLine::StatusLine(bool quiet) : on_(!quiet && isatty(2)) {}

void StatusLine::show(const std::string& text) {
  auto waited = Clock::now() - begin_;
  if (!on_ || waited < patience) return;
  fmt::print(stderr, "\r\033[Ktenon: {}, {:.1f} s", text, std::chrono::duration<double>(waited).count());
  std::fflush(stderr);
  shown_ = true;
}

void StatusLine::erase() {
  if (shown_) fmt::print(stderr, "\r\033[K"), std::fflush(stderr);
  shown_ = false;
}

ProgressLine::ProgressLine(bool quiet) : line_(quiet) {
  if (!line_.is_on()) return;
  report_.emplace([this](const Progress& p) { hear(p); });
  ticker_ = std::thread([this] { tick(); });
}

ProgressLine::~ProgressLine() {
  report_.reset();
  if (!ticker_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  ticker_.join();
}

void ProgressLine::hear(const Progress& p) {
  std::lock_guard lock(mutex_);
  auto at = std::find_if(stages_.rbegin(), stages_.rend(), [&](const Stage& s) { return s.name == p.stage; });
  if (stages_.empty()) line_.begin();
  if (!p.is_over && (at == stages_.rend() || p.done == 0)) stages_.push_back({std::string(p.stage), p.done, p.total});
  else if (!p.is_over) at->done = p.done;
  else if (at != stages_.rend()) stages_.erase(std::next(at).base());
  if (stages_.empty()) line_.erase();
}

void ProgressLine::tick() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval, [&] { return is_over_; }))
    if (!stages_.empty()) line_.show(text());
}

// The outermost stage, and the inner ones that are under way.
std::string ProgressLine::text() const {
  std::string out;
  for (const Stage& s : stages_) {
    out += (out.empty() ? "" : out.find(": ") == out.npos ? ": " : ", ") + s.name;
    if (s.total > 0) out += fmt::format(" {} of {}", s.done, s.total);
  }
  return out;
}

} // namespace tenon::cli
