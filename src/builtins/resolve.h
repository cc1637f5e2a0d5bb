// Overload resolution: which operator a call means, by the types of what it is given, and how to make its arguments of that.
#pragma once
#include <optional>

#include "builtins/builtin.h"
#include "ir/op.h"

namespace tenon {

/// What a call gives: a type, and the value where it is known (None, and numbers that stand for a list or a default).
struct Given {
  Type type;
  std::string name = {};   ///< of a keyword argument
  bool empty_list = false; ///< the literal [], which is a list of whatever is asked for
};

/// How one argument of the schema is made.
struct Passed {
  enum class From : uint8_t {
    Given,   ///< argument number `index`, converted by `convert`
    Default, ///< the schema's default
    List,    ///< a list of the arguments from number `index` on, `count` of them: f(x, 2, 3) for int[]
    Repeat,  ///< a list of `count` times argument number `index`: int[2] from an int
  };
  From from = From::Default;
  size_t index = 0, count = 0;
  /// Of one given argument: "" (as it is), "aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit", "aten::ComplexImplicit" (a
  /// tensor), "aten::Int.Scalar" and "aten::Float.Scalar" (a number), "tuple" (a tuple that becomes a list), "empty" (an empty list of the
  /// argument's type).
  std::string_view convert = {};
};

struct Resolved {
  const Schema* signature = nullptr;
  const OpDef* def = nullptr;         ///< an operator of src/ops, or
  const BuiltinOp* builtin = nullptr; ///< one of src/builtins
  bool in_place = false;              ///< "aten::add_": the row is that of the function
  bool out = false;                   ///< "aten::add.out": so it is; its result is to be written to the last argument
  std::vector<Passed> args;           ///< by schema position
  std::vector<Type> results;          ///< type variables replaced
};

/// Whether a value of type `a` may stand where `b` is asked for, without conversion: int for Optional[int], (int, int) for Tuple[int, int],
/// any tensor for Tensor; List[int] not for List[Optional[int]].
bool is_subtype(const Type& a, const Type& b);
/// The least type that both are of: Optional[int] of int and None, Tensor of two tensors; none where there is no such.
std::optional<Type> unify(const Type& a, const Type& b);

/// Resolves "aten::add" on positional arguments, then those with names; first without implicit conversions, then with them. Throws
/// Error(BadInput) that lists the candidates and what does not fit, in torch's words, where none does. Thread-safe.
Resolved resolve(std::string_view name, std::span<const Given> args);
/// The same; empty where none fits, with the message in `why`.
std::optional<Resolved> try_resolve(std::string_view name, std::span<const Given> args, std::string* why = nullptr);
/// The same on the arguments of a graph's node: all by position, those that are keyword-only too.
std::optional<Resolved> resolve_node(std::string_view name, std::span<const Given> args, std::string* why = nullptr);
/// The same for one schema, of a function or method of the program: what a call's arguments become.
std::optional<Resolved> match_schema(const Schema& schema, std::span<const Given> args, std::string* why);
/// Whether any operator has that name.
bool is_operator(std::string_view name);

} // namespace tenon
