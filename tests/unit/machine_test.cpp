// What files of /proc and /sys say of a machine, and what is advised for it.
#include "base/machine.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/advice.h"

namespace tenon::machine_test {

namespace fs = std::filesystem;

namespace {

/// A folder with files as the kernel has them.
struct Root {
  std::string path = fs::temp_directory_path() / ("tenon_machine_" + std::to_string(::getpid()));
  Root() { fs::remove_all(path), fs::create_directories(path); }
  ~Root() { fs::remove_all(path); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(path + file).parent_path());
    std::ofstream(path + file) << text;
  }
};

bool says(const std::vector<cli::Advice>& advice, std::string_view what) {
  for (auto& a : advice)
    if (a.what.find(what) != a.what.npos) return !a.why.empty() && !a.how.empty();
  return false;
}

} // namespace

TEST_CASE("a machine of which nothing is to be read") {
  Root root;
  MachineFacts facts = machine_facts(root.path);
  CHECK(facts.cpu.model.empty());
  CHECK(facts.cpu.online == 0);
  CHECK(facts.cpu.allowed > 0); // of this process
  CHECK(!facts.cpu.quota);
  CHECK(!facts.cpu.boost);
  CHECK(!facts.memory.total);
  CHECK(!facts.memory.limit);
  CHECK(facts.nodes.empty());
  CHECK(cli::advice_for(facts, {.isa = "avx2"}, {}, {}).empty());
}

TEST_CASE("a server in a container, with all that is in the way") {
  Root root;
  root.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU: fast\nflags\t\t: fpu amx_tile hypervisor\n\nprocessor\t: 1\n"
                              "model name\t: A CPU: fast\nflags\t\t: fpu amx_tile hypervisor\n");
  root.write("/proc/meminfo",
             "MemTotal:       16000000 kB\nMemFree:   1000 kB\nMemAvailable:     500000 kB\nSwapTotal: 2000000 kB\nSwapFree: 1000 kB\n");
  root.write("/proc/loadavg", "200.50 1.00 1.00 2/300 4000\n");
  root.write("/proc/self/cgroup", "0::/job\n");
  root.write("/sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  root.write("/sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 7\nthrottled_usec 9\n");
  root.write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  root.write("/sys/fs/cgroup/job/memory.current", "1000000000\n");
  root.write("/sys/fs/cgroup/memory.max", "max\n");
  for (int i = 0; i < 256; i++) { // whichever this process runs on
    std::string cpu = "/sys/devices/system/cpu/cpu" + std::to_string(i);
    root.write(cpu + "/topology/thread_siblings_list", std::to_string(i / 2 * 2) + "-" + std::to_string(i / 2 * 2 + 1) + "\n");
    root.write(cpu + "/cpufreq/scaling_governor", "powersave\n");
  }
  root.write("/sys/devices/system/cpu/cpufreq/boost", "0\n");
  root.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  for (const char* node : {"0", "1"}) {
    root.write(std::string("/sys/devices/system/node/node") + node + "/cpulist", "0-7\n");
    root.write(std::string("/sys/devices/system/node/node") + node + "/meminfo",
               std::string("Node ") + node + " MemTotal:        8000000 kB\n");
  }
  MachineFacts facts = machine_facts(root.path);
  CHECK(facts.cpu.model == "A CPU: fast");
  CHECK(facts.cpu.online == 2);
  CHECK(facts.cpu.cores == 128);
  CHECK(facts.cpu.is_virtual);
  CHECK(facts.cpu.has_amx);
  CHECK(facts.cpu.quota == 0.5);
  CHECK(facts.cpu.throttled == 7);
  CHECK(facts.cpu.governors == std::vector<std::string>{"powersave"});
  CHECK(facts.cpu.boost == false);
  CHECK(facts.cpu.load == 200.5);
  CHECK(facts.memory.total == uint64_t{16000000} << 10);
  CHECK(facts.memory.available == uint64_t{500000} << 10);
  CHECK(facts.memory.limit == 1073741824);
  CHECK(facts.memory.used == 1000000000);
  CHECK(facts.memory.swap_used == uint64_t{1999000} << 10);
  CHECK(facts.memory.huge_pages == "never");
  REQUIRE(facts.nodes.size() == 2);
  CHECK(facts.nodes[1].bytes == uint64_t{8000000} << 10);
  auto advice = cli::advice_for(facts, {.isa = "avx512"}, {}, {"TENON_VERIFY", "TENON_PERF"});
  for (const char* what :
       {"pays for 0.50", "held up in 7 periods", "the load is 200.5", "governor of the clocks is powersave", "do not rise", "2 NUMA nodes",
        "huge pages are off", "488 MiB of memory are free", "70 MiB left", "swapped out", "AMX", "TENON_VERIFY is set"})
    CHECK_MESSAGE(says(advice, what), what);
  CHECK(!says(advice, "TENON_PERF"));
}

TEST_CASE("threads that share cores are told by what they do") {
  MachineFacts facts;
  facts.cpu.allowed = 8, facts.cpu.allowed_cores = 4, facts.cpu.load = 0.1;
  HostSpeed one{.threads = 1, .peaks = {{"f32", "f32_avx2", 100}}, .bytes_per_ns = 10};
  HostSpeed all{.threads = 8, .peaks = {{"f32", "f32_avx2", 400}}, .bytes_per_ns = 20, .handover_ns = 60};
  auto advice = cli::advice_for(facts, {.isa = "avx2"}, {one, all}, {});
  CHECK(says(advice, "4 of 8 CPUs are second threads"));
  CHECK(says(advice, "8 threads do 4.0 times the arithmetic of one"));
  facts.cpu.allowed_cores = 8, all.peaks[0].flops_per_ns = 760;
  CHECK(cli::advice_for(facts, {.isa = "avx2"}, {one, all}, {}).empty());
  all.handover_ns = 195;
  CHECK(says(cli::advice_for(facts, {.isa = "avx2"}, {one, all}, {}), "another sees 195 ns later"));
  CHECK(says(cli::advice_for(facts, {.refused = "this CPU lacks AVX2"}, {}, {}), "no code for this CPU"));
}

} // namespace tenon::machine_test
