// Operator schemas, parsed from ATen's text: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tenon {

enum class ArgType : uint8_t {
  Tensor,
  Scalar,
  Int,
  Float,
  Bool,
  String,
  DType,
  Layout,
  MemoryFormat,
  Device,
  Generator,
  Complex,
  Custom,
  Any
};

struct SchemaArg {
  std::string name;
  ArgType type = ArgType::Tensor;
  bool list = false, optional = false, optional_elements = false, keyword_only = false;
  int fixed_length = 0;   // of "int[2]"; one number stands for all
  std::string alias = {}; // "a" of Tensor(a) and Tensor(a!)
  bool written = false;   // Tensor(a!)
  bool has_default = false;
  Arg fallback = {};                     // the default
  std::shared_ptr<const Type> full = {}; // of type Any: what the fields above cannot say, as Dict(str, t), (int, int)[]
};

struct Schema {
  std::string name; // "aten::add.Tensor"; the overload "default" is left out of no name: "aten::relu" is written aten::relu.default
  std::vector<SchemaArg> args;
  std::vector<SchemaArg> returns;
  bool variadic_result = false; // returns Tensor[]: as many outputs as the list has
  bool any_args = false;        // "...": any arguments behind those named
  bool any_returns = false;     // "-> ..."

  int find(std::string_view arg) const; // -1 where there is none
  bool mutates() const;                 // some argument is written
};

/// The type of an argument or result as TorchScript has it: what torch enumerates (ScalarType, Layout, MemoryFormat) is an int.
Type type_of(const SchemaArg& arg);

/// Everything that torch's FunctionSchema parses. Throws Error(BadInput) with the position of what is wrong.
Schema parse_schema(std::string_view text);
std::string to_string(const Schema& schema);

} // namespace tenon
