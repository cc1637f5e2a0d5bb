// IValue: a value of a TorchScript program. 16 bytes: a tag, and a number or a counted pointer to what does not fit. Copies of an IValue
// share its tensor, list, dict or object, which have identity, as in Python.
#pragma once
#include <atomic>
#include <complex>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

class IValue;
struct DictBox;
enum class TypeKind : uint8_t;

/// What lies outside of an IValue, counted. The count is atomic: threads may hold copies of one value.
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
  ListBox();
  std::vector<IValue> items;
  TypeKind element; // Any, but where whoever made the list knows it, and it has no parts: what an empty list is of
};
struct TupleBox : Boxed {
  std::vector<IValue> items;
};
/// An instance of a class or module: its attributes, in the order of the class's.
struct ObjectBox : Boxed {
  std::string class_name;
  std::vector<IValue> slots;
};

/// Distinct IValues may be used from distinct threads; a list, dict or tensor that several of them show must not be changed by one thread
/// while another uses it.
class TENON_API IValue {
public:
  enum class Tag : uint8_t { None, Bool, Int, Double, Complex, Tensor, String, Device, List, Tuple, Dict, Object };
  using Pair = std::pair<IValue, IValue>;

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
  static IValue dict(const std::vector<Pair>& pairs);
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

  // Each throws Error(BadInput) where the value is something else.
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
  /// Of a dict: its pairs, in the order of insertion; the value of a key, null where there is none; another value for a key.
  std::vector<Pair> items() const;
  const IValue* find(const IValue& key) const;
  void set(const IValue& key, IValue value) const;
  ObjectBox& to_object() const { return box<ObjectBox>(Tag::Object); }
  /// Of an int, a float or a bool.
  double number() const { return tag_ == Tag::Double ? to_double() : static_cast<double>(tag_ == Tag::Bool ? to_bool() : to_int()); }
  /// As a C++ value: bool, int64_t, double (of an int, too), std::complex<double>, std::string, Tensor, IValue, a std::optional of these
  /// for what may be None, a std::vector for a list.
  template <class T> T to() const;
  bool is_number() const { return tag_ == Tag::Int || tag_ == Tag::Double || tag_ == Tag::Bool || tag_ == Tag::Complex; }

private:
  template <class B> B& box(Tag t) const { return need(t), *static_cast<B*>(box_); }
  void need(Tag t) const {
    if (tag_ != t) [[unlikely]]
      wrong(t);
  }
  [[noreturn]] void wrong(Tag wanted) const;
  void destroy();
  static void release(Tag tag, Boxed* box);
  IValue(Tag tag, Boxed* box) : tag_(tag) { box_ = box; }

  Tag tag_ = Tag::None;
  union {
    int64_t i_ = 0;
    double d_;
    Boxed* box_;
  };
};
static_assert(sizeof(IValue) == 16);

/// Arguments and results of an operator; the last one is on top.
using Stack = std::vector<IValue>;

/// torch's names: "Int", "Double", "Tensor", "GenericList" ...
TENON_API std::string_view name_of(IValue::Tag tag);
/// As Python's ==: numbers by value, lists and dicts element by element. Tensors: whether they are the same one.
TENON_API bool equal(const IValue& a, const IValue& b);
/// str(v) and repr(v), as TorchScript writes them: floats with 17 digits where they need them.
TENON_API std::string str(const IValue& v);
TENON_API std::string repr(const IValue& v);

template <class T> struct ValueReader;
template <> struct ValueReader<bool> {
  static bool read(const IValue& v) { return v.to_bool(); }
};
template <> struct ValueReader<int64_t> {
  static int64_t read(const IValue& v) { return v.to_int(); }
};
template <> struct ValueReader<double> {
  static double read(const IValue& v) { return v.is(IValue::Tag::Int) ? static_cast<double>(v.to_int()) : v.to_double(); }
};
template <> struct ValueReader<std::complex<double>> {
  static std::complex<double> read(const IValue& v) { return v.to_complex(); }
};
template <> struct ValueReader<std::string> {
  static const std::string& read(const IValue& v) { return v.is(IValue::Tag::Device) ? v.to_device() : v.to_string(); }
};
template <> struct ValueReader<Tensor> {
  static const Tensor& read(const IValue& v) { return v.to_tensor(); }
};
template <> struct ValueReader<IValue> {
  static const IValue& read(const IValue& v) { return v; }
};
template <class T> struct ValueReader<std::optional<T>> {
  static std::optional<T> read(const IValue& v) { return v.is_none() ? std::nullopt : std::optional<T>(v.to<T>()); }
};
template <class T> struct ValueReader<std::vector<T>> {
  static std::vector<T> read(const IValue& v) {
    std::vector<T> list;
    for (const IValue& e : v.to_list()) list.push_back(e.to<T>());
    return list;
  }
};
template <class T> T IValue::to() const { return ValueReader<T>::read(*this); }

} // namespace tenon
