// The dtype constraints of Edge operators: made from the rows, and checked.
#include "edge/constraints.h"

#include <algorithm>
#include <map>

#include "edge/operand_types.h"

namespace tenon {

namespace {

// The alias of a set, made where there is none.
std::string alias_of(EdgeOp& op, DTypes types) {
  for (auto& [name, have] : op.aliases)
    if (have == types) return name;
  op.aliases.emplace_back(fmt::format("T{}", op.aliases.size()), types);
  return op.aliases.back().first;
}

EdgeOp edge_op(const OpDef& def) {
  const std::string& name = def.signature.name;
  size_t at = name.find("::");
  EdgeOp op{.func = name.substr(at + 2), .name_space = "edge", .inherits = name, .aliases = {}, .constraints = {}};
  for (const OperandTypes& types : operand_types(def)) {
    auto& entry = op.constraints.emplace_back();
    for (auto& [arg, set] : types.args) entry.emplace_back(arg, alias_of(op, set));
    for (size_t i = 0; i < types.results.size(); i++) entry.emplace_back(fmt::format("__ret_{}", i), alias_of(op, types.results[i]));
  }
  return op;
}

const EdgeOp* find_edge_op(std::string_view name) {
  static const auto index = [] {
    std::map<std::string, const EdgeOp*, std::less<>> out;
    for (const EdgeOp& op : edge_ops()) out[op.name()] = &op;
    return out;
  }();
  auto it = index.find(name);
  if (it == index.end()) it = index.find(std::string(name) + ".default");
  return it == index.end() ? nullptr : it->second;
}

// The tensors of an argument, or of "__ret_0".
std::vector<ValueId> tensors_of(const Graph& g, const Node& n, const std::string& what) {
  std::vector<ValueId> out;
  auto add = [&](ValueId v) {
    if (g.type(v).is_tensor()) out.push_back(v);
  };
  if (what.starts_with("__ret_")) {
    size_t i = std::stoul(what.substr(6));
    if (i < n.outputs.size()) add(n.outputs[i]);
  } else if (int i = n.def->signature.find(what); i >= 0) for_each_value(n.args[static_cast<size_t>(i)], add);
  return out;
}

// Why no entry holds: the first argument that none of those has which held before it; empty where one holds.
std::string refusal_of_types(const Graph& g, const Node& n, const EdgeOp& op) {
  using Entry = std::vector<std::pair<std::string, std::string>>;
  std::vector<const Entry*> left;
  for (auto& entry : op.constraints) left.push_back(&entry);
  std::vector<std::string> names;
  for (auto& entry : op.constraints)
    for (auto& [what, alias] : entry)
      if (std::ranges::find(names, what) == names.end()) names.push_back(what);
  for (const std::string& what : names)
    for (ValueId v : tensors_of(g, n, what)) {
      DTypes allowed = 0;
      std::vector<const Entry*> now;
      for (const Entry* entry : left) {
        auto c = std::ranges::find(*entry, what, [](auto& c) { return c.first; });
        DTypes here = c == entry->end() ? every_type : *op.alias(c->second);
        allowed |= here;
        if (has(here, g.type(v).dtype)) now.push_back(entry);
      }
      if (now.empty())
        return fmt::format("{} is {}, where {} allowed", what, torch_name(g.type(v).dtype),
                           allowed ? fmt::format("[{}] is", list_of(allowed)) : "nothing is");
      left = std::move(now);
    }
  return {};
}

} // namespace

const DTypes* EdgeOp::alias(std::string_view name) const {
  for (auto& [have, types] : aliases)
    if (have == name) return &types;
  return nullptr;
}

const std::vector<EdgeOp>& edge_ops() {
  static const auto made = [] {
    std::vector<EdgeOp> out;
    for (const OpDef* def : all_ops())
      if (def->stays_in_edge() && def->signature.name.starts_with("aten::") && !def->signature.mutates()) out.push_back(edge_op(*def));
    return out;
  }();
  return made;
}

std::optional<DTypes> allowed_set(std::string_view name, std::string_view argument) {
  const EdgeOp* op = find_edge_op(name);
  if (!op) return std::nullopt;
  DTypes types = 0;
  bool known = false;
  for (auto& entry : op->constraints)
    for (auto& [what, alias] : entry)
      if (what == argument) types |= *op->alias(alias), known = true;
  return known ? std::optional(types) : std::nullopt;
}

void check_edge_types(const Graph& g, const std::vector<EdgeOp>& instead, ErrorKind kind) {
  std::map<const OpDef*, const EdgeOp*> given; // by row: the name may leave out ".default"
  for (const EdgeOp& op : instead)
    if (op.name_space == "edge") given[find_op(op.name())] = &op;
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    const Node& n = g.node(NodeId{i});
    if (!n.def || n.op.dialect() != "edge") continue;
    auto own = given.find(n.def);
    const EdgeOp* op =
        own == given.end() ? find_edge_op("edge" + n.def->signature.name.substr(n.def->signature.name.find("::"))) : own->second;
    if (!op) continue;
    if (std::string why = refusal_of_types(g, n, *op); !why.empty()) {
      std::string text = to_string(g, NodeId{i});
      throw Error(kind, fmt::format("{} in `{}`", why, text.substr(0, std::min(text.find('\n'), text.find("  # File")))));
    }
  }
}

} // namespace tenon
