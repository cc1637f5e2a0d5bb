// GraphImpl: uses, places, calls by schema.
#include "api/graph_impl.h"

#include <algorithm>

#include "ir/op.h"

namespace tenon::ir {

GraphImpl::GraphImpl(tenon::Graph g, Dialect d) : graph(std::move(g)), dialect(d), insert_block(graph.top()) { note_block(graph.top()); }

void GraphImpl::note_block(BlockId id) {
  for (ValueId p : graph.block(id).params) {
    block_of_param[p] = id;
    graph.value(p).name = unique_name(graph.value(p).name);
  }
  for (NodeId n : graph.block(id).nodes) note_node(n, id);
  add_uses({true, id.index});
}

void GraphImpl::note_node(NodeId id, BlockId block) {
  block_of[id] = block;
  const tenon::Node& n = graph.node(id);
  for (ValueId v : n.outputs) graph.value(v).name = unique_name(name(v).empty() && !is_script() ? name_of_node(id) : name(v));
  add_uses({false, id.index});
  for (BlockId b : n.blocks) note_block(b);
}

void GraphImpl::add_uses(User user) {
  std::vector<ValueId> list = inputs(user);
  for (size_t i = 0; i < list.size(); i++) uses[list[i]].push_back({user, i});
}

void GraphImpl::remove_uses(User user) {
  for (ValueId v : inputs(user)) std::erase_if(uses[v], [&](const Use& use) { return use.user == user; });
}

std::string GraphImpl::name_of_node(NodeId id) const {
  const tenon::Node& n = graph.node(id);
  if (n.outputs.size() == 1 && !name(n.outputs[0]).empty()) return name(n.outputs[0]);
  return std::string(n.op.base());
}

std::string GraphImpl::unique_name(std::string wanted) {
  for (char& c : wanted)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  if (wanted.empty() && is_script()) { // TorchScript numbers them
    do wanted = std::to_string(next_number_++);
    while (!names.insert(wanted).second);
    return wanted;
  }
  if (wanted.empty()) wanted = "arg";
  std::string unique = wanted;
  for (int k = 1; !names.insert(unique).second; k++) unique = fmt::format("{}{}{}", wanted, is_script() ? '.' : '_', k);
  return unique;
}

std::vector<ValueId> GraphImpl::inputs(User user) const {
  std::vector<ValueId> list;
  auto add = [&](const tenon::Arg& a) { for_each_value(a, [&](ValueId v) { list.push_back(v); }); };
  if (user.is_block) std::ranges::for_each(graph.block(BlockId{user.id}).returns, add);
  else {
    std::ranges::for_each(graph.node(NodeId{user.id}).args, add);
    for (const Attribute& a : graph.node(NodeId{user.id}).attributes) add(a.value);
  }
  return list;
}
std::vector<ValueId> GraphImpl::inputs(NodeId id) const { return inputs(User{false, id.index}); }

size_t GraphImpl::position(NodeId id) const {
  auto& nodes = graph.block(block_of.get(id)).nodes;
  return static_cast<size_t>(std::ranges::find(nodes, id) - nodes.begin());
}

bool GraphImpl::precedes(NodeId a, NodeId b) const {
  auto depth = [&](NodeId n) {
    size_t d = 0;
    for (BlockId k = block_of.get(n); graph.block(k).owner.valid(); k = block_of.get(graph.block(k).owner)) d++;
    return d;
  };
  size_t da = depth(a), db = depth(b);
  for (; da > db; da--) a = graph.block(block_of.get(a)).owner;
  for (; db > da; db--) b = graph.block(block_of.get(b)).owner;
  while (block_of.get(a) != block_of.get(b)) a = graph.block(block_of.get(a)).owner, b = graph.block(block_of.get(b)).owner;
  return position(a) < position(b);
}

std::string GraphImpl::text(NodeId id) const {
  std::string s = to_string(graph, id);
  return s.substr(0, std::min({s.find('\n'), s.find("  # File"), size_t{400}}));
}

void GraphImpl::set_args(NodeId id, ArgList now) {
  remove_uses({false, id.index});
  args(id) = std::move(now);
  add_uses({false, id.index});
}

void GraphImpl::set_attributes(NodeId id, std::vector<Attribute> now) {
  remove_uses({false, id.index});
  graph.node(id).attributes = std::move(now);
  add_uses({false, id.index});
}

void GraphImpl::set_returns(BlockId id, ArgList now) {
  remove_uses({true, id.index});
  graph.block(id).returns = std::move(now);
  add_uses({true, id.index});
}

void GraphImpl::number(const std::vector<ValueId>& values) {
  for (size_t i = 0; i < values.size(); i++) graph.value(values[i]).index = static_cast<uint32_t>(i);
}

void GraphImpl::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  auto rename = [&](tenon::Arg& a) { a = map_values(a, [&](ValueId v) { return v == from ? to : v; }); };
  while (!uses[from].empty()) {
    User user = uses[from].back().user;
    remove_uses(user);
    if (user.is_block) std::ranges::for_each(graph.block(BlockId{user.id}).returns, rename);
    else {
      std::ranges::for_each(args(NodeId{user.id}), rename);
      for (Attribute& a : graph.node(NodeId{user.id}).attributes) rename(a.value);
    }
    add_uses(user);
  }
}

