// Collectives are the operators of a dialect of their own that name a group of ranks; the others wait for them.
#include "ir/collective.h"

#include "ir/op.h"

namespace tenon {

static bool is_of_dialect(const Node& n) { return n.def && n.op.dialect() == "_c10d_functional"; }
static bool names_group(const Node& n) { return n.def->signature.find("group_name") >= 0; }

bool is_collective(const Node& n) { return is_of_dialect(n) && n.def->library && names_group(n); }
bool is_wait(const Node& n) { return is_of_dialect(n) && n.def->library && !names_group(n); }

bool has_collectives(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (is_of_dialect(g.node(NodeId{i}))) return true;
  return false;
}

std::vector<GroupUse> groups_of(const Graph& g) {
  std::vector<GroupUse> out;
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    const Node& n = g.node(NodeId{i});
    if (!is_of_dialect(n) || !names_group(n)) continue;
    auto arg = [&](std::string_view name) { // as it stands: expressions may be frozen
      int at = n.def->signature.find(name);
      return at >= 0 ? n.args[static_cast<size_t>(at)] : Arg();
    };
    GroupUse& use = out.emplace_back(GroupUse{n.op.name(), arg("group_name").get<std::string>(), 0});
    if (Arg ranks = arg("group_size"); ranks.is<int64_t>()) use.ranks = ranks.get<int64_t>();
    if (Arg parts = arg("output_split_sizes"); parts.is<ArgList>()) use.ranks = std::ssize(parts.get<ArgList>());
  }
  return out;
}

} // namespace tenon
