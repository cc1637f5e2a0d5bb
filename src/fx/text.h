// The text that torch.fx prints for a Graph, in and out:
//   graph():
//       %x : Float(s77, 8) [num_users=1] = placeholder[target=x]
//       %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1), kwargs = {alpha: 2})
//       return (add,)
// torch writes no shapes; a type of our own text before [num_users=...] of placeholders and get_attr gives them, and all
// others follow from the operators' rows.
#pragma once
#include "fx/graph.h"

namespace tenon {

/// Throws Error(BadInput) with the line of what is wrong. to_string(parse_fx(text)) is what torch printed.
FxGraph parse_fx(std::string_view text);
std::string to_string(const FxGraph& graph);

} // namespace tenon
