// Branches, and what becomes of variables behind them.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/emitter.h"

namespace tenon::script {

namespace {

bool is_flag(const std::string& key) { return key.find('$') != key.npos; }
bool leaves(Flow f) { return f == Flow::Exits || f == Flow::Throws; }

Flow either(Flow a, Flow b) {
  if (a == b) return a;
  if (a == Flow::Throws) return b;
  if (b == Flow::Throws) return a;
  return Flow::Maybe;
}

std::string name_of_key(const std::string& key) { return key.substr(key.find(':') == key.npos ? 0 : key.find(':') + 1); }

} // namespace

void Emitter::run(Branch& b, const Rest& f) {
  within(b.block, b.frame, [&] { b.flow = f(); });
}

Flow Emitter::emit_if(Range at, const If& s, const Rest* rest, bool& consumed) {
  Condition c = condition(s.condition);
  return emit_if(at, c, [&] { return statements(s.then); }, [&] { return statements(s.otherwise); }, rest, consumed);
}

Flow Emitter::emit_if(Range at, const Condition& c, const Rest& then, const Rest& otherwise, const Rest* rest, bool& consumed) {
  if (c.known) {
    refine(at, *c.known ? c.when_true : c.when_false);
    return *c.known ? then() : otherwise();
  }
  NodeId n = node(at, prim::If, {c.value}, {});
  Branch t{g.add_block(n), {}}, f{g.add_block(n), {}};
  run(t, [&] { return refine(at, c.when_true), then(); });
  run(f, [&] { return refine(at, c.when_false), otherwise(); });
  bool one_exits = (t.flow == Flow::Exits) != (f.flow == Flow::Exits) && t.flow != Flow::Throws && f.flow != Flow::Throws;
  if (rest && one_exits) {
    Branch& open = t.flow == Flow::Exits ? f : t;
    open.frame.transparent = true;
    Flow so_far = open.flow;
    run(open, [&] { return go_on(so_far, at, *rest); });
    consumed = true;
  }
  merge(at, n, t, f);
  return either(t.flow, f.flow);
}

Flow Emitter::guarded(Range at, const Rest& rest) {
  std::vector<std::string> flags{flag("return")};
  if (int loop = stack.back().loops.empty() ? 0 : stack.back().loops.back())
    flags.push_back(flag("break", loop)), flags.push_back(flag("continue", loop));
  std::optional<ValueId> left;
  for (auto& k : flags)
    if (Variable* v = lookup_flag(k, frame)) left = left ? op(at, call::op_or, {*left, *simple(v->value)}) : *simple(v->value);
  if (!left) return rest();
  NodeId n = node(at, prim::If, {*left}, {});
  Branch t{g.add_block(n), {}}, f{g.add_block(n), {}};
  run(t, [] { return Flow::Exits; });
  f.frame.transparent = true;
  run(f, [&] {
    for (Frame* outer = frame->parent; outer; outer = outer->boundary ? nullptr : outer->parent)
      for (auto& [k, v] : outer->vars)
        if (v.narrow && !frame->vars.contains(k)) frame->vars[k] = {Sugared{cast(at, *simple(v.value), *v.narrow)}, {}, {}};
    return rest();
  });
  merge(at, n, t, f);
  return either(t.flow, f.flow);
}

void Emitter::merge(Range at, NodeId n, Branch& t, Branch& f) {
  if (t.flow == Flow::Throws && f.flow == Flow::Throws) return;
  std::set<std::string> keys;
  for (auto& [k, v] : t.frame.vars) keys.insert(k);
  for (auto& [k, v] : f.frame.vars) keys.insert(k);
  for (Branch* b : {&t, &f})
    if (!leaves(b->flow))
      for (auto& [k, why] : b->frame.errors) frame->errors[k] = why;
  for (auto& k : keys) merge_variable(at, n, t, f, k);
}

std::optional<ValueId> Emitter::branch_value(Branch& b, const std::string& key) {
  if (b.flow == Flow::Throws) return std::nullopt;
  Variable* v = is_flag(key) ? lookup_flag(key, &b.frame) : lookup(key, &b.frame);
  return v ? simple(v->value) : std::nullopt;
}

void Emitter::merge_variable(Range at, NodeId n, Branch& t, Branch& f, const std::string& key) {
  Variable *tvar = lookup(key, &t.frame), *fvar = lookup(key, &f.frame);
  for (auto [var, other] : {std::pair{tvar, &f}, {fvar, &t}}) // not a value: a module, a list that is unrolled
    if (var && !simple(var->value)) {
      if (leaves(other->flow)) frame->vars[key] = *var;
      return;
    }
  auto tv = branch_value(t, key), fv = branch_value(f, key);
  if (!tv && !fv) return;
  bool flag = is_flag(key), value = flag && key.ends_with("$value");
  if (flag && !value) return give(at, n, t, f, key, tv, fv, Type::simple(TypeKind::Bool), {});
  std::string name = name_of_key(key);
  auto missing = [&](std::string_view branch) {
    frame->vars.erase(key);
    frame->errors[key] = fmt::format("{} is not defined in the {} branch:\n{}", name, branch, show(at));
  };
  if (!value && !tv && !leaves(t.flow)) return missing("true");
  if (!value && !fv && !leaves(f.flow)) return missing("false");
  if (!tv || !fv) {
    Variable* var = tv ? tvar : fvar;
    return give(at, n, t, f, key, tv, fv, type(tv ? *tv : *fv), var->narrow);
  }
  bool t_leaves = leaves(t.flow) && !value, f_leaves = leaves(f.flow) && !value;
  if (t_leaves == f_leaves && tvar->refined.value_or(*tv) == fvar->refined.value_or(*fv) && !tvar->narrow && !fvar->narrow)
    return; // unchanged
  Type t_goes_on = tvar->narrow.value_or(type(*tv)), f_goes_on = fvar->narrow.value_or(type(*fv));
  auto both = unify(type(*tv), type(*fv)), goes_on = unify(t_goes_on, f_goes_on);
  if (t_leaves != f_leaves) goes_on = t_leaves ? f_goes_on : t_goes_on;
  if (both) return give(at, n, t, f, key, tv, fv, *both, *goes_on == *both ? std::nullopt : goes_on);
  if (t_leaves && f_leaves) return;
  if (t_leaves) return give(at, n, t, f, key, {}, fv, type(*fv), fvar->narrow);
  if (f_leaves) return give(at, n, t, f, key, tv, {}, type(*tv), tvar->narrow);
  std::string why =
      fmt::format("Type mismatch: {} is set to type {} in the true branch and type {} in the false branch", name, repr(*tv), repr(*fv));
  if (lookup(key, frame)) fail_text(at, why);
  frame->errors[key] = why + ":\n" + show(at);
}

void Emitter::give(Range at, NodeId n, Branch& t, Branch& f, const std::string& key, std::optional<ValueId> tv, std::optional<ValueId> fv,
                   const Type& ty, const std::optional<Type>& narrow) {
  auto returns = [&](Branch& b, std::optional<ValueId> v) {
    within(b.block, b.frame, [&] {
      if (!v) v = is_flag(key) && !key.ends_with("$value") ? boolean(at, false) : uninitialized(at, ty);
    });
    g.block(b.block).returns.emplace_back(*v);
  };
  returns(t, tv), returns(f, fv);
  ValueId out = g.add_output(n, ty, is_flag(key) || key.starts_with('@') ? "" : name_of_key(key));
  frame->vars[key] = {Sugared{out}, narrow, {}};
  frame->errors.erase(key);
}

} // namespace tenon::script
