// Types of a graph's values.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

/// Exported programs have tensors and numbers; the kinds behind Custom are those of TorchScript.
enum class TypeKind : uint8_t {
  Tensor, ///< of a dtype and a rank
  Int,
  Float,
  Bool,
  String,
  None,
  Custom,
  Dynamic, ///< a tensor of which no more is known
  Number,  ///< int, float, complex or bool
  Complex,
  Device,
  Generator,
  Any,
  Function,
  World,    ///< the token that orders effects in the IR of 2018
  List,     ///< elements: one
  Dict,     ///< elements: key, value
  Tuple,    ///< named tuples have a name and names of fields; that of 2018, of which nothing is known, is named "Tuple"
  Optional, ///< elements: what it is where it is not None
  Union,    ///< elements: the alternatives
  Object,   ///< by its name
  Variable, ///< of schemas: "t"
};

} // namespace tenon

namespace tenon::ir {

/// A size or number that may depend on the program's inputs: its text over their symbols, "s77*2 + 1", and its value where it is known. "*"
/// is a size of which nothing is known, as in Float(*, 3) of TorchScript.
struct Size {
  std::string text;
  std::optional<int64_t> number;

  Size(std::integral auto v) : text(std::to_string(v)), number(static_cast<int64_t>(v)) {}
  Size(std::string text) : text(std::move(text)) {}
  Size(const char* text) : text(text) {}
  bool operator==(const Size& other) const { return text == other.text; }
};

/// What is known of a value; fields that do not belong to its kind are empty.
struct TENON_API Type {
  using Kind = TypeKind;
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;       ///< of tensors
  std::vector<Size> sizes = {};   ///< of tensors
  std::vector<Size> strides = {}; ///< of tensors, in elements; empty: row-major
  std::optional<Size> value = {}; ///< of numbers, where it is known
  std::vector<Type> elements = {};
  std::string name = {};
  std::vector<std::string> fields = {};
  bool requires_grad = false; ///< of tensors
  std::string device = "cpu"; ///< of tensors: "cpu", "cuda:0"

  static Type tensor(DType dtype, std::vector<Size> sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }
  /// Float(*, *): dtype and rank are known.
  static Type partial(DType dtype, size_t rank) { return {.dtype = dtype, .sizes = std::vector<Size>(rank, Size("*"))}; }
  static Type dynamic() { return {.kind = Kind::Dynamic}; }
  static Type simple(Kind kind) { return {.kind = kind}; }
  static Type list(Type element) { return {.kind = Kind::List, .elements = {std::move(element)}}; }
  static Type dict(Type key, Type value) { return {.kind = Kind::Dict, .elements = {std::move(key), std::move(value)}}; }
  static Type tuple(std::vector<Type> elements, std::string name = {}, std::vector<std::string> fields = {}) {
    return {.kind = Kind::Tuple, .elements = std::move(elements), .name = std::move(name), .fields = std::move(fields)};
  }
  static Type optional(Type type) { return {.kind = Kind::Optional, .elements = {std::move(type)}}; }
  /// TorchScript's text of one: "Float(2, *)", "int[]", "Dict(str, Tensor)", "(int, Tensor)", "float?", "Dynamic". Throws Error(BadInput).
  static Type parse(std::string_view text);

  bool isTensor() const { return kind == Kind::Tensor || kind == Kind::Dynamic; }
  bool operator==(const Type&) const = default;
  /// As Graph::toString writes it: "Float(s77, 768)", "Dict(str, Tensor)".
  std::string str() const;
};

} // namespace tenon::ir
