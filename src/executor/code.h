// Code: a script graph as flat instructions over registers, which is what the interpreter runs. Blocks are jumps, a value is a register,
// overloads are resolved.
#pragma once
#include <memory>
#include <vector>

#include "builtins/builtin.h"
#include "executor/tensor_op.h"
#include "ir/graph.h"

namespace tenon::executor {

enum class OpCode : uint8_t {
  // Control. `target` is a place in the code.
  Jump,
  JumpUnless, ///< args: condition
  LoopTest,   ///< args: trip count, iterations done, condition: to `target` where the loop is over
  Again,      ///< results: iterations done, one more, and a copy; args: trip count, condition: to `target` where the loop goes on
  Return,     ///< args: the results of the program

  // Values
  Load, ///< results: constant `target`
  Move, ///< results, args: one each
  Drop, ///< args: registers that nothing reads any more

  // Calls
  Builtin, ///< `target`: number of the operator
  Tensor,

  // prim::
  List,
  Tuple,
  Dict,
  Unpack,  ///< args: a list or tuple of as many elements as there are results
  Element, ///< args: tuple, index
  Raise,   ///< args: message, class or None
  Print,   ///< args: what is printed, with blanks between
  Check,   ///< prim::isinstance: `target` is a list of types
  Unwrap,  ///< prim::unchecked_unwrap_optional and the like: throws where the value is None

  // Numbers, without a call: results, args
  AddInt,
  SubInt,
  MulInt,
  LtInt,
  LeInt,
  GtInt,
  GeInt,
  EqInt,
  NeInt,
  AddFloat,
  SubFloat,
  MulFloat,
  LtFloat,
  GtFloat,
  And,
  Or,
  Not,
};

/// Registers are named by `operands`: results first, then arguments; the highest bit of an argument says that this is its last use.
struct Instruction {
  OpCode code;
  uint8_t unused = 0;
  uint16_t results = 0;
  uint32_t args = 0;
  uint32_t operands = 0;
  uint32_t target = 0;
};
inline constexpr uint32_t last_use = 1u << 31;

/// An operator of src/builtins, and what it is given for the node that calls it.
struct BuiltinUse {
  const BuiltinOp* op;
  std::shared_ptr<const void> state = {};
};

/// Immutable once built, and shared by threads; what tensor operators learn of sizes is behind locks.
struct Code {
  std::vector<Instruction> instructions;
  std::vector<uint32_t> operands;
  std::vector<IValue> constants;
  std::vector<BuiltinUse> builtins;
  std::vector<std::unique_ptr<TensorOp>> tensor_ops;
  std::vector<std::vector<Type>> type_lists;
  std::vector<std::shared_ptr<const Origin>> origins; // of each instruction
  uint32_t num_registers = 0, num_params = 0;
};

/// Throws Error(BadInput) that lists all operators that are not known, or whose arguments fit no overload.
std::shared_ptr<const Code> build_code(const Graph& graph);
/// One instruction a line: for dumps and tests.
std::string to_string(const Code& code);

} // namespace tenon::executor
