// An FX graph as the source of a Python module that torch runs.
#pragma once
#include "fx/graph.h"

namespace tenon {

/// A class `name` of torch.nn.Module. Its forward is the graph (fx/python_text.h); its constructor takes the path of an .npz with the
/// arrays of `weights_of`, which may be None where the graph reads none. `title` is the source's first comment. Unsupported for what torch
/// could not run: calls of modules that the graph does not hold.
std::string python_module(const FxGraph& graph, std::string_view name, std::string_view title);

/// What get_attr nodes read, in all its graphs: "0.weight", "true_graph_0.scale".
std::vector<std::pair<std::string, Tensor>> weights_of(const FxGraph& graph);

} // namespace tenon
