// Overload resolution. A call is tried on the schemas of its name in order: of each, the arguments are laid out by position and name,
// type variables bound, and what does not fit as it is converted where that is allowed.
#include "builtins/resolve.h"

#include <map>

namespace tenon {

namespace {

struct Candidate {
  const Schema* signature = nullptr;
  const OpDef* def = nullptr;
  const BuiltinOp* builtin = nullptr;
  bool in_place = false, out = false;
};

using TypeEnv = std::map<std::string, Type>;

// Replaces type variables; empty where one is not bound.
std::optional<Type> with_variables(const Type& t, const TypeEnv& env) {
  if (t.is(TypeKind::Variable)) {
    auto it = env.find(t.name());
    return it == env.end() ? std::nullopt : std::optional(it->second);
  }
  if (t.elements().empty()) return t;
  TypeParts parts = *t.parts;
  for (Type& e : parts.elements) {
    auto now = with_variables(e, env);
    if (!now) return std::nullopt;
    e = std::move(*now);
  }
  if (t.is(TypeKind::Optional)) return Type::optional(parts.elements[0]);
  Type out = t;
  out.parts = Parts(std::move(parts));
  return out;
}

bool has_variables(const Type& t) {
  if (t.is(TypeKind::Variable)) return true;
  return std::any_of(t.elements().begin(), t.elements().end(), has_variables);
}

// Binds the variables of `formal` so that it becomes `actual`; says why it cannot.
std::string bind_variables(const Type& formal, const Type& actual, TypeEnv& env) {
  if (!has_variables(formal)) return {};
  if (formal.is(TypeKind::Variable)) {
    auto [it, is_new] = env.emplace(formal.name(), actual);
    if (is_new || is_subtype(actual, it->second)) return {};
    if (auto both = unify(it->second, actual); both && both->is_any_tensor()) {
      it->second = *both;
      return {};
    }
    return fmt::format("Type variable '{}' previously matched to type {} is matched to type {}", formal.name(), annotation(it->second),
                       annotation(actual));
  }
  if (formal.is(TypeKind::Optional)) {
    if (actual.is(TypeKind::None)) return {};
    return bind_variables(formal.element(), actual.is(TypeKind::Optional) ? actual.element() : actual, env);
  }
  if (formal.kind != actual.kind || formal.elements().size() != actual.elements().size())
    return fmt::format("Cannot match {} to {}", to_string(formal), annotation(actual));
  for (size_t i = 0; i < formal.elements().size(); i++)
    if (std::string why = bind_variables(formal.element(i), actual.element(i), env); !why.empty()) return why;
  return {};
}

const Type& unwrapped(const Type& t) { return t.is(TypeKind::Optional) ? t.element() : t; }

// A tuple whose elements are all of the list's kind may stand for it.
bool is_tuple_for(const Type& actual, const Type& formal) {
  const Type& list = unwrapped(formal);
  if (!list.is(TypeKind::List) || !actual.is(TypeKind::Tuple)) return false;
  return std::all_of(actual.elements().begin(), actual.elements().end(), [&](const Type& e) { return is_subtype(e, list.element()); });
}

// Of a value that does not fit as it is.
std::optional<std::string_view> conversion(const Type& actual, const Type& formal) {
  const Type& to = unwrapped(formal);
  if (actual.is_any_tensor()) switch (to.kind) {
    case TypeKind::Float: return "aten::FloatImplicit";
    case TypeKind::Complex: return "aten::ComplexImplicit";
    case TypeKind::Int: return "aten::IntImplicit";
    case TypeKind::Number: return "aten::ScalarImplicit";
    default: return std::nullopt;
    }
  if (actual.is(TypeKind::Bool)) switch (to.kind) {
    case TypeKind::Float: return "aten::Float";
    case TypeKind::Int:
    case TypeKind::Number: return "aten::Int";
    default: return std::nullopt;
    }
  if (actual.is(TypeKind::Number)) switch (to.kind) {
    case TypeKind::Float: return "aten::Float";
    case TypeKind::Complex: return "aten::Complex";
    case TypeKind::Int: return "aten::Int";
    default: return std::nullopt;
    }
  if (actual.is(TypeKind::String) && to.is(TypeKind::Device)) return "aten::device";
  return std::nullopt;
}

class Matcher {
public:
  Matcher(const Schema& schema, std::span<const Given> given, bool convert, bool by_position)
      : s_(schema), given_(given), convert_(convert), by_position_(by_position), taken_(given.size()) {
    while (num_positional_ < given.size() && given[num_positional_].name.empty()) num_positional_++;
  }

