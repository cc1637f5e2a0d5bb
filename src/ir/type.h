// Types of values. Sizes and strides are expressions, so one type describes every size a program accepts. Programs of TorchScript have
// the types behind Custom, too: containers, tensors of which nothing is known. A graph of another dialect has none of these.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "expr/expr.h"
#include "tenon/type.h"

namespace tenon {

struct TypeParts;

/// What a type consists of, shared between copies; compared by what it says.
class Parts {
public:
  Parts() = default;
  explicit Parts(TypeParts parts);
  explicit operator bool() const { return shared_ != nullptr; }
  const TypeParts& operator*() const { return *shared_; }
  const TypeParts* operator->() const { return shared_.get(); }
  bool operator==(const Parts& other) const;

private:
  std::shared_ptr<const TypeParts> shared_;
};

struct Type {
  TypeKind kind = TypeKind::Tensor;
  DType dtype = DType::F32;       // Tensor
  std::vector<Expr> sizes = {};   // Tensor; in TorchScript's graphs those not known are empty: Float(*, 3)
  std::vector<Expr> strides = {}; // Tensor, in elements; empty: row-major
  Expr value = {};                // Int, Float, Bool: the value as an expression, where known
  Parts parts = {};               // List, Dict, Tuple, Optional, Union, Object, Variable

  static Type tensor(DType dtype, std::vector<Expr> sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }
  static Type scalar(TypeKind kind, Expr value = {}) { return {.kind = kind, .value = value}; }
  static Type simple(TypeKind kind) { return {.kind = kind}; }
  static Type list(Type element);
  static Type dict(Type key, Type value);
  static Type tuple(std::vector<Type> elements, std::string name = {}, std::vector<std::string> fields = {});
  static Type optional(Type inner); ///< of an optional or None that itself
  static Type any_of(std::vector<Type> alternatives);
  static Type object(std::string name);
  static Type variable(std::string name);

  bool is(TypeKind k) const { return kind == k; }
  bool is_tensor() const { return kind == TypeKind::Tensor; }
  /// A tensor, whatever is known of it.
  bool is_any_tensor() const { return kind == TypeKind::Tensor || kind == TypeKind::Dynamic; }
  bool is_number() const {
    return kind == TypeKind::Int || kind == TypeKind::Float || kind == TypeKind::Complex || kind == TypeKind::Number;
  }
  size_t rank() const { return sizes.size(); }
  /// Parts: of a list its element, of a dict key and value, of an optional what it may be.
  const std::vector<Type>& elements() const;
  const Type& element(size_t i = 0) const { return elements().at(i); }
  const std::string& name() const; ///< of a named tuple, an object, a variable
  bool operator==(const Type&) const = default;
};

struct TypeParts {
  std::vector<Type> elements = {};
  std::string name = {};
  std::vector<std::string> fields = {};
  bool operator==(const TypeParts&) const = default;
};

/// torch's kinds of devices; backends under names of their own are Other.
enum class Device : uint8_t { Cpu, Cuda, Mps, Xpu, Meta, Other };

/// What is recorded of a tensor besides its type. No pass depends on it: it says where and for what the program was exported.
struct TensorMeta {
  bool requires_grad = false;
  Device device = Device::Cpu;
  int8_t device_index = -1; // -1: none
  bool operator==(const TensorMeta&) const = default;
};

/// "Float(s77, 768)", "Long(2, 3, strides=[1, 2])", "int{s77*2}", "float", "str", "NoneType"; "Tensor", "int[]", "Dict(str, Tensor)",
/// "(int, Tensor)", "float?", "Float(*, 3)".
std::string to_string(const Type& type);
/// As Python writes it, and messages do: "List[int]", "Dict[str, Tensor]", "Optional[float]".
std::string annotation(const Type& type);
/// The same with what is recorded besides, as TorchScript writes it, where it is not the default: "Float(2, 3, requires_grad=1,
/// device=cuda:0)".
std::string to_string(const Type& type, const TensorMeta& meta);
/// "cpu", "cuda:0"
std::string device_name(const TensorMeta& meta);
/// Sets the device by its name; false where it is no such text.
bool set_device(TensorMeta& meta, std::string_view name);
/// TorchScript's names: Float, Double, Half, BFloat16, Byte, Char, Short, Int, Long, Bool, ComplexFloat, ComplexDouble, UInt64.
std::string_view torch_name(DType t);

} // namespace tenon
