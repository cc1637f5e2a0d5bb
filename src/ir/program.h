// A program as loaded: the ATen graph, its calling convention, its weights. What the first pass starts from.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tenon/signature.h"
#include "tenon/tree.h"

namespace tenon {

enum class InputKind : uint8_t { User, Parameter, Buffer, Constant, Object, Token, Fixed };

/// One input of the signature. Fixed inputs (None, strings, numbers fixed at export) have a value instead of a parameter.
struct ProgramInput {
  InputKind kind = InputKind::User;
  std::string name;   // the argument's name
  std::string target; // parameters, buffers, constants, objects: the fully qualified name
  ValueId value = {}; // the graph's parameter; invalid for Fixed, and for what lift_weights made constants
  Arg fixed = {};
  bool persistent = true; // buffers: in the state dict
};

enum class OutputKind : uint8_t {
  User,
  Loss,
  BufferMutation,
  ParameterMutation,
  InputMutation,
  GradientToParameter,
  GradientToInput,
  Token
};

/// One output of the signature, parallel to the returns of the graph's top block.
struct ProgramOutput {
  OutputKind kind = OutputKind::User;
  std::string target = {}; // mutations, gradients: the weight's qualified name, or the input's name
  /// Of an Edge graph's user outputs whose memory is not row-major: the result's dims in the order of its memory, outermost first. The
  /// graph returns it permuted so.
  std::vector<int> order = {};

  bool writes_state() const { return kind == OutputKind::BufferMutation || kind == OutputKind::ParameterMutation; }
  bool is_mutation() const { return writes_state() || kind == OutputKind::InputMutation; }
  bool is_returned() const { return !is_mutation() && kind != OutputKind::Token; }
};

struct LoadedProgram {
  std::string name;
  std::string torch_version;
  std::string fingerprint; // tells programs apart by what they hold; empty: not known
  Graph graph;
  bool is_edge = false; // to_edge has run, or the graph was given in that dialect
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::map<std::string, Tensor> weights; // by qualified name; zero-copy over the archive
  Tree in_spec, out_spec;                // an ArgInfo in the place of each leaf; None: not told
  std::vector<std::string> forward_arg_names;
  std::vector<ir::ModuleCall> module_calls;
  std::string named_tuples;                  // JSON: the fields of each named tuple in specs
  std::vector<std::string> kernels;          // of users, to be chosen where they fit (Options::kernels)
  std::vector<std::string> notes;            // what explain says of them
  std::map<std::string, int64_t> hints;      // of symbols: the sizes of the export's example
  std::vector<std::string> guards;           // Python expressions over L['arg'].size()
  std::shared_ptr<void> mapping;             // keeps the archive's memory
  std::span<const std::byte> file;           // the archive, where it is a mapped file: pages dropped come back from there
  std::span<const std::byte> example_inputs; // a torch.save archive; empty where there is none
};

} // namespace tenon
