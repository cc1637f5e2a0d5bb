// IValue: what a value of a TorchScript program is while it runs. 16 bytes: a tag, and a number or a counted pointer to what does not fit.
// Lists, dicts and objects have identity, as in Python: copies of an IValue show the same one.
#pragma once
#include <atomic>
#include <complex>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/type.h"
#include "tenon/tensor.h"

namespace tenon {

class IValue;

/// What lies outside of an IValue, counted. The count is atomic: plans that are shared by threads hold constants.
struct Boxed {
  std::atomic<uint32_t> owners{1};
};
struct TensorBox : Boxed {
  Tensor tensor; // its storage is shared by views
  bool requires_grad = false;
};
struct StringBox : Boxed {
  std::string text;
};
struct ComplexBox : Boxed {
  std::complex<double> number;
};
struct ListBox : Boxed {
  std::vector<IValue> items;
  TypeKind element = TypeKind::Any; // where whoever made the list knows it: torch.tensor asks empty lists
};
struct TupleBox : Boxed {
  std::vector<IValue> items;
};
struct DictBox; // dict.h
/// An instance of a class or module: its attributes, in the order of the class's.
struct ObjectBox : Boxed {
  std::string class_name;
  std::vector<IValue> slots;
};

class IValue {
public:
  enum class Tag : uint8_t { None, Bool, Int, Double, Complex, Tensor, String, Device, List, Tuple, Dict, Object };

  IValue() = default;
  IValue(std::same_as<bool> auto b) : tag_(Tag::Bool) { i_ = b; }
  IValue(std::same_as<int> auto i) : tag_(Tag::Int) { i_ = i; }
  IValue(std::same_as<int64_t> auto i) : tag_(Tag::Int) { i_ = i; }
  IValue(double d) : tag_(Tag::Double) { d_ = d; }
  IValue(std::complex<double> c);
  IValue(Tensor t);
  IValue(std::string s, Tag tag = Tag::String); ///< or Device
  IValue(const char* s) : IValue(std::string(s)) {}
  static IValue list(std::vector<IValue> items = {});
  static IValue tuple(std::vector<IValue> items);
  static IValue dict();
  static IValue object(std::string class_name, std::vector<IValue> slots);

  IValue(const IValue& o) : tag_(o.tag_), i_(o.i_) {
    if (boxed()) box_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  IValue(IValue&& o) noexcept : tag_(o.tag_), i_(o.i_) { o.tag_ = Tag::None; }
  IValue& operator=(const IValue& o) { return *this = IValue(o); }
  IValue& operator=(IValue&& o) noexcept {
    std::swap(tag_, o.tag_);
    std::swap(i_, o.i_);
    return *this;
  }
  ~IValue() {
    if (boxed() && box_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }

  Tag tag() const { return tag_; }
  bool is(Tag t) const { return tag_ == t; }
  bool is_none() const { return tag_ == Tag::None; }
  bool boxed() const { return tag_ >= Tag::Complex; }
  /// Whether both show one list, dict, tensor or object, or are equal numbers.
  bool same(const IValue& o) const { return tag_ == o.tag_ && (is_none() || i_ == o.i_); }

  // Each throws Error(Internal) where the value is something else: graphs are typed before they run.
  bool to_bool() const { return need(Tag::Bool), i_ != 0; }
  int64_t to_int() const { return need(Tag::Int), i_; }
  double to_double() const { return need(Tag::Double), d_; }
  std::complex<double> to_complex() const { return box<ComplexBox>(Tag::Complex).number; }
  const std::string& to_string() const { return box<StringBox>(Tag::String).text; }
  const std::string& to_device() const { return box<StringBox>(Tag::Device).text; }
  Tensor& to_tensor() const { return box<TensorBox>(Tag::Tensor).tensor; }
  TensorBox& tensor_box() const { return box<TensorBox>(Tag::Tensor); }
  ListBox& list_box() const { return box<ListBox>(Tag::List); }
  std::vector<IValue>& to_list() const { return box<ListBox>(Tag::List).items; }
  const std::vector<IValue>& to_tuple() const { return box<TupleBox>(Tag::Tuple).items; }
  DictBox& to_dict() const;
  ObjectBox& to_object() const { return box<ObjectBox>(Tag::Object); }
  /// Of an int, a float or a bool.
  double number() const { return tag_ == Tag::Double ? to_double() : static_cast<double>(tag_ == Tag::Bool ? to_bool() : to_int()); }
  bool is_number() const { return tag_ == Tag::Int || tag_ == Tag::Double || tag_ == Tag::Bool || tag_ == Tag::Complex; }

private:
  template <class B> B& box(Tag t) const { return need(t), *static_cast<B*>(box_); }
  void need(Tag t) const {
    if (tag_ != t) [[unlikely]]
      wrong(t);
  }
  [[noreturn]] void wrong(Tag wanted) const;
  void destroy();
  IValue(Tag tag, Boxed* box) : tag_(tag) { box_ = box; }

  Tag tag_ = Tag::None;
  union {
    int64_t i_ = 0;
    double d_;
    Boxed* box_;
  };
};
static_assert(sizeof(IValue) == 16);

using Stack = std::vector<IValue>;

/// torch's names: "Int", "Double", "Tensor", "GenericList" ...
std::string_view name_of(IValue::Tag tag);
/// As Python's ==: numbers by value, lists and dicts element by element. Tensors: whether they are the same one.
bool equal(const IValue& a, const IValue& b);
/// str(v) and repr(v), as TorchScript writes them: floats with 17 digits where they need them.
std::string str(const IValue& v);
std::string repr(const IValue& v);
/// The type that a value itself shows; of an empty list or dict that of Any.
Type type_of(const IValue& v);

/// What a program raises: an Error(BadInput) whose message begins with the exception's name where that is not RuntimeError.
[[noreturn]] void raise(std::string_view exception, const std::string& message);

} // namespace tenon