void GraphImpl::destroy(NodeId id) {
  for (ValueId v : graph.node(id).outputs)
    if (!uses.get(v).empty()) fail(id, "destroy: %{} is used", name(v));
  for (BlockId b : graph.node(id).blocks) {
    set_returns(b, {});
    while (!graph.block(b).nodes.empty()) destroy(graph.block(b).nodes.back());
  }
  remove_uses({false, id.index});
  if (insert_before == id) {
    auto& nodes = graph.block(block_of[id]).nodes;
    size_t next = position(id) + 1;
    insert_before = next < nodes.size() ? nodes[next] : NodeId{};
  }
  for (ValueId v : graph.node(id).outputs) names.erase(name(v));
  std::erase(graph.block(block_of[id]).nodes, id);
  block_of[id] = BlockId{};
}

void GraphImpl::insert(const std::function<void(BlockId)>& append) {
  auto& nodes = graph.block(insert_block).nodes;
  size_t before = nodes.size(), at = insert_before.valid() ? position(insert_before) : before;
  try {
    append(insert_block);
  } catch (...) { // nodes before the one that was refused
    nodes.resize(before);
    throw;
  }
  for (size_t i = before; i < nodes.size(); i++) note_node(nodes[i], insert_block);
  std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(at), nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end());
}

void GraphImpl::set_insert_point(BlockId block, NodeId before) {
  bool there = before.valid() && block_of.get(before).valid();
  insert_block = there ? block_of.get(before) : block;
  insert_before = there ? before : NodeId{};
}

void GraphImpl::move(NodeId id, BlockId block, size_t at) {
  for (BlockId b = block; graph.block(b).owner.valid(); b = block_of.get(graph.block(b).owner))
    if (graph.block(b).owner == id) fail(id, "a node is moved into a block of its own");
  auto& from = graph.block(block_of[id]).nodes;
  if (block_of[id] == block && position(id) < at) at--;
  std::erase(from, id);
  auto& to = graph.block(block).nodes;
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), id);
  block_of[id] = block;
}

ArgList GraphImpl::schema_args(const OpDef& def, ArgList given, const std::vector<Attribute>& kwargs) const {
  auto& schema = def.signature.args;
  require_input(given.size() <= schema.size(), "{} takes {} arguments, {} are given", def.signature.name, schema.size(), given.size());
  std::vector<bool> is_given(schema.size(), false);
  std::fill_n(is_given.begin(), given.size(), true);
  given.resize(schema.size());
  for (const Attribute& k : kwargs) {
    int i = def.signature.find(k.name);
    require_input(i >= 0, "{} has no argument {}", def.signature.name, k.name);
    size_t at = static_cast<size_t>(i);
    require_input(!is_given[at], "{}: argument {} is given twice", def.signature.name, k.name);
    given[at] = k.value, is_given[at] = true;
  }
  for (size_t i = 0; i < schema.size(); i++) {
    if (is_given[i]) continue;
    require_input(schema[i].has_default, "{}: argument {} is missing", def.signature.name, schema[i].name);
    given[i] = schema[i].fallback;
  }
  return given;
}

namespace {

// How far a call is from a schema: numbers where it has tensors count. None: it does not fit.
std::optional<int> distance(const tenon::Graph& g, const OpDef& def, const ArgList& args) {
  int far = 0;
  for (size_t i = 0; i < args.size(); i++) {
    const SchemaArg& s = def.signature.args[i];
    if (!fits(g, s, args[i])) return std::nullopt;
    bool value = args[i].is<ValueId>() && g.type(args[i].get<ValueId>()).is_tensor();
    far += (s.type == ArgType::Tensor && !s.list && !value && !args[i].is_none()) || (s.type != ArgType::Tensor && value);
  }
  return far;
}

} // namespace

const OpDef& GraphImpl::choose_op(std::string_view name, const ArgList& args, const std::vector<Attribute>& kwargs) const {
  if (const OpDef* def = find_op(name)) return *def;
  std::string stem(name);
  if (stem.starts_with("edge::")) stem = "aten::" + stem.substr(6);
  const OpDef* best = nullptr;
  int least = INT_MAX;
  bool any = false;
  std::string why;
  if (stem.find('.') == stem.npos)
    for (const OpDef* def : all_ops()) {
      if (!def->signature.name.starts_with(stem + ".")) continue;
      any = true;
      try {
        auto far = is_pattern ? std::optional(0) : distance(graph, *def, schema_args(*def, args, kwargs));
        if (is_pattern) schema_args(*def, args, kwargs);
        if (far && *far < least) best = def, least = *far;
      } catch (const Error& e) {
        if (why.empty()) why = fmt::format(": {}", e.what());
      }
    }
  if (!any) unsupported("{}", name);
  require_input(best != nullptr, "no overload of {} takes these arguments{}", name, why);
  return *best;
}

} // namespace tenon::ir
