// IValues: what they own, equality, the types they show.
#include "builtins/ivalue.h"

#include "builtins/dict.h"

namespace tenon {

namespace {
template <class B, class F> Boxed* boxed_by(F fill) {
  auto* b = new B;
  fill(*b);
  return b;
}
} // namespace

IValue::IValue(std::complex<double> c) : IValue(Tag::Complex, boxed_by<ComplexBox>([&](auto& b) { b.number = c; })) {}
IValue::IValue(Tensor t) : IValue(Tag::Tensor, boxed_by<TensorBox>([&](auto& b) { b.tensor = std::move(t); })) {}
IValue::IValue(std::string s, Tag tag) : IValue(tag, boxed_by<StringBox>([&](auto& b) { b.text = std::move(s); })) {}
IValue IValue::list(std::vector<IValue> items) {
  return {Tag::List, boxed_by<ListBox>([&](auto& b) { b.items = std::move(items); })};
}
IValue IValue::tuple(std::vector<IValue> items) {
  return {Tag::Tuple, boxed_by<TupleBox>([&](auto& b) { b.items = std::move(items); })};
}
IValue IValue::dict() { return {Tag::Dict, new DictBox}; }
IValue IValue::dict(const std::vector<Pair>& pairs) {
  IValue made = dict();
  for (auto& [key, value] : pairs) made.set(key, value);
  return made;
}
IValue IValue::object(std::string class_name, std::vector<IValue> slots) {
  return {Tag::Object, boxed_by<ObjectBox>([&](auto& b) {
            b.class_name = std::move(class_name);
            b.slots = std::move(slots);
          })};
}

void IValue::release(Tag tag, Boxed* box) {
  switch (tag) {
  case Tag::Complex: delete static_cast<ComplexBox*>(box); break;
  case Tag::Tensor: delete static_cast<TensorBox*>(box); break;
  case Tag::String:
  case Tag::Device: delete static_cast<StringBox*>(box); break;
  case Tag::List: delete static_cast<ListBox*>(box); break;
  case Tag::Tuple: delete static_cast<TupleBox*>(box); break;
  case Tag::Dict: delete static_cast<DictBox*>(box); break;
  case Tag::Object: delete static_cast<ObjectBox*>(box); break;
  default: break;
  }
}

// What hangs from a value waits for its turn, so that a chain of a million objects takes no stack.
void IValue::destroy() {
  static thread_local std::vector<std::pair<Tag, Boxed*>>* waiting = nullptr;
  if (tag_ < Tag::List) return release(tag_, box_);
  if (waiting) return static_cast<void>(waiting->emplace_back(tag_, box_));
  std::vector<std::pair<Tag, Boxed*>> mine;
  waiting = &mine;
  release(tag_, box_);
  while (!mine.empty()) {
    auto [tag, box] = mine.back();
    mine.pop_back();
    release(tag, box);
  }
  waiting = nullptr;
}

ListBox::ListBox() : element(TypeKind::Any) {}

DictBox& IValue::to_dict() const { return box<DictBox>(Tag::Dict); }
std::vector<IValue::Pair> IValue::items() const { return to_dict().items(); }
const IValue* IValue::find(const IValue& key) const { return to_dict().find(key); }
void IValue::set(const IValue& key, IValue value) const { to_dict().set(key, std::move(value)); }
void IValue::wrong(Tag wanted) const { bad_input("a value is a {}, not a {}", name_of(tag_), name_of(wanted)); }

std::string_view name_of(IValue::Tag tag) {
  constexpr std::string_view names[] = {"None",   "Bool",   "Int",         "Double", "ComplexDouble", "Tensor",
                                        "String", "Device", "GenericList", "Tuple",  "GenericDict",   "Object"};
  return names[static_cast<size_t>(tag)];
}

namespace {

bool equal_items(const std::vector<IValue>& a, const std::vector<IValue>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const DictBox& a, DictBox& b) {
  if (a.size() != b.size()) return false;
  for (auto& [key, value] : a.items()) {
    IValue* other = b.find(key);
    if (!other || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_numbers(const IValue& a, const IValue& b) {
  auto complex = [](const IValue& v) { return v.is(IValue::Tag::Complex) ? v.to_complex() : v.number(); };
  if (a.is(IValue::Tag::Double) || b.is(IValue::Tag::Double) || a.is(IValue::Tag::Complex) || b.is(IValue::Tag::Complex))
    return complex(a) == complex(b);
  auto integer = [](const IValue& v) { return v.is(IValue::Tag::Bool) ? int64_t{v.to_bool()} : v.to_int(); };
  return integer(a) == integer(b);
}

} // namespace

bool equal(const IValue& a, const IValue& b) {
  using Tag = IValue::Tag;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.tag() != b.tag()) return false;
  switch (a.tag()) {
  case Tag::String: return a.to_string() == b.to_string();
  case Tag::Device: return a.to_device() == b.to_device();
  case Tag::List: return a.same(b) || equal_items(a.to_list(), b.to_list());
  case Tag::Tuple: return equal_items(a.to_tuple(), b.to_tuple());
  case Tag::Dict: return a.same(b) || equal_dicts(a.to_dict(), b.to_dict());
  default: return a.same(b);
  }
}

namespace {
/// What all elements are; Any where there are none, or they differ.
Type common_type(const std::vector<IValue>& items) {
  if (items.empty()) return Type::simple(TypeKind::Any);
  Type first = type_of(items[0]);
  for (auto& i : items)
    if (type_of(i) != first) return Type::simple(TypeKind::Any);
  return first;
}
} // namespace

Type type_of(const IValue& v) {
  using Tag = IValue::Tag;
  switch (v.tag()) {
  case Tag::None: return Type::simple(TypeKind::None);
  case Tag::Bool: return Type::simple(TypeKind::Bool);
  case Tag::Int: return Type::simple(TypeKind::Int);
  case Tag::Double: return Type::simple(TypeKind::Float);
  case Tag::Complex: return Type::simple(TypeKind::Complex);
  case Tag::Tensor: return Type::simple(TypeKind::Dynamic);
  case Tag::String: return Type::simple(TypeKind::String);
  case Tag::Device: return Type::simple(TypeKind::Device);
  case Tag::Object: return Type::object(v.to_object().class_name);
  case Tag::List: return Type::list(v.to_list().empty() ? Type::simple(v.list_box().element) : common_type(v.to_list()));
  case Tag::Dict: {
    std::vector<IValue> keys, values;
    for (auto& [key, value] : v.to_dict().items()) keys.push_back(key), values.push_back(value);
    return Type::dict(common_type(keys), common_type(values));
  }
  case Tag::Tuple: {
    std::vector<Type> types;
    for (auto& e : v.to_tuple()) types.push_back(type_of(e));
    return Type::tuple(std::move(types));
  }
  }
  internal_error("a value of tag {}", static_cast<int>(v.tag()));
}

void raise(std::string_view exception, const std::string& message) {
  bool named = !exception.empty() && exception != "RuntimeError";
  throw Error(ErrorKind::BadInput, named ? fmt::format("{}: {}", exception, message) : message);
}

} // namespace tenon
