// User passes: functions on the text of the Edge graph, or on a graph.
#pragma once
#include <functional>
#include <string>

#include "ir/program.h"

namespace tenon {

/// The program with another graph of its dialect. Parameters and results must stay what they were. BadInput for a graph that is none of it.
LoadedProgram with_graph(LoadedProgram program, Graph graph);
/// The program with its Edge graph replaced by what `pass` makes of that graph's text. Parameters and results must stay what they
/// were; large constants are referred to by number. BadInput for text that does not parse, or is no valid Edge graph.
LoadedProgram transform(LoadedProgram program, const std::function<std::string(const std::string&)>& pass);

} // namespace tenon
