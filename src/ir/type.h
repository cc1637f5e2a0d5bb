// Types of values. Sizes and strides are expressions, so one type describes every size a program accepts.
#pragma once
#include <string>
#include <vector>

#include "expr/expr.h"

namespace tenon {

enum class TypeKind : uint8_t { Tensor, Int, Float, Bool, String, None, Custom };

struct Type {
  TypeKind kind = TypeKind::Tensor;
  DType dtype = DType::F32;       // Tensor
  std::vector<Expr> sizes = {};   // Tensor
  std::vector<Expr> strides = {}; // Tensor, in elements; empty: row-major
  Expr value = {};                // Int, Float, Bool: the value as an expression, where known

  static Type tensor(DType dtype, std::vector<Expr> sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }
  static Type scalar(TypeKind kind, Expr value = {}) { return {.kind = kind, .value = value}; }
  bool is_tensor() const { return kind == TypeKind::Tensor; }
  size_t rank() const { return sizes.size(); }
  bool operator==(const Type&) const = default;
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

/// "Float(s77, 768)", "Long(2, 3, strides=[1, 2])", "int{s77*2}", "float", "str", "NoneType".
std::string to_string(const Type& type);
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
