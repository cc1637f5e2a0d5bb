// Scripts and their graphs in the tool: FILE.ir, FILE.py:entry.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "base/json_text.h"
#include "builtins/ivalue.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/script_values.h"
#include "compile/compile.h"
#include "script/script.h"

namespace tenon::cli {

script::ScriptProgram load_script(const std::string& file) {
  if (size_t colon = file.rfind(':'); !file.ends_with(".ir")) {
    std::string path = file.substr(0, colon);
    return script::compile_script(read_file(path), path, std::string_view(file).substr(colon + 1));
  }
  std::string sidecar = std::filesystem::path(file).replace_extension(".json");
  return script::program_of_text(read_file(file), read_weight_names(sidecar));
}

bool is_script(std::string_view file) {
  size_t colon = file.rfind(':');
  return file.ends_with(".ir") || (colon != file.npos && file.substr(0, colon).ends_with(".py"));
}

LoadedScript::LoadedScript(const RunArgs& args)
    : args_(args), program_(load_script(args.model.file)),
      executor_(Graph(program_.graph), {.interpret = args.options.interpret,
                                        .forbid_fallback = args.options.forbid_fallback,
                                        .threads = args.options.threads,
                                        .profile = args.options.profile}) {}

std::vector<IValue> LoadedScript::arguments() const {
  std::vector<IValue> inputs = read_script_args(program_.params, args_.inputs, args_.json);
  for (IValue& w : read_script_weights(program_.weights, args_.weights)) inputs.push_back(std::move(w));
  return inputs;
}

void print_results(const std::vector<std::string>& names, const std::vector<IValue>& values, bool as_json) {
  std::string entries;
  for (size_t i = 0; i < values.size(); i++)
    if (as_json) entries += (i ? ", " : "") + json_of(names[i], values[i]);
    else fmt::print("{}: {}\n", names[i], str(values[i]));
  if (as_json) fmt::print("{{\"outputs\": [{}]}}\n", entries);
}

int run_script(const RunArgs& args) {
  std::vector<IValue> results = LoadedScript(args).run();
  std::vector<std::string> names;
  for (size_t i = 0; i < results.size(); i++) names.push_back(fmt::format("out{}", i));
  print_results(names, results, args.as_json);
  if (!args.output.empty()) write_script_results(script_results(results), args.output);
  return 0;
}

namespace {

double now_us() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void say_why(executor::GraphExecutor& executor) {
  for (const std::string& why : executor.why_interpreted()) fmt::print("interpreted: {}\n", why);
}

} // namespace

int bench_script(const BenchArgs& args) {
  require_input(args.html.empty() && args.trace.empty() && args.history.empty(),
                "--html, --history and --trace are not for scripts: give a .pt2 or a compiled program");
  RunArgs run{
      .model = args.model, .inputs = args.inputs, .weights = args.weights, .output = {}, .json = args.json_args, .options = args.options};
  LoadedScript script(run);
  std::vector<IValue> inputs = script.arguments();
  std::vector<double> times;
  double end = now_us() + args.seconds * 1e6, first = 0, planned = 0;
  for (size_t i = 0; now_us() < end || times.size() < 5; i++) {
    double start = now_us();
    script.executor().run(inputs);
    double took = now_us() - start;
    (i == 0 ? first : i == 1 ? planned : times.emplace_back()) = took;
  }
  double start = now_us();
  bool has_plan = false;
  for (int i = 0; i < 1000; i++) has_plan = script.executor().matches(inputs);
  double match_ns = now_us() - start;
  std::sort(times.begin(), times.end());
  if (args.json)
    fmt::print("{{\"first_us\": {:.1f}, \"second_us\": {:.1f}, \"median_us\": {:.3f}, \"min_us\": {:.3f}, \"runs\": {}, \"plan\": {}, "
               "\"match_ns\": {:.0f}}}\n",
               first, planned, times[times.size() / 2], times[0], times.size(), has_plan, match_ns);
  else {
    fmt::print(
        "first call {:.1f} us, second {:.1f} us; then median {:.3f} us, least {:.3f} us, {} runs; {}; arguments matched in {:.0f} ns\n",
        first, planned, times[times.size() / 2], times[0], times.size(), has_plan ? "a plan" : "the interpreter", match_ns);
    say_why(script.executor());
  }
  return 0;
}

int explain_script(const ExplainArgs& args) {
  RunArgs run{
      .model = args.model, .inputs = args.inputs, .weights = args.weights, .output = {}, .json = args.json_args, .options = args.options};
  run.options.profile = true;
  LoadedScript script(run);
  std::vector<IValue> inputs = script.arguments();
  for (int i = 0; i < 2; i++) script.executor().run(inputs); // the second one may have got a plan
  double end = now_us() + args.seconds * 1e6;
  while (now_us() < end && script.executor().matches(inputs)) script.executor().run(inputs);
  std::vector<Explanation> plans = script.executor().explanations();
  if (plans.empty()) plans.emplace_back();
  for (Explanation& e : plans) e.program = args.model.file;
  for (const std::string& why : script.executor().why_interpreted()) plans[0].notes.push_back("interpreted: " + why);
  if (args.verbose) fmt::print("{}", script.executor().explain());
  show_explanation(plans[0], args); // the arguments are of one kind
  return 0;
}

int dump_script(const DumpArgs& args) {
  RunArgs run{
      .model = args.model, .inputs = args.inputs, .weights = args.weights, .output = {}, .json = args.json_args, .options = args.options};
  LoadedScript script(run);
  const Graph& graph = script.program().graph;
  if (args.stage == "script") fmt::print("{}", script::to_text(graph));
  else if (args.stage == "code") fmt::print("{}", executor::to_string(*executor::build_code(graph)));
  else {
    executor::Lifted lifted = executor::lift(graph, script.arguments(), executor::Sizes::Known);
    lower(lifted.program, args.stage, args.options);
    fmt::print("{}", to_string(lifted.program.graph));
  }
  return 0;
}

int show_script(const ShowArgs& args) {
  script::ScriptProgram program = load_script(args.model.file);
  std::string text = script::to_text(program.graph);
  if (!args.json) return std::fputs(text.c_str(), stdout) < 0;
  auto param = [](auto& p) { return json_quote(p.name); };
  auto weight = [](auto& w) { return json_quote(w); };
  JsonObject json;
  json.json("params", json_array(program.params, param)).json("weights", json_array(program.weights, weight)).text("graph", text);
  fmt::print("{}\n", json.str());
  return 0;
}

} // namespace tenon::cli
