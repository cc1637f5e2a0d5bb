// Arguments and results of script programs as files: an .npz for tensors and numbers, JSON for what it cannot hold.
#pragma once
#include <span>

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
/// Results as out0, out1 ... (a tuple by itself is several) in the .npz; where that cannot hold one, all are told in FILE.json.
void write_script_results(const std::vector<IValue>& results, const std::string& npz);
/// Values under names of their own; where the .npz cannot hold one, all are told in FILE.json.
void write_script_values(std::span<const std::string> names, std::span<const IValue> values, const std::string& npz);
/// "ir_params" of NAME.json beside a graph NAME.ir: what its last inputs are.
std::vector<std::string> read_weight_names(const std::string& json);

} // namespace tenon::cli