  bool run(Resolved& out) {
    for (size_t i = 0; i < s_.args.size(); i++) {
      Passed p;
      if (!place(i, p)) return false;
      out.args.push_back(p);
    }
    if (!s_.any_args && !all_taken()) return false;
    for (const SchemaArg& r : s_.returns) {
      auto t = with_variables(type_of(r), env_);
      if (!t) return fail("a type variable of the result is not bound");
      out.results.push_back(std::move(*t));
    }
    out.signature = &s_;
    return true;
  }

  const std::string& why() const { return why_; }

private:
  bool fail(std::string why) { return why_ = std::move(why), false; }

  bool place(size_t i, Passed& p) {
    const SchemaArg& arg = s_.args[i];
    if ((!arg.keyword_only || by_position_) && next_ < num_positional_) {
      if (takes_rest(i) && pack_rest(arg, p)) return true;
      p.index = next_++;
      return convert_to(arg, p);
    }
    for (size_t k = num_positional_; k < given_.size(); k++)
      if (given_[k].name == arg.name) {
        p.index = k;
        return convert_to(arg, p);
      }
    if (arg.has_default || (by_position_ && arg.optional)) {
      p.from = Passed::From::Default;
      return true;
    }
    return fail(fmt::format("Argument {} not provided.", arg.name));
  }

  // The last positional argument, where it is a list, takes several numbers or tensors as one.
  bool takes_rest(size_t i) const {
    if (!convert_ || by_position_ || s_.any_args) return false;
    const Type formal = type_of(s_.args[i]);
    bool last = i + 1 == s_.args.size() || s_.args[i + 1].keyword_only;
    const Type& list = unwrapped(formal);
    if (!last || !list.is(TypeKind::List) || has_variables(list)) return false;
    const Type& first = given_[next_].type;
    return !first.is(TypeKind::List) && !is_tuple_for(first, formal) && !(s_.args[i].fixed_length && num_positional_ - next_ == 1);
  }
  bool pack_rest(const SchemaArg& arg, Passed& p) {
    Type formal = type_of(arg);
    const Type& element = unwrapped(formal).element();
    for (size_t k = next_; k < num_positional_; k++) {
      const Type& t = given_[k].type;
      if (!is_subtype(t, element) && !conversion(t, element)) return false;
      if (!is_subtype(t, element)) p.convert = *conversion(t, element);
    }
    p.from = Passed::From::List, p.index = next_, p.count = num_positional_ - next_;
    for (size_t k = next_; k < num_positional_; k++) taken_[k] = true;
    next_ = num_positional_;
    return true;
  }

  bool convert_to(const SchemaArg& arg, Passed& p) {
    const Given& given = given_[p.index];
    taken_[p.index] = true;
    p.from = Passed::From::Given;
    Type formal = type_of(arg);
    if (arg.fixed_length && (given.type.is(TypeKind::Int) || given.type.is(TypeKind::Float)) &&
        is_subtype(given.type, unwrapped(formal).element())) {
      p.from = Passed::From::Repeat, p.count = static_cast<size_t>(arg.fixed_length);
      return true;
    }
    if (given.type.is(TypeKind::Tuple) && unwrapped(formal).is(TypeKind::List)) return convert_tuple(arg, given.type, formal, p);
    if (std::string why = bind_variables(formal, given.type, env_); !why.empty())
      return fail(
          fmt::format("Could not match type {} to {} in argument '{}': {}.", annotation(given.type), to_string(formal), arg.name, why));
    auto concrete = with_variables(formal, env_);
    if (!concrete) {
      if (!given.type.is(TypeKind::None))
        return fail(
            fmt::format("Type variables in type {} could not be inferred from actual type {}", to_string(formal), annotation(given.type)));
      return true;
    }
    if (is_subtype(given.type, *concrete)) return true;
    if (given.empty_list && unwrapped(*concrete).is(TypeKind::List)) {
      p.convert = "empty";
      return true;
    }
    if (auto how = conversion(given.type, *concrete); how && convert_) {
      p.convert = *how;
      return true;
    }
    return fail(mismatch(arg, *concrete, given.type));
  }

