#include "base/stop_point.h"

#include <utility>

namespace tenon {

static thread_local Stoppable* current_stoppable = nullptr;

Stoppable::Stoppable(std::function<bool()> asked) : asked_(std::move(asked)), outer_(std::exchange(current_stoppable, this)) {}
Stoppable::~Stoppable() { current_stoppable = outer_; }

void stop_point() {
  if (current_stoppable && current_stoppable->asked_()) throw Stopped();
}

} // namespace tenon
