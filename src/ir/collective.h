// Nodes that other ranks take part in.
#pragma once
#include "ir/graph.h"

namespace tenon {

/// Whether the node begins a collective operation (ops/collective.cpp): it stays, however often its result is read, and in the order that
/// such nodes have in the program, which is how ranks know each other's.
bool is_collective(const Node& node);
/// Whether the node gives the result of one.
bool is_wait(const Node& node);
/// Whether any node, inside of blocks too, is a collective or made of some.
bool has_collectives(const Graph& graph);
/// A group that a node names, and how many ranks it was exported for; 0: not told.
struct GroupUse {
  std::string op, group;
  int64_t ranks;
};
std::vector<GroupUse> groups_of(const Graph& graph);

} // namespace tenon
