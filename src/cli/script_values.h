// Arguments and results of script programs as files: an .npz for tensors and numbers, JSON for what it cannot hold.
#pragma once
#include <span>

#include "cli/commands.h"
#include "executor/graph_executor.h"
#include "script/program.h"

namespace tenon::cli {

/// The program of FILE.py:entry or FILE.ir. Throws Error(BadInput).
script::ScriptProgram load_script(const std::string& file);
/// Arguments for the parameters. In the .npz: arg0, arg1 ...; elements of tuples and of lists of tensors arg0.0, arg0.1; 0-d arrays are
/// numbers where the parameter's type says so. `json` ("" for none) holds "args", an entry for each. Parameters without an argument take
/// their default. Throws Error(BadInput) that names the parameter.
std::vector<IValue> read_script_args(std::span<const script::ScriptParam> params, const std::string& npz, const std::string& json);
/// The arrays of an .npz by the names of a program's weights.
std::vector<IValue> read_script_weights(std::span<const std::string> names, const std::string& npz);
/// Results as arrays out0, out1 ... (a tuple by itself is several), and what arrays cannot say as JSON, which tells them all: a list
/// with an entry for each; "" where arrays say everything.
struct ScriptResults {
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::string json;
};
ScriptResults script_results(const std::vector<IValue>& results);
/// The same of values under names of their own.
ScriptResults script_results(std::span<const std::string> names, std::span<const IValue> values);
/// To standard output.
void print_results(const std::vector<std::string>& names, const std::vector<IValue>& values, bool as_json);
/// As FILE.npz, and FILE.json where it is needed.
void write_script_results(const ScriptResults& results, const std::string& npz);
/// A script, its arguments' files, and what runs it. Each run reads the arguments anew, as a program may write to them.
class LoadedScript {
public:
  explicit LoadedScript(const RunArgs& args);
  std::vector<IValue> arguments() const;
  std::vector<IValue> run() { return executor_.run(arguments()); }
  executor::GraphExecutor& executor() { return executor_; }
  const script::ScriptProgram& program() const { return program_; }

private:
  RunArgs args_;
  script::ScriptProgram program_;
  executor::GraphExecutor executor_;
};
/// "ir_params" of NAME.json beside a graph NAME.ir: what its last inputs are.
std::vector<std::string> read_weight_names(const std::string& json);

} // namespace tenon::cli
