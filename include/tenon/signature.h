// What a program says of its inputs, outputs and sizes: torch's ExportGraphSignature, range constraints, module call graph.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/graph.h"

namespace tenon::ir {

enum class InputKind : uint8_t { UserInput, Parameter, Buffer, ConstantTensor, CustomObj, Token };
enum class OutputKind : uint8_t {
  UserOutput,
  LossOutput,
  BufferMutation,
  ParameterMutation,
  UserInputMutation,
  GradientToParameter,
  GradientToUserInput,
  Token
};
/// As torch spells them: "user_input", "gradient_to_parameter".
TENON_API std::string_view name_of(InputKind kind);
TENON_API std::string_view name_of(OutputKind kind);

struct InputSpec {
  InputKind kind = InputKind::UserInput;
  std::string name;              ///< of the placeholder
  std::string target = {};       ///< the qualified name of a parameter, buffer, constant or object
  bool persistent = false;       ///< of buffers: whether it is in the state dict
  std::optional<Arg> fixed = {}; ///< a user's input that was fixed at export: its value
};

struct OutputSpec {
  OutputKind kind = OutputKind::UserOutput;
  std::string name;        ///< of the value; empty for constants
  std::string target = {}; ///< what is mutated, or has the gradient: a qualified name, or that of an input
};

/// The flat inputs and outputs of the graph as the export gave them, in order.
struct TENON_API GraphSignature {
  std::vector<InputSpec> input_specs;
  std::vector<OutputSpec> output_specs;

  using Names = std::vector<std::string>;
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  Names parameters() const; ///< qualified names, as buffers and the like
  Names buffers() const;
  Names non_persistent_buffers() const;
  Names lifted_tensor_constants() const;
  Names lifted_custom_objs() const;
  Names user_inputs() const; ///< names of placeholders
  Names user_outputs() const;
  Pairs inputs_to_parameters() const; ///< placeholder and qualified name
  Pairs inputs_to_buffers() const;
  Pairs inputs_to_lifted_tensor_constants() const;
  Pairs buffers_to_mutate() const; ///< the value that it becomes, and the qualified name
  Pairs parameters_to_mutate() const;
  Pairs user_inputs_to_mutate() const;
  Pairs gradients_to_parameters() const;
  Pairs gradients_to_user_inputs() const;
  std::optional<std::string> loss_output() const;
};

/// The values that a symbol of the program may have, both included; none: no bound.
struct RangeConstraint {
  std::string symbol;
  std::optional<int64_t> min_val, max_val;
};

/// A dimension of an input of the graph.
struct InputDim {
  std::string input_name;
  size_t dim = 0;
  bool operator==(const InputDim&) const = default;
};
/// Two that have the same size always.
using EqualityConstraint = std::pair<InputDim, InputDim>;

/// A module of the source, and how it is called where the export kept that. Specs are pytrees in torch's JSON.
struct ModuleCall {
  std::string fqn; ///< "" for the program itself
  bool has_signature = false;
  std::vector<std::string> inputs = {}, outputs = {}; ///< values of the graph that it takes and gives; constants by their text
  std::string in_spec = {}, out_spec = {};
  std::vector<std::string> forward_arg_names = {};
};

} // namespace tenon::ir
