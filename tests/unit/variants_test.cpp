// Plans for exact sizes, and for some of them: the same results as the plan for all sizes, one state, bounds, and what is given back.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cli/compare.h"
#include "compile/specialize.h"
#include "tests/unit/graph_harness.h"
#include "variants/variants.h"

namespace tenon::variants_test {

#if defined(__SANITIZE_THREAD__)
#define TSAN // it starts no threads in the child of a process that had some
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

#if defined(TSAN) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

using namespace tenon::test;

namespace {

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> out;
  for (const Tensor& t : tensors) out.push_back(t.view());
  return out;
}

/// x [s0, s1, 24] times weights, summed over s1; counts its calls.
TestGraph counting_layer() {
  TestGraph g;
  Expr s = g.symbol("s0"), t = g.symbol("s1");
  V x = g.input({s, t, g.b.integer(24)});
  V w = g.buffer("w", filled(DType::F32, {24, 512}, [](int64_t i) { return 0.01 * static_cast<double>(i % 37) - 0.2; }));
  V count = g.buffer("count", counting(DType::F32, {1}));
  V y = g.b.call1("aten::relu.default", {g.b.matmul(x, w)});
  g.mutates("count", count + 1.0);
  g.returns(g.b.sum(y, {1}, false));
  g.returns(count + 1.0);
  return g;
}

Tensor sized(int64_t s, int64_t t) {
  return filled(DType::F32, {s, t, 24}, [](int64_t i) { return std::sin(static_cast<double>(i)); });
}

const Options by_hand{.threads = 2, .specialization = {.in_background = false}};
/// Plans are made as soon as they may be, whatever they take.
const Options at_once{.threads = 2, .specialization = {.compile_share = 1e9}};

size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

TEST_CASE("variants: symbols that sizes give") {
  TestGraph g;
  Expr s = g.symbol("s0"), t = g.symbol("s1");
  g.input({s, t * 3.0 + 1.0}), g.input({s * t});
  g.input({4});
  std::vector<int64_t> sizes{5, 22, 35, 4}, uneven{5, 23, 35, 4}, other{5, 22, 36, 4}, few{5, 22}, any_first{-1, 22, -1, 4},
      not_enough{-1, -1, 35, 4};
  CHECK(symbols_of(g.p, sizes) == std::map<std::string, int64_t>{{"s0", 5}, {"s1", 7}});
  for (auto* wrong : {&uneven, &other, &few, &not_enough}) CHECK_THROWS_AS(symbols_of(g.p, *wrong), Error);
  CHECK(symbols_of(g.p, any_first) == std::map<std::string, int64_t>{{"s1", 7}});
}

TEST_CASE("variants: fixtures at exact sizes, with the weights of the plan for all sizes") {
  int checked = 0;
  for (const char* folder : {"programs", "control", "quantized", "operators"})
    for (auto& file : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + "/" + folder)) {
      if (file.path().extension() != ".pt2") continue;
      CAPTURE(file.path().string());
      Program program = Program::load(file.path().string()).value();
      auto inputs = program.example_inputs();
      if (!inputs) continue;
      Executable generic = program.compile(by_hand).value(), exact = program.compile(by_hand).value();
      Status status = exact.specialize(views_of(inputs.value()));
      if (!status.ok()) {
        CHECK(status.error().kind == ErrorKind::Unsupported); // no sizes that vary
        continue;
      }
      REQUIRE(exact.variants().size() == 2);
      std::vector<Tensor> want = run(generic, inputs.value()), got = run(exact, program.example_inputs().value()); // some change theirs
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); i++) CHECK(cli::compare(got[i], want[i], {}) == "");
      CHECK(exact.variants()[1].calls == 1);
      checked++;
    }
  CHECK(checked > 5);
}

