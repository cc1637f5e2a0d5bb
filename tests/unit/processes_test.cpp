// Threads and processes: how many cores there are for a process, and what becomes of its threads where it forks.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/cores.h"
#include "runtime/parallel.h"
#include "tests/unit/graph_harness.h"

namespace tenon::processes_test {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN // it starts no threads in the child of a process that had some
#endif
#endif

using namespace tenon::test;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// Whether every iteration of a loop, and every part of a series in its order, runs once.
[[maybe_unused]] bool works(const Workers& workers) {
  std::vector<std::atomic<int>> seen(997);
  workers.run(997, 3, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) seen[static_cast<size_t>(i)]++;
  });
  int parts = std::min(2, workers.threads());
  std::atomic<int64_t> sum{0}, wrong{0};
  workers.run_series(50, parts, [&](int64_t phase, int, int) {
    if (sum / parts < phase) wrong++;
    sum++;
  });
  return std::all_of(seen.begin(), seen.end(), [](auto& n) { return n == 1; }) && wrong == 0;
}

[[maybe_unused]] bool in_child(const std::function<bool()>& f) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(f() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

TEST_CASE("cores: the affinity of the thread counts") {
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  std::thread([&] {
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(usable_cores() == 1);
    CHECK(Workers(0).threads() == 1);
    CHECK(works(Workers(3)));
  }).join();
  CHECK(usable_cores() <= CPU_COUNT(&all));
}

TEST_CASE("cores: quotas of cgroups") {
  fs::path root = fs::temp_directory_path() / ("tenon-cgroup-" + std::to_string(getpid()));
  auto quota = [&] { return cgroup_quota(root.string()); };
  auto start = [&](const std::string& groups) {
    fs::remove_all(root);
    write(root / "proc/self/cgroup", groups);
  };
  constexpr double none = std::numeric_limits<double>::infinity();
  fs::remove_all(root);
  CHECK(quota() == none);
  // v2: the least on the way to the root
  start("0::/a/b\n");
  CHECK(quota() == none);
  write(root / "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK(quota() == none);
  write(root / "sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  CHECK(quota() == 2.5);
  write(root / "sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  CHECK(quota() == 0.5);
  // In a container
  start("0::/\n");
  write(root / "sys/fs/cgroup/cpu.max", "300000 100000\n");
  CHECK(quota() == 3);
  // v1, with its own mount or one shared, the path there or not
  start("4:memory:/x\n3:cpu,cpuacct:/docker/x\n2:cpuset:/\n");
  write(root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write(root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(quota() == none);
  write(root / "sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "150000\n");
  write(root / "sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  CHECK(quota() == 1.5);
  // Nonsense
  start("no cgroup\n:\n::\n0::\n1:cpu:nowhere\n");
  write(root / "sys/fs/cgroup/cpu.max", "many 0\n");
  CHECK(quota() == none);
  fs::remove_all(root);
}

#ifndef TSAN
TEST_CASE("forks: the child goes on, and its parent") {
  Program program = Program::load(std::string(TENON_FIXTURES) + "/programs/encoder_block.pt2").value();
  std::vector<Tensor> inputs = program.example_inputs().value();
  Options options{.threads = 3};
  auto exe = std::make_unique<Executable>(program.compile(options).value());
  std::vector<Tensor> want = run(*exe, inputs);
  auto right = [&](const Executable& e) {
    std::vector<Tensor> got = run(e, inputs);
    for (size_t i = 0; i < want.size(); i++)
      if (numbers(got.at(i)) != numbers(want[i])) return false;
    return true;
  };
  for (int i = 0; i < 3; i++) {
    Workers workers(3);
    CHECK(works(workers)); // threads are awake
    CHECK(in_child([&] {
      bool ok = works(workers) && right(*exe) && right(program.compile(options).value());
      ok = ok && in_child([&] { return works(workers) && right(*exe); });
      exe = nullptr;
      return ok && works(Workers(3));
    }));
    CHECK(works(workers));
    CHECK(right(*exe));
  }
}
#endif

} // namespace tenon::processes_test
