#include "script/evaluator.h"

#include "script/annotations.h"

namespace tenon::script {

namespace {

constexpr size_t most_steps = 2'000'000;

Constant list_of(Constants items) { return {std::make_shared<Constants>(std::move(items))}; }

} // namespace

void Evaluator::step(Range at) {
  if (++steps > most_steps) fail(at, "__init__ takes too many steps");
}

std::optional<Constant> Evaluator::try_evaluate(const Exp& e, const Scope& scope) {
  try {
    return evaluate(e, scope);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Constant Evaluator::evaluate(const Exp& e, const Scope& scope) {
  Frame f{&scope, {}, {}, {}};
  return eval(e, f);
}

InstanceP Evaluator::instantiate(const ClassRef& cls, const Constants& args, const Keywords& keywords, Range at) {
  if (!is_module(cls)) fail(at, "Class '{}' is no nn.Module", cls.def->name);
  auto self = std::make_shared<Instance>();
  self->cls = cls;
  self->set("training", {false});
  ClassRef holder;
  if (auto init = find_method(cls, "__init__", &holder)) {
    if (holder.scope == library_scope("torch.nn") && holder.def->name == "Sequential") return fill_sequential(self, args), self;
    init->self = self;
    call_function(*init, holder, args, keywords, at);
  } else if (!args.empty() || !keywords.empty()) fail(at, "{}() takes no arguments", cls.def->name);
  return self;
}

void Evaluator::fill_sequential(const InstanceP& self, const Constants& args) {
  if (auto* named = args.size() == 1 ? args[0].as<Constant::Dict>() : nullptr) {
    for (auto& [k, v] : **named)
      if (auto* name = k.as<std::string>()) self->set(*name, v);
    return;
  }
  for (size_t i = 0; i < args.size(); i++) self->set(std::to_string(i), args[i]);
}

Constant Evaluator::call_function(const FunctionRef& fn, const ClassRef& cls, const Constants& args, const Keywords& keywords, Range at) {
  step(at);
  if (depth >= 60) fail(at, "calls nested too deeply");
  Frame f{fn.scope, {}, cls, {}};
  auto& params = fn.def->params;
  size_t first = fn.self ? 1 : 0;
  if (fn.self && !params.empty()) f.locals[params[0].name] = {fn.self};
  if (args.size() + first > params.size()) {
    fail(at, "{}() takes {} arguments, {} were given", fn.def->name, params.size() - std::min(first, params.size()), args.size());
  }
  for (size_t i = first; i < params.size(); i++) {
    const Param& p = params[i];
    if (i - first < args.size()) {
      f.locals[p.name] = args[i - first];
      continue;
    }
    bool found = false;
    for (auto& [k, v] : keywords)
      if (k == p.name) f.locals[p.name] = v, found = true;
    if (found) continue;
    if (!p.fallback) fail(at, "{}() misses its argument '{}'", fn.def->name, p.name);
    f.locals[p.name] = evaluate(p.fallback, *fn.scope);
  }
  for (auto& [k, v] : keywords)
    if (!f.locals.contains(k)) fail(at, "{}() got an unexpected keyword argument '{}'", fn.def->name, k);
  depth++;
  run(fn.def->body, f);
  depth--;
  return f.returned;
}

Evaluator::Flow Evaluator::run(const Stmts& body, Frame& f) {
  for (auto& s : body)
    if (Flow flow = run_one(*s, f); flow != Flow::Next) return flow;
  return Flow::Next;
}

Evaluator::Flow Evaluator::run_one(const Statement& s, Frame& f) {
  step(s.range);
  if (auto* e = s.as<ExprStmt>()) {
    if (!e->value->as<Literal>()) eval(e->value, f);
  } else if (auto* a = s.as<Assign>()) {
    if (!a->value) return Flow::Next;
    Constant v = eval(a->value, f);
    for (auto& t : a->targets) assign(t, v, f);
  } else if (auto* g = s.as<AugAssign>()) {
    assign(g->target, arithmetic(s.range, g->op, eval(g->target, f), eval(g->value, f)), f);
  } else if (auto* i = s.as<If>()) {
    return run(truth(eval(i->condition, f)) ? i->then : i->otherwise, f);
  } else if (auto* w = s.as<While>()) {
    while (truth(eval(w->condition, f))) {
      step(s.range);
      Flow flow = run(w->body, f);
      if (flow == Flow::Return) return flow;
      if (flow == Flow::Break) break;
    }
  } else if (auto* l = s.as<For>()) {
    return run_for(*l, f);
  } else if (auto* r = s.as<Return>()) {
    if (r->value) f.returned = eval(r->value, f);
    return Flow::Return;
  } else if (s.as<Break>()) {
    return Flow::Break;
  } else if (s.as<Continue>()) {
    return Flow::Continue;
  } else if (auto* assertion = s.as<Assert>()) {
    if (!truth(eval(assertion->condition, f))) fail(s.range, "AssertionError");
  } else if (s.as<Raise>()) {
    fail(s.range, "__init__ raises");
  } else if (auto* with = s.as<With>()) {
    return run(with->body, f);
  } else if (!s.as<Pass>() && !s.as<Import>()) fail(s.range, "this statement is not supported in __init__");
  return Flow::Next;
}

Evaluator::Flow Evaluator::run_for(const For& s, Frame& f) {
  for (Constant& item : items(eval(s.iter, f), s.iter->range)) {
    step(s.iter->range);
    assign(s.target, std::move(item), f);
    Flow flow = run(s.body, f);
    if (flow == Flow::Return) return flow;
    if (flow == Flow::Break) break;
  }
  return Flow::Next;
}

void Evaluator::assign(const Exp& target, Constant value, Frame& f) {
  if (auto* n = target->as<Name>()) f.locals[n->id] = std::move(value);
  else if (auto* s = target->as<Select>()) {
    Constant of = eval(s->value, f);
    auto* self = of.as<InstanceP>();
    if (!self) fail(target->range, "cannot set an attribute of a {}", python_type(of));
    (*self)->set(s->attr, std::move(value));
  } else if (auto* sub = target->as<Subscript>(); sub && sub->indices.size() == 1) {
    Constant of = eval(sub->value, f), key = eval(sub->indices[0], f);
    if (auto* list = of.as<Constant::List>(); list && key.as<int64_t>()) {
      int64_t i = *key.as<int64_t>(), n = static_cast<int64_t>((*list)->size());
      if (i < -n || i >= n) fail(target->range, "list assignment index out of range");
      (**list)[static_cast<size_t>(i < 0 ? i + n : i)] = std::move(value);
    } else if (auto* dict = of.as<Constant::Dict>()) (*dict)->emplace_back(key, value);
    else if (auto* self = of.as<InstanceP>(); self && key.as<std::string>()) (*self)->set(*key.as<std::string>(), value);
    else fail(target->range, "cannot assign to an element of a {}", python_type(of));
  } else if (auto* t = target->as<TupleLit>()) {
    Constants parts = items(value, target->range);
    if (parts.size() != t->items.size()) fail(target->range, "{} values for {} names", parts.size(), t->items.size());
    for (size_t i = 0; i < parts.size(); i++) assign(t->items[i], parts[i], f);
  } else fail(target->range, "cannot assign to this in __init__");
}

Constants Evaluator::items(const Constant& c, Range at) {
  if (auto* l = c.as<Constant::List>()) return **l;
  if (auto* t = c.as<Constant::Tuple>()) return *t->items;
  if (auto* s = c.as<std::string>()) {
    Constants out;
    for (char ch : *s) out.push_back({std::string(1, ch)});
    return out;
  }
  Constants out;
  if (auto* d = c.as<Constant::Dict>()) {
    for (auto& [k, v] : **d) out.push_back(k);
    return out;
  }
  if (auto* m = c.as<InstanceP>()) { // a list of modules
    for (auto& [name, v] : (*m)->attributes)
      if (v.as<InstanceP>()) out.push_back(v);
    return out;
  }
  fail(at, "a {} cannot be iterated over", python_type(c));
}

Constant Evaluator::eval(const Exp& e, Frame& f) {
  step(e->range);
  auto list = [&](const Exps& from) {
    Constants out;
    for (auto& i : from) {
      if (auto* star = i->as<Star>())
        for (Constant& c : items(eval(star->value, f), i->range)) out.push_back(std::move(c));
      else out.push_back(eval(i, f));
    }
    return out;
  };
  return std::visit(Overloaded{
                        [&](const Literal& l) { return std::visit([](auto& v) { return Constant{v}; }, l.value); },
                        [&](const Name& n) { return name(e, n, f); },
                        [&](const Select& s) { return select(e, s, f); },
                        [&](const Subscript& s) { return subscript(e, s, f); },
                        [&](const Call& c) { return call(e, c, f); },
                        [&](const Unary& u) {
                          Constant v = eval(u.value, f);
                          if (u.op == "not") return Constant{!truth(v)};
                          if (u.op == "-") return arithmetic(e->range, "*", v, {int64_t{-1}});
                          return v;
                        },
                        [&](const Binary& b) { return arithmetic(e->range, b.op, eval(b.left, f), eval(b.right, f)); },
                        [&](const Logical& l) {
                          Constant left = eval(l.left, f);
                          return truth(left) == l.is_and ? eval(l.right, f) : left;
                        },
                        [&](const Ternary& t) { return eval(truth(eval(t.condition, f)) ? t.then : t.otherwise, f); },
                        [&](const TupleLit& t) { return Constant{Constant::Tuple{std::make_shared<Constants>(list(t.items))}}; },
                        [&](const ListLit& l) { return list_of(list(l.items)); },
                        [&](const DictLit& d) {
                          auto out = std::make_shared<std::vector<std::pair<Constant, Constant>>>();
                          for (size_t i = 0; i < d.keys.size(); i++) out->emplace_back(eval(d.keys[i], f), eval(d.values[i], f));
                          return Constant{out};
                        },
                        [&](const Comprehension& c) { return comprehension(c, f); },
                        [&](const auto&) -> Constant { fail(e->range, "this expression is not supported in __init__"); },
                    },
                    e->v);
}

Constant Evaluator::comprehension(const Comprehension& c, Frame& f) {
  Frame inner = f;
  Constants out;
  auto dict = std::make_shared<std::vector<std::pair<Constant, Constant>>>();
  for (Constant& item : items(eval(c.iter, f), c.iter->range)) {
    assign(c.target, std::move(item), inner);
    if (c.key) dict->emplace_back(eval(c.key, inner), eval(c.element, inner));
    else out.push_back(eval(c.element, inner));
  }
  return c.key ? Constant{dict} : list_of(std::move(out));
}

Constant Evaluator::name(const Exp& e, const Name& n, Frame& f) {
  if (auto it = f.locals.find(n.id); it != f.locals.end()) return it->second;
  if (auto* g = f.scope->find(n.id)) {
    if (auto* d = std::get_if<std::shared_ptr<const Def>>(g)) return {FunctionRef{*d, f.scope, nullptr}};
    if (auto* c = std::get_if<std::shared_ptr<const ClassDef>>(g)) return {ClassRef{*c, f.scope}};
    if (auto* i = std::get_if<Imported>(g)) {
      if (auto c = constant_of_path(i->path)) return *c;
      return {Path{i->path}};
    }
    if (depth++ > 60) fail(e->range, "'{}' is defined by itself", n.id);
    Frame global{f.scope, {}, {}, {}};
    Constant v = eval(std::get<Exp>(*g), global);
    depth--;
    return v;
  }
  return {Path{n.id}}; // a builtin
}

Constant Evaluator::select(const Exp& e, const Select& s, Frame& f) {
  Constant of = eval(s.value, f);
  if (auto* p = of.as<Path>()) {
    std::string path = p->path + "." + s.attr;
    if (auto c = constant_of_path(path)) return *c;
    return {Path{path}};
  }
  if (auto* self = of.as<InstanceP>()) {
    if (auto* v = (*self)->find(s.attr)) return *v;
    if (auto m = find_method((*self)->cls, s.attr)) return m->self = *self, Constant{*m};
    for (auto& cls : base_classes((*self)->cls))
      for (auto& st : cls.def->body)
        if (auto* a = st->as<Assign>(); a && a->value && a->targets[0]->as<Name>() && a->targets[0]->as<Name>()->id == s.attr)
          return evaluate(a->value, *cls.scope);
    fail(e->range, "'{}' object has no attribute '{}'", (*self)->cls.def->name, s.attr);
  }
  if (of.as<std::shared_ptr<TensorConstant>>()) return deferred("." + s.attr, {of});
  if (auto* c = of.as<ClassRef>())
    for (auto& st : c->def->body)
      if (auto* a = st->as<Assign>(); a && a->value && a->targets[0]->as<Name>() && a->targets[0]->as<Name>()->id == s.attr)
        return evaluate(a->value, *c->scope);
  fail(e->range, "a {} has no attribute '{}' here", python_type(of), s.attr);
}

Constant Evaluator::subscript(const Exp& e, const Subscript& s, Frame& f) {
  Constant of = eval(s.value, f);
  if (s.indices.size() != 1) fail(e->range, "this index is not supported in __init__");
  if (auto* slice = s.indices[0]->as<Slice>()) {
    Constants all = items(of, e->range), out;
    int64_t n = static_cast<int64_t>(all.size());
    auto bound = [&](const Exp& b, int64_t none) {
      if (!b) return none;
      Constant c = eval(b, f);
      if (c.is_none()) return none;
      if (!c.as<int64_t>()) fail(b->range, "slice indices are ints");
      return *c.as<int64_t>();
    };
    int64_t step = bound(slice->step, 1), from = bound(slice->lower, step > 0 ? 0 : n - 1), to = bound(slice->upper, step > 0 ? n : -n - 1);
    if (step == 0) fail(e->range, "slice step cannot be zero");
    auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, step > 0 ? int64_t{0} : int64_t{-1}, step > 0 ? n : n - 1); };
    from = clamp(from), to = clamp(to);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) out.push_back(all[static_cast<size_t>(i)]);
    if (of.as<Constant::Tuple>()) return {Constant::Tuple{std::make_shared<Constants>(std::move(out))}};
    return list_of(std::move(out));
  }
  Constant key = eval(s.indices[0], f);
  if (auto* d = of.as<Constant::Dict>()) {
    for (size_t i = (*d)->size(); i-- > 0;)
      if ((**d)[i].first.v.index() == key.v.index() && truth(arithmetic(e->range, "==", (**d)[i].first, key))) return (**d)[i].second;
    fail(e->range, "KeyError");
  }
  if (auto* m = of.as<InstanceP>(); m && key.as<std::string>())
    if (auto* v = (*m)->find(*key.as<std::string>())) return *v;
  if (of.as<std::shared_ptr<TensorConstant>>()) return deferred("[]", {of, key});
  auto* i = key.as<int64_t>();
  if (!i) fail(e->range, "this index is not supported in __init__");
  Constants all = items(of, e->range);
  int64_t n = static_cast<int64_t>(all.size());
  if (*i < -n || *i >= n) fail(e->range, "index out of range");
  return all[static_cast<size_t>(*i < 0 ? *i + n : *i)];
}

} // namespace tenon::script
