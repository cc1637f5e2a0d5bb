// What a plan does, step by step, for `tenon explain`.
#pragma once
#include "runtime/limits.h"
#include "runtime/profile.h"
#include "tenon/explain.h"

namespace tenon {

/// Steps, buffers, memory and notes of a plan; with a profile also times, bytes, flops, and the bounds by `limits`. `slots` are those of
/// the last run, or empty. The plan's kernels are those of `kernels`.
Explanation explain(const Plan& plan, const Profile& profile, const std::vector<int64_t>& slots, const Limits& limits,
                    const KernelTable& kernels);
/// The same of a runner: its limits are measured where steps were timed.
class PlanRunner;
Explanation explain(PlanRunner& runner);

} // namespace tenon
