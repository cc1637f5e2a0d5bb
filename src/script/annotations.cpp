#include "script/annotations.h"

#include <algorithm>

#include "script/parser.h"

namespace tenon::script {

namespace {

[[noreturn]] void unknown(const Exp& e) {
  std::string text = e->range.source->text.substr(e->range.begin, e->range.end - e->range.begin);
  fail(e->range, "Unknown type name '{}'", text);
}

// The names and classes that an annotation is resolved in, the innermost first; the last stands for the annotation itself.
struct Within {
  const void* definition = nullptr;
  const Within* outer = nullptr;
  int depth = 0;
  int* parts; // resolved so far, in the whole annotation

  Within in(const void* name, const Exp& at) const {
    for (const Within* w = this; w; w = w->outer)
      if (w->definition == name) unknown(at); // it contains itself
    if (depth > 200) fail(at->range, "types are nested too deeply");
    return {name, this, depth + 1, parts};
  }
};
Type resolve(const Exp& e, const Scope& scope, const Within& within);

std::optional<Type> simple_type(std::string_view name) {
  static const std::map<std::string_view, TypeKind> simple{{"int", TypeKind::Int},
                                                           {"float", TypeKind::Float},
                                                           {"bool", TypeKind::Bool},
                                                           {"str", TypeKind::String},
                                                           {"complex", TypeKind::Complex},
                                                           {"Tensor", TypeKind::Dynamic},
                                                           {"torch.Tensor", TypeKind::Dynamic},
                                                           {"torch.device", TypeKind::Device},
                                                           {"torch._C.Device", TypeKind::Device},
                                                           {"Device", TypeKind::Device},
                                                           {"torch.dtype", TypeKind::Int},
                                                           {"torch.layout", TypeKind::Int},
                                                           {"torch.memory_format", TypeKind::Int},
                                                           {"number", TypeKind::Number},
                                                           {"None", TypeKind::None},
                                                           {"NoneType", TypeKind::None},
                                                           {"Any", TypeKind::Any},
                                                           {"typing.Any", TypeKind::Any},
                                                           {"torch.Generator", TypeKind::Generator},
                                                           {"torch.LongTensor", TypeKind::Dynamic},
                                                           {"torch.FloatTensor", TypeKind::Dynamic},
                                                           {"torch.nn.Parameter", TypeKind::Dynamic},
                                                           {"torch.nn.parameter.Parameter", TypeKind::Dynamic}};
  if (auto it = simple.find(name); it != simple.end()) return Type::simple(it->second);
  if (name == "torch.Size") return Type::list(Type::simple(TypeKind::Int));
  return std::nullopt;
}

Type union_of(std::vector<Type> types) {
  bool none = std::erase_if(types, [](const Type& t) { return t.is(TypeKind::None); }) > 0;
  std::vector<Type> distinct;
  for (Type& t : types)
    if (std::find(distinct.begin(), distinct.end(), t) == distinct.end()) distinct.push_back(t);
  if (distinct.empty()) return Type::simple(TypeKind::None);
  if (distinct.size() == 1) return none ? Type::optional(distinct[0]) : distinct[0];
  if (none) distinct.push_back(Type::simple(TypeKind::None));
  return Type::any_of(std::move(distinct));
}

// "List", "Tuple" ... of "typing.List", "list".
std::string container(std::string name) {
  if (name.starts_with("typing.")) name = name.substr(7);
  if (name == "list" || name == "dict" || name == "tuple") name[0] = static_cast<char>(name[0] - 32);
  return name;
}

Type type_of_subscript(const Exp& e, const Subscript& s, const Scope& scope, const Within& within) {
  std::string name = container(qualified_name(s.value, scope));
  std::vector<Type> of;
  for (auto& i : s.indices) {
    if (auto* t = i->as<TupleLit>(); t && t->items.empty()) continue; // Tuple[()]
    if (i->as<Ellipsis>()) fail(i->range, "Expression of type dots cannot be used in a type expression");
    of.push_back(resolve(i, scope, within));
  }
  if (name == "Tuple") return Type::tuple(std::move(of));
  if (name == "Union") return union_of(std::move(of));
  if (name == "Dict" && of.size() == 2) {
    TypeKind k = of[0].kind;
    if (k != TypeKind::Int && k != TypeKind::Float && k != TypeKind::Bool && k != TypeKind::String && k != TypeKind::Complex &&
        k != TypeKind::Dynamic && k != TypeKind::Device)
      fail(e->range, "Cannot create dict for key type '{}', only int, float, complex, Tensor, device and string keys are supported",
           annotation(of[0]));
    return Type::dict(of[0], of[1]);
  }
  if (of.size() != 1) unknown(e);
  if (name == "List") return Type::list(of[0]);
  if (name == "Optional") return of[0].is(TypeKind::None) ? of[0] : Type::optional(of[0]);
  if (name == "Final" || name == "torch.jit.Final" || name == "typing_extensions.Final") return of[0];
  fail(e->range, "Unknown type constructor {}", name);
}

} // namespace

std::string qualified_name(const Exp& e, const Scope& scope) {
  if (auto* s = e->as<Select>()) {
    std::string base = qualified_name(s->value, scope);
    return base.empty() ? "" : base + "." + s->attr;
  }
  auto* n = e->as<Name>();
  if (!n) return "";
  auto* g = scope.find(n->id);
  if (auto* i = g ? std::get_if<Imported>(g) : nullptr) return i->path;
  return n->id;
}

namespace {

std::optional<Type> tuple_of_class(const ClassRef& cls, const Within& within) {
  bool is = std::any_of(cls.def->bases.begin(), cls.def->bases.end(), [&](const Exp& b) {
    std::string name = qualified_name(b, *cls.scope);
    return name == "typing.NamedTuple" || name == "NamedTuple";
  });
  if (!is) return std::nullopt;
  std::vector<Type> types;
  std::vector<std::string> fields;
  for (auto& s : cls.def->body)
    if (auto* a = s->as<Assign>(); a && a->annotation && a->targets[0]->as<Name>()) {
      types.push_back(resolve(a->annotation, *cls.scope, within));
      fields.push_back(a->targets[0]->as<Name>()->id);
    }
  return Type::tuple(std::move(types), cls.def->name, std::move(fields));
}

Type resolve(const Exp& e, const Scope& scope, const Within& within) {
  if (++*within.parts > 10'000) fail(e->range, "a type of too many parts");
  if (auto* l = e->as<Literal>()) {
    if (l->value.index() == 0) return Type::simple(TypeKind::None);
    if (auto* text = std::get_if<std::string>(&l->value)) { // "Tensor"
      uint32_t quote = 1;
      Range inside{e->range.source, e->range.begin + quote, e->range.end - quote};
      if (inside.end > inside.begin && inside.source->text.substr(inside.begin, inside.end - inside.begin) == *text)
        return resolve(parse_expression(inside), scope, within);
    }
    unknown(e);
  }
  if (auto* s = e->as<Subscript>()) return type_of_subscript(e, *s, scope, within);
  if (auto* b = e->as<Binary>(); b && b->op == "|") return union_of({resolve(b->left, scope, within), resolve(b->right, scope, within)});
  if (auto* t = e->as<TupleLit>()) {
    std::vector<Type> of;
    for (auto& i : t->items) of.push_back(resolve(i, scope, within));
    return Type::tuple(std::move(of));
  }
  std::string name = qualified_name(e, scope);
  if (auto t = simple_type(name)) return *t;
  if (auto* n = e->as<Name>())
    if (auto* g = scope.find(n->id)) {
      if (auto* c = std::get_if<std::shared_ptr<const ClassDef>>(g)) {
        if (auto t = tuple_of_class({*c, &scope}, within.in(c->get(), e))) return *t;
        return Type::object((*c)->name);
      }
      if (auto* alias = std::get_if<Exp>(g)) {
        Within here = within.in(alias->get(), e);
        return resolve(*alias, scope, here);
      }
    }
  std::string c = container(name);
  if (c == "List" || c == "Tuple" || c == "Dict" || c == "Optional")
    fail(e->range, "Attempted to use {} without a contained type. Please add a contained type, e.g. {}[int]", c, c);
  unknown(e);
}

} // namespace

Type type_of_annotation(const Exp& e, const Scope& scope) {
  int parts = 0;
  return resolve(e, scope, {.parts = &parts});
}

std::optional<Type> named_tuple_of(const ClassRef& cls) {
  int parts = 0;
  return tuple_of_class(cls, {.definition = cls.def.get(), .parts = &parts});
}

} // namespace tenon::script
