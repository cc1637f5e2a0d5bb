// The text that torch.fx prints for a Graph, in and out:
//   graph():
//       %x : Float(s77, 8) [num_users=1] = placeholder[target=x]
//       %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1), kwargs = {alpha: 2})
//       return (add,)
// torch writes no shapes; a type of our own text before [num_users=...] of placeholders and get_attr gives them, and all
// others follow from the operators' rows.
#pragma once
#include <optional>

#include "ir/program.h"

namespace tenon {

enum class FxKind : uint8_t { Placeholder, GetAttr, CallFunction, CallMethod, CallModule };

/// Arguments are Args: a ValueId is the index of an earlier node, a std::string a bare word (torch prints strings so), a Word
/// what follows "torch." (strided), and a tuple is a list whose first element is fx_tuple.
struct FxNode {
  std::string name;
  std::optional<Type> type = {};
  FxKind kind = FxKind::CallFunction;
  std::string target = {};
  ArgList args = {};
  std::vector<Attribute> kwargs = {};
};
inline const Word fx_tuple{"()"};

struct FxGraph {
  std::vector<FxNode> nodes;
  Arg result;
  std::shared_ptr<ExprPool> pool = std::make_shared<ExprPool>();
};

/// Throws Error(BadInput) with the line of what is wrong. to_string(parse_fx(text)) is what torch printed.
FxGraph parse_fx(std::string_view text);
std::string to_string(const FxGraph& graph);
/// The ATen graph: types inferred, getitem resolved. BadInput where a placeholder has no type; Unsupported for modules and methods.
LoadedProgram program_of(const FxGraph& graph);
/// A graph without blocks in FX's form; Unsupported for others. Arguments that depend on sizes, which torch computes by nodes
/// of their own, are written as in our text: {s77*2}.
FxGraph fx_of(const Graph& graph);

} // namespace tenon
