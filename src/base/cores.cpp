// Affinity from the system, quotas from the files of the cgroup file systems.
#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "base/cgroup.h"

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

} // namespace

double cgroup_quota(const std::string& root) {
  double least = none;
  for_each_cgroup(root, "cpu", [&](const std::string& folder, bool is_v2) { least = std::min(least, quota_in(folder, is_v2)); });
  return least;
}

int usable_cores(int thread) {
  cpu_set_t cores;
  int allowed =
      sched_getaffinity(thread, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp(std::ceil(cgroup_quota()), 1.0, std::max(1.0, static_cast<double>(allowed))));
}

} // namespace tenon
