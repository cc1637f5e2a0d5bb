// What a plan does, step by step, for `tenon explain`.
#pragma once
#include "compile/build_plan.h"
#include "runtime/profile.h"

namespace tenon {

/// One line per step: number, operators, kernel, what was refused, source; with a profile also calls, time, bytes, flops.
std::string explain(const Plan& plan, const std::vector<Kernel>& kernels, const Profile& profile);

} // namespace tenon
