#include "autodiff/reverse.h"

#include <algorithm>

#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

namespace {

Type tensor_type() { return Type::simple(TypeKind::Dynamic); }

} // namespace

Reverse::Reverse(Graph& graph, const Activity& activity, BlockId backward)
    : g_(graph), activity_(activity), saved_(graph, activity), top_{.forward = graph.top(), .backward = backward} {
  grads_ = append_one(g_, backward, prim::DictConstruct, {}, Type::dict(Type::simple(TypeKind::Int), Type::simple(TypeKind::Any)));
}

ValueId Reverse::none(BlockId block) { return append_constant(g_, block, {}, Type::simple(TypeKind::None)); }

// ---- gradients of values

ValueId Reverse::joined(ValueId a, ValueId b, BlockId block) {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  if (is_surely(a) && is_surely(b)) return call(block, "both", {a, b});
  if (is_surely(a)) std::swap(a, b);
  return call(block, is_surely(b) ? "add_to" : "either", {a, b});
}

void Reverse::add(ValueId v, ValueId grad, Mirror& m) {
  if (!grad.valid() || !activity_.active(v)) return;
  if (is_tensor(g_.type(v)) && activity_.written(v)) {
    call(m.backward, "add_to_memory", {grads_, saved_.reach(v, m), grad});
    return;
  }
  ValueId& sum = m.grads[v];
  sum = joined(sum, grad, m.backward);
}

void Reverse::add_all(const Shares& shares, Mirror& m) {
  for (const Share& s : shares) add(s.to, s.grad, m);
}

ValueId Reverse::taken(ValueId v, Mirror& m) {
  ValueId grad;
  if (auto it = m.grads.find(v); it != m.grads.end()) grad = it->second, m.grads.erase(it);
  if (activity_.active(v) && is_tensor(g_.type(v)) && activity_.held(v) && !activity_.written(v))
    grad = joined(grad, call(m.backward, "take", {grads_, saved_.reach(v, m)}), m.backward);
  return grad;
}

// Of what an operator gives; afterwards nothing is left of it.
ValueId Reverse::gradient_of_result(ValueId v, Mirror& m) {
  if (!activity_.active(v)) return {};
  if (is_tensor(g_.type(v))) return activity_.written(v) ? call(m.backward, "memory_gradient", {grads_, saved_.reach(v, m)}) : taken(v, m);
  if (activity_.is_unpacked_list(v)) return taken(v, m);
  return call(m.backward, activity_.written(v) ? "memory_gradients" : "take_all", {grads_, saved_.reach(v, m)});
}

ValueId Reverse::gradient_of_input(ValueId v) {
  ValueId here = saved_.reach(v, top_);
  BlockId block = top_.backward;
  if (!g_.type(v).is_any_tensor()) return collected(here, activity_.written(v));
  if (activity_.active(v) && activity_.written(v)) return call(block, "memory_gradient", {grads_, here});
  ValueId grad = taken(v, top_);
  return grad.valid() ? call(block, "final", {grad, here}) : call(block, "zeros", {here});
}

// Of a backward value that holds tensors.
ValueId Reverse::collected(ValueId v, bool written) {
  Type t = g_.type(v);
  BlockId block = top_.backward;
  std::string function = written ? "memory_gradient" : "take_one";
  if (t.is_any_tensor()) return call(block, function, {grads_, v});
  if (is_tensor(t)) return call(block, function + "_if_any", {grads_, v});
  if (t.is(TypeKind::List) && t.element().is_any_tensor()) return call(block, written ? "memory_gradients" : "take_all", {grads_, v});
  if (t.is(TypeKind::Dict) && t.element(1).is_any_tensor()) return call(block, function + "_of_each", {grads_, v});
  if (!t.is(TypeKind::Tuple)) bad_input("an input of type {} has no gradient", annotation(t));
  ArgList items;
  std::vector<Type> types;
  for (size_t i = 0; i < t.elements().size(); i++) {
    ValueId index = append_constant(g_, block, static_cast<int64_t>(i), Type::simple(TypeKind::Int));
    ValueId item = collected(append_one(g_, block, prim::TupleIndex, {v, index}, t.element(i)), written);
    items.emplace_back(item), types.push_back(g_.type(item));
  }
  return append_one(g_, block, prim::TupleConstruct, std::move(items), Type::tuple(std::move(types)));
}

