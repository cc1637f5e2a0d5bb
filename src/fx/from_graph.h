// SSA graphs as FX graphs: defaults left out, results of tuples by operator.getitem, sizes by nodes of their own
// (fx/number_nodes.h), blocks as graphs that higher_order.cond, while_loop and scan run.
#pragma once
#include "fx/graph.h"
#include "ir/program.h"

namespace tenon {

/// A graph whose parameters are placeholders. What nodes give has its type, so that program_of of the text makes the same graph.
/// Unsupported for regions, and for numbers that no tensor's size tells. A scan that runs backward becomes one over flipped tensors.
FxGraph fx_of(const Graph& graph);
/// The program as its user calls it: placeholders are its inputs, those that are None or strings left out; get_attr nodes read its weights,
/// by their qualified names; what it changes is changed by aten.copy_; results are the user's.
FxGraph fx_of(const LoadedProgram& program);

} // namespace tenon
