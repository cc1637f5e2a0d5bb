// From a script graph, and what it is called with, to a program of the ATen dialect: control flow becomes prim::If, prim::While and
// prim::Scan, lists and tuples are resolved, numbers become expressions, writes become new values. From there on it is compiled as exported
// programs are.
#pragma once
#include <span>

#include "builtins/ivalue.h"
#include "ir/program.h"

namespace tenon::executor {

/// Whether a program is for these sizes and numbers alone, or for any in their place. Sizes of 0 and 1 are always known.
enum class Sizes : uint8_t { Known, Open };

/// An input of the program: where it lies among the arguments, through lists and tuples.
struct Leaf {
  std::vector<uint32_t> path;
  bool is_number = false; ///< handed over as a tensor of rank 0: I64 or F64
};

/// How a result is made: of the program's outputs, of arguments, of constants.
struct Recipe {
  enum class Kind : uint8_t { Constant, Argument, Tensor, Int, Float, Bool, List, Tuple, Rows };
  Kind kind = Kind::Constant;
  IValue constant = {};
  std::vector<uint32_t> path = {}; ///< Argument
  size_t output = 0;               ///< Tensor, Int, Float, Bool; of Rows the stack of a list's tensors
  std::vector<Recipe> items = {};  ///< List, Tuple
};

struct Lifted {
  LoadedProgram program;
  std::vector<Leaf> leaves; ///< by parameter
  std::vector<Recipe> results;
  bool writes_arguments = false; ///< then no two of the arguments may overlap in memory
  /// Leaves that must be row-major: they are written, or it is written to what may be a view of them, and a copy where they are not.
  std::vector<size_t> row_major;
};

/// Throws Error(Unsupported) that says what has no place in such a program; Error(BadInput) where the call fails with these arguments.
Lifted lift(const Graph& graph, std::span<const IValue> args, Sizes sizes);

} // namespace tenon::executor
