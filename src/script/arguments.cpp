#include "script/arguments.h"

#include <algorithm>

#include "builtins/dict.h"
#include "builtins/resolve.h"

namespace tenon::script {

namespace {

using Tag = IValue::Tag;

bool fits_tensor(const Tensor& t, const Type& type) {
  if (!t.defined()) return false;
  if (type.is(TypeKind::Dynamic)) return true;
  if (t.dtype() != type.dtype || t.rank() != type.rank()) return false;
  for (size_t d = 0; d < t.rank(); d++)
    if (Expr s = type.sizes[d]; s && const_int(s) && *const_int(s) != t.sizes()[d]) return false;
  return true;
}

// Replaces v by the value as one of the type; false where it is none.
bool fit(IValue& v, const Type& type);

bool fit_all(std::vector<IValue>& items, const Type& type) {
  return std::ranges::all_of(items, [&](IValue& e) { return fit(e, type); });
}

bool fit_tuple(IValue& v, const Type& type) {
  if (!v.is(Tag::Tuple)) return false;
  if (type.elements().empty() && type.name() == "Tuple") return true; // of the IR of 2018
  std::vector<IValue> items = v.to_tuple();
  if (items.size() != type.elements().size()) return false;
  for (size_t i = 0; i < items.size(); i++)
    if (!fit(items[i], type.element(i))) return false;
  v = IValue::tuple(std::move(items));
  return true;
}

// A list stays the one it is: the caller sees what the program does to it.
bool fit_list(IValue& v, const Type& type) {
  if (v.is(Tag::Tuple)) v = IValue::list(v.to_tuple());
  if (!v.is(Tag::List) || !fit_all(v.to_list(), type.element())) return false;
  if (v.to_list().empty() && type.element().elements().empty()) v.list_box().element = type.element().kind;
  return true;
}

bool fit_dict(const IValue& v, const Type& type) {
  if (!v.is(Tag::Dict)) return false;
  for (auto [key, value] : v.items()) {
    if (!fit(key, type.element(0)) || !fit(value, type.element(1))) return false;
    v.set(key, value);
  }
  return true;
}

bool fit(IValue& v, const Type& type) {
  switch (type.kind) {
  case TypeKind::Tensor:
  case TypeKind::Dynamic: return v.is(Tag::Tensor) && fits_tensor(v.to_tensor(), type);
  case TypeKind::Int: return v.is(Tag::Int);
  case TypeKind::Float:
    if (v.is(Tag::Int)) v = static_cast<double>(v.to_int());
    return v.is(Tag::Double);
  case TypeKind::Complex:
    if (v.is(Tag::Int) || v.is(Tag::Double)) v = std::complex<double>(v.number());
    return v.is(Tag::Complex);
  case TypeKind::Bool: return v.is(Tag::Bool);
  case TypeKind::Number: return v.is_number();
  case TypeKind::String: return v.is(Tag::String);
  case TypeKind::Device:
    if (v.is(Tag::String)) v = IValue(v.to_string(), Tag::Device);
    return v.is(Tag::Device);
  case TypeKind::None: return v.is_none();
  case TypeKind::Any: return true;
  case TypeKind::List: return fit_list(v, type);
  case TypeKind::Dict: return fit_dict(v, type);
  case TypeKind::Tuple: return fit_tuple(v, type);
  case TypeKind::Optional: return v.is_none() || fit(v, type.element());
  case TypeKind::Union: return std::ranges::any_of(type.elements(), [&](const Type& t) { return fit(v, t); });
  default: return is_subtype(type_of(v), type);
  }
}

std::string text_of_value(const IValue& v) {
  if (!v.is(Tag::Tensor)) return annotation(type_of(v));
  const Tensor& t = v.to_tensor();
  std::string sizes;
  for (int64_t s : t.sizes()) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", s);
  return t.defined() ? fmt::format("{}({})", torch_name(t.dtype()), sizes) : "a Tensor without memory";
}

} // namespace

IValue convert(IValue v, const Type& type, std::string_view what) {
  if (!fit(v, type))
    bad_input("{}: expected a value of type '{}' but instead found type '{}'", what, type.is_tensor() ? to_string(type) : annotation(type),
              text_of_value(v));
  return v;
}

std::vector<IValue> bind_arguments(std::span<const ScriptParam> params, std::vector<IValue> positional,
                                   std::span<const std::pair<std::string, IValue>> keywords) {
  require_input(positional.size() <= params.size(), "expected at most {} argument(s) but received {}", params.size(), positional.size());
  std::vector<IValue> out;
  for (size_t i = 0; i < params.size(); i++) {
    const ScriptParam& p = params[i];
    auto named = std::ranges::find(keywords, p.name, &std::pair<std::string, IValue>::first);
    bool is_named = !p.name.empty() && named != keywords.end();
    std::string what = p.name.empty() ? fmt::format("argument {}", i) : fmt::format("argument '{}'", p.name);
    if (i < positional.size()) {
      require_input(!is_named, "{} is given twice", what);
      out.push_back(convert(std::move(positional[i]), p.type, what));
    } else if (is_named) out.push_back(convert(named->second, p.type, what));
    else {
      require_input(p.fallback.has_value(), "{} is missing: a {}", what, annotation(p.type));
      out.push_back(*p.fallback);
    }
  }
  for (auto& [name, value] : keywords)
    require_input(std::ranges::find(params, name, &ScriptParam::name) != params.end(), "there is no argument '{}'", name);
  return out;
}

} // namespace tenon::script
