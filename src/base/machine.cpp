// Facts from /proc and /sys.
#include "base/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/cgroup.h"
#include "base/cores.h"

namespace tenon {

namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<uint64_t> number_in(const std::string& text) {
  char* end;
  uint64_t n = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str() || text[0] == '-') return std::nullopt;
  return n;
}
std::optional<uint64_t> number_of(const std::string& path) { return number_in(first_line(path)); }

/// "key value" or "key: value kB" of a line of a file.
std::optional<uint64_t> field_of(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (size_t at = line.find(key); at != line.npos && line.find_first_of(" \t:", at) == at + key.size()) {
      size_t value = line.find_first_of("0123456789", at + key.size());
      if (value == line.npos) return std::nullopt;
      auto n = number_in(line.substr(value));
      return n && line.ends_with(" kB") ? std::optional(*n << 10) : n;
    }
  return std::nullopt;
}

std::string list_text(const std::vector<int>& numbers) { // "0-3,8"
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) end++;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]) + (end > i ? "-" + std::to_string(numbers[end]) : "");
    i = end + 1;
  }
  return out;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) out.push_back(i);
  return out;
}

/// Numbers of the folders `prefix`N in a folder, sorted.
std::vector<int> numbered(const std::string& folder, std::string_view prefix) {
  std::vector<int> out;
  std::error_code failed;
  for (const auto& e : fs::directory_iterator(folder, failed)) {
    std::string name = e.path().filename();
    std::string digits = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    if (!digits.empty() && digits.find_first_not_of("0123456789") == digits.npos) out.push_back(std::atoi(digits.c_str()));
  }
  std::ranges::sort(out);
  return out;
}

/// How many physical cores these belong to; 0 where the system does not say.
int cores_of(const std::string& cpus, const std::vector<int>& numbers) {
  std::set<std::string> cores;
  for (int i : numbers) {
    std::string siblings = first_line(cpus + "/cpu" + std::to_string(i) + "/topology/thread_siblings_list");
    if (siblings.empty()) return 0;
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

void read_cpuinfo(const std::string& root, CpuFacts& cpu) {
  std::ifstream in(root + "/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("processor")) cpu.online++;
    if (colon == line.npos) continue;
    if (line.starts_with("model name") && cpu.model.empty()) cpu.model = line.substr(colon + 2);
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(colon + 2));
    for (std::string flag; flags >> flag;) cpu.is_virtual |= flag == "hypervisor", cpu.has_amx |= flag == "amx_tile";
  }
}

CpuFacts cpu_facts(const std::string& root) {
  CpuFacts cpu;
  read_cpuinfo(root, cpu);
  std::string cpus = root + "/sys/devices/system/cpu";
  std::vector<int> allowed = allowed_cpus(), all = numbered(cpus, "cpu");
  cpu.allowed = static_cast<int>(allowed.size()), cpu.allowed_list = list_text(allowed);
  cpu.cores = cores_of(cpus, all), cpu.allowed_cores = cores_of(cpus, allowed);
  if (double quota = cgroup_quota(root); std::isfinite(quota)) cpu.quota = quota;
  for_each_cgroup(root, "cpu", [&](const std::string& folder, bool) {
    if (auto n = field_of(folder + "/cpu.stat", "nr_throttled")) cpu.throttled = std::max(cpu.throttled.value_or(0), *n);
  });
  std::set<std::string> governors;
  for (int i : allowed)
    if (std::string g = first_line(cpus + "/cpu" + std::to_string(i) + "/cpufreq/scaling_governor"); !g.empty()) governors.insert(g);
  cpu.governors.assign(governors.begin(), governors.end());
  if (auto off = number_of(cpus + "/intel_pstate/no_turbo")) cpu.boost = *off == 0;
  else if (auto on = number_of(cpus + "/cpufreq/boost")) cpu.boost = *on != 0;
  if (std::string load = first_line(root + "/proc/loadavg"); !load.empty()) cpu.load = std::atof(load.c_str());
  return cpu;
}

MemoryFacts memory_facts(const std::string& root) {
  MemoryFacts memory;
  std::string info = root + "/proc/meminfo";
  memory.total = field_of(info, "MemTotal"), memory.available = field_of(info, "MemAvailable");
  if (auto swap = field_of(info, "SwapTotal"), free = field_of(info, "SwapFree"); swap && free)
    memory.swap_used = *swap - std::min(*swap, *free);
  for_each_cgroup(root, "memory", [&](const std::string& folder, bool is_v2) {
    auto limit = number_of(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    bool bounds = limit && (!memory.total || *limit < *memory.total); // without one, version 1 has a number beyond all memory
    if (!bounds || (memory.limit && *memory.limit <= *limit)) return;
    memory.limit = limit, memory.used = number_of(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  });
  std::string modes = first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  if (size_t begin = modes.find('['), end = modes.find(']'); begin != modes.npos && end != modes.npos && begin < end)
    memory.huge_pages = modes.substr(begin + 1, end - begin - 1);
  return memory;
}

} // namespace

MachineFacts machine_facts(const std::string& root) {
  MachineFacts facts{.system = {}, .cpu = cpu_facts(root), .memory = memory_facts(root), .nodes = {}};
  utsname name;
  if (uname(&name) == 0) facts.system = std::string(name.sysname) + " " + name.release;
  std::string nodes = root + "/sys/devices/system/node";
  for (int i : numbered(nodes, "node")) {
    std::string folder = nodes + "/node" + std::to_string(i);
    facts.nodes.push_back({i, first_line(folder + "/cpulist"), field_of(folder + "/meminfo", "MemTotal")});
  }
  return facts;
}

} // namespace tenon
