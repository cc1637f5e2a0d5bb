// Call: one application of an operator, with its arguments by name. What shape rules, bodies, definitions and
// decompositions are written against.
#pragma once
#include <optional>
#include <span>

#include "ir/graph.h"
#include "ir/schema.h"

namespace tenon {

class Call {
public:
  Call(const Graph& graph, const OpDef& def, const ArgList& args, std::span<const Attribute> attributes = {})
      : graph(graph), def(def), args(args), attributes(attributes) {}
  const Graph& graph;
  const OpDef& def;
  const ArgList& args;
  std::span<const Attribute> attributes; ///< of the node, where the call is one

  ExprPool& pool() const { return graph.pool(); }
  const Arg& operator[](std::string_view name) const;
  /// Given, and not None.
  bool has(std::string_view name) const { return !(*this)[name].is_none(); }
  /// A tensor argument.
  ValueId value(std::string_view name) const;
  std::vector<ValueId> values(std::string_view name) const;
  const Type& type(std::string_view name) const { return graph.type(value(name)); }
  size_t rank(std::string_view name) const { return type(name).rank(); }
  Expr size(std::string_view name, int64_t dim) const; ///< negative dims count from the end
  /// An integer that must be known at compile time; Unsupported where it is symbolic.
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t if_none) const { return has(name) ? integer(name) : if_none; }
  std::vector<int64_t> integers(std::string_view name) const;
  /// Integers as expressions; one number stands for a whole fixed-length list.
  Expr sym(std::string_view name) const;
  std::vector<Expr> syms(std::string_view name) const;
  /// A dim index, wrapped into [0, rank); an error names the operator where it is out of range.
  int64_t dim(std::string_view name, size_t rank) const;
  /// Dims, wrapped; none or an empty list means all dims where `empty_is_all`.
  std::vector<int64_t> dims(std::string_view name, size_t rank, bool empty_is_all = true) const;
  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  /// A Scalar as an expression: I64, F64 or Bool.
  Expr scalar(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  [[noreturn]] void fail(const std::string& why) const; ///< BadInput, naming the operator
};

int64_t wrap_dim(int64_t dim, size_t rank, std::string_view op);
Expr to_expr(ExprPool& pool, const Arg& arg);

} // namespace tenon
