// One function for each kind of advice, each silent where it does not know.
#include "cli/advice.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

namespace tenon::cli {

namespace {

using List = std::vector<Advice>;

void about_clocks(const CpuFacts& cpu, List& out) {
  if (std::ranges::any_of(cpu.governors,
                          [](auto& g) { return g == "powersave" || g == "conservative" || g == "ondemand" || g == "schedutil"; }))
    out.push_back({fmt::format("the governor of the clocks is {}", fmt::join(cpu.governors, ", ")),
                   "short calls are over before the clocks rise: the same call takes longer, and times vary",
                   "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"});
  if (cpu.boost == false)
    out.push_back({"the clocks do not rise above the nominal one", "arithmetic is bound by the clock",
                   "echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost, or on Intel echo 0 | sudo tee "
                   "/sys/devices/system/cpu/intel_pstate/no_turbo"});
}

void about_quota(const CpuFacts& cpu, List& out) {
  if (!cpu.quota) return;
  if (*cpu.quota < cpu.allowed && *cpu.quota != std::floor(*cpu.quota))
    out.push_back({fmt::format("the control group pays for {:.2f} CPUs of the {} it may run on", *cpu.quota, cpu.allowed),
                   fmt::format("tenon takes {:.0f} threads, which are held up for the rest of each period", std::ceil(*cpu.quota)),
                   fmt::format("a quota of whole CPUs (cpu.max of the group, docker run --cpus), or --threads {:.0f}",
                               std::max(1.0, std::floor(*cpu.quota)))});
  if (cpu.throttled.value_or(0) > 0)
    out.push_back({fmt::format("the control group was held up in {} periods", *cpu.throttled),
                   "its processes used more CPU time than its quota: calls then wait for the next period",
                   "a larger quota (cpu.max of the group, docker run --cpus), or CPUs of its own instead of one (cpuset.cpus, docker run "
                   "--cpuset-cpus)"});
}

void about_threads(const CpuFacts& cpu, const std::vector<HostSpeed>& speeds, List& out) {
  if (cpu.allowed_cores > 0 && cpu.allowed > cpu.allowed_cores)
    out.push_back({fmt::format("{} of {} CPUs are second threads of the same cores", cpu.allowed - cpu.allowed_cores, cpu.allowed),
                   "products and convolutions fill a core with one thread; a second one mostly shares its caches",
                   fmt::format("compare tenon bench MODEL --threads {} with --threads {}", cpu.allowed_cores, cpu.allowed)});
  bool is_busy = cpu.load && *cpu.load > 0.5 * std::max(1, cpu.allowed);
  if (is_busy)
    out.push_back({fmt::format("other work runs: the load is {:.1f} on {} CPUs", *cpu.load, cpu.allowed),
                   "a parallel loop waits for its slowest thread",
                   "CPUs that are tenon's alone (taskset -c LIST, cpuset.cpus), or --threads N for those that are free"});
  if (is_busy || speeds.size() < 2 || speeds[0].peaks.empty() || speeds[1].peaks.empty()) return;
  double gain = speeds[1].peaks[0].flops_per_ns / std::max(1e-9, speeds[0].peaks[0].flops_per_ns);
  if (gain < 0.75 * speeds[1].threads)
    out.push_back({fmt::format("{} threads do {:.1f} times the arithmetic of one", speeds[1].threads, gain),
                   "the CPUs are threads of the same cores, or the host gives them to others as well",
                   "compare tenon bench MODEL with --threads of fewer; of a virtual machine ask for whole cores"});
}

void about_caches(const std::vector<HostSpeed>& speeds, List& out) {
  constexpr double far_ns = 110; // cores of one last cache take 20 to 80
  for (const HostSpeed& s : speeds)
    if (s.handover_ns > far_ns)
      out.push_back(
          {fmt::format("what one thread writes, another sees {:.0f} ns later", s.handover_ns),
           "they run on cores that share no cache: short steps wait for what the other core wrote, and calls take up to 1.4 times as long",
           "CPUs that share an L3, as lscpu -e lists them: taskset -c LIST, cpuset.cpus; of a virtual machine cores of one socket, or "
           "pinned ones"});
}

void about_memory(const MemoryFacts& memory, List& out) {
  if (memory.huge_pages == "never")
    out.push_back({"transparent huge pages are off",
                   "large weights and tensors then miss the TLB: their first use takes longer, and so do copies",
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"});
  if (memory.available && *memory.available < uint64_t{1} << 30)
    out.push_back({fmt::format("{} MiB of memory are free", *memory.available >> 20),
                   "weights that were mapped are read from the disk again when memory runs short",
                   "end what holds memory, or tenon compile MODEL.pt2: packed weights are then mapped, and shared by all processes"});
  if (memory.limit && memory.used && *memory.limit - std::min(*memory.limit, *memory.used) < uint64_t{1} << 29)
    out.push_back({fmt::format("the control group has {} MiB left of {}", (*memory.limit - std::min(*memory.limit, *memory.used)) >> 20,
                               *memory.limit >> 20),
                   "the process is ended where it needs more", "a higher limit (memory.max of the group, docker run --memory)"});
  if (memory.swap_used.value_or(0) > uint64_t{1} << 28)
    out.push_back({fmt::format("{} MiB are swapped out", *memory.swap_used >> 20), "what was swapped out comes back page by page",
                   "swapoff -a where memory suffices; vm.swappiness in /etc/sysctl.conf"});
}

void about_nodes(const std::vector<NumaNode>& nodes, List& out) {
  auto with_cpus = std::ranges::count_if(nodes, [](auto& n) { return !n.cpus.empty(); });
  if (with_cpus > 1)
    out.push_back({fmt::format("memory is in {} NUMA nodes", with_cpus),
                   "a thread reads the memory of another node more slowly, and weights lie in one",
                   "a process for each node: numactl --cpunodebind=N --membind=N tenon run MODEL.tenon"});
}

void about_code(const MachineFacts& facts, const Host& host, List& out) {
  if (host.isa.empty())
    out.push_back({"tenon generates no code for this CPU", host.refused,
                   "--interpret runs programs slowly; a CPU with AVX2, of 2013 or later, runs them natively"});
  if (facts.cpu.has_amx && std::ranges::find(host.extensions, "amx-bf16") == host.extensions.end() && !host.isa.empty())
    out.push_back({"the CPU has tile registers (AMX), the system does not let processes use them",
                   "products of bf16 and of 8-bit integers take several times longer",
                   "Linux 5.16 or later, and a virtual machine that is given AMX"});
}

void about_variables(const std::vector<std::string>& variables, List& out) {
  for (const std::string& v : variables)
    if (v == "TENON_VERIFY" || v == "TENON_DUMP" || v == "TENON_AVX2" || v == "TENON_TIMING" || v == "TENON_PREBUILT")
      out.push_back({v + " is set",
                     v == "TENON_AVX2" ? "library steps take the code for AVX2" : "compiling takes longer: it is for finding defects",
                     "unset " + v});
}

} // namespace

std::vector<Advice> advice_for(const MachineFacts& facts, const Host& host, const std::vector<HostSpeed>& speeds,
                               const std::vector<std::string>& variables) {
  List out;
  about_code(facts, host, out);
  about_quota(facts.cpu, out);
  about_threads(facts.cpu, speeds, out);
  about_caches(speeds, out);
  about_clocks(facts.cpu, out);
  about_nodes(facts.nodes, out);
  about_memory(facts.memory, out);
  about_variables(variables, out);
  return out;
}

} // namespace tenon::cli
