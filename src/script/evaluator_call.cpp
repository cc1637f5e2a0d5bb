// Calls in __init__: constructors of modules, Python's functions, methods of lists and modules; and what classes derive from.
#include <algorithm>

#include "script/annotations.h"
#include "script/evaluator.h"

namespace tenon::script {

namespace {

using Keywords = std::vector<std::pair<std::string, Constant>>;

std::string text_of(const Constant& c, Range at) {
  if (auto* s = c.as<std::string>()) return *s;
  if (auto* i = c.as<int64_t>()) return std::to_string(*i);
  fail(at, "a name is a string");
}

} // namespace

std::vector<ClassRef> base_classes(const ClassRef& cls) {
  std::vector<ClassRef> out{cls};
  for (size_t i = 0; i < out.size() && out.size() < 100; i++) {
    ClassRef c = out[i];
    for (auto& b : c.def->bases) {
      std::string path = qualified_name(b, *c.scope);
      size_t dot = path.rfind('.');
      const Scope* scope = dot == path.npos ? c.scope : library_scope(path.substr(0, dot));
      auto* g = scope ? scope->find(dot == path.npos ? path : path.substr(dot + 1)) : nullptr;
      if (auto* base = g ? std::get_if<std::shared_ptr<const ClassDef>>(g) : nullptr; base && *base != c.def) out.push_back({*base, scope});
    }
  }
  return out;
}

bool is_module(const ClassRef& cls) {
  for (auto& c : base_classes(cls))
    for (auto& b : c.def->bases) {
      std::string path = qualified_name(b, *c.scope);
      if (path == "torch.nn.Module" || path == "torch.nn.modules.Module" || path == "torch.jit.ScriptModule" ||
          (path == "Module" && c.scope == library_scope("torch.nn")))
        return true;
    }
  return false;
}

std::optional<FunctionRef> find_method(const ClassRef& cls, std::string_view name, ClassRef* holder) {
  for (auto& c : base_classes(cls))
    for (auto& s : c.def->body) {
      if (auto* d = s->as<DefStmt>(); d && d->def->name == name) {
        if (holder) *holder = c;
        return FunctionRef{d->def, c.scope, nullptr};
      }
    }
  return std::nullopt;
}

Constant Evaluator::call(const Exp& e, const Call& c, Frame& f) {
  Constants args;
  Keywords keywords;
  for (auto& a : c.args) {
    if (auto* star = a->as<Star>())
      for (Constant& i : items(eval(star->value, f), a->range)) args.push_back(std::move(i));
    else args.push_back(eval(a, f));
  }
  for (auto& k : c.keywords) keywords.emplace_back(k.name, eval(k.value, f));
  if (auto* s = c.callee->as<Select>()) return call_method(e, *s, args, keywords, f);
  if (auto* n = c.callee->as<Name>(); n && n->id == "super") return {Path{"super"}};
  Constant callee = eval(c.callee, f);
  if (auto* cls = callee.as<ClassRef>()) {
    if (is_module(*cls)) return {instantiate(*cls, args, keywords, e->range)};
    fail(e->range, "objects of class '{}' are not supported in __init__", cls->def->name);
  }
  if (auto* fn = callee.as<FunctionRef>()) return call_function(*fn, {}, args, keywords, e->range);
  if (auto* p = callee.as<Path>()) return call_path(e->range, p->path, args, keywords);
  fail(e->range, "a {} cannot be called", python_type(callee));
}

Constant Evaluator::call_path(Range at, const std::string& path, const Constants& args, const Keywords& keywords) {
  size_t dot = path.rfind('.');
  if (dot == path.npos || path.starts_with("math.") || path == "copy.deepcopy" || path == "copy.copy" ||
      path == "collections.OrderedDict") {
    if (auto v = builtin_of_python(at, path, args)) return *v;
    fail(at, "{} is not supported in __init__", path);
  }
  std::string folder = path.substr(0, dot), name = path.substr(dot + 1);
  if (name == "Parameter" && folder.starts_with("torch.nn")) {
    auto t = std::make_shared<TensorConstant>();
    t->holder = Holder::Parameter;
    return {t};
  }
  if (name == "Buffer" && folder.starts_with("torch.nn")) {
    auto t = std::make_shared<TensorConstant>();
    t->holder = Holder::Buffer;
    return {t};
  }
  if (folder.starts_with("torch.nn.init")) return args.empty() ? Constant{} : args[0];
  if (folder.starts_with("torch.nn.modules")) folder = "torch.nn";
  if (folder == "torch.jit" && (name == "annotate" || name == "Attribute") && args.size() == 2) return args[name == "annotate" ? 1 : 0];
  if (folder == "torch.jit" && name == "script" && args.size() == 1) return args[0];
  if (auto* scope = library_scope(folder))
    if (auto* g = scope->find(name))
      if (auto* cls = std::get_if<std::shared_ptr<const ClassDef>>(g)) return {instantiate({*cls, scope}, args, keywords, at)};
  if (folder == "torch.nn") fail(at, "Module '{}' is not supported", name);
  return deferred(path, args, keywords);
}

bool Evaluator::call_super(const Exp& e, const std::string& method, const Constants& args, const Keywords& keywords, Frame& f) {
  if (!f.cls.def) fail(e->range, "super() outside of a class");
  auto self = std::find_if(f.locals.begin(), f.locals.end(),
                           [](auto& l) { return l.second.template as<InstanceP>() != nullptr && l.first == "self"; });
  if (self == f.locals.end()) fail(e->range, "super() without self");
  auto bases = base_classes(f.cls);
  for (size_t i = 1; i < bases.size(); i++)
    for (auto& s : bases[i].def->body)
      if (auto* d = s->as<DefStmt>(); d && d->def->name == method) {
        call_function({d->def, bases[i].scope, *self->second.as<InstanceP>()}, bases[i], args, keywords, e->range);
        return true;
      }
  return false;
}

Constant Evaluator::call_method(const Exp& e, const Select& s, const Constants& args, const Keywords& keywords, Frame& f) {
  if (auto* inner = s.value->as<Call>())
    if (auto* n = inner->callee->as<Name>(); n && n->id == "super") {
      if (!call_super(e, s.attr, args, keywords, f) && s.attr != "__init__") fail(e->range, "super() has no method '{}'", s.attr);
      return {};
    }
  Constant of = eval(s.value, f);
  if (auto* p = of.as<Path>()) return call_path(e->range, p->path + "." + s.attr, args, keywords);
  if (auto* t = of.as<std::shared_ptr<TensorConstant>>()) {
    if ((*t)->holder == Holder::Plain && (*t)->call) {
      Constants all{of};
      all.insert(all.end(), args.begin(), args.end());
      return deferred("." + s.attr, all, keywords);
    }
    return of; // of a parameter, whose value comes from the state_dict
  }
  if (auto* l = of.as<Constant::List>()) {
    if (s.attr == "append" && args.size() == 1) return (*l)->push_back(args[0]), Constant{};
    if (s.attr == "extend" && args.size() == 1) {
      Constants more = items(args[0], e->range);
      (*l)->insert((*l)->end(), more.begin(), more.end());
      return {};
    }
    if (s.attr == "copy") return {std::make_shared<Constants>(**l)};
    if (s.attr == "pop" && args.empty() && !(*l)->empty()) {
      Constant last = (*l)->back();
      (*l)->pop_back();
      return last;
    }
  }
  if (auto* d = of.as<Constant::Dict>()) {
    Constants out;
    for (auto& [k, v] : **d)
      out.push_back(s.attr == "keys"     ? k
                    : s.attr == "values" ? v
                                         : Constant{Constant::Tuple{std::make_shared<Constants>(Constants{k, v})}});
    if (s.attr == "keys" || s.attr == "values" || s.attr == "items") return {std::make_shared<Constants>(std::move(out))};
  }
  if (auto* text = of.as<std::string>(); text && s.attr == "format") {
    std::string out = *text;
    for (auto& a : args)
      if (size_t at = out.find("{}"); at != out.npos) out.replace(at, 2, text_of(a, e->range));
    return {out};
  }
  if (auto* m = of.as<InstanceP>()) {
    if (auto fn = find_method((*m)->cls, s.attr)) {
      ClassRef holder;
      fn = find_method((*m)->cls, s.attr, &holder);
      fn->self = *m;
      return call_function(*fn, holder, args, keywords, e->range);
    }
    return register_on(e->range, *m, s.attr, args, keywords);
  }
  fail(e->range, "method '{}' of a {} is not supported in __init__", s.attr, python_type(of));
}

Constant Evaluator::register_on(Range at, const InstanceP& self, const std::string& method, const Constants& args,
                                const Keywords& keywords) {
  auto argument = [&](size_t i, std::string_view name) -> const Constant* {
    if (i < args.size()) return &args[i];
    for (auto& [k, v] : keywords)
      if (k == name) return &v;
    return nullptr;
  };
  const Constant* name = argument(0, "name");
  if (method == "register_buffer") {
    const Constant *tensor = argument(1, "tensor"), *persistent = argument(2, "persistent");
    if (!name || !tensor) fail(at, "register_buffer takes a name and a tensor");
    auto* made = tensor->as<std::shared_ptr<TensorConstant>>();
    if (!made) return self->set(text_of(*name, at), {}), Constant{};
    auto t = std::make_shared<TensorConstant>(**made);
    t->holder = Holder::Buffer;
    t->persistent = !persistent || truth(*persistent);
    self->set(text_of(*name, at), {t});
  } else if (method == "register_parameter" || method == "add_module" || method == "register_module") {
    const Constant* value = argument(1, method == "register_parameter" ? "param" : "module");
    if (!name || !value) fail(at, "{} takes a name and a value", method);
    self->set(text_of(*name, at), *value);
  } else if (method == "append" && args.size() == 1) {
    self->set(std::to_string(self->attributes.size() - 1), args[0]);
  } else if (method == "extend" && args.size() == 1) {
    for (Constant& c : items(args[0], at)) self->set(std::to_string(self->attributes.size() - 1), std::move(c));
  } else if (method == "apply" || method == "eval" || method == "train" || method == "requires_grad_" || method == "to") return {self};
  else fail(at, "'{}' object has no attribute '{}'", self->cls.def->name, method);
  return {};
}

void name_attributes(const InstanceP& module, const std::string& path, int depth) {
  if (depth > 50) fail(module->cls.def->range, "modules nested too deeply");
  module->path = path;
  for (auto& [name, value] : module->attributes) {
    std::string full = path.empty() ? name : path + "." + name;
    if (auto* m = value.as<InstanceP>()) name_attributes(*m, full, depth + 1);
    if (auto* t = value.as<std::shared_ptr<TensorConstant>>(); t && (*t)->name.empty()) (*t)->name = full;
  }
}

} // namespace tenon::script
