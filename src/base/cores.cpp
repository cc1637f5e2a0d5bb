// Affinity from the system, quotas from the files of the cgroup file systems.
#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace tenon {

namespace {

constexpr double none = std::numeric_limits<double>::infinity();

/// The first words of a file; what is not there is empty.
std::pair<std::string, std::string> words_of(const std::string& path) {
  std::ifstream in(path);
  std::string first, second;
  in >> first >> second;
  return {first, second};
}

double quota_of(const std::string& quota, const std::string& period) {
  char* end;
  double q = std::strtod(quota.c_str(), &end), p = std::strtod(period.c_str(), nullptr);
  return end == quota.c_str() || !(q > 0) || !(p > 0) ? none : q / p; // "max", "-1"
}

double quota_in(const std::string& folder, bool is_v2) {
  if (is_v2) {
    auto [quota, period] = words_of(folder + "/cpu.max");
    return quota_of(quota, period);
  }
  return quota_of(words_of(folder + "/cpu.cfs_quota_us").first, words_of(folder + "/cpu.cfs_period_us").first);
}

/// Of a group and those that it is in. In a container the group's own folder may be mounted as the root, whatever its path is.
double least_quota(const std::string& mount, std::string group, bool is_v2) {
  double least = quota_in(mount, is_v2);
  while (!group.empty() && group != "/") {
    least = std::min(least, quota_in(mount + group, is_v2));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return least;
}

} // namespace

double cgroup_quota(const std::string& root) {
  double least = none;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // number:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, least_quota(root + "/sys/fs/cgroup", path, true));
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');)
      if (name == "cpu")
        for (const std::string& folder : {controllers, name})
          least = std::min(least, least_quota(root + "/sys/fs/cgroup/" + folder, path, false));
  }
  return least;
}

int usable_cores(int thread) {
  cpu_set_t cores;
  int allowed =
      sched_getaffinity(thread, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp(std::ceil(cgroup_quota()), 1.0, std::max(1.0, static_cast<double>(allowed))));
}

} // namespace tenon