TEST_CASE("variants: one state, whichever plan serves; other sizes go on") {
  Executable exe = counting_layer().program().compile(by_hand).value();
  Executable oracle = counting_layer().program().compile({.interpret = true}).value();
  exe.specialize(views_of({sized(3, 5)})).check();
  exe.specialize(views_of({sized(0, 5)})).check();
  std::mt19937 random(1);
  for (int i = 0; i < 40; i++) {
    Tensor x = sized(random() % 2 ? 3 : 0, random() % 2 ? 5 : 7);
    auto got = run(exe, {x}), want = run(oracle, {x});
    for (size_t k = 0; k < want.size(); k++) CHECK(difference(got[k], want[k]) == "");
  }
  CHECK(numbers(exe.state().at(0).tensor) == std::vector<double>{40});
  uint64_t calls = 0, exact = 0;
  std::vector<VariantInfo> all = exe.variants();
  REQUIRE(all.size() == 3);
  for (const VariantInfo& v : all) calls += v.calls, exact += v.guard.empty() ? 0 : v.calls;
  CHECK(calls == 40);
  CHECK(exact > 5);
  CHECK(exact < 35);
  CHECK(all[1].guard == "s0 = 3, s1 = 5");
  CHECK(exe.explain().find("plan for s0 = 3, s1 = 5") != std::string::npos);
  Executable copied = exe.copy(); // with plans of its own
  CHECK(copied.variants().size() == 1);
  copied.specialize(views_of({sized(3, 5)})).check();
  CHECK(numbers(run(copied, {sized(3, 5)})[1]) == std::vector<double>{41});
  CHECK(numbers(exe.state().at(0).tensor) == std::vector<double>{40});
}

TEST_CASE("variants: what is refused") {
  Program program = counting_layer().program();
  auto refused = [&](const Options& options, const std::vector<Tensor>& inputs) {
    Status status = program.compile(options).value().specialize(views_of(inputs));
    REQUIRE_FALSE(status.ok());
    return std::string(status.error().what());
  };
  CHECK(refused({.specialization = {.most = 0}}, {sized(3, 5)}).find("Specialization::most is 0") != std::string::npos);
  CHECK(refused({.specialization = {.most_bytes = 1}}, {sized(3, 5)}).find("most_bytes is 1") != std::string::npos);
  CHECK(refused({}, {counting(DType::F32, {3, 5, 25})}).find("must be 24") != std::string::npos);
  CHECK(refused({}, {}).find("0 inputs are given") != std::string::npos);
  CHECK(refused({.interpret = true}, {sized(3, 5)}).find("is interpreted") != std::string::npos);
  TestGraph fixed;
  fixed.returns(fixed.input({3}) + 1.0);
  CHECK(fixed.program().compile().value().specialize(views_of({counting(DType::F32, {3})})).error().kind == ErrorKind::Unsupported);
  // The plan that was there stays.
  Executable exe = program.compile(by_hand).value();
  exe.specialize(views_of({sized(3, 5)})).check();
  CHECK_FALSE(exe.specialize(views_of({counting(DType::F32, {3, 5, 25})})).ok());
  CHECK(exe.variants().size() == 2);
}

TEST_CASE("variants: bounded in number, and weights are not packed again") {
  Options options = by_hand;
  options.specialization.most = 3;
  Executable exe = counting_layer().program().compile(options).value();
  for (int64_t n = 1; n < 9; n++) {
    exe.specialize(views_of({sized(n, 4)})).check();
    CHECK(exe.variants().size() == static_cast<size_t>(std::min<int64_t>(n, 3) + 1));
    CHECK(exe.variants().back().bytes < 24 * 512 * 4); // the weights alone
  }
  exe.specialize(views_of({sized(8, 4)})).check(); // in place of the one that is there
  CHECK(exe.variants().size() == 4);
}

TEST_CASE("variants: memory comes back with those that make room") {
  Options options = by_hand;
  options.specialization.most = 2;
  Executable exe = counting_layer().program().compile(options).value();
  size_t resident = 0;
  for (int round = 0; round < 1000; round++) {
    int64_t n = round % 50;
    exe.specialize(views_of({sized(n, 4)})).check();
    run(exe, {sized(n, 4)});
    if (round == 10) resident = resident_bytes();
  }
  bool is_as_before = resident_bytes() < resident + (size_t{4} << 20);
#if defined(SANITIZED) // they keep what was freed
  is_as_before = true;
#endif
  CHECK(is_as_before);
}

