// Loading: bytes to a LoadedProgram.
#pragma once
#include "ir/program.h"
#include "tenon/program.h"

namespace tenon {

/// Loads a .pt2. BadInput for anything malformed, Unsupported for what is not a plain torch.export archive.
/// `method` names one of an archive's programs; empty: the only one.
LoadedProgram load_pt2(const std::string& path, const std::string& method = {});
LoadedProgram load_pt2(std::span<const std::byte> bytes, const std::string& name, const std::string& method = {});
/// A program from the text that archives hold as models/NAME.json, with its weights. Errors: those of load_pt2.
LoadedProgram load_pt2_graph(std::string_view json, std::span<const NamedTensor> weights);
/// The names of an archive's programs, in its order; "model" for the only one of torch.export.save.
std::vector<std::string> pt2_methods(const std::string& path);
/// Writes the program as torch.export.save does: torch.export.load and load_pt2 read it. Unsupported, naming it, for what has no form
/// there: a graph that is Edge, operators of edge:: and tenon::, objects and effects. BadInput where the file cannot be
/// written.
void save_pt2(LoadedProgram program, const std::string& path);
/// The example inputs, flattened, None and strings left out.
std::vector<Tensor> load_example_inputs(const LoadedProgram& program);

/// How the messages of those asserts begin.
inline constexpr std::string_view guard_message = "the program was exported for inputs with ";
/// The export's conditions on input sizes as asserts; inputs and calling convention are read already.
void add_guards(LoadedProgram& program);

/// Whether a symbol of the program stands for a float: torch names those zf0, zuf0 ...
inline bool is_real_symbol(std::string_view name) { return name.starts_with("zuf") || name.starts_with("zf"); }
/// Parses sympy's srepr, "Mul(Integer(2), Symbol('s77', positive=True))".
Expr parse_srepr(ExprPool& pool, std::string_view text);

} // namespace tenon
