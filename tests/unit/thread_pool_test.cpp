// Where threads come from: pools, budgets, a host's arena, calls inside of calls. Forks are in processes_test.cpp.
#include <doctest/doctest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <mutex>
#include <set>
#include <thread>

#include "base/cores.h"
#include "runtime/parallel.h"
#include "tests/unit/graph_harness.h"

namespace tenon::thread_pool_test {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif

using namespace tenon::test;

namespace {

std::string fixture(const std::string& name) { return std::string(TENON_FIXTURES) + "/programs/" + name + ".pt2"; }

bool equal(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (size_t i = 0; i < want.size(); i++)
    if (numbers(got.at(i)) != numbers(want[i])) return false;
  return got.size() == want.size();
}

/// How many threads are seen at work in loops whose iterations wait for each other for a while.
int threads_seen(const Workers& workers, int tries = 200) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int i = 0; i < tries; i++)
    workers.run(2 * Workers::max_threads, 1, [&](int64_t begin, int64_t end, int worker) {
      if (worker >= workers.threads()) std::abort();
      for (int64_t k = begin; k < end; k++) std::this_thread::yield();
      std::scoped_lock lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  return static_cast<int>(seen.size());
}

/// Every iteration runs once, and every part of a series in its order.
bool works(const Workers& workers) {
  std::vector<std::atomic<int>> seen(997);
  workers.run(997, 3, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) seen[static_cast<size_t>(i)]++;
  });
  std::atomic<int64_t> sum{0}, wrong{0};
  constexpr int parts = 2;
  workers.run_series(50, std::min(parts, workers.threads()), [&](int64_t phase, int, int) {
    if (sum / std::min(parts, workers.threads()) < phase) wrong++;
    sum++;
  });
  return std::all_of(seen.begin(), seen.end(), [](auto& n) { return n == 1; }) && wrong == 0;
}

Program doubled() { // a chain of kernels that are shared out
  TestGraph g;
  V x = g.input({600, 500});
  g.returns(g.b.call1("aten::softmax.int", {g.b.call1("aten::cumsum.default", {x * Arg(2.0), 1}), 0}));
  return g.program();
}

Tensor some_input() {
  return filled(DType::F32, {600, 500}, [](int64_t i) { return static_cast<double>(i * 37 % 101) / 101 - 0.5; });
}

} // namespace