TEST_CASE("variants: made in the background for sizes that come often") {
  Executable exe = counting_layer().program().compile(at_once).value();
  Executable oracle = counting_layer().program().compile({.interpret = true}).value();
  Tensor often = sized(9, 40), seldom = sized(2, 3);
  std::vector<Tensor> want = run(oracle, {often});
  bool made = false;
  for (int i = 0; i < 20000 && !made; i++) {
    CHECK(difference(run(exe, {often})[0], want[0], 1e-3) == "");
    if (i % 50 == 0) run(exe, {seldom});
    made = exe.variants().size() > 1;
  }
  CHECK(made);
  exe.wait().check();
  CHECK(difference(run(exe, {often})[0], want[0], 1e-3) == "");
  Options off = at_once;
  off.specialization.in_background = false;
  Executable plain = counting_layer().program().compile(off).value();
  for (int i = 0; i < 2000; i++) run(plain, {often});
  plain.wait().check();
  CHECK(plain.variants().size() == 1);
}

TEST_CASE("variants: few calls are enough where each takes much longer than a plan to make") {
  TestGraph g;
  Expr n = g.symbol("s0", 1), window = g.symbol("s1", 1);
  V x = g.input({g.b.integer(1), n, g.b.integer(64), g.b.integer(64)}), weight = g.input({g.b.integer(64), n, window, window});
  g.returns(g.b.call1("aten::convolution.default", {x, weight, Arg(), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1}));
  Program program = g.program();
  auto wave = [](int64_t i) { return std::cos(static_cast<double>(i % 8191)); };
  std::vector<Tensor> in{filled(DType::F32, {1, 128, 64, 64}, wave), filled(DType::F32, {64, 128, 3, 3}, wave)};
  Executable exe = program.compile({}).value(), exact = program.compile({}).value();
  exact.specialize(views_of(in)).check();
  Tensor want = run(exact, in)[0];
  int calls = 0;
  while (calls < 15 && exe.variants().size() == 1) {
    CHECK(difference(run(exe, in)[0], want, 1e-3) == "");
    exe.wait().check();
    calls++;
  }
  CHECK(exe.variants().size() == 2);
  CHECK(difference(run(exe, in)[0], want, 1e-3) == "");
}

TEST_CASE("variants: a guard fixes the sizes that code depends on, others are any") {
  TestGraph g;
  Expr rows = g.symbol("s0"), columns = g.symbol("s1");
  V x = g.input({rows, columns}), scale = g.input({columns});
  V sums = g.b.sum(x * scale, {1}, true);
  g.returns(x / (sums * sums + 1.0));
  Program program = g.program();
  Executable exe = program.compile(at_once).value(), oracle = program.compile({.interpret = true}).value();
  auto inputs = [](int64_t m, int64_t n) {
    auto wave = [](int64_t i) { return std::cos(static_cast<double>(i)); };
    return std::vector{filled(DType::F32, {m, n}, wave), filled(DType::F32, {n}, wave)};
  };
  auto check = [&](int64_t m, int64_t n) {
    std::vector<Tensor> in = inputs(m, n);
    CAPTURE(m);
    CAPTURE(n);
    CHECK(difference(run(exe, in)[0], run(oracle, in)[0], 1e-4) == "");
  };
  auto calls_of = [&](const std::string& guard) {
    uint64_t calls = 0;
    for (const VariantInfo& v : exe.variants()) calls += v.guard == guard ? v.calls : 0;
    return calls;
  };
  std::mt19937 random(3);
  for (int i = 0; i < 20000 && calls_of("s1 = 3") == 0; i++) {
    std::vector<Tensor> in = inputs(random() % 300, i % 10 ? 3 : random() % 40);
    run(exe, in);
    if (i % 20 == 0) exe.wait().check();
  }
  CHECK(calls_of("s1 = 3") > 0);
  for (int64_t m : {0, 1, 2, 17, 255, 256, 1025}) check(m, 3), check(m, 4), check(3, m);
  exe.specialize(views_of(inputs(1025, 3))).check();
  uint64_t before = calls_of("s1 = 3");
  check(1025, 3);
  CHECK(calls_of("s0 = 1025, s1 = 3") == 1); // the one that fixes more
  CHECK(calls_of("s1 = 3") == before);
}

