// Programs whose compile is not waited for: the interpreter serves until there is code.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/graph_harness.h"

namespace tenon::pending_test {

#if defined(__SANITIZE_THREAD__)
#define TSAN // it starts no threads in the child of a process that had some
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

using namespace tenon::test;

namespace {

const Options at_once{.threads = 2, .compile_budget_ms = 0};

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> out;
  for (const Tensor& t : tensors) out.push_back(t.view());
  return out;
}

/// Many kernels of little work, or one product of much.
TestGraph layers(int count, bool large = false) {
  TestGraph g;
  V x = g.input({g.symbol("s0"), g.b.integer(512)});
  V w = g.buffer("w", filled(DType::F32, {512, 512}, [](int64_t i) { return 0.01 * static_cast<double>(i % 37) - 0.2; }));
  for (int i = 0; i < count; i++) x = g.b.call1("aten::softmax.int", {x * (i + 0.5) + 0.25 * i, -1});
  g.returns(large ? g.b.matmul(x, w) : x);
  return g;
}

Tensor rows(int64_t n) {
  return filled(DType::F32, {n, 512}, [](int64_t i) { return std::sin(static_cast<double>(i)); });
}

} // namespace

TEST_CASE("pending: calls before, while and after there is code") {
  Program program = layers(12).program();
  Executable exe = program.compile(at_once).value(), oracle = program.compile({.interpret = true}).value();
  std::vector<Tensor> results{Tensor(DType::F32, {3, 512})};
  Tensor want = run(oracle, {rows(3)})[0];
  bool was_compiling = exe.stats().is_compiling;
  for (int i = 0; i < 50; i++) {
    CHECK(difference(run(exe, {rows(3)})[0], want) == "");
    exe.run(views_of({rows(3)}), views_of(results)).check();
    CHECK(difference(results[0], want) == "");
    std::vector<Tensor> none;
    CHECK(std::string(exe.run(std::vector{counting(DType::F32, {3, 511})}, none).error().what()).find("512") != std::string::npos);
  }
  CHECK(was_compiling);
  exe.wait().check();
  CHECK_FALSE(exe.stats().is_compiling);
  CHECK(exe.stats().kernels_compiled > 0);
  CHECK(difference(run(exe, {rows(3)})[0], want) == "");
  CHECK(difference(run(exe, {rows(0)})[0], run(oracle, {rows(0)})[0]) == "");
  CHECK(program.compile({.compile_budget_ms = 1e9}).value().stats().kernels_compiled > 0); // it was waited for
}

TEST_CASE("pending: a call that would take long starts again in the code") {
  Program program = layers(1, true).program();
  for (int64_t n : {300, 2000}) { // the interpreter would take seconds, and minutes
    Executable exe = program.compile(at_once).value();
    Tensor got = run(exe, {rows(n)})[0];
    CHECK(exe.stats().kernels_compiled > 0);
    CHECK(difference(got, run(program.compile({.threads = 2}).value(), {rows(n)})[0]) == "");
  }
}

TEST_CASE("pending: what else is asked of the executable waits") {
  Program program = layers(6).program();
  auto fresh = [&] { return program.compile(at_once).value(); };
  Tensor want = run(program.compile().value(), {rows(2)})[0];
  std::vector<Tensor> results{Tensor(DType::F32, {2, 512})};
  Tensor x = rows(2);
  CHECK(difference(run(fresh().copy(), {x})[0], want) == "");
  CHECK(fresh().explain().find("kernel") != std::string::npos);
  CHECK(fresh().variants().size() == 1);
  CHECK(fresh().specialize(views_of({x})).ok());
  CHECK(fresh().memory_formula());
  CHECK(fresh().memory(views_of({x})));
  CHECK(fresh().bind(views_of({x}), views_of(results)).value().run().ok());
  CHECK(difference(results[0], want) == "");
}

TEST_CASE("pending: state, errors of compiling, and executables that go while they are made") {
  TestGraph g;
  V x = g.input({3}), count = g.buffer("count", counting(DType::F32, {1}));
  g.mutates("count", count + 1.0);
  g.returns(x + count);
  Executable counted = g.program().compile(at_once).value();
  run(counted, {counting(DType::F32, {3})});
  CHECK(numbers(counted.state().at(0).tensor) == std::vector<double>{1});

  for (int i = 0; i < 20; i++) {
    Executable exe = layers(8).program().compile(at_once).value();
    if (i % 2) run(exe, {rows(1)});
  }
  TestGraph unknown; // nothing gives the size
  V y = unknown.input({4});
  unknown.returns(unknown.b.call1("aten::mul.Scalar", {y, Arg(unknown.symbol("s9"))}));
  auto direct = unknown.program().compile();
  REQUIRE_FALSE(direct);
  Executable exe = unknown.program().compile(at_once).value();
  CHECK(std::string(exe.wait().error().what()) == direct.error().what());
  std::vector<Tensor> out;
  CHECK(std::string(exe.run(std::vector{counting(DType::F32, {4})}, out).error().what()) == direct.error().what());
  CHECK(exe.explain().find("not compiled") == 0);
  CHECK(exe.state().empty());
  CHECK_FALSE(exe.copy().wait().ok());
}

TEST_CASE("pending: many threads call at once; a process forks") {
  Program program = layers(12).program();
  Tensor want = run(program.compile().value(), {rows(3)})[0];
  for (int round = 0; round < 3; round++) {
    Executable exe = program.compile(at_once).value();
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 30; i++) {
          std::vector<Tensor> out;
          if (!exe.run(std::vector{rows(3)}, out).ok() || !difference(out[0], want).empty()) wrong++;
        }
      });
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
  }
#if !defined(TSAN)
  for (int round = 0; round < 3; round++) {
    Executable exe = program.compile(at_once).value();
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      bool right = difference(run(exe, {rows(3)})[0], want).empty() && exe.wait().ok() && !exe.stats().is_compiling;
      _exit(right && difference(run(exe, {rows(3)})[0], want).empty() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK(difference(run(exe, {rows(3)})[0], want) == "");
    exe.wait().check();
  }
#endif
}

} // namespace tenon::pending_test
