// A program of TorchScript: its graph, and how it is called.
#pragma once
#include <optional>

#include "builtins/ivalue.h"
#include "ir/graph.h"
#include "script/text.h"

namespace tenon::script {

struct ScriptParam {
  std::string name;
  Type type;
  std::optional<IValue> fallback = {}; ///< the default
};

struct ScriptProgram {
  Graph graph;
  std::vector<ScriptParam> params;  ///< the first inputs of the graph
  std::vector<std::string> weights; ///< the names of the others, as in the module's state_dict
};

/// The program of a graph's text. `weights` names its last inputs. Throws Error(BadInput).
ScriptProgram program_of_text(std::string_view text, std::vector<std::string> weights = {});
/// The same of a graph, which may be of 2018.
ScriptProgram program_of_graph(Graph graph, std::vector<std::string> weights = {});
/// What the IR of 2018 says otherwise, in today's: World tokens are gone, elements of lists are taken by aten::__getitem__.
void modernize(Graph& graph);

} // namespace tenon::script
