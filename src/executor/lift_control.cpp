// Lifter: branches.
#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

// What a block wrote of tensors outside of it, as they are at its end; they are put back to what they were.
std::map<TensorP, ValueId> Lifter::leave(Scope& scope) {
  std::map<TensorP, ValueId> now;
  for (auto& [t, was] : scope.written) {
    now[t] = t->value;
    bool fixed = t->is_fixed;
    *t = was;
    t->is_fixed |= fixed;
  }
  scopes_.pop_back();
  depth_--;
  return now;
}

namespace {

bool same(const Lift& a, const Lift& b) {
  if (auto *t = a.as<TensorP>(), *o = b.as<TensorP>(); t && o) return *t == *o || ((*t)->shows && (*t)->shows == (*o)->shows);
  if (auto *t = a.as<ListP>(), *o = b.as<ListP>(); t && o) return *t == *o;
  if (auto *t = a.as<NumberState>(), *o = b.as<NumberState>(); t && o) return t->value == o->value;
  if (auto *t = a.as<Opaque>(), *o = b.as<Opaque>(); t && o) return t->path == o->path;
  if (auto *t = a.as<IValue>(), *o = b.as<IValue>(); t && o) return equal(*t, *o);
  return a.as<Undefined>() && b.as<Undefined>();
}

bool is_number(const Lift& v) { return v.as<NumberState>() || v.as<Induction>(); }

} // namespace

// What a branch returns for a value: of a known number itself, of what is not defined nothing.
Arg Lifter::side_of(const Lift& v) const {
  if (auto* t = v.as<TensorP>()) return (*t)->value;
  if (auto* n = v.as<NumberState>()) return n->value;
  if (!v.as<Undefined>()) refuse("branches that give values of different kinds");
  return {};
}

// One value of two, by the branch taken.
Lift Lifter::merged(const Lift& a, const Lift& b, Merge& m) {
  if (same(a, b)) return a.as<TensorP>() && (*a.as<TensorP>())->shows ? Lift{(*a.as<TensorP>())->shows} : a;
  if (auto *x = a.as<NumberState>(), *y = b.as<NumberState>(); x && y && x->value->type == y->value->type)
    return number(select(m.condition, x->value, y->value));
  auto both = [&](const Lifts& x, const Lifts& y) {
    if (x.size() != y.size()) refuse("branches that give lists or tuples of other lengths");
    Lifts items;
    for (size_t i = 0; i < x.size(); i++) items.push_back(merged(x[i], y[i], m));
    return items;
  };
  if (auto *x = a.as<TupleState>(), *y = b.as<TupleState>(); x && y) return tuple(both(*x->items, *y->items));
  if (auto *x = a.as<ListP>(), *y = b.as<ListP>(); x && y) {
    if ((*x)->rows || (*y)->rows || (*x)->path || (*y)->path || (*x)->depth <= depth_ || (*y)->depth <= depth_)
      refuse("branches that give lists from outside of them");
    return list(both((*x)->items, (*y)->items));
  }
  Arg left = side_of(a), right = side_of(b);
  const Arg& one = left.is<ValueId>() || right.is_none() ? left : right;
  Type t = one.is<ValueId>() ? out_.program.graph.type(one.get<ValueId>()) : Type::tensor(to_expr(b_.pool(), one)->type, {});
  m.sides.emplace_back(std::move(left), std::move(right));
  bool shown = false;
  for (const Lift* side : {&a, &b})
    if (auto* s = side->as<TensorP>(); s && (*s)->shows) {
      fix({(*s)->shows});
      shown |= root_of(*(*s)->shows).depth <= depth_;
    }
  Lift merged = make(m.output(Type::tensor(t.dtype, t.sizes)));
  (*merged.as<TensorP>())->is_fixed = shown;
  return merged;
}

// The branch that raises is not taken: that is asserted, where it depends on values; what depends on sizes is known by then.
bool Lifter::run_assertion(const Node& n, const Lift& condition) {
  for (size_t k : {size_t{0}, size_t{1}}) {
    std::optional<std::string> message;
    for (NodeId id : script_.block(n.blocks.at(k)).nodes) {
      const Node& inner = script_.node(id);
      if (inner.op == prim::RaiseException) {
        auto& v = of(inner.args.at(0).get<ValueId>());
        auto text = known(v);
        if (!text || !text->is(IValue::Tag::String)) refuse("an exception whose message is computed");
        message = text->to_string();
        break;
      }
      if (inner.op != prim::Constant && inner.op != prim::Uninitialized) break;
      run_node(id);
    }
    if (!message) continue;
    Expr holds = expression(condition);
    if (holds->type != DType::Bool) holds = ne(holds, constant_like(0, holds));
    if (k == 0) holds = logical_not(holds);
    out_.program.graph.append(
        b_.block(), {.op = prim::Assert, .def = find_op(prim::Assert), .args = {Arg(holds), Arg(*message)}, .origin = b_.origin()}, {});
    run_block(n.blocks.at(1 - k));
    const ArgList& returns = script_.block(n.blocks.at(1 - k)).returns;
    for (size_t i = 0; i < n.outputs.size(); i++) env_[n.outputs[i]] = Lift(of(returns.at(i).get<ValueId>()));
    return true;
  }
  return false;
}

