#include "autodiff/activity.h"

#include <algorithm>

#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

bool is_tensor(const Type& t) { return t.is_any_tensor() || (t.is(TypeKind::Optional) && t.element().is_any_tensor()); }

bool has_tensors(const Type& t) {
  return t.is_any_tensor() || t.is(TypeKind::Any) || std::any_of(t.elements().begin(), t.elements().end(), has_tensors);
}

Activity::Activity(const Graph& graph, std::span<const ValueId> wrt) : g_(graph), classes_(graph.num_values()) {
  for (uint32_t i = 0; i < g_.num_values(); i++) parent_[ValueId{i}] = i;
  index_block(g_.top());
  share_block(g_.top());
  for (ValueId v : wrt) activate(v);
  while (flow_block(g_.top())) {}
}

const Resolved* Activity::resolved(NodeId n) const { return resolved_.get(n).get(); }

const Derivative* Activity::derivative(NodeId n) const {
  const Resolved* r = resolved(n);
  return !r ? nullptr : r->def ? derivative_of(*r->def) : derivative_of(*r->builtin);
}

bool Activity::active(ValueId v) const {
  if (!is_known(v)) return false;
  const Class& c = classes_[find(v)];
  return active_.get(v) || ((c.written || c.held) && c.active);
}

bool Activity::is_operand_list(ValueId v) const {
  NodeId made = g_.value(v).node;
  if (!made.valid() || g_.node(made).op != prim::ListConstruct || uses_.get(v) != 1 || !user_.get(v).valid()) return false;
  const Node& user = g_.node(user_.get(v));
  const Resolved* r = resolved(user_.get(v));
  return r && r->def && (user.outputs.empty() || block_of(user.outputs[0]) == block_of(v));
}

bool Activity::is_unpacked_list(ValueId v) const {
  return uses_.get(v) == 1 && user_.get(v).valid() && g_.node(user_.get(v)).op == prim::ListUnpack &&
         (g_.node(user_.get(v)).outputs.empty() || block_of(g_.node(user_.get(v)).outputs[0]) == block_of(v));
}

// ---- uses, and what operators calls mean

void Activity::index_block(BlockId id) {
  const Block& b = g_.block(id);
  for (ValueId p : b.params) block_of_[p] = id;
  for (NodeId n : b.nodes) index_node(n, id);
  for (const Arg& a : b.returns) uses_[a.get<ValueId>()]++, user_[a.get<ValueId>()] = {};
}

void Activity::index_node(NodeId id, BlockId block) {
  const Node& n = g_.node(id);
  for (const Arg& a : n.args) uses_[a.get<ValueId>()]++, user_[a.get<ValueId>()] = id;
  for (ValueId o : n.outputs) block_of_[o] = block;
  for (BlockId inner : n.blocks) index_block(inner);
  static const std::vector<OpId> own{prim::Constant,
                                     prim::If,
                                     prim::Loop,
                                     prim::Uninitialized,
                                     prim::isinstance,
                                     prim::ListUnpack,
                                     prim::ListConstruct,
                                     prim::TupleConstruct,
                                     prim::DictConstruct,
                                     prim::TupleUnpack,
                                     prim::TupleIndex,
                                     prim::RaiseException,
                                     prim::Print,
                                     prim::unchecked_cast,
                                     call::_unwrap_optional,
                                     prim::unchecked_unwrap_optional};
  if (std::find(own.begin(), own.end(), n.op) != own.end()) return;
  std::vector<Given> given;
  for (const Arg& a : n.args) given.push_back({g_.type(a.get<ValueId>())});
  std::string why;
  auto r = resolve_node(n.op, given, &why);
  if (!r) bad_input("{}: {}{}", n.op, why, n.origin && !n.origin->range.empty() ? "\n  at " + n.origin->range : "");
  resolved_[id] = std::make_shared<const Resolved>(std::move(*r));
}

// ---- what shares memory, or holds what

uint32_t Activity::find(ValueId v) const {
  uint32_t at = parent_.get(v);
  while (parent_.get(ValueId{at}) != at) at = parent_[ValueId{at}] = parent_.get(ValueId{parent_.get(ValueId{at})});
  return at;
}

void Activity::join(ValueId a, ValueId b) {
  if (!has_tensors(g_.type(a)) || !has_tensors(g_.type(b))) return;
  uint32_t x = find(a), y = find(b);
  if (x == y) return;
  parent_[ValueId{y}] = x;
  classes_[x].written |= classes_[y].written, classes_[x].held |= classes_[y].held;
}

// All tensors and holders of a node are of one class.
void Activity::join_all(const Node& n, bool holds) {
  std::vector<ValueId> all;
  for (const Arg& a : n.args) all.push_back(a.get<ValueId>());
  all.insert(all.end(), n.outputs.begin(), n.outputs.end());
  std::erase_if(all, [&](ValueId v) { return !has_tensors(g_.type(v)); });
  for (ValueId v : all) {
    join(all[0], v);
    if (holds) held_[v] = true;
  }
  if (holds && !all.empty()) classes_[find(all[0])].held = true;
}

void Activity::share_block(BlockId id) {
  for (NodeId n : g_.block(id).nodes) share_node(n);
}

