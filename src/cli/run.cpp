// `tenon run`.
#include <chrono>

#include "base/check.h"
#include "cli/commands.h"
#include "expr/eval.h"
#include "load/npz.h"

namespace tenon::cli {

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

void print_tensor(const std::string& name, const Tensor& t) {
  std::string sizes, values;
  for (int64_t s : t.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(s);
  int64_t n = std::min<int64_t>(t.numel(), 6);
  dispatch(t.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < n; i++) values += (i ? ", " : "") + fmt::format("{:.6g}", convert<double>(t.data_as<T>()[i]));
  });
  fmt::print("{}: {}[{}] = {}{}\n", name, name_of(t.dtype()), sizes, values, t.numel() > n ? ", ..." : "");
}

} // namespace

int run(const RunArgs& args) {
  auto t0 = Clock::now();
  Program program = Program::load(args.model).value();
  double load_ms = ms_since(t0);
  auto t1 = Clock::now();
  Executable exe = program.compile(args.options).value();
  double compile_ms = ms_since(t1);
  std::vector<Tensor> inputs = args.inputs.empty() ? program.example_inputs().value() : read_inputs(args.inputs, program), outputs;
  auto t2 = Clock::now();
  exe.run(inputs, outputs).check();
  double run_ms = ms_since(t2);
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (size_t i = 0; i < outputs.size(); i++) {
    arrays.emplace_back(fmt::format("out{}", i), outputs[i]);
    print_tensor(arrays.back().first, outputs[i]);
  }
  if (!args.output.empty()) write_npz(args.output, arrays);
  fmt::print("load {:.2f} ms, compile {:.2f} ms, run {:.2f} ms\n", load_ms, compile_ms, run_ms);
  return 0;
}

} // namespace tenon::cli
