#include "base/stop_point.h"

#include <utility>

namespace tenon {

static thread_local Stoppable* current = nullptr;

Stoppable::Stoppable(std::function<bool()> asked) : asked_(std::move(asked)), outer_(std::exchange(current, this)) {}
Stoppable::~Stoppable() { current = outer_; }

void stop_point() {
  if (current && current->asked_()) throw Stopped();
}

} // namespace tenon