  bool convert_tuple(const SchemaArg& arg, const Type& actual, const Type& formal, Passed& p) {
    Type list = unwrapped(formal);
    if (has_variables(list)) {
      if (actual.elements().empty()) return fail(mismatch(arg, formal, actual));
      if (std::string why = bind_variables(list.element(), actual.element(), env_); !why.empty()) return fail(why);
      auto concrete = with_variables(list, env_);
      if (!concrete) return fail(mismatch(arg, formal, actual));
      list = *concrete;
    }
    if (!is_tuple_for(actual, list)) return fail(mismatch(arg, list, actual));
    p.convert = "tuple";
    return true;
  }

  static std::string mismatch(const SchemaArg& arg, const Type& wanted, const Type& got) {
    std::string s = fmt::format("Expected a value of type '{}' for argument '{}' but instead found type '{}'.", annotation(wanted),
                                arg.name, annotation(got));
    if (got.is(TypeKind::Optional) && is_subtype(got.element(), wanted))
      s += "\nIf you want to use the value where it is not None, refine it first: with `if x is not None:` or an assert.";
    return s;
  }

  bool all_taken() {
    if (next_ < num_positional_)
      return fail(fmt::format("Expected at most {} arguments but found {} positional arguments.", next_, num_positional_));
    for (size_t k = num_positional_; k < given_.size(); k++)
      if (!taken_[k])
        return fail(s_.find(given_[k].name) < 0 ? fmt::format("Unknown keyword argument '{}'.", given_[k].name)
                                                : fmt::format("Argument '{}' specified twice in schema, submitted kwarg.", given_[k].name));
    return true;
  }

  const Schema& s_;
  std::span<const Given> given_;
  bool convert_, by_position_;
  std::vector<char> taken_;
  size_t num_positional_ = 0, next_ = 0;
  TypeEnv env_;
  std::string why_;
};

// ---- candidates

// Schemas of in-place forms, which rows stand for as well: "aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)".
Schema in_place_form(const Schema& s) {
  Schema out = s;
  size_t dot = s.name.rfind('.');
  out.name = s.name.substr(0, dot) + "_" + s.name.substr(dot);
  out.args[0].alias = "a", out.args[0].written = true;
  out.returns = {out.args[0]};
  out.returns[0].name.clear();
  return out;
}

std::string_view base_name(std::string_view name) {
  size_t begin = name.find("::"), dot = name.find('.', begin == name.npos ? 0 : begin);
  return name.substr(0, dot);
}

bool is_tensor(const SchemaArg& a) { return a.type == ArgType::Tensor && !a.list && !a.optional; }
bool gives_tensor(const Schema& s) { return s.returns.size() == 1 && is_tensor(s.returns[0]) && s.returns[0].alias.empty(); }

bool has_in_place_form(const OpDef& def) {
  const Schema& s = def.signature;
  if (s.args.empty() || !is_tensor(s.args[0]) || !gives_tensor(s)) return false;
  return s.args[0].name == "self" || (s.args[0].name == "input" && base_name(s.name).ends_with("dropout"));
}

// "aten::add.out(Tensor self, ..., *, Tensor(a!) out) -> Tensor(a!)", for every function of one tensor.
Schema out_form(const Schema& s) {
  Schema out = s;
  size_t dot = s.name.rfind('.');
  std::string_view overload = std::string_view(s.name).substr(dot + 1);
  out.name = s.name.substr(0, dot) + (overload == "default" || overload == "Tensor" ? ".out" : fmt::format(".{}_out", overload));
  out.args.push_back({.name = "out", .keyword_only = true, .alias = "a", .written = true});
  out.returns = {out.args.back()};
  out.returns[0].name.clear();
  return out;
}

struct Index {
  std::map<std::string, std::vector<Candidate>, std::less<>> by_name;
  std::vector<std::unique_ptr<Schema>> forms; // of rows, other than their own

