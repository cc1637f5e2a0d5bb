// Loops. What the body assigns to is carried; a loop over something that is known element by element is unrolled.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/emitter.h"

namespace tenon::script {

namespace {

constexpr size_t most_unrolled = 10'000;

void target_names(const Exp& t, std::set<std::string>& out) {
  if (auto* n = t->as<Name>()) out.insert(n->id);
  else if (auto* s = t->as<Star>()) target_names(s->value, out);
  else if (auto* many = t->as<TupleLit>())
    for (auto& i : many->items) target_names(i, out);
}

void assigned_names(const Stmts& body, std::set<std::string>& out, bool& returns) {
  for (auto& s : body) {
    if (auto* a = s->as<Assign>())
      for (auto& t : a->targets) target_names(t, out);
    else if (auto* g = s->as<AugAssign>()) target_names(g->target, out);
    else if (auto* i = s->as<If>()) assigned_names(i->then, out, returns), assigned_names(i->otherwise, out, returns);
    else if (auto* w = s->as<While>()) assigned_names(w->body, out, returns);
    else if (auto* with = s->as<With>()) assigned_names(with->body, out, returns);
    else if (auto* f = s->as<For>()) target_names(f->target, out), assigned_names(f->body, out, returns);
    else if (s->as<Return>()) returns = true;
  }
}

} // namespace

struct Emitter::Looping {
  NodeId node;
  int id = 0;
  bool returns = false;
  Frame frame = {};
  std::vector<std::pair<std::string, ValueId>> carried = {}; // the body's parameters
  std::optional<ValueId> returned = {}, result = {};         // at the end of the body
};

Flow Emitter::emit_loop(Range at, ValueId trip, const Exp* until, const Stmts& body, const Exp* target, const Bind& bind) {
  std::set<std::string> names, keys;
  Looping l;
  assigned_names(body, names, l.returns);
  if (target) target_names(*target, names);
  for (auto& n : names) keys.insert(key(n));
  for (Frame* f = frame; f; f = f->parent)
    for (auto& [k, v] : f->vars)
      if (k.starts_with('@')) keys.insert(k);
  Condition c{.value = {}};
  if (until) c = condition(*until);
  else c.value = boolean(at, true);
  ArgList args{trip, c.value};
  std::vector<std::string> carried;
  for (auto& k : keys)
    if (Variable* v = lookup(k, frame); v && simple(v->value)) args.emplace_back(*simple(v->value)), carried.push_back(k);
  std::optional<ValueId> no = l.returns ? std::optional(boolean(at, false)) : std::nullopt;
  l.node = node(at, prim::Loop, args, {});
  BlockId block = g.add_block(l.node);
  ValueId i = g.add_param(block, Type::simple(TypeKind::Int));
  for (size_t k = 0; k < carried.size(); k++) {
    ValueId init = args[k + 2].get<ValueId>();
    l.carried.emplace_back(carried[k], g.add_param(block, type(init), g.value(init).name));
  }
  l.id = ++counter;
  l.frame.boundary = true;
  stack.back().loops.push_back(l.id);
  within(block, l.frame, [&] {
    for (auto& [k, v] : l.carried) frame->vars[k] = {Sugared{v}, {}, {}};
    if (until) refine(at, c.when_true);
    bind(i);
    close_loop(at, l, statements(body), until);
  });
  stack.back().loops.pop_back();
  for (auto& [k, v] : l.carried) frame->vars[k] = {Sugared{g.add_output(l.node, type(v), g.value(v).name)}, {}, {}};
  if (!l.returned) return Flow::Falls;
  auto carry_out = [&](const std::string& k, ValueId init, ValueId last) {
    g.node(l.node).args.emplace_back(init);
    g.add_param(block, type(last));
    g.block(block).returns.emplace_back(last);
    frame->vars[k] = {Sugared{g.add_output(l.node, type(last))}, {}, {}};
  };
  carry_out(flag("return"), *no, *l.returned);
  ValueId unset = uninitialized(at, type(*l.result));
  auto& nodes = g.block(frame->block).nodes;
  std::swap(nodes[nodes.size() - 1], nodes[nodes.size() - 2]); // before the loop
  carry_out(flag("value"), unset, *l.result);
  return Flow::Maybe;
}

void Emitter::close_loop(Range at, Looping& l, Flow flow, const Exp* until) {
  Variable *broke = lookup_flag(flag("break", l.id), frame), *returned = lookup_flag(flag("return"), frame);
  for (auto& [k, param] : l.carried) {
    Variable* v = lookup(k, frame);
    auto value = v ? simple(v->value) : std::nullopt;
    frame->vars[k] = {Sugared{value ? cast(at, *value, type(param)) : param}, {}, {}};
  }
  std::optional<ValueId> stop;
  if (broke) stop = *simple(broke->value);
  if (returned) {
    l.returned = *simple(returned->value);
    l.result = *simple(lookup_flag(flag("value"), frame)->value);
    stop = stop ? op(at, call::op_or, {*stop, *l.returned}) : *l.returned;
  }
  ValueId next;
  if (flow == Flow::Throws) next = boolean(at, false);
  else if (!stop) next = until ? condition(*until).value : boolean(at, true);
  else if (!until) next = op(at, call::op_not, {*stop});
  else {
    NodeId n = node(at, prim::If, {*stop}, {});
    Branch t{g.add_block(n), {}}, f{g.add_block(n), {}};
    within(t.block, t.frame, [&] { g.block(t.block).returns = {boolean(at, false)}; });
    within(f.block, f.frame, [&] {
      ValueId c = condition(*until).value;
      g.block(f.block).returns = {c};
    });
    next = g.add_output(n, Type::simple(TypeKind::Bool));
  }
  ArgList returns{next};
  for (auto& [k, param] : l.carried) returns.emplace_back(*simple(lookup(k, frame)->value));
  g.block(frame->block).returns = std::move(returns);
}

Flow Emitter::emit_while(Range at, const While& s) {
  return emit_loop(at, integer(at, INT64_MAX), &s.condition, s.body, nullptr, [](ValueId) {});
}

Flow Emitter::emit_for(Range at, const For& s) {
  Sugared iter = sugared(s.iter);
  if (auto items = unrolled_items(s.iter->range, iter)) {
    if (items->size() > most_unrolled) fail(at, "a loop of {} elements is too long to be unrolled", items->size());
    stack.back().loops.push_back(0);
    Flow flow = unrolled(at, s, *items, 0);
    stack.back().loops.pop_back();
    return flow;
  }
  Iteration it = iteration(s.iter->range, iter);
  return emit_loop(at, it.length, nullptr, s.body, &s.target, [&](ValueId i) { assign_to(s.target, it.element(i)); });
}

Flow Emitter::unrolled(Range at, const For& s, const std::vector<Sugared>& items, size_t from) {
  for (size_t i = from; i < items.size(); i++) {
    assign_to(s.target, items[i]);
    Flow flow = statements(s.body);
    if (flow == Flow::Maybe && i + 1 < items.size()) return guarded(at, [&, i] { return unrolled(at, s, items, i + 1); });
    if (flow != Flow::Falls) return flow;
  }
  return Flow::Falls;
}

std::optional<std::vector<Sugared>> Emitter::unrolled_items(Range at, const Sugared& s) {
  if (auto* u = s.as<Unrolled>()) return u->items;
  if (auto* m = s.as<InstanceP>()) {
    std::vector<Sugared> out;
    bool dict = (*m)->cls.def->name == "ModuleDict" || (*m)->cls.def->name == "ParameterDict";
    for (auto& [name, v] : (*m)->attributes)
      if (v.as<InstanceP>() || v.as<std::shared_ptr<TensorConstant>>()) out.push_back(dict ? Sugared{text(at, name)} : of_constant(at, v));
    return out;
  }
  if (auto v = simple(s); v && type(*v).is(TypeKind::Tuple)) {
    std::vector<Sugared> out;
    for (size_t i = 0; i < type(*v).elements().size(); i++) {
      Type t = type(*v).element(i);
      out.push_back({one(at, prim::TupleIndex, {*v, integer(at, static_cast<int64_t>(i))}, t)});
    }
    return out;
  }
  auto* it = s.as<Iterable>();
  if (!it || it->kind == "range") return std::nullopt;
  std::vector<std::optional<std::vector<Sugared>>> parts;
  std::optional<size_t> length;
  for (auto& k : it->of) {
    parts.push_back(unrolled_items(at, k));
    if (parts.back()) length = std::min(length.value_or(SIZE_MAX), parts.back()->size());
  }
  if (!length) return std::nullopt;
  std::vector<Sugared> out;
  for (size_t i = 0; i < *length; i++) {
    Unrolled tuple;
    if (it->kind == "enumerate") {
      ValueId start = it->of.size() > 1 ? as_value(at, it->of[1]) : integer(at, 0);
      auto base = constant_int(start);
      tuple.items.push_back({integer(at, base.value_or(0) + static_cast<int64_t>(i))});
    }
    for (size_t k = 0; k < (it->kind == "enumerate" ? 1 : parts.size()); k++)
      tuple.items.push_back(parts[k] ? (*parts[k])[i] : iteration(at, it->of[k]).element(integer(at, static_cast<int64_t>(i))));
    out.push_back({tuple});
  }
  return out;
}

Emitter::Iteration Emitter::range_iteration(Range at, const std::vector<Sugared>& args) {
  std::vector<ValueId> v;
  for (auto& a : args) {
    v.push_back(convert(at, as_value(at, a), Type::simple(TypeKind::Int), true));
    if (!type(v.back()).is(TypeKind::Int))
      fail(at, "all inputs of range must be ints, found {} in argument {}", repr(v.back()), v.size() - 1);
  }
  if (v.empty()) fail(at, "range expected at least 1 arguments, got 0");
  if (v.size() > 3) fail(at, "range expected at most 3 arguments, got {}", v.size());
  if (v.size() == 1) return {v[0], [](ValueId i) { return Sugared{i}; }};
  ValueId step = v.size() == 3 ? v[2] : integer(at, 1), start = v[0];
  ValueId length = op(at, call::range_length, {start, v[1], step});
  return {length, [=, this](ValueId i) { return Sugared{op(at, call::derive_index, {i, start, step})}; }};
}

Emitter::Iteration Emitter::iteration(Range at, const Sugared& s) {
  if (auto* it = s.as<Iterable>()) {
    if (it->kind == "range") return range_iteration(at, it->of);
    std::vector<Iteration> parts;
    bool counted = it->kind == "enumerate";
    for (size_t k = 0; k < (counted ? 1 : it->of.size()); k++) parts.push_back(iteration(at, it->of[k]));
    if (parts.empty()) fail(at, "{} expected at least 1 arguments, got 0", it->kind);
    ValueId length = parts[0].length;
    if (parts.size() > 1) {
      ArgList lengths;
      for (auto& p : parts) lengths.emplace_back(p.length);
      length = op(at, prim::min, {one(at, prim::ListConstruct, lengths, Type::list(Type::simple(TypeKind::Int)))});
    }
    std::optional<ValueId> start;
    if (counted && it->of.size() > 1) start = as_value(at, it->of[1]);
    return {length, [=, this](ValueId i) {
              Unrolled tuple;
              if (counted) tuple.items.push_back({start ? op(at, call::add, {i, *start}) : i});
              for (auto& p : parts) tuple.items.push_back(p.element(i));
              return Sugared{tuple};
            }};
  }
  ValueId v = as_value(at, s);
  if (type(v).is(TypeKind::Dict)) v = op(at, call::keys, {v});
  TypeKind k = type(v).kind;
  if (k != TypeKind::List && k != TypeKind::String && !type(v).is_any_tensor()) fail(at, "'{}' object is not iterable", repr(v));
  bool tensor = type(v).is_any_tensor();
  return {op(at, call::len, {v}), [=, this](ValueId i) {
            return Sugared{tensor ? op(at, call::select, {v, integer(at, 0), i}) : op(at, call::op_getitem, {v, i})};
          }};
}

ValueId Emitter::emit_comprehension(Range at, const Comprehension& c, const std::optional<Type>& hint) {
  Sugared iter = sugared(c.iter);
  bool dict = c.key != nullptr;
  if (auto items = unrolled_items(c.iter->range, iter)) return unrolled_comprehension(at, c, *items, hint);
  std::optional<Type> want = hint && hint->is(TypeKind::Optional) ? std::optional(hint->element()) : hint;
  bool hinted = want && want->is(dict ? TypeKind::Dict : TypeKind::List);
  Type any = Type::simple(TypeKind::Dynamic);
  ValueId out = one(at, dict ? prim::DictConstruct : prim::ListConstruct, {},
                    hinted ? *want
                    : dict ? Type::dict(Type::simple(TypeKind::String), any)
                           : Type::list(any));
  Iteration it = iteration(c.iter->range, iter);
  NodeId loop = node(at, prim::Loop, {it.length, boolean(at, true)}, {});
  BlockId block = g.add_block(loop);
  ValueId i = g.add_param(block, Type::simple(TypeKind::Int));
  Frame inner;
  inner.boundary = true;
  within(block, inner, [&] {
    bind_hidden(c.target, it.element(i));
    ValueId k, v;
    if (dict) k = expression(c.key, hinted ? std::optional(want->element(0)) : std::nullopt);
    v = expression(c.element, hinted ? std::optional(want->element(dict ? 1 : 0)) : std::nullopt);
    if (!hinted) g.value(out).type = dict ? Type::dict(type(k), type(v)) : Type::list(type(v));
    if (dict) emit_values(at, call::_set_item, {out, k, v});
    else emit_values(at, call::append, {out, v});
    ValueId on = boolean(at, true);
    g.block(block).returns = {on};
  });
  return out;
}

ValueId Emitter::unrolled_comprehension(Range at, const Comprehension& c, const std::vector<Sugared>& items,
                                        const std::optional<Type>& hint) {
  ArgList args;
  Frame inner;
  std::vector<Type> types;
  within(frame->block, inner, [&] {
    for (auto& item : items) {
      bind_hidden(c.target, item);
      if (c.key) args.emplace_back(expression(c.key));
      args.emplace_back(expression(c.element));
      types.push_back(type(args.back().get<ValueId>()));
    }
  });
  Type element = types.empty() ? Type::simple(TypeKind::Dynamic) : types[0];
  for (Type& t : types) {
    auto both = unify(element, t);
    if (!both) fail(at, "Expected elements of one type in a comprehension, found {} and {}", annotation(element), annotation(t));
    element = *both;
  }
  if (c.key)
    return one(at, prim::DictConstruct, args,
               Type::dict(args.empty() ? Type::simple(TypeKind::String) : type(args[0].get<ValueId>()), element));
  if (hint && hint->is(TypeKind::List) && is_subtype(element, hint->element())) element = hint->element();
  return one(at, prim::ListConstruct, args, Type::list(element));
}

/// Names of a comprehension's target hide those outside, whatever their types.
void Emitter::bind_hidden(const Exp& target, const Sugared& value) {
  hiding = true;
  assign_to(target, value);
  hiding = false;
}

} // namespace tenon::script
