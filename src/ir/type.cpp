// Types: how they are made, and their texts.
#include "ir/type.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/check.h"

namespace tenon {

std::string_view torch_name(DType t) {
  constexpr std::string_view names[num_dtypes] = {
      "Bool",           "Byte",   "Char",         "Short",         "Int",    "Long",          "Half",        "BFloat16",
      "Float",          "Double", "ComplexFloat", "ComplexDouble", "UInt64", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz",
      "Float8_e5m2fnuz"};
  return names[static_cast<int>(t)];
}

Parts::Parts(TypeParts parts) : shared_(std::make_shared<const TypeParts>(std::move(parts))) {}
bool Parts::operator==(const Parts& other) const {
  return shared_ == other.shared_ || (shared_ && other.shared_ && *shared_ == *other.shared_);
}

namespace {
Type with_parts(TypeKind kind, std::vector<Type> elements, std::string name = {}, std::vector<std::string> fields = {}) {
  return {.kind = kind, .parts = Parts({std::move(elements), std::move(name), std::move(fields)})};
}
} // namespace

Type Type::list(Type element) { return with_parts(TypeKind::List, {std::move(element)}); }
Type Type::dict(Type key, Type value) { return with_parts(TypeKind::Dict, {std::move(key), std::move(value)}); }
Type Type::tuple(std::vector<Type> elements, std::string name, std::vector<std::string> fields) {
  return with_parts(TypeKind::Tuple, std::move(elements), std::move(name), std::move(fields));
}
Type Type::optional(Type inner) {
  if (inner.is(TypeKind::Optional) || inner.is(TypeKind::None) || inner.is(TypeKind::Any)) return inner;
  return with_parts(TypeKind::Optional, {std::move(inner)});
}
Type Type::any_of(std::vector<Type> alternatives) { return with_parts(TypeKind::Union, std::move(alternatives)); }
Type Type::object(std::string name) { return with_parts(TypeKind::Object, {}, std::move(name)); }
Type Type::variable(std::string name) { return with_parts(TypeKind::Variable, {}, std::move(name)); }

const std::vector<Type>& Type::elements() const {
  static const std::vector<Type> none;
  return parts ? parts->elements : none;
}
const std::string& Type::name() const {
  static const std::string none;
  return parts ? parts->name : none;
}

namespace {

std::string join(const std::vector<Expr>& list) {
  std::string s;
  for (Expr e : list) s += (s.empty() ? "" : ", ") + (e ? to_string(e) : "*");
  return s;
}

std::string join(const std::vector<Type>& list, std::string (*text)(const Type&)) {
  std::string s;
  for (auto& t : list) s += (s.empty() ? "" : ", ") + text(t);
  return s;
}

std::string text_of_tensor_type(const Type& t) {
  std::string s = join(t.sizes);
  if (!t.strides.empty()) s += fmt::format("{}strides=[{}]", s.empty() ? "" : ", ", join(t.strides));
  return fmt::format("{}({})", torch_name(t.dtype), s);
}

/// Names of the kinds that have no parts, as a graph and as Python write them.
struct KindName {
  TypeKind kind;
  std::string_view text, annotation;
};
constexpr KindName kind_names[] = {
    {TypeKind::Int, "int", "int"},
    {TypeKind::Float, "float", "float"},
    {TypeKind::Bool, "bool", "bool"},
    {TypeKind::String, "str", "str"},
    {TypeKind::None, "NoneType", "NoneType"},
    {TypeKind::Custom, "custom", "custom"},
    {TypeKind::Dynamic, "Tensor", "Tensor"},
    {TypeKind::Tensor, "Tensor", "Tensor"},
    {TypeKind::Number, "Scalar", "number"},
    {TypeKind::Complex, "complex", "complex"},
    {TypeKind::Device, "Device", "Device"},
    {TypeKind::Generator, "Generator", "Generator"},
    {TypeKind::Any, "Any", "Any"},
    {TypeKind::Function, "Function", "Function"},
    {TypeKind::World, "World", "World"},
};
const KindName* name_of_kind(TypeKind kind) {
  for (auto& k : kind_names)
    if (k.kind == kind) return &k;
  return nullptr;
}

} // namespace

std::string to_string(const Type& t) {
  switch (t.kind) {
  case TypeKind::Tensor: return text_of_tensor_type(t);
  case TypeKind::List: return to_string(t.element()) + "[]";
  case TypeKind::Dict: return fmt::format("Dict({}, {})", to_string(t.element(0)), to_string(t.element(1)));
  case TypeKind::Tuple:
    if (t.elements().empty() && t.name() == "Tuple") return "Tuple";
    return t.name().empty() ? "(" + join(t.elements(), to_string) + ")" : t.name();
  case TypeKind::Optional: return to_string(t.element()) + "?";
  case TypeKind::Union: return "Union(" + join(t.elements(), to_string) + ")";
  case TypeKind::Object:
  case TypeKind::Variable: return t.name();
  default: break;
  }
  std::string s(name_of_kind(t.kind)->text);
  return t.value ? s + "{" + to_string(t.value) + "}" : s;
}

std::string annotation(const Type& t) {
  switch (t.kind) {
  case TypeKind::List: return "List[" + annotation(t.element()) + "]";
  case TypeKind::Dict: return fmt::format("Dict[{}, {}]", annotation(t.element(0)), annotation(t.element(1)));
  case TypeKind::Tuple: return t.name().empty() ? "Tuple[" + join(t.elements(), annotation) + "]" : t.name();
  case TypeKind::Optional: return "Optional[" + annotation(t.element()) + "]";
  case TypeKind::Union: return "Union[" + join(t.elements(), annotation) + "]";
  case TypeKind::Object:
  case TypeKind::Variable: return t.name();
  default: return std::string(name_of_kind(t.kind)->annotation);
  }
}

std::string to_string(const Type& type, const TensorMeta& meta) {
  std::string s = to_string(type);
  if (!type.is_tensor() || meta == TensorMeta()) return s;
  s.pop_back();
  if (!s.ends_with('(')) s += ", ";
  return s + fmt::format("requires_grad={}, device={})", static_cast<int>(meta.requires_grad), device_name(meta));
}

static constexpr std::string_view devices[] = {"cpu", "cuda", "mps", "xpu", "meta", "other"};

std::string device_name(const TensorMeta& meta) {
  std::string_view name = devices[static_cast<size_t>(meta.device)];
  return meta.device_index < 0 ? std::string(name) : fmt::format("{}:{}", name, meta.device_index);
}

bool set_device(TensorMeta& meta, std::string_view name) {
  size_t colon = std::min(name.find(':'), name.size());
  auto known = std::find(std::begin(devices), std::end(devices), name.substr(0, colon));
  meta.device = known == std::end(devices) ? Device::Other : static_cast<Device>(known - std::begin(devices));
  meta.device_index = -1;
  if (colon == name.size()) return colon > 0;
  std::string_view index = name.substr(colon + 1);
  int value = 0;
  auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), value);
  bool good = colon > 0 && error == std::errc() && end == index.data() + index.size() && value >= 0 && value < 128;
  if (good) meta.device_index = static_cast<int8_t>(value);
  return good;
}

} // namespace tenon