  Index() {
    for (const OpDef* def : all_ops()) {
      if (!def->signature.name.starts_with("aten::") && !def->signature.name.starts_with("prims::") &&
          !def->signature.name.starts_with("quantized"))
        continue;
      if (def->signature.name == "aten::view.dtype") continue; // x.view(6) is of a size, as in torch, where no call reaches this one
      by_name[std::string(base_name(def->signature.name))].push_back({.signature = &def->signature, .def = def});
    }
    std::vector<Candidate> functions;
    for (auto& [name, list] : by_name) functions.insert(functions.end(), list.begin(), list.end());
    for (Candidate c : functions) {
      if (has_in_place_form(*c.def)) add_form(c, in_place_form(c.def->signature), false);
      if (gives_tensor(c.def->signature)) add_form(c, out_form(c.def->signature), true);
    }
    for (const BuiltinOp* op : all_builtins())
      by_name[std::string(base_name(op->signature.name))].push_back({.signature = &op->signature, .builtin = op});
  }

  void add_form(Candidate c, Schema schema, bool out) {
    auto& list = by_name[std::string(base_name(schema.name))];
    if (std::any_of(list.begin(), list.end(), [&](const Candidate& o) { return o.signature->name == schema.name; })) return;
    forms.push_back(std::make_unique<Schema>(std::move(schema)));
    c.signature = forms.back().get(), c.in_place = !out, c.out = out;
    list.push_back(c);
  }
};

std::vector<Candidate> candidates(std::string_view name) {
  static const Index index;
  if (auto it = index.by_name.find(name); it != index.by_name.end()) return it->second;
  std::vector<Candidate> registered;
  for (const BuiltinOp* op : find_registered(name)) registered.push_back({.signature = &op->signature, .builtin = op});
  if (!registered.empty()) return registered;
  if (const OpDef* custom = find_op(name); custom && !name.starts_with("prim::"))
    return {Candidate{.signature = &custom->signature, .def = custom}};
  return {};
}

std::optional<Resolved> try_all(std::string_view name, std::span<const Given> args, bool by_position, std::string* why) {
  std::vector<Candidate> all = candidates(name);
  std::string reasons;
  for (bool convert : {false, true})
    for (const Candidate& c : all) {
      Resolved r;
      r.def = c.def, r.builtin = c.builtin, r.in_place = c.in_place, r.out = c.out;
      Matcher m(*c.signature, args, convert, by_position);
      if (m.run(r)) return r;
      if (convert) reasons += fmt::format("\n  {}:\n  {}\n", to_string(*c.signature), m.why());
    }
  if (why) {
    if (all.empty()) *why = fmt::format("Unknown builtin op: {}.", name);
    else if (all.size() == 1) *why = reasons;
    else *why = "Arguments for call are not valid.\nThe following variants are available:\n" + reasons + "\nThe original call is:";
  }
  return std::nullopt;
}

} // namespace

std::optional<Resolved> try_resolve(std::string_view name, std::span<const Given> args, std::string* why) {
  return try_all(name, args, false, why);
}
std::optional<Resolved> resolve_node(std::string_view name, std::span<const Given> args, std::string* why) {
  return try_all(name, args, true, why);
}

Resolved resolve(std::string_view name, std::span<const Given> args) {
  std::string why;
  auto r = try_resolve(name, args, &why);
  if (!r) bad_input("{}", why);
  return std::move(*r);
}

std::optional<Resolved> match_schema(const Schema& schema, std::span<const Given> args, std::string* why) {
  for (bool convert : {false, true}) {
    Resolved r;
    Matcher m(schema, args, convert, false);
    if (m.run(r)) return r;
    if (convert && why) *why = fmt::format("\n{}:\n{}", to_string(schema), m.why());
  }
  return std::nullopt;
}

bool is_operator(std::string_view name) { return !candidates(name).empty(); }

} // namespace tenon
