// TorchScript's canonical text of graphs, as torch prints it today and as it did in 2018:
//   graph(%x.1 : Tensor,                         graph(%x.1 : Dynamic) {
//         %n.1 : int):                             %2 : int = prim::Constant[value=1]()
//     %2 : int = prim::Constant[value=1]()         %3 : Dynamic = prim::If(%c)
//     %3 : Tensor = prim::If(%c) # m.py:3:4          block0() {
//       block0():                                      %4 : Dynamic = aten::neg(%x.1)
//         %4 : Tensor = aten::neg(%x.1)                -> (%4)
//         -> (%4)                                    }
//       ...                                          ...
//     return (%3)                                  return (%3);
//                                                }
// A graph of this dialect has the operators' names without overloads, values alone as arguments, and constants as nodes prim::Constant.
#pragma once
#include <string>
#include <string_view>

#include "base/lexer.h"
#include "ir/graph.h"

namespace tenon::script {

enum class Spelling : uint8_t {
  Today, ///< Tensor, (int, Tensor), blocks by indentation
  Of2018 ///< Dynamic, Tuple, World, braces
};

struct ScriptText {
  Graph graph;
  Spelling spelling = Spelling::Today;
};

/// Both spellings, whatever blanks, remarks and missing commas; source ranges behind # become the nodes' origins. Throws Error(BadInput)
/// with line and column: for text that is none, names that are not defined where they stand, nesting beyond 200.
ScriptText parse_script(std::string_view text);
/// parse_script reads it back. Values keep their names; those that would occur twice get a number behind.
std::string to_text(const Graph& graph, Spelling spelling = Spelling::Today);
/// One type: "Tensor", "int[]", "Dict(str, int)", "(Tensor, int)", "Float(2, *)", "float?", "List[int]".
Type parse_script_type(ExprPool& pool, Lexer& lexer, TensorMeta* meta = nullptr);

} // namespace tenon::script