TEST_CASE("pools: sizes") {
  CHECK(ThreadPool().threads() >= 1);
  CHECK(ThreadPool(3).threads() == 3);
  CHECK(ThreadPool(0).threads() == usable_cores());
  CHECK(ThreadPool(100'000).threads() == Workers::max_threads);
  ThreadPool pool(3);
  CHECK(Workers(0, pool).threads() == 3);
  CHECK(Workers(2, pool).threads() == 2);
  CHECK(Workers(5, pool).threads() == 3); // a pool made with a size keeps it
  CHECK(Workers(5).threads() == 5);       // the process's own has as many as are asked for
  CHECK(Workers(0).threads() == usable_cores());
  CHECK(Workers(-1, pool).threads() == 3);
  tbb::task_arena arena(4);
  CHECK(ThreadPool::in_arena(arena).threads() == 4);
}

TEST_CASE("pools: loops use the threads that they may, and budgets bound them") {
  ThreadPool pool(4);
  Workers workers(3, pool);
  int most = threads_seen(workers);
  CHECK(most >= 1); // as many as the system lets run
  {
    ThreadBudget one(1);
    CHECK(threads_seen(workers, 20) == 1);
    CHECK(!workers.awake());
    ThreadBudget more(3);
    CHECK(threads_seen(workers, 20) == 1); // the least counts
    CHECK(works(workers));
  }
  {
    ThreadBudget none(0), two(2);
    std::atomic<int> beyond{0};
    for (int i = 0; i < 50; i++) workers.run(100, 1, [&](int64_t, int64_t, int worker) { beyond += worker > 1; });
    for (int i = 0; i < 50; i++) workers.run_series(5, 3, [&](int64_t, int, int worker) { beyond += worker > 1; });
    CHECK(beyond == 0);
    CHECK(works(workers));
  }
  CHECK(works(workers));
}

TEST_CASE("pools: a budget holds for loops inside of loops") {
  Workers workers(4, ThreadPool(4));
  for (int threads : {1, 2, 3}) {
    ThreadBudget budget(threads);
    std::atomic<int> at_work{0}, beyond{0};
    for (int i = 0; i < 50; i++)
      workers.run(8, 1, [&](int64_t, int64_t, int) {
        workers.run(8, 1, [&](int64_t, int64_t, int) {
          beyond += ++at_work > threads;
          std::this_thread::yield();
          at_work--;
        });
      });
    CHECK(beyond == 0);
  }
}

TEST_CASE("pools: results are the same under any budget") {
  for (const char* name : {"encoder_block", "llama_block", "cnn_bn_residual"}) {
    CAPTURE(name);
    Program program = Program::load(fixture(name)).value();
    std::vector<Tensor> inputs = program.example_inputs().value();
    Executable exe = program.compile({.threads = 4, .pool = ThreadPool(4)}).value();
    std::vector<Tensor> want = run(exe, inputs);
    for (int threads : {1, 2, 3, 4, 7}) {
      ThreadBudget budget(threads);
      for (int i = 0; i < 5; i++) CHECK(equal(run(exe, inputs), want));
      CHECK(equal(run(program.compile({.threads = 4}).value(), inputs), want));
    }
  }
}

TEST_CASE("pools: many share one, and come and go") {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; t++)
    callers.emplace_back([&, t] {
      for (int round = 0; round < 20; round++) {
        ThreadPool own(2);
        wrong += !works(Workers(t % 3 + 1, round % 4 == 0 ? own : pool));
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("pools: work that is started runs once, or never") {
  for (int threads : {1, 2, 4}) {
    Workers workers(threads, ThreadPool(4));
    auto ran = std::make_shared<std::atomic<int>>(0);
    for (int i = 0; i < 50; i++) {
      workers.start([ran] { ++*ran; });
      if (i % 2) CHECK(works(workers));
    }
    int wanted = threads == 1 ? 0 : 50;
    for (int i = 0; i < 10'000 && *ran < wanted; i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(*ran == wanted);
  }
}

// An operator of the user's own that calls another program.
static const Executable* called = nullptr;

TEST_CASE("pools: calls inside of calls") {
  Executable inner = doubled().compile({.threads = 3}).value();
  called = &inner;
  auto call_inner = [](const tenon_op_call* call) -> const char* {
    const tenon_tensor &x = call->args[0].tensors[0], &y = call->outputs[0];
    TensorView from{DType::F32, x.data, {x.sizes, 2}, {}}, to{DType::F32, y.data, {y.sizes, 2}, {}};
    return called->run({&from, 1}, {&to, 1}).ok() ? nullptr : "the inner call failed";
  };
  static std::once_flag once;
  std::call_once(once,
                 [&] { register_op({.schema = "pools::inner(Tensor x) -> Tensor", .results = "x", .function = call_inner}).check(); });
  TestGraph g;
  V x = g.input({600, 500});
  g.returns(g.b.call1("pools::inner.default", {x + Arg(1.0)}) * Arg(3.0));
  Executable outer = g.program().compile({.threads = 3}).value();
  std::vector<Tensor> inputs{some_input()}, want = run(outer, inputs);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; t++)
    callers.emplace_back([&, t] {
      for (int i = 0; i < 10; i++) {
        ThreadBudget budget(t % 3);
        wrong += !equal(run(outer, inputs), want);
      }
    });
  for (std::thread& t : callers) t.join();
  Workers(3).run(8, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) wrong += !equal(run(outer, inputs), want);
  });
  CHECK(wrong == 0);
}

TEST_CASE("pools: threads of a host's arena, and calls from inside of it") {
  tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 3);
  tbb::task_arena arena(3);
  ThreadPool pool = ThreadPool::in_arena(arena);
  CHECK(works(Workers(0, pool)));
  Program program = doubled();
  Executable exe = program.compile({.pool = pool}).value();
  std::vector<Tensor> inputs{some_input()}, want = run(program.compile({.threads = 1}).value(), inputs);
  CHECK(equal(run(exe, inputs), want));
  arena.execute([&] { CHECK(equal(run(exe, inputs), want)); });
#ifndef TSAN // it does not see how oneTBB divides a loop
  std::atomic<int> wrong{0};
  arena.execute([&] { tbb::parallel_for(0, 40, [&](int) { wrong += !equal(run(exe, inputs), want); }); });
  tbb::parallel_for(0, 40, [&](int) { wrong += !equal(run(exe, inputs), want); }); // in an arena that is not the pool's
  CHECK(wrong == 0);
#endif
}

} // namespace tenon::thread_pool_test
