// What is known of a value while a script graph is lifted.
#pragma once
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "builtins/ivalue.h"
#include "ir/builder.h"

namespace tenon::executor {

struct Lift; // any of what follows
using Lifts = std::vector<Lift>;

/// A tensor with its identity: writes give it another value. Views follow what they are views of.
struct TensorState {
  ValueId value; ///< of the graph
  uint32_t version = 0;
  int depth = 0;                   ///< of blocks, where it was made
  std::optional<size_t> leaf = {}; ///< of an argument
  bool is_fixed = false;           ///< shows memory of another that it does not follow: neither may be written
  bool is_row_major = false;       ///< in every call of the plan

  std::shared_ptr<TensorState> shows = {}; ///< at the end of a block: which tensor this is the value of

  // Of a view:
  std::shared_ptr<TensorState> base = {};
  uint32_t base_version = 0; ///< with which `value` was computed
  NodeId view = {};          ///< the call that made it
  size_t base_arg = 0;       ///< which argument of it the base is
  uint32_t output = 0;       ///< which result of it this is
};
using TensorP = std::shared_ptr<TensorState>;
inline const TensorState& root_of(const TensorState& t) { return t.base ? root_of(*t.base) : t; }

struct NumberState {
  Expr value; ///< Bool, I64 or F64
};

/// The number of a loop's iteration: as long as it only picks elements, it need not be computed.
struct Induction {
  int loop = 0; ///< its depth
};

/// Slices of a tensor along dim 0, as a list.
struct RowsState {
  TensorP stack;
  Expr length;
  bool of_numbers = false; ///< elements are numbers, the stack is of rank 1
};

/// A list has identity.
struct ListState {
  Lifts items;
  std::shared_ptr<RowsState> rows = {}; ///< where it is of these instead
  int depth = 0;
  std::optional<std::vector<uint32_t>> path = {}; ///< of an argument
  bool is_written = false;
  bool is_fixed = false; ///< may be another list as well: it must not be written
  TypeKind element = TypeKind::Any;
};
using ListP = std::shared_ptr<ListState>;

struct TupleState {
  std::shared_ptr<const Lifts> items;
};

/// An argument that is only handed on.
struct Opaque {
  std::vector<uint32_t> path;
};

/// Of prim::Uninitialized: anything will do.
struct Undefined {};

struct Lift {
  std::variant<IValue, NumberState, Induction, TensorP, ListP, TupleState, Opaque, Undefined> v;
  template <class T> const T* as() const { return std::get_if<T>(&v); }
};

} // namespace tenon::executor
