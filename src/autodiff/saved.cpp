#include "autodiff/saved.h"

#include <algorithm>

#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

NodeId append(Graph& g, BlockId block, OpId op, ArgList args, std::vector<Type> types) {
  return g.append(block, {.op = op, .args = std::move(args)}, std::move(types));
}
ValueId append_one(Graph& g, BlockId block, OpId op, ArgList args, Type type) {
  return g.node(append(g, block, op, std::move(args), {std::move(type)})).outputs[0];
}
ValueId append_constant(Graph& g, BlockId block, Arg value, Type type) {
  NodeId n = append(g, block, prim::Constant, {}, {std::move(type)});
  if (!value.is_none()) g.node(n).attributes.push_back({"value", std::move(value)});
  return g.node(n).outputs[0];
}

NodeId make_detached(Graph& g, OpId op) {
  NodeId n = append(g, g.top(), op, {}, {});
  g.block(g.top()).nodes.pop_back();
  return n;
}
void place(Graph& g, BlockId block, NodeId node) { g.block(block).nodes.push_back(node); }

namespace {

// Of what values of refined types are lists of: Tensor, whatever else is known of one.
Type unrefined(const Type& t) { return t.is_any_tensor() ? Type::simple(TypeKind::Dynamic) : t; }

} // namespace

BlockId Saved::block_of(ValueId v) const {
  auto it = added_.find(v);
  return it != added_.end() ? it->second : activity_.block_of(v);
}

ValueId Saved::insert(BlockId block, size_t at, OpId op, ArgList args, Type type) {
  ValueId v = append_one(g_, block, op, std::move(args), std::move(type));
  std::vector<NodeId>& nodes = g_.block(block).nodes;
  std::rotate(nodes.begin() + static_cast<int64_t>(at), nodes.end() - 1, nodes.end());
  added_[v] = block;
  return v;
}

ValueId Saved::insert_call(BlockId block, size_t at, std::string_view function, ValueId v) {
  auto before = static_cast<int64_t>(g_.block(block).nodes.size());
  ValueId result = script::emit_call(g_, block, library(), function, std::vector<ValueId>{v});
  std::vector<NodeId>& nodes = g_.block(block).nodes;
  std::rotate(nodes.begin() + static_cast<int64_t>(at), nodes.begin() + before, nodes.end());
  added_[result] = block;
  return result;
}

size_t Saved::position(BlockId block, NodeId node) const {
  const std::vector<NodeId>& nodes = g_.block(block).nodes;
  return static_cast<size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
}

// Constants, and lists and tuples of them that are only read, are made again where they are needed.
bool Saved::is_constant(ValueId v) const {
  NodeId id = g_.value(v).node;
  if (!id.valid()) return false;
  const Node& n = g_.node(id);
  if (n.op == prim::Constant) return true;
  if (n.op != prim::ListConstruct || activity_.uses(v) != 1) return false;
  return std::all_of(n.args.begin(), n.args.end(), [&](const Arg& a) { return is_constant(a.get<ValueId>()); });
}

ValueId Saved::rematerialized(ValueId v, Mirror& m) {
  Node n = g_.node(g_.value(v).node);
  for (Arg& a : n.args) a = reach(a.get<ValueId>(), m);
  Node again{.op = n.op, .args = n.args, .attributes = n.attributes};
  return g_.node(g_.append(m.backward, std::move(again), {g_.type(v)})).outputs[0];
}

ValueId Saved::reach(ValueId v, Mirror& m) {
  if (auto it = m.here.find(v); it != m.here.end()) return it->second;
  ValueId found;
  if (is_constant(v)) found = rematerialized(v, m);
  else {
    Mirror* home = &m;
    while (home->forward != block_of(v) && home->outer) home = home->outer;
    require(home->forward == block_of(v), "a value of the forward pass is needed outside of its block");
    if (home != &m) return reach(v, *home);
    found = exported(v, m);
  }
  m.here[v] = found;
  return found;
}

ValueId Saved::exported(ValueId v, Mirror& m) {
  if (!m.outer) return v;
  bool loop = g_.node(m.owner).op == prim::Loop;
  auto [it, is_new] = exports_.try_emplace(v);
  if (is_new) {
    ValueId out = loop ? list_of_iterations(v, m) : result_of_branch(v, m);
    it = exports_.find(v), it->second = out;
  }
  ValueId outside = reach(it->second, *m.outer);
  if (!loop) return outside;
  return append_one(g_, m.backward, call::op_getitem, {outside, m.iteration}, unrefined(g_.type(v)));
}

ValueId Saved::result_of_branch(ValueId v, Mirror& m) {
  Type type = unrefined(g_.type(v));
  for (BlockId b : std::vector<BlockId>(g_.node(m.owner).blocks)) {
    Arg given = v;
    if (b != m.forward) given = append_one(g_, b, prim::Uninitialized, {}, type);
    g_.block(b).returns.push_back(std::move(given));
  }
  ValueId out = g_.add_output(m.owner, type);
  added_[out] = m.outer->forward;
  return out;
}

ValueId Saved::list_of_iterations(ValueId v, Mirror& m) {
  Type list = Type::list(unrefined(g_.type(v)));
  ValueId all = insert(m.outer->forward, position(m.outer->forward, m.owner), prim::ListConstruct, {}, list);
  append(g_, m.forward, call::append, {all, v}, {list});
  return all;
}

ValueId Saved::reach_content(ValueId v, NodeId node, bool after, Mirror& m) {
  const Type& t = g_.type(v);
  bool is_list = t.is(TypeKind::List);
  if (is_constant(v) || (is_list && activity_.is_operand_list(v))) return reach(v, m);
  if (!is_list && !(is_tensor(t) && activity_.written(v))) return reach(v, m);
  auto [it, is_new] = copies_.try_emplace({v, node});
  if (is_new) {
    size_t at = position(m.forward, node) + (after ? 1 : 0);
    if (is_list) it->second = insert(m.forward, at, call::list, {v}, t);
    else {
      ValueId none = insert(m.forward, at, prim::Constant, {}, Type::simple(TypeKind::None));
      it->second = insert(m.forward, at + 1, call::clone, {v, none}, unrefined(t));
    }
  }
  return reach(it->second, m);
}

ValueId Saved::reach_property(ValueId v, OpId op, const Type& type, Mirror& m) {
  auto [it, is_new] = properties_.try_emplace({v, op.name()});
  if (is_new) {
    BlockId block = block_of(v);
    NodeId made = g_.value(v).node;
    size_t at = made.valid() ? position(block, made) + 1 : 0;
    it->second = g_.type(v).is(TypeKind::Optional) ? insert_call(block, at, op == call::size ? "size_if_any" : "dtype_if_any", v)
                                                   : insert(block, at, op, {v}, type);
  }
  return reach(it->second, m);
}

ValueId Saved::iterations(NodeId loop, BlockId block) {
  auto [it, is_new] = counts_.try_emplace(loop);
  if (!is_new) return it->second;
  BlockId body = g_.node(loop).blocks.at(0);
  Type number = Type::simple(TypeKind::Int);
  ValueId zero = insert(block, position(block, loop), prim::Constant, {}, number);
  g_.node(g_.value(zero).node).attributes.push_back({"value", int64_t{0}});
  g_.node(loop).args.emplace_back(zero);
  ValueId count = g_.add_param(body, number);
  ValueId one = append_constant(g_, body, int64_t{1}, number);
  g_.block(body).returns.emplace_back(append_one(g_, body, call::add, {count, one}, number));
  ValueId out = g_.add_output(loop, number);
  added_[out] = block;
  return it->second = out;
}

} // namespace tenon::autodiff
