// Loading: bytes to a LoadedProgram.
#pragma once
#include "ir/program.h"

namespace tenon {

/// Loads a .pt2. BadInput for anything malformed, Unsupported for what is not a plain torch.export archive.
LoadedProgram load_pt2(const std::string& path);
LoadedProgram load_pt2(std::span<const std::byte> bytes, const std::string& name);
/// The example inputs, flattened, None and strings left out.
std::vector<Tensor> load_example_inputs(const LoadedProgram& program);

/// The export's conditions on input sizes as asserts; inputs and calling convention are read already.
void add_guards(LoadedProgram& program);

/// Whether a symbol of the program stands for a float: torch names those zf0, zuf0 ...
inline bool is_real_symbol(std::string_view name) { return name.starts_with("zuf") || name.starts_with("zf"); }
/// Parses sympy's srepr, "Mul(Integer(2), Symbol('s77', positive=True))".
Expr parse_srepr(ExprPool& pool, std::string_view text);

} // namespace tenon
