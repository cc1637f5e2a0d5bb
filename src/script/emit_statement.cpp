#include <algorithm>

#include "builtins/resolve.h"
#include "script/emitter.h"

namespace tenon::script {

Flow Emitter::statements(std::span<const std::shared_ptr<const Statement>> list) {
  for (size_t i = 0; i < list.size(); i++) {
    Rest rest = [&, i] { return statements(list.subspan(i + 1)); };
    bool consumed = false;
    bool last = i + 1 == list.size();
    auto* branch = list[i]->as<If>();
    Flow flow = branch ? emit_if(list[i]->range, *branch, last ? nullptr : &rest, consumed) : statement(*list[i]);
    if (consumed || flow == Flow::Exits || flow == Flow::Throws) return flow;
    if (flow == Flow::Maybe && !last) return guarded(list[i]->range, rest);
    if (flow == Flow::Maybe) return flow;
  }
  return Flow::Falls;
}

Flow Emitter::go_on(Flow so_far, Range at, const Rest& rest) { return so_far == Flow::Maybe ? guarded(at, rest) : rest(); }

Flow Emitter::statement(const Statement& s) {
  bool consumed = false;
  return std::visit(Overloaded{
                        [&](const ExprStmt& e) {
                          if (!e.value->as<Literal>()) sugared(e.value);
                          return Flow::Falls;
                        },
                        [&](const Assign& a) { return emit_assign(s, a), Flow::Falls; },
                        [&](const AugAssign& a) { return emit_augmented(s, a), Flow::Falls; },
                        [&](const If& i) { return emit_if(s.range, i, nullptr, consumed); },
                        [&](const While& w) { return emit_while(s.range, w); },
                        [&](const For& f) { return emit_for(s.range, f); },
                        [&](const Return& r) { return emit_return(s.range, r); },
                        [&](const Break&) { return emit_break(s.range, true); },
                        [&](const Continue&) { return emit_break(s.range, false); },
                        [&](const Pass&) { return Flow::Falls; },
                        [&](const Assert& a) { return emit_assert(s.range, a); },
                        [&](const Raise& r) { return emit_raise(s.range, r); },
                        [&](const Delete& d) {
                          for (auto& t : d.targets) emit_delete(t);
                          return Flow::Falls;
                        },
                        [&](const With& w) {
                          bool before = tracks_gradients;
                          for (auto& c : w.contexts) {
                            auto* call = c->as<Call>();
                            auto* name = call ? call->callee->as<Select>() : nullptr;
                            if (!name || (name->attr != "no_grad" && name->attr != "enable_grad" && name->attr != "record_function"))
                              fail(c->range, "With item expression must return an object");
                            if (name->attr != "record_function") tracks_gradients = name->attr == "enable_grad";
                          }
                          Flow flow = statements(w.body);
                          tracks_gradients = before;
                          return flow;
                        },
                        [&](const auto&) -> Flow { fail(s.range, "this statement is not supported within a function"); },
                    },
                    s.v);
}

Flow Emitter::emit_return(Range at, const Return& r) {
  Activation& a = stack.back();
  ValueId v = r.value ? expression(r.value, a.declared) : none(at);
  if (a.declared) {
    v = convert(at, v, *a.declared, true);
    if (!is_subtype(type(v), *a.declared))
      fail(at, "Return value was annotated as having type {} but is actually of type {}", annotation(*a.declared), repr(v));
    v = cast(at, v, *a.declared);
    a.merged = a.declared;
  } else {
    auto both = a.merged ? unify(*a.merged, type(v)) : std::optional(type(v));
    if (!both)
      fail(at, "Previous return statement returned a value of type {} but this return statement returns a value of type {}",
           annotation(*a.merged), repr(v));
    a.merged = both;
  }
  set_flag(at, flag("return"));
  frame->vars[flag("value")] = {Sugared{v}, {}, {}};
  return Flow::Exits;
}

Flow Emitter::emit_break(Range at, bool is_break) {
  auto& loops = stack.back().loops;
  if (loops.empty()) fail(at, "SyntaxError: '{}' outside loop", is_break ? "break" : "continue");
  if (loops.back() == 0)
    fail(at,
         "Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not support break or continue inside the body of "
         "these loops");
  set_flag(at, flag(is_break ? "break" : "continue", loops.back()));
  return Flow::Exits;
}

Flow Emitter::emit_raise(Range at, const Raise& r) {
  if (!r.value) fail(at, "raise without an exception is not supported");
  auto* c = r.value->as<Call>();
  Sugared cls = sugared(c ? c->callee : r.value);
  std::string name;
  if (auto* p = cls.as<Path>()) name = p->path;
  else if (auto* k = cls.as<ClassRef>()) name = k->def->name;
  else fail(at, "exceptions must derive from BaseException");
  ValueId message;
  if (!c || c->args.empty()) message = text(at, "");
  else if (c->args.size() == 1) {
    message = expression(c->args[0]);
    if (!type(message).is(TypeKind::String)) message = op(at, call::str, {message});
  } else {
    ArgList items;
    std::vector<Type> types;
    for (auto& a : c->args) items.emplace_back(expression(a)), types.push_back(type(items.back().get<ValueId>()));
    message = op(at, call::str, {one(at, prim::TupleConstruct, items, Type::tuple(types))});
  }
  node(at, prim::RaiseException, {message, c ? text(at, name) : none(at)}, {});
  return Flow::Throws;
}

Flow Emitter::emit_assert(Range at, const Assert& a) {
  Condition c = condition(a.condition);
  bool consumed = false;
  Rest pass = [] { return Flow::Falls; };
  Rest raise = [&] {
    ValueId message = text(at, "AssertionError: ");
    if (a.message) {
      ValueId said = expression(a.message);
      if (!type(said).is(TypeKind::String)) said = op(at, call::str, {said});
      message = op(at, call::add, {message, said});
    }
    node(at, prim::RaiseException, {message, none(at)}, {});
    return Flow::Throws;
  };
  Flow flow = emit_if(at, c, pass, raise, nullptr, consumed);
  if (!c.known) refine(at, c.when_true);
  return flow;
}

} // namespace tenon::script
