// Names: variables of frames, what imports and builtins stand for.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/emitter.h"

namespace tenon::script {

Variable* Emitter::lookup(const std::string& name, Frame* from) {
  for (Frame* f = from; f; f = f->parent)
    if (auto it = f->vars.find(name); it != f->vars.end()) return &it->second;
  return nullptr;
}

Variable* Emitter::lookup_flag(const std::string& name, Frame* from) {
  for (Frame* f = from; f; f = f->parent) {
    if (auto it = f->vars.find(name); it != f->vars.end()) return &it->second;
    if (f->boundary) break;
  }
  return nullptr;
}

const std::string* Emitter::lookup_error(const std::string& name) {
  for (Frame* f = frame; f; f = f->parent)
    if (auto it = f->errors.find(name); it != f->errors.end()) return &it->second;
  return nullptr;
}

Frame* Emitter::outer_scope(Frame* f) {
  while (f && f->transparent) f = f->parent;
  return f ? f->parent : nullptr;
}

std::optional<ValueId> Emitter::simple(const Sugared& s) const {
  if (auto* v = s.as<ValueId>()) return *v;
  return std::nullopt;
}

std::string Emitter::flag(const char* kind, int loop) const {
  return key(loop ? fmt::format("${}:{}", kind, loop) : fmt::format("${}", kind));
}

void Emitter::set_flag(Range at, const std::string& name) { frame->vars[name] = {Sugared{boolean(at, true)}, {}, {}}; }

void Emitter::assign_value(Range at, const std::string& name, Sugared value, const std::optional<Type>& annotated) {
  assign_key(at, name, key(name), std::move(value), annotated);
}

void Emitter::assign_key(Range at, const std::string& name, const std::string& k, Sugared value, const std::optional<Type>& annotated) {
  std::optional<ValueId> v = simple(value);
  Variable* before = hiding ? nullptr : lookup(k, outer_scope(frame));
  if (before) {
    if (annotated) fail(at, "Attempting to declare and annotate the type of variable '{}' that is already defined in an outer block", name);
    std::optional<ValueId> old = simple(before->value);
    if (!v || !old)
      fail(at, "Cannot re-assign '{}' because it is not a first-class value. Only reassignments to first-class values are allowed", name);
    Type declared = before->narrow ? *before->narrow : type(*old);
    v = convert(at, *v, declared, true);
    if (!is_subtype(type(*v), declared)) {
      std::string hint;
      if (declared.is(TypeKind::List) && declared.element().is_any_tensor())
        hint = "\nEmpty lists default to List[Tensor]. Add a variable annotation to the assignment to create an empty list of another type "
               "(torch.jit.annotate(List[T, []]) where T is the type of elements in the list for Python 2)";
      fail(at, "Variable '{}' previously had type {} but is now being assigned to a value of type {}{}", name, annotation(declared),
           repr(*v), hint);
    }
  }
  if (v && annotated) {
    if (!is_subtype(type(*v), *annotated))
      fail(at, "Variable '{}' is annotated with type {} but is being assigned to a value of type {}", name, annotation(*annotated),
           repr(*v));
    v = cast(at, *v, *annotated);
  }
  if (v && g.value(*v).name.empty() && !k.starts_with('@')) g.value(*v).name = name;
  frame->vars[k] = {v ? Sugared{*v} : std::move(value), {}, {}};
  frame->errors.erase(k);
}

void Emitter::refine(Range at, const Refinements& r) {
  for (auto& [k, t] : r)
    if (Variable* var = lookup(k, frame))
      if (auto v = simple(var->value)) frame->vars[k] = {Sugared{cast(at, *v, t)}, {}, var->refined.value_or(*v)};
}

Sugared Emitter::named(const Exp& e, const std::string& name) {
  std::string k = key(name);
  if (const std::string* why = lookup_error(k))
    if (!lookup(k, frame)) fail_text(e->range, *why + "and was used here");
  if (Variable* var = lookup(k, frame)) return var->value;
  return global_of(e->range, name, *stack.back().fn.scope);
}

Sugared Emitter::global_of(Range at, const std::string& name, const Scope& scope) {
  static const std::set<std::string> forms{"print",    "isinstance", "hasattr", "getattr", "range", "zip",  "enumerate", "list",
                                           "dict",     "tuple",      "int",     "float",   "bool",  "str",  "complex",   "super",
                                           "reversed", "len",        "type",    "map",     "set",   "iter", "next",      "slice"};
  static const std::map<std::string, OpId> operators{
      {"min", prim::min},   {"max", prim::max}, {"abs", prim::abs},     {"all", call::all},       {"any", call::any},
      {"sum", call::sum},   {"ord", call::ord}, {"chr", call::chr},     {"bin", call::bin},       {"hex", call::hex},
      {"oct", call::oct},   {"pow", call::pow}, {"round", call::round}, {"sorted", call::sorted}, {"divmod", call::divmod},
      {"hash", call::hash}, {"id", prim::id}};
  if (auto* found = scope.find(name)) {
    if (auto* d = std::get_if<std::shared_ptr<const Def>>(found)) return {FunctionRef{*d, &scope, nullptr}};
    if (auto* c = std::get_if<std::shared_ptr<const ClassDef>>(found)) return {ClassRef{*c, &scope}};
    if (auto* i = std::get_if<Imported>(found)) return of_path(at, i->path);
    auto c = evaluator.try_evaluate(std::get<Exp>(*found), scope);
    if (c) {
      if (c->as<FunctionRef>() || c->as<ClassRef>() || c->as<Path>()) return of_constant(at, *c);
      return {Closed{python_type(*c)}};
    }
    return {Closed{"object"}};
  }
  if (forms.contains(name)) return {Form{name}};
  if (auto o = operators.find(name); o != operators.end()) return {Operator{o->second, {}}};
  static const std::set<std::string> types{"Tensor", "Optional", "List", "Dict", "Tuple", "Any", "Union"};
  if (types.contains(name)) return {Path{name}};
  if (name.ends_with("Error") || name.ends_with("Exception") || name == "StopIteration") return {Path{"builtins." + name}};
  static const std::set<std::string> builtins{"input",     "open",       "eval",     "exec",   "filter",  "repr",    "format",
                                              "frozenset", "bytes",      "callable", "dir",    "vars",    "object",  "ascii",
                                              "bytearray", "memoryview", "globals",  "locals", "setattr", "delattr", "issubclass"};
  if (builtins.contains(name)) return {Closed{fmt::format("<built-in function {}>", name)}};
  scope.refuse_broken(name);
  fail(at, "undefined value {}", name);
}

Sugared Emitter::of_path(Range at, const std::string& path) {
  static const std::map<std::string, OpId> renamed{{"math.remainder", call::mathremainder},
                                                   {"torch.abs", call::abs},
                                                   {"torch.Size", call::Size},
                                                   {"torch.device", call::device},
                                                   {"warnings.warn", call::warn},
                                                   {"operator.index", call::Int},
                                                   {"math.gcd", call::gcd},
                                                   {"torch._assert", call::_assert},
                                                   {"torch.is_autocast_enabled", call::is_autocast_enabled}};
  if (auto c = constant_of_path(path)) return {emit_constant(at, *c)};
  if (auto it = renamed.find(path); it != renamed.end()) return {Operator{it->second, {}}};
  size_t dot = path.rfind('.');
  std::string folder = path.substr(0, dot == path.npos ? 0 : dot), name = dot == path.npos ? path : path.substr(dot + 1);
  if (const Scope* scope = library_scope(folder))
    if (scope->find(name)) {
      if (auto* c = std::get_if<std::shared_ptr<const ClassDef>>(scope->find(name))) return {ClassRef{*c, scope}};
      if (auto* d = std::get_if<std::shared_ptr<const Def>>(scope->find(name))) return {FunctionRef{*d, scope, nullptr}};
    }
  static const std::set<std::string> functions{"torch", "torch.nn.functional", "torch._C._nn", "torch.functional", "torch.Tensor"};
  static const std::map<std::string, std::string> families{
      {"torch.linalg", "linalg_"}, {"torch.special", "special_"}, {"torch.fft", "fft_"}, {"torch.ops.aten", ""}, {"math", ""}};
  // math.log2 and the like are operators on tensors only.
  static const std::set<std::string> of_math{
      "ceil",   "copysign", "cos",   "cosh",  "degrees",   "acos",  "acosh",   "asin",  "asinh", "atan",     "atan2", "atanh", "erf",
      "erfc",   "exp",      "expm1", "fabs",  "factorial", "floor", "fmod",    "frexp", "gamma", "isfinite", "isinf", "isnan", "ldexp",
      "lgamma", "log",      "log10", "log1p", "modf",      "pow",   "radians", "sin",   "sinh",  "sqrt",     "tan",   "tanh"};
  if (functions.contains(folder) && is_operator("aten::" + name)) return {Operator{"aten::" + name, {}}};
  if (auto f = families.find(folder); f != families.end()) {
    if (folder == "math" && !of_math.contains(name)) return {Closed{fmt::format("<built-in function {}>", name)}};
    if (is_operator("aten::" + f->second + name)) return {Operator{"aten::" + f->second + name, {}}};
  }
  if (folder.starts_with("torch.ops.")) // of the user: torch.ops.mine.gate
    if (std::string op = folder.substr(10) + "::" + name; is_operator(op)) return {Operator{op, {}}};
  return {Path{path}};
}

Sugared Emitter::of_constant(Range at, const Constant& c) {
  if (auto* m = c.as<InstanceP>()) return {*m};
  if (auto* f = c.as<FunctionRef>()) return {*f};
  if (auto* k = c.as<ClassRef>()) return {*k};
  if (auto* p = c.as<Path>()) return of_path(at, p->path);
  const Constants* items = c.as<Constant::List>()    ? c.as<Constant::List>()->get()
                           : c.as<Constant::Tuple>() ? c.as<Constant::Tuple>()->items.get()
                                                     : nullptr;
  if (items && std::any_of(items->begin(), items->end(), [](auto& i) { return i.template as<InstanceP>() != nullptr; })) {
    Unrolled u;
    for (auto& i : *items) u.items.push_back(of_constant(at, i));
    return {u};
  }
  return {emit_constant(at, c)};
}

} // namespace tenon::script
