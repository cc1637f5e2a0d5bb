// `tenon grad`: gradients of the sum of a script's floating results.
#include <algorithm>

#include "autodiff/differentiate.h"
#include "cli/commands.h"
#include "cli/script_values.h"
#include "executor/interpreter.h"
#include "script/script.h"

namespace tenon::cli {

namespace {

// Places of the weights named, behind those of the arguments; "all" are all that are floating.
std::vector<size_t> places_of_weights(const std::vector<std::string>& wanted, const script::ScriptProgram& program,
                                      std::span<const IValue> inputs) {
  std::vector<size_t> places;
  size_t arguments = program.params.size();
  for (const std::string& name : wanted) {
    bool found = false;
    for (size_t k = 0; k < program.weights.size(); k++) {
      bool floating = is_float(inputs[arguments + k].to_tensor().dtype());
      if (program.weights[k] == name || (name == "all" && floating)) places.push_back(arguments + k), found = true;
    }
    require_input(found || name == "all", "the program has no weight {}", name);
  }
  return places;
}

} // namespace

int grad(const GradArgs& args) {
  require_input(is_script(args.run.model.file), "{} is no script: FILE.py:entry or FILE.ir", args.run.model.file);
  script::ScriptProgram program = load_script(args.run.model.file);
  std::vector<IValue> inputs = read_script_args(program.params, args.run.inputs, args.run.json);
  for (IValue& w : read_script_weights(program.weights, args.run.weights)) inputs.push_back(std::move(w));
  std::vector<std::string> names;
  for (size_t i : args.wrt) {
    require_input(i < program.params.size(), "there is no argument {}: the program takes {}", i, program.params.size());
    names.push_back(fmt::format("grad{}", i));
  }
  std::vector<size_t> wrt = args.wrt;
  for (size_t place : places_of_weights(args.wrt_weights, program, inputs)) {
    wrt.push_back(place);
    names.push_back("grad." + program.weights[place - program.params.size()]);
  }
  require_input(!wrt.empty(), "nothing to differentiate with respect to: --wrt 0,2 or --wrt-weights all");
  autodiff::Gradients gradients = autodiff::differentiate(program.graph, wrt);
  std::vector<IValue> results = executor::run(executor::build_code(gradients.both), std::move(inputs));
  results.erase(results.begin(), results.begin() + static_cast<int64_t>(gradients.results));
  print_results(names, results, args.run.as_json);
  if (!args.run.output.empty()) write_script_results(script_results(names, results), args.run.output);
  return 0;
}

} // namespace tenon::cli
