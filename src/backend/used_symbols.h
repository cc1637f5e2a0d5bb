// Which symbols sizes, arguments and nodes are made of.
#pragma once
#include <unordered_set>

#include "ir/graph.h"

namespace tenon {

using Symbols = std::unordered_set<const ExprNode*>;

void add_symbols(Expr e, Symbols& out); ///< e may be empty
void add_symbols(const Type& t, Symbols& out);
/// Symbols that the node, or one inside it, computes with.
void add_symbols(const Graph& g, NodeId id, Symbols& out);

} // namespace tenon
