// `tenon run`.
#include <chrono>

#include <fmt/core.h>

#include "base/check.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "load/npz.h"

namespace tenon::cli {

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
  for (size_t i = 0; i < outputs.size(); i++) arrays.emplace_back(fmt::format("out{}", i), outputs[i]);
  if (!args.output.empty()) write_npz(args.output, arrays);
  if (args.as_json) {
    JsonObject json;
    json.json("outputs", json_array(arrays, [](auto& a) { return json_of(a.first, a.second); }));
    json.number("load_ms", ready.load_ms).number("compile_ms", ready.compile_ms).number("run_ms", run_ms);
    fmt::print("{}\n", json.str());
    return 0;
  }
  for (auto& [name, tensor] : arrays) fmt::print("{}\n", text_of(name, tensor));
  fmt::print("load {:.2f} ms, compile {:.2f} ms, run {:.2f} ms\n", ready.load_ms, ready.compile_ms, run_ms);
  return 0;
}

} // namespace tenon::cli
