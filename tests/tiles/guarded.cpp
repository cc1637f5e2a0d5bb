// Runs a program of bf16 or bytes where the process may not, or only under conditions, use the CPU's tile registers:
//   guarded refused|small_stack|foreign_threads|fork
// Results must be those of code without tile registers. Where the CPU has none, all modes run the same code.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>

#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/unit/graph_harness.h"

using namespace tenon;
using namespace tenon::test;

namespace {

// The request for tile registers fails as it does under a policy of the system.
bool refuse_requests() {
  constexpr uint32_t request = 0x1023;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// A stack for signals that has no room for tile registers: the system grants none to a process with such.
bool use_small_stack() {
  static char stack[8192];
  for (size_t size : {size_t{2048}, size_t{4096}, sizeof stack}) {
    stack_t s{};
    s.ss_sp = stack, s.ss_size = size;
    if (sigaltstack(&s, nullptr) == 0) return true;
  }
  return false;
}

std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs, Options options) {
  Executable exe = program.compile(options).value();
  std::vector<Tensor> out;
  for (int i = 0; i < 3; i++) exe.run(inputs, out).check();
  return out;
}

bool agree(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++)
    if (!difference(a[i], b[i], 1e-2).empty()) return false;
  return true;
}

Tensor mixed(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [&](int64_t i) {
    return is_int(t) ? static_cast<double>(i * 37 % 251 - (t == DType::I8 ? 125 : 0)) : static_cast<double>(i * 31 % 127 - 63) / 64;
  });
}

// Products of bf16 and of bytes, and convolutions of both.
Program narrow_program() {
  TestGraph g;
  V x = g.input({70, 96}, DType::BF16), q = g.input({2, 64, 9, 9}, DType::U8), y = g.input({2, 64, 9, 9}, DType::BF16);
  g.returns(g.b.call1("aten::relu.default", {g.b.call1("aten::mm.default", {x, g.b.constant(mixed(DType::BF16, {96, 80}))})}));
  g.returns(g.b.call1("aten::mm.default", {x, g.b.call1("aten::permute.default", {x, ArgList{1, 0}})}));
  g.returns(g.b.call1("aten::mm.dtype",
                      {g.b.reshape(q, {g.b.integer(162), g.b.integer(64)}), g.b.constant(mixed(DType::I8, {64, 33})), DType::I32}));
  ArgList one{1, 1}, none{0, 0};
  g.returns(g.b.call1("aten::convolution.dtype",
                      {q, g.b.constant(mixed(DType::I8, {40, 64, 3, 3})), Arg(), one, one, one, false, none, 1, DType::I32, 7}));
  g.returns(
      g.b.call1("aten::convolution.default", {y, g.b.constant(mixed(DType::BF16, {40, 64, 3, 3})), Arg(), one, one, one, false, none, 1}));
  return g.program();
}

bool in_child(const std::function<bool()>& f) {
  pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool check(const std::string& mode) {
  if (mode == "refused" && !refuse_requests()) return std::puts("skipped: no seccomp here") >= 0;
  if (mode == "small_stack" && !use_small_stack()) return std::puts("skipped: the system takes no small signal stack") >= 0;
  Program program = narrow_program();
  std::vector<Tensor> inputs{mixed(DType::BF16, {70, 96}), mixed(DType::U8, {2, 64, 9, 9}), mixed(DType::BF16, {2, 64, 9, 9})};
  std::vector<Tensor> want = run(program, inputs, {.threads = 1, .isa = Isa::Avx2});
  if (!agree(run(program, inputs, {.threads = 1}), want) || !agree(run(program, inputs, {.threads = 3}), want)) return false;
  if (mode == "fork") return in_child([&] { return agree(run(program, inputs, {.threads = 1}), want); });
  if (mode != "foreign_threads") return true;
  Executable shared = program.compile({.threads = 2}).value();
  bool ok[4] = {};
  std::vector<std::thread> threads;
  for (bool& one : ok)
    threads.emplace_back([&] {
      std::vector<Tensor> out;
      one = shared.run(inputs, out).ok() && agree(out, want);
    });
  for (auto& t : threads) t.join();
  return ok[0] && ok[1] && ok[2] && ok[3];
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    if (check(argv[1])) return 0;
    std::printf("%s: other results\n", argv[1]);
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", argv[1], e.what());
  }
  return 1;
}
