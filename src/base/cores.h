// How many cores there are for this process, and work of several threads.
#pragma once
#include <functional>
#include <string>

namespace tenon {

/// Those that a thread may run on (0: the calling one; a process stands for its first thread), as far as the quotas of this process's
/// cgroups (v1 and v2) pay for them, rounded up; at least 1.
int usable_cores(int thread = 0);
/// The least quota among the process's cgroups, in cores; infinite where there is none. `root` is what paths begin with, for tests.
double cgroup_quota(const std::string& root = "");

/// Calls `work`, which takes what is left to do until nothing is, in some threads at once; returns when all of them have.
using Together = std::function<void(const std::function<void()>& work)>;

} // namespace tenon
