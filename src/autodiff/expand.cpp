#include <algorithm>

#include "autodiff/activity.h"
#include "autodiff/copy.h"
#include "autodiff/passes.h"
#include "autodiff/saved.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

ValueId default_argument(Graph& g, BlockId block, const Resolved& op, size_t i) {
  const SchemaArg& arg = op.signature->args.at(i);
  const Arg& fallback = arg.fallback;
  Type t = type_of(arg);
  if (fallback.is_none()) return append_constant(g, block, {}, Type::simple(TypeKind::None));
  if (t.is(TypeKind::Optional)) t = Type(t.element());
  if (fallback.is<int64_t>() && t.is(TypeKind::Float)) return append_constant(g, block, static_cast<double>(fallback.get<int64_t>()), t);
  TypeKind kind = fallback.is<bool>()          ? TypeKind::Bool
                  : fallback.is<int64_t>()     ? TypeKind::Int
                  : fallback.is<double>()      ? TypeKind::Float
                  : fallback.is<std::string>() ? TypeKind::String
                                               : TypeKind::Any;
  if (kind == TypeKind::Any || t.is(TypeKind::List)) unsupported("{} without its argument {}", op.signature->name, arg.name);
  return append_constant(g, block, fallback, Type::simple(kind));
}

namespace {

class Expander {
public:
  Expander(const Graph& from, const Activity& activity) : from_(from), activity_(activity), copy_(from, to) {}

  Graph run() {
    copy_.node = [this](NodeId id, BlockId block) { node(id, block); };
    copy_.params(from_.top(), to.top());
    copy_.nodes(from_.top(), to.top());
    to.block(to.top()).returns = copy_.mapped(from_.block(from_.top()).returns);
    return std::move(to);
  }
  bool changed = false;

private:
  void node(NodeId id, BlockId block) {
    const Derivative* d = activity_.derivative(id);
    const Node& n = from_.node(id);
    bool active = std::any_of(n.args.begin(), n.args.end(), [&](const Arg& a) { return activity_.active(a.get<ValueId>()); });
    if (active && is_into_out(id)) return call_and_copy(id, block);
    if (d && d->result && active) return expand(id, *d->result, block);
    if ((n.op == prim::TupleUnpack || n.op == prim::TupleIndex) && take_apart(n)) return;
    copy_.copy_node(id, block);
  }

  // f(x, out=y) writes y: as y.copy_(f(x)).
  bool is_into_out(NodeId id) const {
    const Resolved* r = activity_.resolved(id);
    return r && r->out && r->signature->args.size() == from_.node(id).args.size();
  }
  void call_and_copy(NodeId id, BlockId block) {
    changed = true;
    const Node& n = from_.node(id);
    ArgList args = copy_.mapped(n.args);
    ValueId out = args.back().get<ValueId>();
    args.pop_back();
    ValueId result = append_one(to, block, n.op, std::move(args), to.type(out));
    ValueId blocking = append_constant(to, block, false, Type::simple(TypeKind::Bool));
    ValueId written = append_one(to, block, call::copy_, {out, result, blocking}, to.type(out));
    for (ValueId v : {result, blocking, written}) to.node(to.value(v).node).origin = n.origin;
    copy_.set(n.outputs.at(0), written);
  }

  void expand(NodeId id, const Rule& rule, BlockId block) {
    changed = true;
    const Node& n = from_.node(id);
    const Resolved& r = *activity_.resolved(id);
    auto first = static_cast<uint32_t>(to.num_nodes());
    std::vector<ValueId> operands;
    for (const std::string& name : rule.params) {
      auto i = static_cast<size_t>(r.signature->find(name));
      operands.push_back(i < n.args.size() ? copy_[n.args[i].get<ValueId>()] : default_argument(to, block, r, i));
    }
    ValueId result = script::emit_call(to, block, library(), rule.function, operands);
    if (r.in_place) {
      ValueId blocking = append_constant(to, block, false, Type::simple(TypeKind::Bool));
      result = append_one(to, block, call::copy_, {copy_[n.args[0].get<ValueId>()], result, blocking}, to.type(result));
    }
    for (uint32_t k = first; k < to.num_nodes(); k++) to.node(NodeId{k}).origin = n.origin;
    if (n.outputs.size() == 1) return copy_.set(n.outputs[0], result);
    const Node& tuple = to.node(to.value(result).node);
    require(tuple.op == prim::TupleConstruct && tuple.args.size() == n.outputs.size(), "{} has {} results", n.op, n.outputs.size());
    for (size_t i = 0; i < n.outputs.size(); i++) copy_.set(n.outputs[i], tuple.args[i].get<ValueId>());
  }

  // Of a tuple that is made in sight.
  bool take_apart(const Node& n) {
    ValueId tuple = copy_[n.args.at(0).get<ValueId>()];
    NodeId made = to.value(tuple).node;
    if (!made.valid() || to.node(made).op != prim::TupleConstruct) return false;
    const ArgList& items = to.node(made).args;
    if (n.op == prim::TupleUnpack) {
      if (items.size() != n.outputs.size()) return false;
      for (size_t i = 0; i < items.size(); i++) copy_.set(n.outputs[i], items[i].get<ValueId>());
      return true;
    }
    NodeId index = from_.value(n.args.at(1).get<ValueId>()).node;
    const Arg* value = index.valid() && from_.node(index).op == prim::Constant ? from_.node(index).attribute("value") : nullptr;
    if (!value || !value->is<int64_t>()) return false;
    int64_t i = value->get<int64_t>() + (value->get<int64_t>() < 0 ? static_cast<int64_t>(items.size()) : 0);
    if (i < 0 || i >= static_cast<int64_t>(items.size())) return false;
    copy_.set(n.outputs[0], items[static_cast<size_t>(i)].get<ValueId>());
    return true;
  }

  const Graph& from_;
  const Activity& activity_;
  Graph to;
  Copier copy_;
};

// A tuple that nothing holds on to any more would still count as one that holds tensors.
void drop_unused_tuples(Graph& g) {
  SideTable<ValueId, bool> used;
  for (const Arg& a : g.block(g.top()).returns) used[a.get<ValueId>()] = true;
  std::function<void(BlockId)> look = [&](BlockId b) {
    for (NodeId n : g.block(b).nodes) {
      for (const Arg& a : g.node(n).args) used[a.get<ValueId>()] = true;
      for (BlockId inner : g.node(n).blocks) look(inner);
    }
    for (const Arg& a : g.block(b).returns) used[a.get<ValueId>()] = true;
  };
  look(g.top());
  std::function<void(BlockId)> drop = [&](BlockId b) {
    std::erase_if(g.block(b).nodes, [&](NodeId n) { return g.node(n).op == prim::TupleConstruct && !used.get(g.node(n).outputs[0]); });
    for (NodeId n : g.block(b).nodes)
      for (BlockId inner : g.node(n).blocks) drop(inner);
  };
  drop(g.top());
}

} // namespace

Graph expand(const Graph& graph, std::span<const size_t> wrt) {
  Graph now = graph;
  for (bool again = true; again;) {
    std::vector<ValueId> values;
    for (size_t i : wrt) values.push_back(now.block(now.top()).params.at(i));
    Activity activity(now, values);
    Expander expander(now, activity);
    Graph next = expander.run();
    again = expander.changed;
    now = std::move(next);
    drop_unused_tuples(now);
  }
  return now;
}

} // namespace tenon::autodiff
