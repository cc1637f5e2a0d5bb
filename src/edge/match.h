// What the Edge passes ask of values: who made them, which number they are filled with.
#pragma once
#include <optional>
#include <unordered_map>

#include "ir/pass.h"

namespace tenon {

/// The node that makes `v`, where it is a call of `op` (edge::permute); else null.
inline const Node* made_by(const Graph& g, ValueId v, OpId op) {
  NodeId id = g.value(v).node;
  return id.valid() && g.node(id).op == op ? &g.node(id) : nullptr;
}

/// The number in every element, where `v` is an edge::full of a known number; as the dtype holds it.
std::optional<double> filled_with(const Graph& g, ValueId v);
/// `v` rounded to what the dtype holds; none where it is not representable in an integer.
std::optional<double> round_to(double v, DType t);
/// The same number as an argument of edge::full.
Arg fill_value(double v, DType t);

/// How often each value of a graph is used: by nodes, attributes and returns, blocks included.
std::unordered_map<ValueId, int> count_uses(const Graph& g);

/// Whether a node may be replaced, by a look at the graph as it is.
using Concerns = std::function<bool(const Graph& from, const Node& node)>;
/// The values that stand for a node's results from now on; none: the node stays.
using Replace = std::function<std::vector<ValueId>(Rewriter& r, const Node& node)>;
/// One walk over the program in which `replace` sees every node that `concerns` holds for, in order, blocks included; whether anything was
/// replaced. Where it holds for none, which is usual, nothing is copied.
bool rewrite_nodes(LoadedProgram& program, const Concerns& concerns, const Replace& replace);
/// Whether any node, of blocks too, calls `op`.
bool has_call(const Graph& g, OpId op);

} // namespace tenon
