// What a plan does, step by step, for `tenon explain`.
#pragma once
#include "runtime/limits.h"
#include "runtime/profile.h"

namespace tenon {

/// A few lines per step: number, operators, kernel, what was refused, source; with a profile also time, bytes, flops, and where a
/// step takes much more time than the machine needs for them, by how much.
std::string explain(const Plan& plan, const Profile& profile, const Limits& limits);
/// The matrix kernels whose limits a report of this profile needs.
std::vector<int> families_of(const Profile& profile);

} // namespace tenon
