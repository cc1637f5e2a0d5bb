// The control groups that this process is in: what bounds its cores and memory in containers.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace tenon {

/// Calls `visit` with the folder of each group that bounds this process for a controller ("cpu", "memory", "cpuset"), its own and those
/// around it, as far as they are to be seen; of both versions of the file system. `root` is what paths begin with, for tests.
void for_each_cgroup(const std::string& root, std::string_view controller,
                     const std::function<void(const std::string& folder, bool is_v2)>& visit);

} // namespace tenon
