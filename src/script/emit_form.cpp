// Functions that the compiler knows: those of Python, and torch.jit's.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/emitter.h"

namespace tenon::script {

std::optional<Sugared> Emitter::form_of_syntax(const Exp& e, const Call& c, const Sugared& callee, const std::optional<Type>& hint) {
  Range at = e->range;
  if (auto* f = callee.as<Form>()) {
    if (f->name == "isinstance" || f->name == "hasattr") return Sugared{condition(e).value};
    if (f->name == "getattr") return getattr_form(e, c);
    if (f->name == "type") fail(at, "Python builtin <class 'type'> is currently not supported in Torchscript");
    return std::nullopt;
  }
  if (auto* o = callee.as<Operator>(); o && o->name == prim::tolist) {
    if (!hint) fail(at, "Expected type hint for result of tolist()");
    return Sugared{tolist(at, *o->self, *hint)};
  }
  auto* p = callee.as<Path>();
  if (!p || !p->path.starts_with("torch.jit.")) {
    if (p && p->path == "typing.cast" && c.args.size() == 2)
      return Sugared{cast(at, expression(c.args[1]), type_of_annotation(c.args[0], *stack.back().fn.scope))};
    if (p && (p->path == "torch.compiler.is_compiling" || p->path == "torch.overrides.has_torch_function" ||
              p->path.starts_with("torch.overrides.has_torch_function")))
      return Sugared{boolean(at, false)};
    return std::nullopt;
  }
  std::string name = p->path.substr(10);
  if (name == "is_scripting") return Sugared{boolean(at, true)};
  if (name == "is_tracing") return Sugared{boolean(at, false)};
  if (name == "annotate" && c.args.size() == 2) {
    Type t = type_of_annotation(c.args[0], *stack.back().fn.scope);
    ValueId v = convert(at, expression(c.args[1], t), t, true);
    if (!is_subtype(type(v), t)) fail(at, "expected an expression of type {} but found {}", annotation(t), repr(v));
    return Sugared{cast(at, v, t)};
  }
  if (name == "isinstance") {
    Call plain = c;
    return Sugared{isinstance(e, plain).value};
  }
  if (name == "_unwrap_optional" && c.args.size() == 1) return Sugared{op(at, call::_unwrap_optional, {expression(c.args[0])})};
  if (name == "fork" || name == "wait") fail(at, "torch.jit.{} is not supported", name);
  return std::nullopt;
}

ValueId Emitter::tolist(Range at, ValueId of, const Type& to) {
  int64_t dims = 0;
  Type element = to;
  for (; element.is(TypeKind::List); dims++) element = Type(element.element());
  static const std::map<TypeKind, int64_t> codes{{TypeKind::Int, 0}, {TypeKind::Float, 1}, {TypeKind::Bool, 2}, {TypeKind::Complex, 3}};
  auto code = codes.find(element.kind);
  if (code == codes.end())
    fail(at, "{} is not one of the supported element types for tolist: int, float, complex, bool", annotation(element));
  return one(at, prim::tolist, {of, integer(at, dims), integer(at, code->second)}, to);
}

Sugared Emitter::getattr_form(const Exp& e, const Call& c) {
  if (c.args.size() != 2 && c.args.size() != 3) fail(e->range, "getattr expected 2 or 3 arguments, got {}", c.args.size());
  auto* name = c.args[1]->as<Literal>();
  auto* text = name ? std::get_if<std::string>(&name->value) : nullptr;
  if (!text) fail(e->range, "getattr's second argument must be a string literal");
  if (c.args.size() == 3) {
    Condition has = hasattr(e, Call{c.callee, {c.args[0], c.args[1]}, {}});
    if (has.known && !*has.known) return sugared(c.args[2]);
  }
  return attribute_of(e->range, sugared(c.args[0]), *text);
}

ValueId Emitter::cast_form(Range at, const std::string& name, const std::vector<ValueId>& args) {
  static const std::map<std::string, std::pair<OpId, TypeKind>> casts{{"int", {call::Int, TypeKind::Int}},
                                                                      {"float", {call::Float, TypeKind::Float}},
                                                                      {"bool", {call::Bool, TypeKind::Bool}},
                                                                      {"str", {call::str, TypeKind::String}},
                                                                      {"complex", {call::Complex, TypeKind::Complex}}};
  auto& [callee, kind] = casts.at(name);
  if (args.empty()) {
    if (kind == TypeKind::Int) return integer(at, 0);
    if (kind == TypeKind::Float) return constant(at, 0.0, Type::simple(TypeKind::Float));
    if (kind == TypeKind::Bool) return boolean(at, false);
    if (kind == TypeKind::String) return text(at, "");
  }
  if (args.size() == 1 && type(args[0]).is(kind)) return args[0];
  if (args.size() == 1 && kind == TypeKind::Bool) return to_bool(at, args[0]);
  return op(at, callee, args);
}

ValueId Emitter::list_form(Range at, const CallArgs& args, const std::optional<Type>& hint) {
  if (args.positional.empty())
    return one(at, prim::ListConstruct, {}, hint && hint->is(TypeKind::List) ? *hint : Type::list(Type::simple(TypeKind::Dynamic)));
  const Sugared& of = args.positional[0].second;
  auto v = simple(of);
  if (v && (type(*v).is(TypeKind::List) || type(*v).is(TypeKind::String))) return op(at, call::list, {*v});
  if (auto items = unrolled_items(at, of)) {
    ArgList values;
    std::optional<Type> element;
    for (auto& i : *items) {
      ValueId x = as_value(at, i);
      element = element ? unify(*element, type(x)) : std::optional(type(x));
      if (!element) fail(at, "Expected all elements of a list to be of one type");
      values.emplace_back(x);
    }
    return one(at, prim::ListConstruct, values, Type::list(element.value_or(Type::simple(TypeKind::Dynamic))));
  }
  Iteration it = iteration(at, of);
  ValueId out = one(at, prim::ListConstruct, {}, Type::list(Type::simple(TypeKind::Dynamic)));
  NodeId loop = node(at, prim::Loop, {it.length, boolean(at, true)}, {});
  BlockId block = g.add_block(loop);
  ValueId i = g.add_param(block, Type::simple(TypeKind::Int));
  Frame inner;
  within(block, inner, [&] {
    ValueId element = as_value(at, it.element(i));
    g.value(out).type = Type::list(type(element));
    emit_values(at, call::append, {out, element});
    ValueId on = boolean(at, true);
    g.block(block).returns = {on};
  });
  return out;
}

ValueId Emitter::dict_form(Range at, const CallArgs& args, const std::optional<Type>& hint) {
  std::vector<std::pair<ValueId, ValueId>> pairs;
  for (auto& [name, arg] : args.keywords) {
    ValueId k = text(at, name);
    pairs.emplace_back(k, as_value(arg.first, arg.second));
  }
  Type any = Type::simple(TypeKind::Dynamic), str = Type::simple(TypeKind::String);
  if (args.positional.empty()) {
    ArgList items;
    for (auto& [k, v] : pairs) items.emplace_back(k), items.emplace_back(v);
    Type t = hint && hint->is(TypeKind::Dict) ? *hint : Type::dict(str, pairs.empty() ? any : type(pairs[0].second));
    return one(at, prim::DictConstruct, items, t);
  }
  const Sugared& of = args.positional[0].second;
  ValueId out;
  if (auto v = simple(of); v && (type(*v).is(TypeKind::Dict) || type(*v).is(TypeKind::List))) out = op(at, call::dict, {*v});
  else {
    CallArgs pass{{args.positional[0]}, {}};
    out = op(at, call::dict, {list_form(at, pass, {})});
  }
  for (auto& [k, v] : pairs) emit_values(at, call::_set_item, {out, k, v});
  return out;
}

Sugared Emitter::call_form(Range at, const std::string& name, const CallArgs& args, const std::optional<Type>& hint) {
  if (name == "range" || name == "zip" || name == "enumerate") {
    Iterable it{name, {}};
    for (auto& [range, s] : args.positional) it.of.push_back(s);
    for (auto& [key, arg] : args.keywords)
      if (name == "enumerate" && key == "start") it.of.push_back(arg.second);
    if (it.of.empty()) fail(at, "{} expected at least 1 arguments, got 0", name);
    if (name == "enumerate" && it.of.size() > 2) fail(at, "enumerate expected at most 2 arguments, got {}", it.of.size());
    if (name == "range") range_iteration(at, it.of);
    return {it};
  }
  if (name == "list") return {list_form(at, args, hint)};
  if (name == "dict") return {dict_form(at, args, hint)};
  if (name == "tuple") {
    if (args.positional.size() != 1) return {one(at, prim::TupleConstruct, {}, Type::tuple({}))};
    auto items = unrolled_items(at, args.positional[0].second);
    if (!items) fail(at, "cannot statically infer the expected size of a list in this context");
    return {as_value(at, {Unrolled{*items}})};
  }
  std::vector<ValueId> values;
  if (name == "len" && args.positional.size() == 1 && !simple(args.positional[0].second))
    if (auto items = unrolled_items(at, args.positional[0].second)) return {integer(at, static_cast<int64_t>(items->size()))};
  if (name == "reversed" && args.positional.size() == 1)
    if (auto items = unrolled_items(at, args.positional[0].second)) {
      std::reverse(items->begin(), items->end());
      return {Unrolled{*items}};
    }
  for (auto& [range, s] : args.positional) values.push_back(as_value(range, s));
  if (name == "print") {
    node(at, prim::Print, ArgList(values.begin(), values.end()), {});
    return {none(at)};
  }
  if (name == "len") {
    if (values.size() == 1 && type(values[0]).is(TypeKind::Tuple))
      return {integer(at, static_cast<int64_t>(type(values[0]).elements().size()))};
    return {op(at, call::len, values)};
  }
  if (name == "int" || name == "float" || name == "bool" || name == "str" || name == "complex") return {cast_form(at, name, values)};
  fail(at, "Python builtin <built-in function {}> is currently not supported in Torchscript", name);
}

} // namespace tenon::script