void Activity::share_node(NodeId id) {
  const Node& n = g_.node(id);
  for (BlockId b : n.blocks) share_block(b);
  if (n.op == prim::If) {
    for (BlockId b : n.blocks)
      for (size_t i = 0; i < n.outputs.size(); i++) join(n.outputs[i], g_.block(b).returns.at(i).get<ValueId>());
  } else if (n.op == prim::Loop) {
    const Block& body = g_.block(n.blocks.at(0));
    for (size_t i = 0; i < n.outputs.size(); i++) {
      join(n.outputs[i], n.args.at(i + 2).get<ValueId>());
      join(n.outputs[i], body.params.at(i + 1));
      join(n.outputs[i], body.returns.at(i + 1).get<ValueId>());
    }
  } else if (const Resolved* r = resolved(id)) share_call(id, *r);
  else if (n.op == prim::unchecked_cast || n.op == call::_unwrap_optional || n.op == prim::unchecked_unwrap_optional) join_all(n, false);
  else if (n.op == prim::ListConstruct && is_operand_list(n.outputs.at(0))) join_all(n, false);
  else if (n.op == prim::ListUnpack && is_unpacked_list(n.args.at(0).get<ValueId>())) join_all(n, false);
  else if (is_only_returned(n)) return;
  else if (n.op != prim::Constant && n.op != prim::isinstance && n.op != prim::Print) join_all(n, true);
}

// A tuple or list that the program makes of its results: nobody reads it here.
bool Activity::is_only_returned(const Node& n) const {
  bool makes = n.op == prim::TupleConstruct || n.op == prim::ListConstruct || n.op == prim::DictConstruct;
  return makes && uses_.get(n.outputs[0]) == 1 && !user_.get(n.outputs[0]).valid() && block_of(n.outputs[0]) == g_.top();
}

void Activity::share_call(NodeId id, const Resolved& r) {
  const Node& n = g_.node(id);
  bool holders = std::any_of(n.args.begin(), n.args.end(), [&](const Arg& a) {
    const Type& t = g_.type(a.get<ValueId>());
    return has_tensors(t) && !is_tensor(t);
  });
  if (r.builtin && holders) return join_all(n, true);
  bool shares = std::any_of(r.signature->returns.begin(), r.signature->returns.end(), [](auto& a) { return !a.alias.empty(); });
  if (shares) join_all(n, false);
  if (r.def && holders && !n.outputs.empty())
    for (const Arg& a : n.args)
      if (ValueId v = a.get<ValueId>(); !is_tensor(g_.type(v)) && has_tensors(g_.type(v)) && !is_operand_list(v))
        classes_[find(v)].held = true;
  if (r.def)
    for (ValueId o : n.outputs)
      if (!is_tensor(g_.type(o)) && has_tensors(g_.type(o)) && !is_unpacked_list(o)) classes_[find(o)].held = true;
  for (size_t i = 0; i < r.signature->args.size() && i < n.args.size(); i++)
    if (r.def && r.signature->args[i].written) classes_[find(n.args[i].get<ValueId>())].written = true;
}

// ---- what depends on what gradients are asked for

bool Activity::activate(ValueId v) {
  bool news = !active_.get(v) || !classes_[find(v)].active;
  active_[v] = true;
  classes_[find(v)].active = true;
  return news;
}

bool Activity::flow(ValueId from, ValueId to) { return active(from) && has_tensors(g_.type(to)) && activate(to); }

bool Activity::flow_block(BlockId id) {
  bool changed = false;
  for (NodeId n : g_.block(id).nodes) changed |= flow_node(n);
  return changed;
}

bool Activity::flow_node(NodeId id) {
  const Node& n = g_.node(id);
  bool changed = false;
  for (BlockId b : n.blocks) changed |= flow_block(b);
  if (n.op == prim::If) {
    for (BlockId b : n.blocks)
      for (size_t i = 0; i < n.outputs.size(); i++) changed |= flow(g_.block(b).returns[i].get<ValueId>(), n.outputs[i]);
    return changed;
  }
  if (n.op == prim::Loop) {
    const Block& body = g_.block(n.blocks[0]);
    for (size_t i = 0; i < n.outputs.size(); i++) {
      changed |= flow(n.args[i + 2].get<ValueId>(), body.params[i + 1]);
      changed |= flow(body.returns[i + 1].get<ValueId>(), body.params[i + 1]);
      changed |= flow(body.params[i + 1], n.outputs[i]);
    }
    return changed;
  }
  const Resolved* r = resolved(id);
  const Derivative* d = derivative(id);
  if (d && d->stops() && !(r->in_place && active(n.args[0].get<ValueId>()))) return changed;
  for (size_t i = 0; i < n.args.size(); i++) {
    if (d && !d->result && i < r->signature->args.size() && !d->rule_of(r->signature->args[i].name)) continue;
    ValueId v = n.args[i].get<ValueId>();
    if (!active(v)) continue;
    for (ValueId o : n.outputs) changed |= flow(v, o);
    if (r && r->def && r->signature->args[0].written) changed |= flow(v, n.args[0].get<ValueId>());
    // What a builtin puts into a holder.
    if (!r || r->builtin)
      for (const Arg& a : n.args)
        if (ValueId to = a.get<ValueId>(); classes_[find(to)].held) changed |= flow(v, to);
  }
  return changed;
}

} // namespace tenon::autodiff
