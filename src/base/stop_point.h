// Work that may be asked to end: compiling in the background.
#pragma once
#include <exception>
#include <functional>

namespace tenon {

/// Thrown where work was asked to end; nothing came of it.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

/// While it lives, the calling thread's stop points ask `asked`.
class Stoppable {
public:
  explicit Stoppable(std::function<bool()> asked);
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;

private:
  friend void stop_point();
  std::function<bool()> asked_;
  Stoppable* outer_;
};

/// Throws Stopped where the calling thread's work is to end. A few tens of milliseconds of work at most lie between two of them.
void stop_point();

} // namespace tenon
