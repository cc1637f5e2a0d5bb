// Conditions: what is known when compiling, and what holds of variables in the branches.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/emitter.h"

namespace tenon::script {

namespace {

const Type none_type = Type::simple(TypeKind::None);

std::vector<Type> alternatives(const Type& t) {
  if (t.is(TypeKind::Optional)) {
    std::vector<Type> out = alternatives(t.element());
    out.push_back(none_type);
    return out;
  }
  if (t.is(TypeKind::Union)) return t.elements();
  return {t};
}

Type one_of(std::vector<Type> types) {
  bool none = std::erase(types, none_type) > 0;
  if (types.empty()) return none_type;
  Type t = types.size() == 1 ? types[0] : Type::simple(TypeKind::None);
  if (types.size() > 1) {
    if (none) types.push_back(none_type);
    return Type::any_of(std::move(types));
  }
  return none ? Type::optional(t) : t;
}

/// What holds where both do.
Refinements both(Refinements a, const Refinements& b) {
  for (auto& [k, t] : b) a.insert_or_assign(k, t);
  return a;
}
/// What holds where one of the two does.
Refinements either(const Refinements& a, const Refinements& b) {
  Refinements out;
  for (auto& [k, t] : a)
    if (auto it = b.find(k); it != b.end())
      if (auto u = unify(t, it->second)) out.emplace(k, *u);
  return out;
}

} // namespace

ValueId Emitter::to_bool(Range at, ValueId v) {
  const Type& t = type(v);
  if (t.is(TypeKind::Bool)) return v;
  if (t.is(TypeKind::List) || t.is(TypeKind::String) || t.is(TypeKind::Dict))
    return op(at, call::gt, {op(at, call::len, {v}), integer(at, 0)});
  Given given{t};
  auto r = try_resolve(call::Bool, std::span(&given, 1));
  if (!r) fail(at, "Could not cast value of type {} to bool", repr(v));
  return op(at, call::Bool, {v});
}

Condition Emitter::condition(const Exp& e) {
  if (auto* u = e->as<Unary>(); u && u->op == "not") {
    Condition c = condition(u->value);
    c.value = c.known ? boolean(e->range, !*c.known) : op(e->range, call::op_not, {c.value});
    std::swap(c.when_true, c.when_false);
    if (c.known) c.known = !*c.known;
    return c;
  }
  if (auto* l = e->as<Logical>()) return logical(e, *l);
  if (auto* b = e->as<Binary>(); b && (b->op == "is" || b->op == "is not")) {
    auto* right = b->right->as<Literal>();
    auto* left = b->left->as<Literal>();
    if ((right && right->value.index() == 0) || (left && left->value.index() == 0)) return is_none(e, *b);
  }
  if (auto* c = e->as<Call>(); c && qualified_name(c->callee, *stack.back().fn.scope) == "torch.jit.isinstance") return isinstance(e, *c);
  if (auto* c = e->as<Call>(); c && c->callee->as<Name>() && !stack.back().fn.scope->find(c->callee->as<Name>()->id)) {
    auto& name = c->callee->as<Name>()->id;
    if (name == "isinstance") return isinstance(e, *c);
    if (name == "hasattr") return hasattr(e, *c);
  }
  Sugared s = sugared(e);
  if (auto* m = s.as<InstanceP>(); m && !(*m)->find("0")) return {.value = boolean(e->range, true), .known = true};
  ValueId v = to_bool(e->range, as_value(e->range, s));
  Condition c{.value = v};
  NodeId n = g.value(v).node;
  if (n.valid() && g.node(n).op == prim::Constant)
    if (auto* a = g.node(n).attribute("value"); a && a->is<bool>()) c.known = a->get<bool>();
  return c;
}

Condition Emitter::logical(const Exp& e, const Logical& l) {
  Condition left = condition(l.left);
  // The right side is looked at where the left side does not decide.
  if (left.known) {
    if (*left.known != l.is_and) return left;
    Refinements r = l.is_and ? left.when_true : left.when_false;
    refine(e->range, r);
    Condition right = condition(l.right);
    return right;
  }
  NodeId n = node(e->range, prim::If, {left.value}, {});
  Branch t{g.add_block(n), {}}, f{g.add_block(n), {}};
  Condition right;
  Branch& look = l.is_and ? t : f;
  Branch& skip = l.is_and ? f : t;
  within(skip.block, skip.frame, [&] {
    ValueId decided = boolean(e->range, !l.is_and);
    g.block(skip.block).returns = {decided};
  });
  within(look.block, look.frame, [&] {
    refine(e->range, l.is_and ? left.when_true : left.when_false);
    right = condition(l.right);
    g.block(look.block).returns = {right.value};
  });
  Condition c{.value = g.add_output(n, Type::simple(TypeKind::Bool))};
  c.when_true = l.is_and ? both(left.when_true, right.when_true) : either(left.when_true, right.when_true);
  c.when_false = l.is_and ? either(left.when_false, right.when_false) : both(left.when_false, right.when_false);
  if (right.known && *right.known != l.is_and) c.known = right.known;
  return c;
}

Condition Emitter::is_none(const Exp& e, const Binary& b) {
  auto* right = b.right->as<Literal>();
  const Exp& side = right && right->value.index() == 0 ? b.left : b.right;
  bool positive = b.op == "is";
  Sugared s = sugared(side);
  auto v = simple(s);
  if (!v) return {.value = boolean(e->range, !positive), .known = !positive};
  std::vector<Type> all = alternatives(type(*v));
  bool can = std::find(all.begin(), all.end(), none_type) != all.end(), must = all.size() == 1 && can;
  if (type(*v).is(TypeKind::Any)) can = true;
  if (must || !can) return {.value = boolean(e->range, must == positive), .known = must == positive};
  Condition c{.value = op(e->range, positive ? call::op_is : call::op_isnot, {*v, none(e->range)})};
  auto* name = side->as<Name>();
  if (!name || type(*v).is(TypeKind::Any)) return c;
  std::erase(all, none_type);
  (positive ? c.when_false : c.when_true)[key(name->id)] = one_of(all);
  (positive ? c.when_true : c.when_false)[key(name->id)] = none_type;
  return c;
}

void Emitter::class_types(const Exp& e, std::vector<Type>& out, bool& any_list, bool& any_tuple, bool& any_dict) {
  if (auto* t = e->as<TupleLit>()) {
    for (auto& i : t->items) class_types(i, out, any_list, any_tuple, any_dict);
    return;
  }
  if (auto* b = e->as<Binary>(); b && b->op == "|") {
    class_types(b->left, out, any_list, any_tuple, any_dict), class_types(b->right, out, any_list, any_tuple, any_dict);
    return;
  }
  std::string name = qualified_name(e, *stack.back().fn.scope);
  if (name == "list" || name == "List" || name == "typing.List") any_list = true;
  else if (name == "tuple" || name == "Tuple" || name == "typing.Tuple") any_tuple = true;
  else if (name == "dict" || name == "Dict" || name == "typing.Dict") any_dict = true;
  else if (auto* c = e->as<Call>(); c && c->callee->as<Name>() && c->callee->as<Name>()->id == "type") out.push_back(none_type);
  else out.push_back(type_of_annotation(e, *stack.back().fn.scope));
}

Condition Emitter::isinstance(const Exp& e, const Call& c) {
  if (c.args.size() != 2) fail(e->range, "isinstance expected 2 arguments, got {}", c.args.size());
  Sugared s = sugared(c.args[0]);
  auto v = simple(s);
  if (auto* m = s.as<InstanceP>()) {
    bool is = false;
    for (auto& cls : base_classes((*m)->cls)) is = is || qualified_name(c.args[1], *stack.back().fn.scope).ends_with(cls.def->name);
    return {.value = boolean(e->range, is), .known = is};
  }
  if (!v) v = as_value(e->range, s);
  std::vector<Type> asked;
  bool lists = false, tuples = false, dicts = false;
  class_types(c.args[1], asked, lists, tuples, dicts);
  auto matches = [&](const Type& t) {
    if ((lists && t.is(TypeKind::List)) || (tuples && t.is(TypeKind::Tuple)) || (dicts && t.is(TypeKind::Dict))) return true;
    return std::any_of(asked.begin(), asked.end(), [&](const Type& a) { return is_subtype(t, a); });
  };
  std::vector<Type> yes, no;
  bool any = type(*v).is(TypeKind::Any) || type(*v).is(TypeKind::Number);
  for (const Type& t : alternatives(type(*v))) (matches(t) ? yes : no).push_back(t);
  if (!any && (yes.empty() || no.empty())) return {.value = boolean(e->range, no.empty()), .known = no.empty()};
  if (any) yes = asked;
  ArgList names;
  for (const Type& t : yes) names.emplace_back(Word{to_string(t)});
  if (lists && any) names.emplace_back(Word{"list"});
  if (tuples && any) names.emplace_back(Word{"tuple"});
  NodeId n = node(e->range, prim::isinstance, {*v}, {Type::simple(TypeKind::Bool)});
  g.node(n).attributes.push_back({"types", Arg(std::move(names))});
  Condition out{.value = g.node(n).outputs[0]};
  if (auto* name = c.args[0]->as<Name>()) {
    if (!yes.empty()) out.when_true[key(name->id)] = one_of(yes);
    if (!any) out.when_false[key(name->id)] = one_of(no);
  }
  return out;
}

Condition Emitter::hasattr(const Exp& e, const Call& c) {
  auto* name = c.args.size() == 2 ? c.args[1]->as<Literal>() : nullptr;
  auto* text = name ? std::get_if<std::string>(&name->value) : nullptr;
  if (!text) fail(e->range, "hasattr's second argument must be a string literal");
  Sugared s = sugared(c.args[0]);
  bool has = false;
  if (auto* m = s.as<InstanceP>()) has = (*m)->find(*text) || find_method((*m)->cls, *text);
  else if (auto v = simple(s)) {
    auto& fields = type(*v).is(TypeKind::Tuple) && type(*v).parts ? type(*v).parts->fields : std::vector<std::string>{};
    has = std::find(fields.begin(), fields.end(), *text) != fields.end() || (type(*v).is_any_tensor() && is_operator("aten::" + *text));
  }
  return {.value = boolean(e->range, has), .known = has};
}

} // namespace tenon::script
