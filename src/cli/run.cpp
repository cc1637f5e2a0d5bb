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
  if (is_script(args.model.file)) return run_script(args);
  bool is_text = is_fx_text(args.model.file);
  require_input(is_text || args.weights.empty(), "--weights are those of an FX text; {} has its own", args.model.file);
  require_input(!is_text || args.model.method.empty(), "{} is one graph, without methods", args.model.file);
  Ready ready = is_text ? make_ready_text(args.model.file, args.inputs, args.weights, args.options) : make_ready(args.model, args.options);
  std::vector<Tensor> inputs = ready.inputs(args.inputs), outputs;
  auto begin = Clock::now();
  ready.executable.run(inputs, outputs).check();
  double run_ms = ms_since(begin);
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (size_t i = 0; i < outputs.size(); i++) {
    arrays.emplace_back(fmt::format("out{}", i), outputs[i]);
    print_tensor(arrays.back().first, outputs[i]);
  }
  if (!args.output.empty()) write_npz(args.output, arrays);
  fmt::print("load {:.2f} ms, compile {:.2f} ms, run {:.2f} ms\n", ready.load_ms, ready.compile_ms, run_ms);
  return 0;
}

} // namespace tenon::cli
