// What a parallel loop costs, and many callers at once: one executable or one for each, beside the same calls one after the other. Calls
// per second of all together.
#include <benchmark/benchmark.h>

#include "api/impl.h"
#include "ir/builder.h"

namespace tenon::bench {
namespace {

constexpr int64_t rows = 128, columns = 384;

// Products and kernels in turn, each of some 10 to 300 us.
Program layers() {
  LoadedProgram p;
  p.name = "layers";
  Graph& g = p.graph;
  ValueId x = g.add_param(g.top(), Type::tensor(DType::F32, {g.pool().integer(rows), g.pool().integer(columns)}), "x");
  p.inputs.push_back({.kind = InputKind::User, .name = "x", .target = {}, .value = x});
  Builder b(g, g.top(), false);
  Tensor weights(DType::F32, {columns, columns});
  std::fill_n(weights.data_as<float>(), weights.numel(), 1.0f / columns);
  V y = b.wrap(x);
  for (int i = 0; i < 8; i++) {
    y = b.call1("aten::gelu.default", {b.call1("aten::mm.default", {y, b.constant(weights)})});
    y = b.call1("aten::layer_norm.default", {y, Arg(ArgList{columns})});
  }
  g.block(g.top()).returns.push_back(Arg(y.id));
  p.outputs.push_back({.kind = OutputKind::User});
  return Program(std::make_shared<Program::Impl>(Program::Impl{std::move(p), {}}));
}

void run_callers(benchmark::State& state, const std::vector<Executable>& executables) {
  const Executable& exe = executables[static_cast<size_t>(state.thread_index()) % executables.size()];
  Tensor x(DType::F32, {rows, columns});
  std::fill_n(x.data_as<float>(), x.numel(), 0.5f);
  TensorView view = x.view();
  std::vector<Tensor> outputs;
  exe.run({&view, 1}, outputs).check();
  for (auto _ : state) exe.run({&view, 1}, outputs).check();
  state.SetItemsProcessed(state.iterations());
}

} // namespace

void add_threads_benchmarks() {
  for (int64_t turns : {0, 1000}) // of a loop that takes about a nanosecond
    benchmark::RegisterBenchmark(("loop/" + std::to_string(turns)).c_str(), [=](benchmark::State& state) {
      Workers workers(2);
      for (auto _ : state)
        workers.run(2, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = 0; i < turns * (end - begin); i++) benchmark::ClobberMemory();
        });
    })->UseRealTime();
  constexpr int most = 16;
  auto make = [](int count) {
    auto made = std::make_shared<std::vector<Executable>>();
    Program program = layers();
    for (int i = 0; i < count; i++) made->push_back(program.compile().value());
    return made;
  };
  static std::shared_ptr<std::vector<Executable>> one, many; // compiled with the first benchmark that is run
  for (bool shared : {true, false})
    for (int callers : {1, 2, 4, most})
      benchmark::RegisterBenchmark(shared ? "callers/shared" : "callers/own",
                                   [=](benchmark::State& st) {
                                     static std::once_flag once;
                                     std::call_once(once, [&] { one = make(1), many = make(most); });
                                     run_callers(st, shared ? *one : *many);
                                   })
          ->Threads(callers)
          ->UseRealTime()
          ->MinTime(0.5);
}

} // namespace tenon::bench
