// What __init__ and defaults computed, as values of the graph: numbers and lists as constants, parameters and buffers as inputs, other
// tensors as the operators that make them.
#include <algorithm>

#include "builtins/dict.h"
#include "builtins/resolve.h"
#include "script/emitter.h"

namespace tenon::script {

IValue default_ivalue(const Constant& c, Range at, const Type& wanted) {
  auto items = [&](const Constants& l) {
    std::vector<IValue> out;
    for (size_t i = 0; i < l.size(); i++) {
      const Type& of = wanted.is(TypeKind::Optional) ? wanted.element() : wanted;
      out.push_back(default_ivalue(l[i], at,
                                   of.is(TypeKind::Tuple) && i < of.elements().size() ? of.element(i)
                                   : of.is(TypeKind::List)                            ? of.element()
                                                                                      : Type::simple(TypeKind::Any)));
    }
    return out;
  };
  const Type& inner = wanted.is(TypeKind::Optional) ? wanted.element() : wanted;
  if (c.is_none()) return {};
  if (auto* b = c.as<bool>()) return *b;
  if (auto* i = c.as<int64_t>()) return inner.is(TypeKind::Float) ? IValue(static_cast<double>(*i)) : IValue(*i);
  if (auto* d = c.as<double>()) return *d;
  if (auto* z = c.as<std::complex<double>>()) return *z;
  if (auto* s = c.as<std::string>()) return inner.is(TypeKind::Device) ? IValue(*s, IValue::Tag::Device) : IValue(*s);
  if (auto* t = c.as<Constant::Tuple>()) return inner.is(TypeKind::List) ? IValue::list(items(*t->items)) : IValue::tuple(items(*t->items));
  if (c.as<Constant::List>() || c.as<Constant::Dict>())
    fail(at,
         "Mutable default parameters are not supported because Python binds them to the function and they persist across function calls.\n"
         " As a workaround, make the default None and instantiate the default parameter within the body of the function. Found {} on "
         "parameter",
         python_type(c));
  fail(at, "a {} cannot be a default", python_type(c));
}

template <class F> ValueId Emitter::at_top(const F& f) {
  Frame* inner = frame;
  frame = &root;
  size_t before = g.block(g.top()).nodes.size();
  ValueId v = f();
  frame = inner;
  auto& nodes = g.block(g.top()).nodes;
  auto made = static_cast<ptrdiff_t>(before);
  size_t count = nodes.size() - before;
  std::rotate(nodes.begin() + static_cast<ptrdiff_t>(num_before), nodes.begin() + made, nodes.end());
  num_before += count;
  return v;
}

ValueId Emitter::emit_constant(Range at, const Constant& c) {
  if (auto* b = c.as<bool>()) return boolean(at, *b);
  if (auto* i = c.as<int64_t>()) return integer(at, *i);
  if (auto* d = c.as<double>()) return constant(at, *d, Type::simple(TypeKind::Float));
  if (auto* z = c.as<std::complex<double>>()) return constant(at, *z, Type::simple(TypeKind::Complex));
  if (auto* s = c.as<std::string>()) return text(at, *s);
  if (auto* t = c.as<std::shared_ptr<TensorConstant>>()) return emit_tensor(at, **t);
  if (c.is_none()) return none(at);
  ArgList args;
  std::vector<Type> types;
  auto add = [&](const Constant& i) {
    ValueId v = emit_constant(at, i);
    args.emplace_back(v), types.push_back(type(v));
  };
  if (auto* l = c.as<Constant::List>()) {
    for (auto& i : **l) add(i);
    Type element = types.empty() ? Type::simple(TypeKind::Dynamic) : types[0];
    for (Type& t : types) element = unify(element, t).value_or(element);
    return one(at, prim::ListConstruct, args, Type::list(element));
  }
  if (auto* t = c.as<Constant::Tuple>()) {
    for (auto& i : *t->items) add(i);
    return one(at, prim::TupleConstruct, args, Type::tuple(types));
  }
  if (auto* d = c.as<Constant::Dict>()) {
    for (auto& [k, v] : **d) add(k), add(v);
    if (types.empty()) types = {Type::simple(TypeKind::String), Type::simple(TypeKind::Dynamic)};
    return one(at, prim::DictConstruct, args, Type::dict(types[0], types[1]));
  }
  fail(at, "Module attribute of type '{}' cannot be used as a value", python_type(c));
}

ValueId Emitter::emit_tensor(Range at, const TensorConstant& t) {
  if (t.holder == Holder::Plain || !t.persistent || t.name.empty()) {
    if (!t.call) fail(at, "a parameter that is no attribute of its module");
    return emit_deferred(at, *t.call);
  }
  if (auto it = attribute_values.find(t.name); it != attribute_values.end()) return it->second;
  weights.push_back(t.name);
  std::string hint = t.name;
  std::replace(hint.begin(), hint.end(), '.', '_');
  ValueId v = g.add_param(g.top(), Type::simple(TypeKind::Dynamic), hint);
  attribute_values[t.name] = v;
  return v;
}

ValueId Emitter::emit_deferred(Range at, const Deferred& d) {
  static const std::map<std::string, OpId> operators{
      {"+", call::add},       {"-", call::sub},       {"*", call::mul},    {"/", call::div},     {"**", call::pow},
      {"//", call::floordiv}, {"%", call::remainder}, {"@", call::matmul}, {"[]", call::select}, {"<", call::lt},
      {">", call::gt},        {"<=", call::le},       {">=", call::ge},    {"&", call::op_and},  {"|", call::op_or}};
  CallArgs args;
  for (auto& a : d.args) args.positional.emplace_back(at, Sugared{emit_constant(at, a)});
  for (auto& [k, v] : d.keywords) args.keywords.emplace_back(k, std::pair{at, Sugared{emit_constant(at, v)}});
  if (d.callee == "[]" && args.positional.size() == 2) args.positional.insert(args.positional.begin() + 1, {at, Sugared{integer(at, 0)}});
  Sugared callee{Operator{"", {}}};
  if (auto it = operators.find(d.callee); it != operators.end()) callee = {Operator{it->second, {}}};
  else if (d.callee.starts_with('.'))
    callee = attribute_of(at, args.positional.at(0).second, d.callee.substr(1)), args.positional.erase(args.positional.begin());
  else callee = of_path(at, d.callee);
  if (simple(callee)) return *simple(callee);
  return as_value(at, call(at, callee, args, {}));
}

Sugared Emitter::attribute(Range at, const InstanceP& self, const std::string& name) {
  std::string k = "@" + self->path + "." + name;
  if (Variable* var = lookup(k, frame)) return var->value;
  const Constant* c = self->find(name);
  if (!c) {
    auto m = find_method(self->cls, name);
    if (m) {
      m->self = self;
      bool is_property = std::any_of(m->def->decorators.begin(), m->def->decorators.end(), [](auto& d) {
        auto* n = d->template as<Name>();
        return n && n->id == "property";
      });
      return is_property ? inline_call(at, *m, {}) : Sugared{*m};
    }
    for (auto& cls : base_classes(self->cls))
      for (auto& s : cls.def->body)
        if (auto* a = s->as<Assign>(); a && a->value && a->targets[0]->as<Name>() && a->targets[0]->as<Name>()->id == name)
          return of_constant(at, evaluator.evaluate(a->value, *cls.scope));
    fail(at, "Module '{}' has no attribute '{}' ", self->cls.def->name, name);
  }
  // Lists and tensors made by __init__ have identity: each use shows the same one.
  bool made_once = c->as<Constant::Dict>() || c->as<std::shared_ptr<TensorConstant>>();
  if (auto* l = c->as<Constant::List>())
    made_once = std::none_of((*l)->begin(), (*l)->end(), [](auto& i) { return i.template as<InstanceP>() != nullptr; });
  if (!made_once) return of_constant(at, *c);
  if (auto it = attribute_values.find(k); it != attribute_values.end()) return {it->second};
  ValueId v = at_top([&] { return emit_constant(at, *c); });
  attribute_values[k] = v;
  return {v};
}

namespace {

void assigned_attributes(const Stmts& body, std::set<std::string>& out) {
  auto target = [&](const Exp& t) {
    if (auto* s = t->as<Select>()) out.insert(s->attr);
  };
  for (auto& s : body) {
    if (auto* a = s->as<Assign>())
      for (auto& t : a->targets) {
        target(t);
        if (auto* many = t->as<TupleLit>())
          for (auto& i : many->items) target(i);
      }
    else if (auto* g = s->as<AugAssign>()) target(g->target);
    else if (auto* i = s->as<If>()) assigned_attributes(i->then, out), assigned_attributes(i->otherwise, out);
    else if (auto* w = s->as<While>()) assigned_attributes(w->body, out);
    else if (auto* f = s->as<For>()) assigned_attributes(f->body, out);
  }
}

void assigned_in_methods(const InstanceP& m, std::set<std::string>& out) {
  for (auto& cls : base_classes(m->cls))
    for (auto& s : cls.def->body)
      if (auto* d = s->as<DefStmt>(); d && d->def->name != "__init__") assigned_attributes(d->def->body, out);
  for (auto& [name, v] : m->attributes)
    if (auto* sub = v.as<InstanceP>()) assigned_in_methods(*sub, out);
}

} // namespace

void Emitter::register_mutable_attributes(const InstanceP& self) {
  if (self->path.empty()) assigned_in_methods(self, mutable_attributes);
  for (auto& [name, v] : self->attributes) {
    if (auto* sub = v.as<InstanceP>()) register_mutable_attributes(*sub);
    else if (mutable_attributes.contains(name))
      root.vars["@" + self->path + "." + name] = {attribute(self->cls.def->range, self, name), {}, {}};
  }
}

} // namespace tenon::script
