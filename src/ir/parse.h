// The canonical text of graphs, read back: parse_graph(to_string(g)) prints the same text. The grammar:
//   graph    symbol* "graph(" params "):" node* "return (" args ")"
//   symbol   "symbol s77 in [2, 64]"                                bounds of a size; inf and -inf where there are none
//   node     [%a : TYPE, %b : TYPE =] op [ "[" name=arg, ... "]" ] "(" args ")" [# File "model.py", line 3, in f[, module layers.0]] block*
//   block    "block0(" params "):" node* "-> (" args ")"
//   TYPE     Float(s77, 8, strides=[8, 1], requires_grad=1, device=cpu)  int{s77*2}  float  bool  str  NoneType  custom
//   arg      %v  None  True  -3  0.5  inf  complex(1.0, 2.0)  "text"  'word'  dtype<f32>  {s77 + 1}  [arg, ...]  name=arg
//            tensor<f32 [2, 3] 1.0 2.0 ...>   with its elements, or
//            tensor<f32 [768, 768] @3>        number 3 of the tensors given to the parser
// Arguments left out have their schema's default. Other comments, blanks and line ends mean nothing.
#pragma once
#include <span>
#include <string_view>

#include "ir/program.h"

namespace tenon {

struct ParsedGraph {
  Graph graph;
  int missing_tensors = 0; ///< @numbers that were not among the tensors given: these constants are all zeros
};

/// Throws Error(BadInput) with the line of what is wrong. `tensors` are what @0, @1 ... stand for; dtype and sizes must fit.
ParsedGraph parse_graph(std::string_view text, std::span<const Tensor> tensors = {});
/// One type by itself: "Float(s77, 8)". Symbols that are new in its sizes are from 0 on. `meta` gets what else stands in it.
/// `partial`: sizes may be "*", which become empty expressions.
Type parse_type(ExprPool& pool, class Lexer& lexer, TensorMeta* meta = nullptr, bool partial = false);
/// A size by itself: "s77*2 + 1".
Expr parse_size(ExprPool& pool, class Lexer& lexer);
/// A tensor of zeros that takes the memory of one element: its strides are zero. BadInput where the sizes overflow.
Tensor zeros_of(DType dtype, std::vector<int64_t> sizes);
/// A program of the graph alone: every parameter is a user's input, every return a user's output.
LoadedProgram program_of(Graph graph);

} // namespace tenon