// ---- nodes

void Reverse::undo_block(Mirror& m) {
  std::vector<NodeId> nodes = g_.block(m.forward).nodes; // it grows meanwhile
  for (size_t i = nodes.size(); i-- > 0;) {
    auto first = static_cast<uint32_t>(g_.num_nodes());
    undo_node(nodes[i], m);
    for (uint32_t k = first; k < g_.num_nodes(); k++)
      if (Node& made = g_.node(NodeId{k}); g_.node(nodes[i]).blocks.empty()) made.origin = g_.node(nodes[i]).origin;
  }
}

void Reverse::undo_node(NodeId id, Mirror& m) {
  const Node& n = g_.node(id);
  if (n.op == prim::If) return undo_if(id, m);
  if (n.op == prim::Loop) return undo_loop(id, m);
  bool any = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return activity_.active(v); });
  const Resolved* r = activity_.resolved(id);
  bool writes = r && r->def && !r->signature->args.empty() && r->signature->args[0].written;
  if (writes ? !activity_.active(n.args[0].get<ValueId>()) : !any) return;
  if (writes) return undo_in_place(id, m);
  bool reads = n.args.size() > 0 && !is_tensor(g_.type(n.args[0].get<ValueId>())); // from a holder
  if (r && (r->def || activity_.derivative(id) || !reads)) return undo_call(id, m);
  if (n.op == prim::ListConstruct && activity_.is_operand_list(n.outputs[0])) return undo_list(id, m);
  if (n.op == prim::ListUnpack && activity_.is_unpacked_list(n.args[0].get<ValueId>())) return undo_unpacked(id, m);
  if (n.op == prim::unchecked_cast || n.op == call::_unwrap_optional || n.op == prim::unchecked_unwrap_optional) return undo_cast(id, m);
  undo_read(id, m);
}

void Reverse::undo_call(NodeId id, Mirror& m) {
  const Node& n = g_.node(id);
  const Resolved* r = activity_.resolved(id);
  const Derivative* d = activity_.derivative(id);
  if (d && d->stops()) return;
  bool in_memory = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return activity_.written(v); });
  bool is_view = !r->signature->returns.empty() && !r->signature->returns[0].alias.empty();
  if (in_memory && is_view) {
    if (r->def && r->def->shares == nullptr) return; // the gradient lies in one memory, too
    return undo_view_of_written(id, m);
  }
  std::vector<ValueId> grads;
  for (ValueId o : std::vector<ValueId>(n.outputs)) grads.push_back(gradient_of_result(o, m));
  guarded(grads, [&](BlockId block, const std::vector<ValueId>& g) { return shares_of_call(id, block, g, m); }, m);
}

// A view, if it is one in this call.
void Reverse::undo_view_of_written(NodeId id, Mirror& m) {
  const Node& n = g_.node(id);
  ValueId operand = saved_.reach(n.args[0].get<ValueId>(), m), result = saved_.reach(n.outputs[0], m);
  ValueId same = append_one(g_, m.backward, call::same_memory, {operand, result}, Type::simple(TypeKind::Bool));
  NodeId branch = make_detached(g_, prim::If);
  g_.node(branch).args = {same};
  g_.add_block(branch);
  BlockId copied = g_.add_block(branch);
  ValueId grad = call(copied, "memory_gradient", {grads_, result});
  for (const Share& s : shares_of_call(id, copied, {grad}, m)) call(copied, "add_to_memory", {grads_, saved_.reach(s.to, m), s.grad});
  place(g_, m.backward, branch);
}

// x.op_(...): the gradient of what was written is that of the result, and what it was before starts anew.
void Reverse::undo_in_place(NodeId id, Mirror& m) {
  const Node& n = g_.node(id);
  ValueId grad = call(m.backward, "take_memory", {grads_, saved_.reach(n.args[0].get<ValueId>(), m)});
  const Derivative* d = activity_.derivative(id);
  if (d && d->stops()) return;
  add_all(shares_of_call(id, m.backward, {grad}, m), m);
}

