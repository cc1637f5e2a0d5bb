// What a resolved call becomes in a graph: before the node itself, those that make its arguments what the schema asks for.
#pragma once
#include "builtins/resolve.h"

namespace tenon::script {

class CallWriter {
public:
  /// Appends a node and gives its results. `of` is the number of the given argument that it is made for; none: of the call.
  using Append = std::function<std::vector<ValueId>(OpId op, ArgList args, std::vector<Type> types, std::optional<size_t> of)>;
  CallWriter(Graph& graph, Append append) : g_(graph), append_(std::move(append)) {}

  /// The call's arguments in the schema's order: converted, packed into lists, defaults as constants. Throws Error(BadInput) for a default
  /// that is no constant.
  ArgList arguments(const Resolved& call, std::span<const ValueId> given);
  /// A node prim::Constant; None where `value` is none.
  ValueId constant(Arg value, Type type, std::optional<size_t> of = {});

private:
  ValueId one(OpId op, ArgList args, Type type, std::optional<size_t> of = {});
  ValueId argument(const Passed& p, const SchemaArg& schema, std::span<const ValueId> given);
  ValueId converted(const Passed& p, const SchemaArg& schema, size_t i, ValueId v);
  ValueId default_value(const SchemaArg& schema);

  Graph& g_;
  Append append_;
};

} // namespace tenon::script
