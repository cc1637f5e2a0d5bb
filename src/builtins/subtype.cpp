// Which types stand for which: subtypes, and what two types have in common.
#include "builtins/resolve.h"

namespace tenon {

namespace {

// Lists and dicts may be written, so what they hold is the same or does not fit; but for what is known of tensors.
bool same_elements(const Type& a, const Type& b) {
  if (a.is_any_tensor() && b.is_any_tensor()) return true;
  if (a.kind != b.kind || a.elements().size() != b.elements().size() || a.name() != b.name()) return false;
  for (size_t i = 0; i < a.elements().size(); i++)
    if (!same_elements(a.element(i), b.element(i))) return false;
  return true;
}

bool all_subtypes(const Type& a, const Type& b) {
  if (a.elements().size() != b.elements().size()) return false;
  for (size_t i = 0; i < a.elements().size(); i++)
    if (!is_subtype(a.element(i), b.element(i))) return false;
  return true;
}

bool is_untyped_tuple(const Type& t) { return t.is(TypeKind::Tuple) && t.elements().empty() && t.name() == "Tuple"; }

} // namespace

bool is_subtype(const Type& a, const Type& b) {
  if (a.is(TypeKind::Union)) {
    for (const Type& t : a.elements())
      if (!is_subtype(t, b)) return false;
    return true;
  }
  switch (b.kind) {
  case TypeKind::Any: return true;
  case TypeKind::Number: return a.is_number();
  case TypeKind::Dynamic: return a.is_any_tensor();
  case TypeKind::Tensor: return a.is_any_tensor();
  case TypeKind::Optional:
    return a.is(TypeKind::None) || is_subtype(a, b.element()) || (a.is(TypeKind::Optional) && is_subtype(a.element(), b.element()));
  case TypeKind::Union:
    for (const Type& t : b.elements())
      if (is_subtype(a, t)) return true;
    return a.is(TypeKind::Optional) && is_subtype(Type::simple(TypeKind::None), b) && is_subtype(a.element(), b);
  case TypeKind::Tuple:
    if (!a.is(TypeKind::Tuple)) return false;
    if (is_untyped_tuple(a) || is_untyped_tuple(b)) return true;
    return (b.name().empty() || a.name() == b.name()) && all_subtypes(a, b);
  default: return same_elements(a, b);
  }
}

std::optional<Type> unify(const Type& a, const Type& b) {
  if (a == b) return a;
  if (a.is_any_tensor() && b.is_any_tensor()) return Type::simple(TypeKind::Dynamic);
  if (is_subtype(a, b)) return b;
  if (is_subtype(b, a)) return a;
  if (a.is(TypeKind::None)) return Type::optional(b);
  if (b.is(TypeKind::None)) return Type::optional(a);
  if (a.is(TypeKind::Optional) || b.is(TypeKind::Optional)) {
    auto inner = unify(a.is(TypeKind::Optional) ? a.element() : a, b.is(TypeKind::Optional) ? b.element() : b);
    if (inner) return Type::optional(*inner);
    return std::nullopt;
  }
  if (!a.is(TypeKind::Tuple) || !b.is(TypeKind::Tuple) || a.elements().size() != b.elements().size()) return std::nullopt;
  std::vector<Type> elements;
  for (size_t i = 0; i < a.elements().size(); i++) {
    auto t = unify(a.element(i), b.element(i));
    if (!t) return std::nullopt;
    elements.push_back(std::move(*t));
  }
  return Type::tuple(std::move(elements));
}

} // namespace tenon
