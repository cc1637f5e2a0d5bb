// Groups as /proc/self/cgroup lists them.
#include "base/cgroup.h"

#include <fstream>
#include <sstream>

namespace tenon {

using Visit = std::function<void(const std::string& folder, bool is_v2)>;

/// A group and those that it is in. In a container the group's own folder may be mounted as the root, whatever its path is.
static void visit_groups(const std::string& mount, std::string group, bool is_v2, const Visit& visit) {
  visit(mount, is_v2);
  while (!group.empty() && group != "/") {
    visit(mount + group, is_v2);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

void for_each_cgroup(const std::string& root, std::string_view controller, const Visit& visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // number:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) visit_groups(root + "/sys/fs/cgroup", path, true, visit);
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');)
      if (name == controller)
        for (const std::string& folder : {controllers, name}) visit_groups(root + "/sys/fs/cgroup/" + folder, path, false, visit);
  }
}

} // namespace tenon
