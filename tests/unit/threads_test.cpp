// One Program, many threads: each compiles, dumps, transforms, explains and runs, and all get the same. Under TSan in the slow suite.
#include <doctest/doctest.h>

#include <thread>

#include "tests/unit/graph_harness.h"

namespace tenon::threads_test {
using namespace tenon::test;

namespace {

std::string fixture(const std::string& name) { return std::string(TENON_FIXTURES) + "/programs/" + name + ".pt2"; }

void in_threads(int threads, const std::function<void(int)>& f) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; t++) all.emplace_back(f, t);
  for (auto& t : all) t.join();
}

bool same(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance = 0) {
  for (size_t i = 0; i < want.size(); i++) {
    std::vector<double> a = numbers(got.at(i)), b = numbers(want[i]);
    for (size_t k = 0; k < b.size(); k++)
      if (!(std::abs(a.at(k) - b[k]) <= tolerance * (1 + std::abs(b[k]))) && !(std::isnan(a[k]) && std::isnan(b[k]))) return false;
  }
  return got.size() == want.size();
}

// doctest's macros are not made for many threads: these count.
struct Failures {
  std::atomic<int> count{0};
  void expect(bool holds) { count += !holds; }
};

} // namespace

TEST_CASE("threads: one program is compiled, dumped, transformed and run at once") {
  for (const char* name : {"encoder_block", "shapes"}) {
    CAPTURE(name);
    Program program = Program::load(fixture(name)).value();
    std::vector<Tensor> inputs = program.example_inputs().value();
    auto compile_and_run = [&](const Program& p) { return run(p.compile().value(), inputs); };
    std::vector<Tensor> want = compile_and_run(program);
    std::string backend = program.dump("backend").value(), loops = program.dump("loops").value();
    Failures failures;
    in_threads(4, [&](int t) {
      for (int round = 0; round < 3; round++) {
        switch ((t + round) % 4) {
        case 0: failures.expect(same(compile_and_run(program), want)); break;
        case 1: failures.expect(program.dump("backend").value() == backend && program.dump("loops").value() == loops); break;
        case 2: {
          Program same_again = program.transform([](const std::string& graph) { return graph; }).value();
          failures.expect(same(compile_and_run(same_again), want));
          break;
        }
        default: failures.expect(same(run(program.compile({.interpret = true}).value(), inputs), want, 1e-4));
        }
      }
    });
    CHECK(failures.count == 0);
    // Nothing piles up: the same text as in the beginning, fresh symbols included.
    CHECK(program.dump("backend").value() == backend);
    CHECK(program.dump("loops").value() == loops);
  }
}

TEST_CASE("threads: one executable is run by many, with sizes of their own") {
  Program program = Program::load(fixture("encoder_block")).value();
  Executable native = program.compile().value();
  std::vector<Tensor> example = program.example_inputs().value();
  std::vector<Tensor> want = run(native, example);
  Failures failures;
  in_threads(16, [&](int t) {
    for (int round = 0; round < 20; round++) {
      if (t % 2 == 0) failures.expect(same(run(native, example), want));
      else failures.expect(!native.explain().empty() && native.stats().steps > 0);
    }
  });
  CHECK(failures.count == 0);
}

TEST_CASE("threads: executables of one program are compiled and run at once") {
  Program program = Program::load(fixture("encoder_block")).value();
  std::vector<Tensor> example = program.example_inputs().value();
  std::vector<Tensor> want = run(program.compile({.threads = 3}).value(), example);
  Failures failures;
  in_threads(8, [&](int) { failures.expect(same(run(program.compile({.threads = 3}).value(), example), want)); });
  CHECK(failures.count == 0);
  std::vector<Executable> all;
  for (int i = 0; i < 16; i++) all.push_back(program.compile({.threads = 1 + i % 3}).value());
  in_threads(16, [&](int t) {
    for (int round = 0; round < 10; round++) failures.expect(same(run(all[static_cast<size_t>(t)], example), want));
  });
  CHECK(failures.count == 0);
}

} // namespace tenon::threads_test
