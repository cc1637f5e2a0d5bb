// Constants of graphs and schemas as IValues.
#pragma once
#include "builtins/ivalue.h"
#include "ir/schema.h"

namespace tenon::executor {

/// Of a node prim::Constant, which its type says how to read: a list, or a tuple.
IValue constant_of(const Graph& graph, const Node& node);
/// The default of a schema's argument; torch's words, as `mean`, become its numbers.
IValue default_of(const SchemaArg& arg);
/// An argument of an operator on tensors as its row takes it. Tensors are asked for by `tensor`.
Arg arg_of(const SchemaArg& schema, const IValue& v, const std::function<Arg(const IValue&)>& tensor);

} // namespace tenon::executor
