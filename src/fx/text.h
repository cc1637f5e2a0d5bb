// The text that torch.fx prints for a Graph, in and out:
//   graph():
//       %x : Float(s77, 8) [num_users=1] = placeholder[target=x]
//       %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1), kwargs = {alpha: 2})
//       return (add,)
//   true_graph_0 = graph(): ...                    a graph that a node runs; inner ones by their path, true_graph_0.body
// torch writes no types. Those of our own text stand before [num_users=...], of a list in parentheses: (Float(2, 3), Long(2)). Where there
// are none, they follow from the operators' rows; inputs and weights need them. Python code of a graph (fx/python_text.h) is read, too.
#pragma once
#include "fx/graph.h"

namespace tenon {

/// Throws Error(BadInput) with the line of what is wrong. to_string(parse_fx(text)) is what torch printed.
FxGraph parse_fx(std::string_view text);
std::string to_string(const FxGraph& graph);

} // namespace tenon
