#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/emitter.h"

namespace tenon::script {

ValueId Emitter::expression(const Exp& e, const std::optional<Type>& hint) { return as_value(e->range, sugared(e, hint)); }

ValueId Emitter::as_value(Range at, const Sugared& s) {
  return std::visit(
      Overloaded{
          [&](const ValueId& v) { return v; },
          [&](const Unrolled& u) {
            ArgList items;
            std::vector<Type> types;
            for (auto& i : u.items) items.emplace_back(as_value(at, i)), types.push_back(type(items.back().get<ValueId>()));
            return one(at, prim::TupleConstruct, items, Type::tuple(types));
          },
          [&](const Closed& c) -> ValueId {
            fail(at,
                 "python value of type '{}' cannot be used as a value. Perhaps it is a closed over global variable? If so, please "
                 "consider passing it in as an argument or use a local variable instead.",
                 c.python_type);
          },
          [&](const Path& p) -> ValueId {
            size_t dot = p.path.rfind('.');
            if (dot == p.path.npos) fail(at, "python value of type 'module' cannot be used as a value");
            fail(at, "module '{}' object has no attribute {}", p.path.substr(0, dot), p.path.substr(dot + 1));
          },
          [&](const Iterable& it) -> ValueId { fail(at, "{} cannot be used as a value", it.kind); },
          [&](const InstanceP& m) -> ValueId { fail(at, "module '{}' cannot be used as a value", m->cls.def->name); },
          [&](const auto&) -> ValueId { fail(at, "function cannot be used as a value"); },
      },
      s.v);
}

Sugared Emitter::sugared(const Exp& e, const std::optional<Type>& hint) {
  return std::visit(Overloaded{
                        [&](const Name& n) { return named(e, n.id); },
                        [&](const Literal& l) {
                          Constant c = std::visit([](auto& v) { return Constant{v}; }, l.value);
                          return Sugared{emit_constant(e->range, c)};
                        },
                        [&](const Ellipsis&) -> Sugared { fail(e->range, "Cannot emit expr for: (dots)"); },
                        [&](const Select& s) { return attribute_of(e->range, sugared(s.value), s.attr); },
                        [&](const Slice&) -> Sugared { fail(e->range, "a slice outside of a subscript"); },
                        [&](const Subscript& s) { return sugared_subscript(e, s); },
                        [&](const Call& c) { return emit_call(e, c, hint); },
                        [&](const Star&) -> Sugared { fail(e->range, "a starred expression is not supported here"); },
                        [&](const Unary& u) { return Sugared{emit_unary(e, u)}; },
                        [&](const Binary& b) { return Sugared{emit_binary(e, b)}; },
                        [&](const Logical&) { return Sugared{condition(e).value}; },
                        [&](const Ternary& t) { return Sugared{emit_ternary(e, t, hint)}; },
                        [&](const TupleLit& t) {
                          ArgList items;
                          std::vector<Type> types;
                          const Type* want = hint && hint->is(TypeKind::Optional) ? &hint->element() : hint ? &*hint : nullptr;
                          for (size_t i = 0; i < t.items.size(); i++) {
                            if (auto* star = t.items[i]->as<Star>()) {
                              ValueId v = expression(star->value);
                              if (!type(v).is(TypeKind::Tuple)) fail(t.items[i]->range, "{} cannot be used as a tuple", repr(v));
                              for (std::vector<Sugared> parts = *unrolled_items(e->range, {v}); auto& part : parts)
                                items.emplace_back(as_value(e->range, part)), types.push_back(type(items.back().get<ValueId>()));
                              continue;
                            }
                            bool hinted = want && want->is(TypeKind::Tuple) && i < want->elements().size();
                            ValueId v = expression(t.items[i], hinted ? std::optional(want->element(i)) : std::nullopt);
                            if (hinted) v = convert(e->range, v, want->element(i));
                            items.emplace_back(v), types.push_back(type(v));
                          }
                          return Sugared{one(e->range, prim::TupleConstruct, items, Type::tuple(types))};
                        },
                        [&](const ListLit& l) { return Sugared{emit_list(e, l, hint)}; },
                        [&](const DictLit& d) { return Sugared{emit_dict(e, d, hint)}; },
                        [&](const Comprehension& c) { return Sugared{emit_comprehension(e->range, c, hint)}; },
                    },
                    e->v);
}

ValueId Emitter::emit_unary(const Exp& e, const Unary& u) {
  if (u.op == "not") return condition(e).value;
  ValueId v = expression(u.value);
  return op(e->range, u.op == "-" ? call::neg : call::bitwise_not, {v});
}

ValueId Emitter::emit_binary(const Exp& e, const Binary& b) {
  if (b.op == "is" || b.op == "is not") {
    auto *left = b.left->as<Literal>(), *right = b.right->as<Literal>();
    if ((left && left->value.index() == 0) || (right && right->value.index() == 0)) return condition(e).value;
  }
  static const std::map<std::string, OpId> names{
      {"+", call::add},          {"-", call::sub},        {"*", call::mul},        {"/", call::div},    {"//", call::floordiv},
      {"%", call::remainder},    {"**", call::pow},       {"@", call::matmul},     {"&", call::op_and}, {"|", call::op_or},
      {"^", call::op_xor},       {"<<", call::op_lshift}, {">>", call::op_rshift}, {"<", call::lt},     {">", call::gt},
      {"<=", call::le},          {">=", call::ge},        {"==", call::eq},        {"!=", call::ne},    {"is", call::op_is},
      {"is not", call::op_isnot}};
  ValueId left = expression(b.left);
  if (b.op == "in" || b.op == "not in") {
    ValueId right = expression(b.right);
    if (type(left).is(TypeKind::String) && type(right).is(TypeKind::String))
      return op(e->range, b.op == "in" ? call::ne : call::eq, {op(e->range, call::find, {right, left}), integer(e->range, -1)});
    ValueId has = op(b.right->range, call::op_contains, {right, left});
    return b.op == "in" ? has : op(e->range, call::op_not, {has});
  }
  ValueId right = expression(b.right);
  if (b.op == "%" && type(left).is(TypeKind::String)) return op(e->range, call::percentFormat, {left, right});
  if (b.op == "+" && type(left).is(TypeKind::Tuple) && type(right).is(TypeKind::Tuple)) {
    auto parts = *unrolled_items(e->range, {left}), more = *unrolled_items(e->range, {right});
    parts.insert(parts.end(), more.begin(), more.end());
    return as_value(e->range, {Unrolled{parts}});
  }
  return pack_results(e->range, emit_op(e->range, names.at(b.op), {{b.left->range, left}, {b.right->range, right}}));
}

ValueId Emitter::emit_ternary(const Exp& e, const Ternary& t, const std::optional<Type>& hint) {
  Condition c = condition(t.condition);
  if (c.known) {
    refine(e->range, *c.known ? c.when_true : c.when_false);
    return expression(*c.known ? t.then : t.otherwise, hint);
  }
  NodeId n = node(e->range, prim::If, {c.value}, {});
  Branch a{g.add_block(n), {}}, b{g.add_block(n), {}};
  ValueId v, w;
  within(a.block, a.frame, [&] { refine(e->range, c.when_true), v = expression(t.then, hint); });
  within(b.block, b.frame, [&] { refine(e->range, c.when_false), w = expression(t.otherwise, hint); });
  auto both = unify(type(v), type(w));
  if (!both && hint && is_subtype(type(v), *hint) && is_subtype(type(w), *hint)) both = hint;
  if (!both) fail(e->range, "if-expression's true branch has type {} but false branch has type {}", repr(v), repr(w));
  g.block(a.block).returns = {v}, g.block(b.block).returns = {w};
  return g.add_output(n, *both);
}

ValueId Emitter::emit_list(const Exp& e, const ListLit& l, const std::optional<Type>& hint) {
  std::optional<Type> want = hint && hint->is(TypeKind::Optional) ? std::optional(hint->element()) : hint;
  if (want && want->is(TypeKind::Union))
    for (const Type& t : hint->elements())
      if (t.is(TypeKind::List)) want = t;
  if (want && !want->is(TypeKind::List)) want.reset();
  ArgList items;
  std::vector<Type> types;
  auto element_hint = want ? std::optional(want->element()) : std::nullopt;
  for (auto& i : l.items) {
    if (i->as<Star>()) fail(i->range, "cannot statically infer the expected size of a list in this context");
    ValueId v = expression(i, element_hint);
    if (element_hint) v = convert(i->range, v, *element_hint);
    items.emplace_back(v), types.push_back(type(v));
  }
  std::optional<Type> element = types.empty() ? std::optional(Type::simple(TypeKind::Dynamic)) : std::optional(types[0]);
  std::vector<Type> distinct;
  for (Type& t : types) {
    if (element) element = unify(*element, t);
    if (std::find(distinct.begin(), distinct.end(), t) == distinct.end()) distinct.push_back(t);
  }
  if (want) {
    for (Type& t : types)
      if (!is_subtype(t, want->element()))
        fail(e->range, "List type annotation `{}` did not match the types of the given list elements, which were unified to {}",
             annotation(*want), element ? annotation(*element) : annotation(Type::any_of(distinct)));
    return one(e->range, prim::ListConstruct, items, *want);
  }
  if (!element) element = Type::any_of(distinct);
  return one(e->range, prim::ListConstruct, items, Type::list(*element));
}

ValueId Emitter::emit_dict(const Exp& e, const DictLit& d, const std::optional<Type>& hint) {
  std::optional<Type> want = hint && hint->is(TypeKind::Optional) ? std::optional(hint->element()) : hint;
  if (want && !want->is(TypeKind::Dict)) want.reset();
  ArgList items;
  std::optional<Type> key, value;
  for (size_t i = 0; i < d.keys.size(); i++) {
    ValueId k = expression(d.keys[i], want ? std::optional(want->element(0)) : std::nullopt);
    ValueId v = expression(d.values[i], want ? std::optional(want->element(1)) : std::nullopt);
    if (want) v = convert(e->range, v, want->element(1));
    if (want && (!is_subtype(type(k), want->element(0)) || !is_subtype(type(v), want->element(1))))
      fail(e->range, "Type annotation was inferred to be `{}`but the type of keys or values given by the dict literal is Dict[{}, {}]",
           annotation(*want), repr(k), repr(v));
    if (key && !(*key == type(k)))
      fail(e->range, "Dict keys must contain only a single type. Expected: {} but found {} instead", annotation(*key), repr(k));
    key = type(k);
    auto both = value ? unify(*value, type(v)) : std::optional(type(v));
    if (!want && !both) both = Type::any_of({*value, type(v)});
    value = both ? both : value;
    items.emplace_back(k), items.emplace_back(v);
  }
  Type t = want ? *want : key ? Type::dict(*key, *value) : Type::dict(Type::simple(TypeKind::String), Type::simple(TypeKind::Dynamic));
  return one(e->range, prim::DictConstruct, items, t);
}

/// [] without a hint: a list of tensors, until it is passed where another list is asked for.
bool Emitter::is_empty_literal(ValueId v) const {
  NodeId n = g.value(v).node;
  return n.valid() && g.node(n).op == prim::ListConstruct && g.node(n).args.empty() &&
         type(v) == Type::list(Type::simple(TypeKind::Dynamic));
}

ValueId Emitter::convert(Range at, ValueId v, const Type& to, bool implicit) {
  const Type from = type(v);
  if (from == to) return v;
  const Type& wanted = to.is(TypeKind::Optional) ? to.element() : to;
  // A tuple literal for a list; an optional's inside, as torch converts it.
  if (from.is(TypeKind::Tuple) && wanted.is(TypeKind::List) && !from.elements().empty() &&
      std::all_of(from.elements().begin(), from.elements().end(), [&](const Type& t) { return is_subtype(t, wanted.element()); })) {
    NodeId n = node(at, prim::TupleUnpack, {v}, from.elements());
    ArgList items;
    for (ValueId o : g.node(n).outputs) items.emplace_back(o);
    return one(at, prim::ListConstruct, items, wanted);
  }
  if (from.is(TypeKind::Tuple) && wanted.is(TypeKind::Tuple) && from.elements().size() == wanted.elements().size() && from.name().empty() &&
      is_subtype(from, wanted))
    return cast(at, v, wanted);
  if (from.is(TypeKind::String) && wanted.is(TypeKind::Device)) return op(at, call::device, {v});
  if (!implicit) return v;
  if (wanted.is(TypeKind::List) && is_empty_literal(v)) return one(at, prim::ListConstruct, {}, wanted);
  if (from.is_any_tensor()) {
    if (wanted.is(TypeKind::Float)) return op(at, call::FloatImplicit, {v});
    if (wanted.is(TypeKind::Int)) return op(at, call::IntImplicit, {v});
    if (wanted.is(TypeKind::Complex)) return op(at, call::ComplexImplicit, {v});
    if (wanted.is(TypeKind::Number)) return op(at, call::ScalarImplicit, {v});
  }
  if (from.is(TypeKind::Bool) && wanted.is(TypeKind::Number)) return op(at, call::Int, {v});
  if (from.is(TypeKind::Number) || from.is(TypeKind::Bool)) {
    if (wanted.is(TypeKind::Float)) return op(at, call::Float, {v});
    if (wanted.is(TypeKind::Int)) return op(at, call::Int, {v});
    if (wanted.is(TypeKind::Complex)) return op(at, call::Complex, {v});
  }
  return v;
}

Sugared Emitter::attribute_of(Range at, const Sugared& s, const std::string& name) {
  if (auto* p = s.as<Path>()) return of_path(at, p->path + "." + name);
  if (auto* m = s.as<InstanceP>()) return method_of_module(at, *m, name);
  if (auto* c = s.as<ClassRef>()) {
    for (auto& st : c->def->body)
      if (auto* a = st->as<Assign>(); a && a->value && a->targets[0]->as<Name>() && a->targets[0]->as<Name>()->id == name)
        return of_constant(at, evaluator.evaluate(a->value, *c->scope));
    if (auto m = find_method(*c, name)) return {*m};
    fail(at, "class '{}' has no attribute '{}'", c->def->name, name);
  }
  if (auto* u = s.as<Unrolled>(); u && name == "__len__") return {integer(at, static_cast<int64_t>(u->items.size()))};
  return attribute_of_value(at, as_value(at, s), name);
}

Sugared Emitter::method_of_module(Range at, const InstanceP& self, const std::string& name) {
  bool dict = self->cls.def->name == "ModuleDict" || self->cls.def->name == "ParameterDict";
  if (dict && (name == "items" || name == "keys" || name == "values")) return {StaticMethod{self, name}};
  if (name == "named_children" || name == "children" || name == "modules" || name == "named_modules" || name == "parameters" ||
      name == "named_parameters")
    return {StaticMethod{self, name}};
  return attribute(at, self, name);
}

Sugared Emitter::attribute_of_value(Range at, ValueId v, const std::string& name) {
  const Type t = type(v);
  if (t.is_any_tensor()) {
    static const std::map<std::string, OpId> properties{{"shape", call::size},
                                                        {"dtype", prim::dtype},
                                                        {"device", prim::device},
                                                        {"layout", prim::layout},
                                                        {"data", prim::data},
                                                        {"grad", prim::grad},
                                                        {"is_cuda", prim::is_cuda},
                                                        {"requires_grad", prim::requires_grad},
                                                        {"ndim", call::dim},
                                                        {"T", call::numpy_T},
                                                        {"mT", call::mT},
                                                        {"H", call::matrix_H},
                                                        {"mH", call::mH},
                                                        {"real", call::real},
                                                        {"imag", call::imag},
                                                        {"is_sparse", prim::is_sparse},
                                                        {"is_cpu", prim::is_cpu},
                                                        {"is_quantized", prim::is_quantized},
                                                        {"itemsize", prim::itemsize},
                                                        {"nbytes", prim::nbytes},
                                                        {"is_mkldnn", prim::is_mkldnn},
                                                        {"is_meta", prim::is_meta},
                                                        {"name", prim::name},
                                                        {"is_leaf", call::is_leaf}};
    if (auto p = properties.find(name); p != properties.end()) {
      if (name == "T" && !is_operator(call::numpy_T)) return {op(at, call::t, {v})};
      return {op(at, p->second, {v})};
    }
    const Scope* functions = library_scope("torch");
    if (auto* c = functions->find("_" + name)) return {BoundFunction{{std::get<std::shared_ptr<const Def>>(*c), functions, nullptr}, v}};
    if (auto* f = functions->find(name); f && !name.starts_with('_'))
      if (auto* d = std::get_if<std::shared_ptr<const Def>>(f)) return {BoundFunction{{*d, functions, nullptr}, v}};
    if (name == "tolist") return {Operator{prim::tolist, v}};
  }
  if (t.is(TypeKind::Device) && (name == "type" || name == "index")) return {op(at, "prim::" + name, {v})};
  if (t.is(TypeKind::Tuple) && t.parts)
    for (size_t i = 0; i < t.parts->fields.size(); i++)
      if (t.parts->fields[i] == name) return {one(at, prim::TupleIndex, {v, integer(at, static_cast<int64_t>(i))}, t.element(i))};
  if (name != "T" && (t.is_any_tensor() || t.is(TypeKind::List) || t.is(TypeKind::Dict) || t.is(TypeKind::String) || t.is(TypeKind::Int) ||
                      t.is(TypeKind::Float) || t.is(TypeKind::Number)))
    for (std::string_view space : {"aten::", "prim::"})
      if (is_operator(space.data() + name)) return {Operator{space.data() + name, v}};
  fail(at, "'{}' object has no attribute or method '{}'.", repr(v), name);
}

} // namespace tenon::script
