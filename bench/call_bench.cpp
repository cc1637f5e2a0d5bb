// What a call costs besides its work: programs of a few numbers, by how their results are given.
#include <benchmark/benchmark.h>

#include "api/impl.h"
#include "ir/builder.h"

namespace tenon::bench {
namespace {

Program program_of(void (*build)(Builder& b, V x)) {
  LoadedProgram p;
  p.name = "call";
  Graph& g = p.graph;
  ValueId x = g.add_param(g.top(), Type::tensor(DType::F32, {g.pool().integer(16)}), "x");
  p.inputs.push_back({.kind = InputKind::User, .name = "x", .target = {}, .value = x});
  Builder b(g, g.top(), false);
  build(b, b.wrap(x));
  p.outputs.resize(g.block(g.top()).returns.size(), {.kind = OutputKind::User});
  return Program(std::make_shared<Program::Impl>(Program::Impl{std::move(p), {}}));
}
void returns(Builder& b, V y) { b.graph().block(b.graph().top()).returns.push_back(Arg(y.id)); }

void add(Builder& b, V x) { returns(b, x + x); }
// Twenty operators, no two of which one step computes.
void twenty(Builder& b, V x) {
  for (int i = 0; i < 20; i++) x = b.call1("aten::cumsum.default", {x * Arg(0.5), 0});
  returns(b, x);
}
void scalars(Builder& b, V x) {
  V s = b.sum(x, {0}, false);
  for (int i = 0; i < 19; i++) s = i % 2 ? s + Arg(1.0) : b.call1("aten::tanh.default", {s});
  returns(b, s);
}

enum class Results { Fresh, Into, Bound };

void run_call(benchmark::State& state, const Program& program, Results results) {
  Executable exe = program.compile({.threads = 1}).value();
  std::vector<float> x(16, 1.0f);
  std::vector<int64_t> sizes{16};
  TensorView view{DType::F32, x.data(), sizes, {}};
  std::vector<Tensor> outputs;
  exe.run({&view, 1}, outputs).check();
  std::vector<TensorView> given;
  for (const Tensor& t : outputs) given.push_back(t.view());
  BoundCall bound = exe.bind({&view, 1}, given).value();
  for (auto _ : state) {
    if (results == Results::Bound) bound.run().check();
    else if (results == Results::Into) exe.run({&view, 1}, given).check();
    else exe.run({&view, 1}, outputs).check();
  }
  state.counters["steps"] = exe.stats().steps;
}

} // namespace

void add_call_benchmarks() {
  struct Row {
    const char* name;
    void (*build)(Builder&, V);
  };
  for (Row r : {Row{"add16", add}, Row{"scalars20", scalars}, Row{"steps20", twenty}})
    for (auto [results, name] : {std::pair{Results::Fresh, "/fresh"}, {Results::Into, "/into"}, {Results::Bound, "/bound"}})
      benchmark::RegisterBenchmark((std::string("call/") + r.name + name).c_str(), [=, results = results](benchmark::State& st) {
        run_call(st, program_of(r.build), results);
      })->MinTime(0.3);
}

} // namespace tenon::bench
