// Whole programs from hostile bytes: mutated fixtures are loaded, compiled and run. Whatever the bytes, that gives a result or
// a tenon::Error; a crash, a hang or memory without bound ends the process, and the last line tells the seed.
//
//   program_fuzz FOLDER SECONDS [FIRST_SEED [COUNT]]
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <fmt/core.h>

#include "load/npz.h"
#include "tenon/tenon.h"
#include "tests/fuzz/mutate.h"

namespace fs = std::filesystem;
using namespace tenon;

namespace {

struct Sample {
  std::string name, bytes;
  std::vector<Tensor> inputs;
};

uint32_t current_seed = 0;

void report(int signal) { // async-signal-safe as far as a dying process needs
  char line[64];
  int n = std::snprintf(line, sizeof line, "signal %d at seed %u\n", signal, current_seed);
  if (write(2, line, static_cast<size_t>(n)) < 0) _exit(3);
  _exit(2);
}

std::vector<Sample> read_samples(const std::string& folder) {
  std::vector<Sample> out;
  for (auto& e : fs::directory_iterator(folder)) {
    if (e.path().extension() != ".pt2") continue;
    std::ifstream in(e.path(), std::ios::binary);
    Sample s{e.path().stem().string(), {std::istreambuf_iterator<char>(in), {}}, {}};
    std::string inputs = e.path().string();
    inputs.replace(inputs.size() - 4, 4, ".inputs.npz");
    if (fs::exists(inputs))
      for (auto& a : read_npz(inputs, NpyU2::AsBF16)) s.inputs.push_back(a.tensor);
    out.push_back(std::move(s));
  }
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return out;
}

// What became of the bytes: "run", or the stage and kind of its error.
std::string outcome(const std::string& bytes, const std::vector<Tensor>& inputs, bool interpret) {
  auto error = [](std::string_view stage, const Error& e) {
    if (e.kind == ErrorKind::Internal)
      fmt::print("seed {}: {}: internal error: {}\n", current_seed, stage, std::string_view(e.what()).substr(0, 300));
    return fmt::format("{} {}", stage,
                       e.kind == ErrorKind::BadInput      ? "bad input"
                       : e.kind == ErrorKind::Unsupported ? "unsupported"
                                                          : "internal");
  };
  auto program = Program::load(std::as_bytes(std::span(bytes)), "mutated");
  if (!program) return error("load", program.error());
  if (!program.value().unsupported().empty()) return "load unsupported";
  auto exe = program.value().compile({.threads = 1, .interpret = interpret});
  if (!exe) return error("compile", exe.error());
  std::vector<Tensor> out;
  Status s = exe.value().run(inputs, out);
  return s.ok() ? "run" : error("run", s.error());
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("program_fuzz FOLDER SECONDS [FIRST_SEED [COUNT]]"), 1;
#ifndef TENON_SANITIZED
  rlimit memory{size_t{8} << 30, size_t{8} << 30}; // a refused allocation is an Error
  setrlimit(RLIMIT_AS, &memory);
#endif
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM, SIGILL}) signal(s, report);
  std::vector<Sample> samples = read_samples(argv[1]);
  double seconds = std::atof(argv[2]);
  auto first = static_cast<uint32_t>(argc > 3 ? std::atoi(argv[3]) : 1),
       count = static_cast<uint32_t>(argc > 4 ? std::atoi(argv[4]) : INT32_MAX);
  std::map<std::string, int> outcomes;
  auto start = std::chrono::steady_clock::now();
  uint32_t seed = first;
  for (; seed - first < count && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; seed++) {
    current_seed = seed;
    fuzz::Random random(seed);
    const Sample& s = samples[fuzz::below(random, samples.size())];
    alarm(60);
    outcomes[outcome(fuzz::mutated(s.bytes, random), s.inputs, seed % 2 == 0)]++;
  }
  for (auto& [what, n] : outcomes) fmt::print("{:6} {}\n", n, what);
  fmt::print("{} programs, seeds {} to {}\n", seed - first, first, seed - 1);
  int internal = 0;
  for (auto& [what, n] : outcomes) internal += what.ends_with("internal") ? n : 0;
  return internal > 0;
}
