// The Python code that torch makes of a graph: what graph_module.code and print_readable() give.
//   class GraphModule(torch.nn.Module):
//       def forward(self, x: "f32[s77, 8]"):
//           true_graph_0 = self.true_graph_0
//           add: "f32[s77, 8]" = torch.ops.aten.add.Tensor(x, 1);  x = None
//           return (add,)
//
//       class true_graph_0(torch.nn.Module): ...        a graph that a node runs
// The class may be missing; in a file that begins with imports, the first class is read, and its constructor passed over. Types of inputs
// and attributes are read; all others follow from the operators' rows.
#pragma once
#include "fx/graph.h"

namespace tenon {

/// Throws Error(BadInput) with the line of what is wrong.
FxGraph parse_python(std::string_view text);
/// The graph as a class of that name, `depth` classes deep. `body`: lines that stand before forward, in the class's own depth.
std::string to_python(const FxGraph& graph, std::string_view name, std::string_view body = {}, int depth = 0);
/// "f32[s77, 8]" for a tensor, "Sym(s77)" for a number; empty for other types.
std::string python_type(const Type& type);

} // namespace tenon
