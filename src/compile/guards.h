// What a program takes for granted about its symbolic sizes, as conditions to check when it runs.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// Conditions on sizes under which the node's definition reads only inside its operands. torch.export proved them for the
/// programs it wrote; a damaged program may name other symbols. Sizes that are numbers were checked when types were
/// inferred, but for those of as_strided.
std::vector<Expr> size_guards(const Graph& graph, const Node& node);

} // namespace tenon
