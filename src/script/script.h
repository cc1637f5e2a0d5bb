// TorchScript's language: from source text to a graph.
#pragma once
#include "script/program.h"

namespace tenon::script {

/// Compiles a function, or a module class whose __init__ takes no arguments (then its forward), with all it calls inlined. `file` is what
/// errors call the source. Modules are in eval mode; their parameters and buffers are the graph's last inputs, named as in the state_dict,
/// and only those that are used. Throws Error(BadInput): torch's words, then the lines they are about. Thread-safe.
ScriptProgram compile_script(std::string_view source, std::string_view file, std::string_view entry);

} // namespace tenon::script
