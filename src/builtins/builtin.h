// What a row of the table of TorchScript's own operators says: those on numbers, strings, lists, dicts and tuples. Operators on tensors are
// rows of src/ops.
#pragma once
#include <functional>
#include <span>

#include "builtins/ivalue.h"
#include "ir/schema.h"

namespace tenon {

/// One application of an operator. `results` has a slot for each result of the schema; a function may move out of its arguments.
struct BuiltinCall {
  std::span<IValue> args; // in schema order, defaults filled in; of "..." whatever was given
  std::span<IValue> results;
  const void* state = nullptr; // what BuiltinOp::bind gave for the node
};
using BuiltinFn = void (*)(BuiltinCall&);

struct BuiltinRow {
  std::string schema; ///< "aten::add.int(int a, int b) -> int", "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)"
  BuiltinFn run = nullptr;
  std::string_view vjp = {}; ///< of those that give tensors of tensors: as OpRow::vjp
};

/// Whether it reads and writes nothing but its operands' numbers and strings: equal operands give equal results, and no result
/// need be computed that nobody uses. False for operators on lists, dicts and objects, which have identity, and for effects.
bool is_pure(const struct BuiltinOp& op);

struct BuiltinOp : BuiltinRow {
  Schema signature;
  /// Of operators that are registered at run time, which may read the attributes of the node that calls them; null for others.
  std::function<std::shared_ptr<const void>(const Graph& graph, const Node& node)> bind = nullptr;
};
/// The rows of a name without overload, "aten::add", in the order in which overloads are tried. Thread-safe.
std::span<const BuiltinOp* const> find_builtins(std::string_view name);
/// The same of operators that were registered at run time. Thread-safe; what is pointed at stays.
std::vector<const BuiltinOp*> find_registered(std::string_view name);
/// Adds an operator to them, in the whole process; its signature is read from its schema. Throws Error(BadInput) for a schema that is
/// wrong, and for a name that has a meaning already. Thread-safe.
void register_builtin(BuiltinOp op);
/// All rows, ordered by name.
std::vector<const BuiltinOp*> all_builtins();

namespace builtins {
// One array of rows per family, one file each.
std::span<const BuiltinRow> number_rows();     ///< int, float, complex, bool: arithmetic, bits, comparison
std::span<const BuiltinRow> conversion_rows(); ///< int(), float(), complex(), bool(), implicit ones of tensors
std::span<const BuiltinRow> math_rows();       ///< math.*
std::span<const BuiltinRow> string_rows();
std::span<const BuiltinRow> format_rows(); ///< str, format, hex, ord ...
std::span<const BuiltinRow> list_rows();
std::span<const BuiltinRow> order_rows(); ///< of lists: sort, equality, search, sums
std::span<const BuiltinRow> dict_rows();
std::span<const BuiltinRow> object_rows();      ///< None, is, hash, devices, what programs ask of their surroundings
std::span<const BuiltinRow> tensor_pair_rows(); ///< equal, allclose, promotion of dtypes
std::span<const BuiltinRow> tensor_rows();      ///< attributes of tensors, torch.tensor, tolist
std::span<const BuiltinRow> gradient_rows();    ///< where backward passes keep gradients
/// The rows of all families, in the order in which overloads of one name are tried.
std::vector<BuiltinRow> all_rows();
} // namespace builtins

} // namespace tenon
