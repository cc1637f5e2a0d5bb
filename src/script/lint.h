// What holds for every script graph.
#pragma once
#include "ir/graph.h"

namespace tenon::script {

/// Throws Error(BadInput) that names the node: for values used where they are not defined, arguments that are no values, operators whose
/// arguments fit no overload or whose results are of other types, blocks of prim::If and prim::Loop that do not give what the node gives.
/// Operators that are not known are left to build_code, which lists them all.
void lint(const Graph& graph);
/// The types of what prim:: operators on containers give, which follow from those of their arguments: a tuple, a list, a tuple's elements.
/// Empty for other operators, and where the types do not tell. Throws Error(BadInput) where they do not fit.
std::vector<Type> container_results(const Graph& graph, OpId op, const ArgList& args);

} // namespace tenon::script