void Reverse::undo_cast(NodeId id, Mirror& m) {
  const Node& n = g_.node(id);
  if (activity_.written(n.outputs[0]) || !is_tensor(g_.type(n.outputs[0]))) return;
  add(n.args[0].get<ValueId>(), taken(n.outputs[0], m), m);
}

// A list that one operator reads: its gradient is a list of theirs.
void Reverse::undo_list(NodeId id, Mirror& m) {
  ValueId grad = taken(g_.node(id).outputs[0], m);
  auto part = [&](BlockId block, const std::vector<ValueId>& g) {
    Shares shares;
    const Node& n = g_.node(id);
    NodeId unpack = append(g_, block, prim::ListUnpack, {g[0]}, std::vector<Type>(n.args.size(), g_.type(g[0]).element()));
    for (size_t i = 0; i < n.args.size(); i++)
      if (activity_.active(n.args[i].get<ValueId>())) shares.push_back({n.args[i].get<ValueId>(), g_.node(unpack).outputs[i]});
    return shares;
  };
  guarded({grad}, part, m);
}

// The parts that an operator gave: zeros for those that nothing depends on.
void Reverse::undo_unpacked(NodeId id, Mirror& m) {
  std::vector<ValueId> outputs = g_.node(id).outputs, grads;
  ValueId list = g_.node(id).args[0].get<ValueId>();
  if (activity_.written(list)) return;
  bool any = false;
  for (ValueId o : outputs) grads.push_back(taken(o, m)), any |= grads.back().valid();
  if (!any) return;
  ArgList items;
  for (size_t i = 0; i < outputs.size(); i++) {
    ValueId of = saved_.reach(outputs[i], m);
    if (!grads[i].valid()) grads[i] = call(m.backward, "zeros", {of});
    else if (!is_surely(grads[i])) grads[i] = call(m.backward, "or_zeros", {grads[i], of});
    items.emplace_back(grads[i]);
  }
  m.grads[list] = append_one(g_, m.backward, prim::ListConstruct, std::move(items), Type::list(tensor_type()));
}

// What is read from a list, tuple or dict is the tensor that was put there: its gradient stays with it.
void Reverse::undo_read(NodeId id, Mirror& m) {
  for (ValueId o : std::vector<ValueId>(g_.node(id).outputs)) {
    auto it = m.grads.find(o);
    if (it == m.grads.end()) continue;
    ValueId grad = it->second;
    m.grads.erase(it);
    call(m.backward, "put", {grads_, saved_.reach(o, m), grad});
  }
}

// ---- gradients that may be missing

void Reverse::guarded(const std::vector<ValueId>& grads, const Part& part, Mirror& m) {
  bool any = false, surely = false;
  for (ValueId g : grads) any |= g.valid(), surely |= g.valid() && is_surely(g);
  if (!any) return;
  add_all(surely ? part(m.backward, grads) : branch_on(grads, part, m), m);
}

Reverse::Shares Reverse::branch_on(const std::vector<ValueId>& grads, const Part& part, Mirror& m) {
  Type boolean = Type::simple(TypeKind::Bool);
  ValueId condition;
  for (ValueId g : grads) {
    if (!g.valid()) continue;
    ValueId is_there = append_one(g_, m.backward, call::op_isnot, {g, none(m.backward)}, boolean);
    condition = condition.valid() ? append_one(g_, m.backward, call::op_or, {condition, is_there}, boolean) : is_there;
  }
  NodeId branch = make_detached(g_, prim::If);
  g_.node(branch).args = {condition};
  BlockId then = g_.add_block(branch), otherwise = g_.add_block(branch);
  std::vector<ValueId> inside = grads;
  if (grads.size() == 1) inside[0] = append_one(g_, then, prim::unchecked_cast, {grads[0]}, g_.type(grads[0]).element());
  Shares shares = part(then, inside);
  for (Share& s : shares) {
    g_.block(then).returns.emplace_back(s.grad);
    g_.block(otherwise).returns.emplace_back(none(otherwise));
    s.grad = g_.add_output(branch, Type::optional(g_.type(s.grad)));
  }
  place(g_, m.backward, branch);
  return shares;
}

} // namespace tenon::autodiff