TEST_CASE("variants: bound calls change over") {
  Executable exe = counting_layer().program().compile(by_hand).value();
  Tensor x = sized(3, 5);
  std::vector<Tensor> want = run(exe, {x}), results{Tensor(DType::F32, {3, 512}), Tensor(DType::F32, {1})};
  BoundCall call = exe.bind(views_of({x}), views_of(results)).value();
  call.run().check();
  exe.specialize(views_of({x})).check();
  for (int i = 0; i < 300; i++) call.run().check();
  CHECK(difference(results[0], want[0]) == "");
  CHECK(numbers(results[1]) == std::vector<double>{302});
  CHECK(exe.variants().at(1).calls > 100);
  for (int64_t n = 1; n < 20; n++) exe.specialize(views_of({sized(n, 6)})).check(); // its plan makes room for others
  for (int i = 0; i < 300; i++) call.run().check();
  CHECK(difference(results[0], want[0]) == "");
  CHECK(numbers(results[1]) == std::vector<double>{602});
}

TEST_CASE("variants: many threads call while plans come and go") {
  Options options = at_once;
  options.specialization.most = 2;
  Program program = counting_layer().program();
  Executable exe = program.compile(options).value(), oracle = program.compile({.interpret = true}).value();
  std::vector<Tensor> inputs, want;
  for (int64_t n = 0; n < 6; n++) inputs.push_back(sized(n, 5)), want.push_back(run(oracle, {inputs.back()})[0]);
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; t++)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 300; i++) {
        size_t n = random() % inputs.size();
        std::vector<Tensor> out;
        if (t == 0 && i % 30 == 0 && !exe.specialize(views_of({inputs[n]})).ok()) wrong++;
        if (t == 1 && i % 10 == 0) wrong += exe.variants().empty();
        if (!exe.run(std::vector{inputs[n]}, out).ok() || !difference(out[0], want[n], 1e-3).empty()) wrong++;
        calls++;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(numbers(exe.state().at(0).tensor) == std::vector<double>{static_cast<double>(calls)});
}

TEST_CASE("variants: destroyed, or in a process that forks, while plans are made") {
  Program program = counting_layer().program();
  Tensor x = sized(9, 40);
  for (int round = 0; round < 8; round++) {
    Executable exe = program.compile(at_once).value();
    for (int i = 0; i < 40 + 10 * round; i++) run(exe, {x});
  }
#if !defined(TSAN)
  for (int round = 0; round < 4; round++) {
    Executable exe = program.compile(at_once).value();
    std::vector<Tensor> want;
    for (int i = 0; i < 40; i++) want = run(exe, {x});
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      bool right = true;
      for (int i = 0; i < 100; i++) right = right && difference(run(exe, {x})[0], want[0], 1e-3).empty();
      exe.wait().check();
      _exit(right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK(difference(run(exe, {x})[0], want[0], 1e-3) == "");
  }
#endif
}

TEST_CASE("variants: of few long calls, no sizes come often by chance") {
  constexpr double call_ns = 8e7;
  std::mt19937 random(3);
  SizeHistogram varied, some;
  double most = 0, least = 1;
  for (int i = 0; i < 4000; i++) {
    int64_t any = static_cast<int64_t>(random() % 250), one = random() % 8 == 0 ? 1000 : any;
    CallTimes call{.calls = 1, .timed = 1, .ns = call_ns, .work = 1};
    varied.add(std::span(&any, 1), call, false);
    some.add(std::span(&one, 1), call, false);
    if (i < 500) continue;
    for (const SizeUse& e : varied.entries()) most = std::max(most, e.heat / varied.heat());
    constexpr int64_t often = 1000;
    least = std::min(least, some.find(std::span(&often, 1))->heat / some.heat());
  }
  CHECK(most < 0.05); // what a plan is made for
  CHECK(least > 0.05);
}

} // namespace tenon::variants_test
