// Scripts and their graphs in the tool: FILE.ir, FILE.py:entry.
#include <filesystem>

#include "builtins/ivalue.h"
#include "cli/commands.h"
#include "cli/script_values.h"
#include "executor/interpreter.h"
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

int run_script(const RunArgs& args) {
  script::ScriptProgram program = load_script(args.model.file);
  std::vector<IValue> inputs = read_script_args(program.params, args.inputs, args.json);
  for (IValue& w : read_script_weights(program.weights, args.weights)) inputs.push_back(std::move(w));
  auto code = executor::build_code(program.graph);
  std::vector<IValue> results = executor::run(code, std::move(inputs));
  for (size_t i = 0; i < results.size(); i++) fmt::print("out{}: {}\n", i, str(results[i]));
  if (!args.output.empty()) write_script_results(results, args.output);
  return 0;
}

int show_script(const ShowArgs& args) {
  fmt::print("{}", script::to_text(load_script(args.model.file).graph));
  return 0;
}

} // namespace tenon::cli
