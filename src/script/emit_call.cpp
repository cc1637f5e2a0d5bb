// Calls: of operators, by overload resolution; of functions and methods, whose bodies are inlined.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/call_writer.h"
#include "script/emitter.h"

namespace tenon::script {

namespace {
constexpr size_t deepest_calls = 60;
}

CallArgs Emitter::arguments(const Call& c) {
  CallArgs out;
  for (auto& a : c.args) {
    if (auto* star = a->as<Star>()) {
      Sugared s = sugared(star->value);
      auto items = unrolled_items(a->range, s);
      if (!items) fail(a->range, "{} cannot be used as a tuple", simple(s) ? repr(*simple(s)) : "value");
      for (auto& i : *items) out.positional.emplace_back(a->range, i);
    } else out.positional.emplace_back(a->range, sugared(a));
  }
  for (auto& k : c.keywords) out.keywords.emplace_back(k.name, std::pair{k.value->range, sugared(k.value)});
  return out;
}

Sugared Emitter::emit_call(const Exp& e, const Call& c, const std::optional<Type>& hint) {
  if (auto* s = c.callee->as<Select>())
    if (auto* inner = s->value->as<Call>())
      if (auto* n = inner->callee->as<Name>(); n && n->id == "super") {
        auto& fn = stack.back().fn;
        if (!fn.self) fail(e->range, "super() outside of a module");
        auto bases = base_classes(fn.self->cls);
        for (size_t i = 1; i < bases.size(); i++)
          for (auto& st : bases[i].def->body)
            if (auto* d = st->as<DefStmt>(); d && d->def->name == s->attr && d->def != fn.def)
              return call(e->range, {FunctionRef{d->def, bases[i].scope, fn.self}}, arguments(c), hint);
        fail(e->range, "super() has no method '{}'", s->attr);
      }
  Sugared callee = sugared(c.callee);
  if (auto form = form_of_syntax(e, c, callee, hint)) return *form;
  return call(e->range, callee, arguments(c), hint);
}

Sugared Emitter::call(Range at, const Sugared& callee, const CallArgs& args, const std::optional<Type>& hint) {
  if (auto* o = callee.as<Operator>()) return call_operator(at, *o, args);
  if (auto* f = callee.as<FunctionRef>()) return inline_call(at, *f, args);
  if (auto* m = callee.as<InstanceP>()) {
    auto forward = find_method((*m)->cls, "forward");
    if (!forward) fail(at, "Module '{}' has no forward method", (*m)->cls.def->name);
    forward->self = *m;
    return inline_call(at, *forward, args);
  }
  if (auto* f = callee.as<Form>()) return call_form(at, f->name, args, hint);
  if (auto* c = callee.as<ClassRef>()) {
    if (auto t = named_tuple_of(*c)) return make_named_tuple(at, *c, *t, args);
    fail(at, "objects of class '{}' are not supported", c->def->name);
  }
  if (auto* b = callee.as<BoundFunction>()) {
    CallArgs all = args;
    all.positional.insert(all.positional.begin(), {at, Sugared{b->self}});
    return inline_call(at, b->fn, all);
  }
  if (auto* s = callee.as<StaticMethod>()) {
    Unrolled out;
    for (auto& [name, v] : s->self->attributes) {
      bool parameter = v.as<std::shared_ptr<TensorConstant>>() != nullptr;
      if (!v.as<InstanceP>() && !(parameter && (s->name.ends_with("parameters") || s->self->cls.def->name == "ParameterDict"))) continue;
      Sugared key{text(at, name)}, value = of_constant(at, v);
      bool pairs = s->name == "items" || s->name.starts_with("named_");
      out.items.push_back(pairs ? Sugared{Unrolled{{key, value}}} : s->name == "keys" ? key : value);
    }
    return {out};
  }
  if (auto v = simple(callee)) fail(at, "cannot call a value of type '{}'", repr(*v));
  if (auto* p = callee.as<Path>()) {
    size_t dot = p->path.rfind('.');
    if (dot == p->path.npos) fail(at, "'{}' object is not callable", p->path);
    fail(at, "module '{}' object has no attribute {}", p->path.substr(0, dot), p->path.substr(dot + 1));
  }
  if (auto* c = callee.as<Closed>()) fail(at, "Python builtin {} is currently not supported in Torchscript", c->python_type);
  fail(at, "this value cannot be called");
}

Sugared Emitter::call_operator(Range at, const Operator& o, const CallArgs& args) {
  NamedValues given;
  if (o.self) given.push_back({at, *o.self});
  for (auto& [range, s] : args.positional) given.push_back({range, as_value(range, s)});
  for (auto& [name, arg] : args.keywords) given.push_back({arg.first, as_value(arg.first, arg.second), name});
  return {pack_results(at, emit_op(at, o.name, given))};
}

ValueId Emitter::pack_results(Range at, const std::vector<ValueId>& results) {
  if (results.size() == 1) return results[0];
  if (results.empty()) return none(at);
  ArgList items(results.begin(), results.end());
  std::vector<Type> types;
  for (ValueId v : results) types.push_back(type(v));
  return one(at, prim::TupleConstruct, items, Type::tuple(types, {}, result_names(results)));
}

/// The schema's names of an operator's results, which are fields of the tuple: x.max(0).values. Empty where not all have one.
std::vector<std::string> Emitter::result_names(const std::vector<ValueId>& results) const {
  const Node& n = g.node(g.value(results[0]).node);
  std::vector<Given> given;
  for (const Arg& a : n.args) given.push_back({type(a.get<ValueId>())});
  auto r = resolve_node(n.op, given);
  std::vector<std::string> names;
  for (size_t i = 0; r && i < r->signature->returns.size(); i++) {
    const std::string& name = r->signature->returns[i].name;
    if (name.empty()) return {};
    names.push_back(name);
  }
  return names.size() == results.size() ? names : std::vector<std::string>();
}

std::vector<ValueId> Emitter::emit_values(Range at, OpId name, const std::vector<ValueId>& args) {
  NamedValues given;
  for (ValueId v : args) given.push_back({at, v});
  return emit_op(at, name, given);
}
ValueId Emitter::op(Range at, OpId name, const std::vector<ValueId>& args) { return pack_results(at, emit_values(at, name, args)); }

std::vector<ValueId> Emitter::emit_op(Range at, OpId name, const NamedValues& args) {
  std::vector<Given> given;
  for (auto& a : args) given.push_back({type(a.value), a.name, is_empty_literal(a.value)});
  std::string why;
  if (auto r = of_tensors(at, name, args)) return *r;
  auto r = try_resolve(name, given, &why);
  if (!r) fail_text(at, why);
  std::vector<ValueId> values;
  for (auto& a : args) values.push_back(a.value);
  CallWriter writer(g, [&](OpId op, ArgList operands, std::vector<Type> types, std::optional<size_t> of) {
    return g.node(node(of ? args[*of].range : at, op, std::move(operands), std::move(types))).outputs;
  });
  return g.node(node(at, name, writer.arguments(*r, values), r->results)).outputs;
}

/// Operators of Python on tensors under torch's names; those whose first operand is a number and whose second a tensor turned round.
std::optional<std::vector<ValueId>> Emitter::of_tensors(Range at, OpId name, const NamedValues& args) {
  if (name == prim::abs && args.size() == 1 && type(args[0].value).is_any_tensor()) return emit_values(at, call::abs, {args[0].value});
  if (name == call::floordiv && args.size() == 2 && type(args[0].value).is_any_tensor())
    return emit_values(at, call::floor_divide, {args[0].value, args[1].value});
  if (args.size() != 2 || !args[1].name.empty() || !type(args[1].value).is_any_tensor()) return std::nullopt;
  TypeKind k = type(args[0].value).kind;
  if (k != TypeKind::Int && k != TypeKind::Float && k != TypeKind::Complex && k != TypeKind::Number && k != TypeKind::Bool)
    return std::nullopt;
  static const std::unordered_map<OpId, OpId> mirrored{{call::add, call::add}, {call::mul, call::mul}, {call::eq, call::eq},
                                                       {call::ne, call::ne},   {call::lt, call::gt},   {call::gt, call::lt},
                                                       {call::le, call::ge},   {call::ge, call::le}};
  ValueId number = args[0].value, tensor = args[1].value;
  if (auto m = mirrored.find(name); m != mirrored.end()) return emit_values(at, m->second, {tensor, number});
  if (name == call::sub) return emit_values(at, call::add, {op(at, call::neg, {tensor}), number});
  if (name == call::div) return emit_values(at, call::mul, {op(at, call::reciprocal, {tensor}), number});
  return std::nullopt;
}

Type Emitter::param_type(const Param& p, const FunctionRef& fn) {
  return p.annotation ? type_of_annotation(p.annotation, *fn.scope) : Type::simple(TypeKind::Dynamic);
}

ValueId Emitter::default_of(const Param& p, const FunctionRef& fn, const Type& t) {
  Constant c = evaluator.evaluate(p.fallback, *fn.scope);
  default_ivalue(c, p.fallback->range, t); // refuses what calls would share
  const Type& inner = t.is(TypeKind::Optional) ? t.element() : t;
  if (c.as<int64_t>() && inner.is(TypeKind::Float)) c = {static_cast<double>(*c.as<int64_t>())};
  return emit_constant(p.range, c);
}

/// "\ng(int a, int b=2) -> int:\n", before what does not fit.
std::string Emitter::header_of(const FunctionRef& fn) {
  std::string params;
  for (size_t i = fn.self ? 1 : 0; i < fn.def->params.size(); i++) {
    const Param& p = fn.def->params[i];
    params += fmt::format("{}{} {}", params.empty() ? "" : ", ", to_string(param_type(p, fn)), p.name);
    if (p.fallback)
      params += "=" + p.fallback->range.source->text.substr(p.fallback->range.begin, p.fallback->range.end - p.fallback->range.begin);
  }
  return fmt::format("\n{}({}) -> {}:\n", fn.def->name, params,
                     fn.def->returns ? to_string(type_of_annotation(fn.def->returns, *fn.scope)) : "Tensor");
}

void Emitter::bind_params(Range at, const FunctionRef& fn, const CallArgs& args, Frame& inner) {
  auto& params = fn.def->params;
  size_t first = fn.self && !params.empty() ? 1 : 0;
  bool is_static = std::any_of(fn.def->decorators.begin(), fn.def->decorators.end(),
                               [](auto& d) { return d->template as<Name>() && d->template as<Name>()->id == "staticmethod"; });
  if (is_static) first = 0;
  std::string prefix = fmt::format("{}:", ++counter);
  std::string header = header_of(fn);
  if (first) inner.vars[prefix + params[0].name] = {Sugared{fn.self}, {}, {}};
  size_t most = params.size() - first;
  if (args.positional.size() > most)
    fail(at, "{}Expected at most {} arguments but found {} positional arguments.", header, most + first, args.positional.size() + first);
  for (size_t i = first; i < params.size(); i++) {
    const Param& p = params[i];
    const std::pair<Range, Sugared>* given = i - first < args.positional.size() && !p.keyword_only ? &args.positional[i - first] : nullptr;
    for (auto& [name, arg] : args.keywords)
      if (name == p.name) {
        if (given) fail(at, "{}Keyword argument {} specified twice.", header, name);
        given = &arg;
      }
    Type t = param_type(p, fn);
    std::optional<ValueId> v;
    if (given && !simple(given->second) && !given->second.as<Unrolled>()) { // a module, a function
      inner.vars[prefix + p.name] = {given->second, {}, {}};
      continue;
    }
    if (given) v = as_value(given->first, given->second);
    else if (p.fallback) v = default_of(p, fn, t);
    else fail(at, "{}Argument {} not provided.", header, p.name);
    v = convert(given ? given->first : at, *v, t, true);
    bool library = fn.scope->source->file.starts_with("torch/"), open = library && !p.annotation;
    if (!open && !is_subtype(type(*v), t))
      fail(given ? given->first : at, "{}Expected a value of type '{}' for argument '{}' but instead found type '{}'.{}", header,
           p.annotation ? annotation(t) : "Tensor (inferred)", p.name, repr(*v),
           p.annotation
               ? ""
               : fmt::format("\nInferred '{}' to be of type 'Tensor' because it was not annotated with an explicit type.", p.name));
    inner.vars[prefix + p.name] = {Sugared{library ? *v : cast(at, *v, t)}, {}, {}};
  }
  for (auto& [name, arg] : args.keywords)
    if (std::none_of(params.begin(), params.end(), [&](auto& p) { return p.name == name; }))
      fail(at, "{}Keyword argument {} unknown.", header, name);
  stack.push_back({fn, prefix, {}, {}, {}});
}

Sugared Emitter::inline_call(Range at, const FunctionRef& fn, const CallArgs& args) {
  for (auto& d : fn.def->decorators) {
    std::string name = qualified_name(d->as<Call>() ? d->as<Call>()->callee : d, *fn.scope);
    if (name == "torch.jit.unused" || name == "torch.jit._drop") {
      node(at, prim::RaiseException, {text(at, fmt::format("{} is unused: it cannot be called", fn.def->name)), none(at)}, {});
      return {uninitialized(at, fn.def->returns ? type_of_annotation(fn.def->returns, *fn.scope) : Type::simple(TypeKind::Dynamic))};
    }
    if (name == "torch.jit.ignore")
      fail(at, "{} is ignored by torch.jit.ignore: it is Python code, which cannot be called here", fn.def->name);
  }
  if (fn.def->refusal) fail_text(fn.def->refusal->range, fn.def->refusal->message);
  for (auto& a : stack)
    if (a.fn.def == fn.def && a.fn.self == fn.self)
      fail(at, "function '{}' is called recursively. Recursive calls are not supported", fn.def->name);
  if (stack.size() >= deepest_calls) fail(at, "calls nested too deeply");
  Frame inner;
  inner.boundary = true;
  bind_params(at, fn, args, inner);
  ValueId result;
  within(frame->block, inner, [&] {
    if (fn.def->returns) stack.back().declared = type_of_annotation(fn.def->returns, *fn.scope);
    result = body_result(fn.def->range, statements(fn.def->body), inner);
  });
  stack.pop_back();
  for (auto& [k, v] : inner.vars)
    if (k.starts_with('@')) frame->vars[k] = v;
  return {result};
}

ValueId Emitter::body_result(Range at, Flow flow, Frame& inner) {
  Activation& a = stack.back();
  Type none_type = Type::simple(TypeKind::None);
  if (flow == Flow::Throws) return uninitialized(at, a.declared.value_or(a.merged.value_or(none_type)));
  if (flow == Flow::Exits) {
    ValueId v = *simple(lookup_flag(flag("value"), &inner)->value);
    return v;
  }
  if (flow == Flow::Maybe && !a.declared && !a.merged->is(TypeKind::None)) { // falling off the end returns None
    auto left = [&](const char* what) { return *simple(lookup_flag(flag(what), &inner)->value); };
    NodeId n = node(at, prim::If, {left("return")}, {});
    Branch t{g.add_block(n), {}}, f{g.add_block(n), {}};
    within(f.block, f.frame, [&] { g.block(f.block).returns = {none(at)}; });
    g.block(t.block).returns = {left("value")};
    return g.add_output(n, Type::optional(*a.merged));
  }
  Type returned = a.declared.value_or(a.merged.value_or(none_type));
  if (!returned.is(TypeKind::None)) fail(at, "Function was not annotated as having type None, but does not return along all paths");
  return none(at);
}

Sugared Emitter::make_named_tuple(Range at, const ClassRef& cls, const Type& t, const CallArgs& args) {
  auto& fields = t.parts->fields;
  ArgList items;
  if (args.positional.size() > fields.size())
    fail(at, "{}: Expected at most {} arguments but found {} positional arguments", cls.def->name, fields.size(), args.positional.size());
  for (size_t i = 0; i < fields.size(); i++) {
    const std::pair<Range, Sugared>* given = i < args.positional.size() ? &args.positional[i] : nullptr;
    for (auto& [name, arg] : args.keywords)
      if (name == fields[i]) given = &arg;
    ValueId v;
    if (given) v = as_value(given->first, given->second);
    else {
      const Assign* field = nullptr;
      for (auto& s : cls.def->body)
        if (auto* a = s->as<Assign>(); a && a->targets[0]->as<Name>() && a->targets[0]->as<Name>()->id == fields[i]) field = a;
      if (!field || !field->value) fail(at, "Argument {} not provided.", fields[i]);
      v = emit_constant(at, evaluator.evaluate(field->value, *cls.scope));
    }
    v = convert(at, v, t.element(i), true);
    if (!is_subtype(type(v), t.element(i)))
      fail(at, "Expected a value of type '{}' for argument '{}' but instead found type '{}'.", annotation(t.element(i)), fields[i],
           repr(v));
    items.emplace_back(v);
  }
  return {one(at, prim::TupleConstruct, items, t)};
}

} // namespace tenon::script
