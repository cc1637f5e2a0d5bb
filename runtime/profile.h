// What each step of a plan cost, over the runs of an executable that was asked to measure (Options::profile).
#pragma once
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace tenon {

struct Frame;

/// Totals of one step over all its calls. Steps of control flow include the steps they own.
struct StepProfile {
  int64_t calls = 0, ns = 0;
  double bytes = 0, flops = 0; // as cost_of says
  int family = -1;             // of the matrix kernels that compute it, for the last call
  std::string detail = {};     // of the last call: sizes, and what a driver chose for them
};

/// By step number.
using Profile = std::vector<StepProfile>;

/// Bytes a step must at least read and write, and its floating-point operations, under the frame's sizes.
StepProfile cost_of(const Step& step, const Frame& frame);

/// Whether there was anything.
bool add(Profile& to, const Profile& from);

} // namespace tenon
