// Whole programs of the fixtures with their stored inputs. Their work is what the plan's steps count.
#include <filesystem>

#include "api/impl.h"
#include "bench/report.h"

namespace tenon::bench {
namespace {

Work work_of(const Program& program, std::span<const Tensor> inputs, Options options) {
  options.profile = true;
  Executable exe = program.compile(options).value();
  std::vector<Tensor> outputs;
  exe.run(inputs, outputs).check();
  const PlanRunner& runner = *exe.impl().runner;
  Profile profile = exe.impl().runner->profile();
  Work work{0, 0, runner.workers().threads(), resolve_isa(options.isa)};
  for (const StepProfile& s : profile) work.flops += s.flops, work.bytes += s.bytes;
  return work;
}

void run_model(benchmark::State& state, const std::string& path, Isa isa, int threads) {
  Options options{.threads = threads, .isa = isa};
  Program program = Program::load(path).value();
  std::vector<Tensor> inputs = program.example_inputs().value(), outputs;
  Work work = work_of(program, inputs, options);
  Executable exe = program.compile(options).value();
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  run(state, work, [&] { exe.run(views, outputs).check(); });
}

} // namespace

void add_model_benchmarks(Isa isa, int threads) {
  std::vector<std::string> paths;
  for (auto& e : std::filesystem::directory_iterator(TENON_FIXTURES "/programs"))
    if (e.path().extension() == ".pt2") paths.push_back(e.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::string name = "model/" + std::filesystem::path(path).stem().string() + "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& st) {
                                   try {
                                     run_model(st, path, isa, threads);
                                   } catch (const Error& e) {
                                     st.SkipWithError(e.what());
                                   }
                                 })
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.2);
  }
}

} // namespace tenon::bench
