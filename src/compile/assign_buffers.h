// assign_buffers: how long each buffer is needed, read off the steps that name it. Where buffers lie together is decided when sizes are
// bound (runtime/bound_plan.h).
#pragma once
#include "runtime/plan.h"

namespace tenon {

/// Sets the first and the last step of all buffers. What a loop reads and was there before lives as long as the loop.
void assign_buffers(Plan& plan);

} // namespace tenon