void Lifter::run_if(const Node& n) {
  const Lift condition = of(n.args.at(0).get<ValueId>());
  if (auto k = known(condition)) {
    BlockId taken = n.blocks.at(k->to_bool() ? 0 : 1);
    run_block(taken);
    const ArgList& returns = script_.block(taken).returns;
    for (size_t i = 0; i < n.outputs.size(); i++) env_[n.outputs[i]] = Lift(of(returns.at(i).get<ValueId>()));
    return;
  }
  if (run_assertion(n, condition)) return;
  Graph& g = out_.program.graph;
  Expr holds = expression(condition);
  if (holds->type != DType::Bool) holds = ne(holds, constant_like(0, holds));
  NodeId id = g.append(b_.block(), {.op = prim::If, .def = find_op(prim::If), .args = {Arg(holds)}, .origin = b_.origin()}, {});
  BlockId outer = b_.block(), blocks[2];
  std::vector<Lifts> results;
  std::map<TensorP, ValueId> written[2];
  for (size_t k : {size_t{0}, size_t{1}}) {
    Scope scope{.block = blocks[k] = g.add_block(id)};
    b_.set_block(blocks[k]);
    scopes_.push_back(&scope), depth_++;
    run_block(n.blocks.at(k));
    results.emplace_back();
    for (const Arg& r : script_.block(n.blocks[k]).returns) results.back().push_back(as_state(of(r.get<ValueId>())));
    written[k] = leave(scope);
  }
  b_.set_block(outer);
  Merge m{.condition = holds, .sides = {}, .output = [&](Type t) { return b_.wrap(g.add_output(id, std::move(t))); }};
  for (size_t i = 0; i < n.outputs.size(); i++) env_[n.outputs[i]] = merged(results[0].at(i), results[1].at(i), m);
  std::map<TensorP, V> after;
  for (size_t k : {size_t{0}, size_t{1}})
    for (auto& [t, v] : written[k]) {
      if (after.contains(t)) continue;
      auto side = [&](size_t s) { return written[s].contains(t) ? written[s].at(t) : t->value; };
      m.sides.emplace_back(side(0), side(1));
      const Type& type = g.type(t->value);
      after.emplace(t, m.output(Type::tensor(type.dtype, type.sizes)));
    }
  for (size_t k : {size_t{0}, size_t{1}}) {
    b_.set_block(blocks[k]);
    for (size_t i = 0; i < m.sides.size(); i++) {
      Arg a = k == 0 ? m.sides[i].first : m.sides[i].second;
      const Type t = g.type(g.node(id).outputs[i]);
      if (a.is_none()) a = b_.full(t.sizes, 0, t.dtype);
      if (!a.is<ValueId>()) a = b_.scalar(a, t.dtype);
      const Type& is = g.type(a.get<ValueId>());
      if (is.dtype != t.dtype || is.sizes != t.sizes) refuse("branches that give tensors of other dtypes or sizes");
      g.block(blocks[k]).returns.push_back(std::move(a));
    }
  }
  b_.set_block(outer);
  for (auto& [t, v] : after) write(t, v);
  for (ValueId v : n.outputs) env_[v] = as_numbers(script_.type(v), env_.at(v));
}

// A tensor or list that another name shows on some path, and not on others: what is written to one could not be seen in the other.
void Lifter::fix(const Lift& v) {
  if (auto* t = v.as<TensorP>())
    for (TensorState* s = t->get(); s; s = s->base.get()) s->is_fixed = true;
  if (auto* l = v.as<ListP>()) {
    (*l)->is_fixed = true;
    for (const Lift& e : (*l)->items) fix(e);
  }
  if (auto* t = v.as<TupleState>())
    for (const Lift& e : *t->items) fix(e);
}

// With numbers as tensors, and tensors as what they are now: what a block can return.
Lift Lifter::as_state(const Lift& v) {
  if (auto* t = v.as<TensorP>()) {
    const TensorState& root = root_of(**t);
    if (root.depth == depth_ && !(*t)->base) return v;
    Lift now = make(read(**t)); // of one from outside, or a view: beside it
    (*now.as<TensorP>())->shows = *t;
    return now;
  }
  if (auto* n = v.as<NumberState>(); n && is_visible(n->value, depth_ - 1)) return v;
  if (is_number(v)) return make(as_tensor(v));
  auto all = [&](const Lifts& items) {
    Lifts out;
    for (const Lift& e : items) out.push_back(as_state(e));
    return out;
  };
  if (auto* t = v.as<TupleState>()) return tuple(all(*t->items));
  if (auto* l = v.as<ListP>(); l && !(*l)->rows && !(*l)->path && (*l)->depth == depth_) return list(all((*l)->items));
  return v;
}

// The other way round, by the type.
Lift Lifter::as_numbers(const Type& type, const Lift& v) {
  if (auto* t = v.as<TensorP>()) {
    if (type.is(TypeKind::Optional)) return as_numbers(type.element(), v);
    if (type.is_number() || type.is(TypeKind::Bool)) return item(read(**t));
    return v;
  }
  auto all = [&](const Lifts& items) {
    Lifts out;
    for (size_t i = 0; i < items.size(); i++)
      out.push_back(as_numbers(type.is(TypeKind::Tuple) && i < type.elements().size() ? type.element(i)
                               : type.is(TypeKind::List)                              ? type.element()
                                                                                      : Type::simple(TypeKind::Any),
                               items[i]));
    return out;
  };
  if (auto* t = v.as<TupleState>()) return tuple(all(*t->items));
  if (auto* l = v.as<ListP>(); l && !(*l)->rows && !(*l)->path && (*l)->depth == depth_) {
    (*l)->items = all((*l)->items);
  }
  return v;
}

} // namespace tenon::executor
