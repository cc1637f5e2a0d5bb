// A program's graph, to read and to change: SSA whose nodes own blocks, in the shape of TorchScript's IR, with what torch.fx says of a
// node. Program::graph gives one, Program::transform takes passes over one (pass.h).
#pragma once
#include <complex>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/tensor.h"

// Methods are spelled as those of TorchScript's Graph, Node and Value are (addInput, replaceAllUsesWith): whoever has written passes for
// it, or reads its documents, finds them here.
namespace tenon::ir {

class Graph;
class Block;
class Node;

/// torch's enumerations in arguments: "contiguous_format", "strided", "cpu".
struct Word {
  std::string text;
  bool operator==(const Word&) const = default;
};

/// A size or number that may depend on the program's inputs: its text over their symbols, "s77*2 + 1", and its value where it is known.
struct Size {
  std::string text;
  std::optional<int64_t> number;

  Size(std::integral auto v) : text(std::to_string(v)), number(static_cast<int64_t>(v)) {}
  Size(std::string text) : text(std::move(text)) {}
  Size(const char* text) : text(text) {}
  bool operator==(const Size& other) const { return text == other.text; }
};

struct TENON_API Type {
  enum class Kind : uint8_t { Tensor, Int, Float, Bool, String, None, Custom };
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;       ///< of tensors
  std::vector<Size> sizes = {};   ///< of tensors
  std::vector<Size> strides = {}; ///< of tensors, in elements; empty: row-major
  std::optional<Size> value = {}; ///< of numbers, where it is known

  static Type tensor(DType dtype, std::vector<Size> sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }
  bool operator==(const Type&) const = default;
  /// As Graph::toString writes it: "Float(s77, 768)".
  std::string str() const;
};

/// A value of the graph; a small handle, like Node and Block, that is good while the Graph lives, wherever it is moved. A default one is
/// none, and false. Methods throw Error(BadInput) for what does not fit, naming the node.
class TENON_API Value {
public:
  struct Use;

  Value() = default;
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Value&) const = default;

  Type type() const;
  /// What makes it: a node, or the placeholder of a block's parameter.
  Node node() const;
  /// Its place among the outputs of node().
  size_t offset() const;
  bool requiresGrad() const;         ///< of tensors, as exported; nothing is recorded for gradients
  std::string device() const;        ///< of tensors, as exported: "cpu", "cuda:0"
  std::vector<int> dimOrder() const; ///< of tensors: dims in the order of memory, outermost first; empty: row-major, or with gaps
  std::string name() const;          ///< as printed, without %; unique in the graph
  void setName(std::string name) const;
  /// Nodes that take it, those in inner blocks and outputs of blocks included.
  std::vector<Use> uses() const;
  bool hasUses() const;
  /// Both must be of one kind, dtype and rank.
  void replaceAllUsesWith(Value other) const;
  Graph& owningGraph() const;

private:
  friend struct Access;
  Value(struct GraphImpl* impl, uint32_t id) : impl_(impl), id_(id) {}
  struct GraphImpl* impl_ = nullptr;
  uint32_t id_ = 0;
};

/// An argument: None, a value, a constant, or a list of arguments.
struct TENON_API Arg {
  using List = std::vector<Arg>;
  std::variant<std::monostate, Value, bool, int64_t, double, std::complex<double>, std::string, DType, Word, Size, Tensor, List> v;

  Arg() = default;
  Arg(Value x) : v(x) {}
  Arg(std::same_as<bool> auto x) : v(x) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Arg(T x) : v(static_cast<int64_t>(x)) {}
  Arg(std::floating_point auto x) : v(static_cast<double>(x)) {}
  Arg(std::complex<double> x) : v(x) {}
  Arg(const char* x) : v(std::string(x)) {}
  Arg(std::string x) : v(std::move(x)) {}
  Arg(DType x) : v(x) {}
  Arg(Word x) : v(std::move(x)) {}
  Arg(Size x) : v(std::move(x)) {}
  Arg(Tensor x) : v(std::move(x)) {}
  Arg(List x) : v(std::move(x)) {}
  template <class T> Arg(const std::vector<T>& list) : v(List(list.begin(), list.end())) {}

  bool isNone() const { return v.index() == 0; }
  template <class T> bool is() const { return std::holds_alternative<T>(v); }
  /// Throws Error(BadInput) where it is something else.
  template <class T> const T& get() const {
    if (auto* p = std::get_if<T>(&v)) return *p;
    wrongKind();
  }

private:
  [[noreturn]] static void wrongKind();
};

struct NamedArg {
  std::string name;
  Arg value;
};

/// A node: the call of an operator; and, with the kinds prim::Param and prim::Return, what torch.fx calls placeholder and output: each
/// parameter of a block, and what the block gives.
class TENON_API Node {
public:
  Node() = default;
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Node&) const = default;

  std::string kind() const; ///< the operator: "aten::add.Tensor", "prim::If"
  /// As torch.fx tells it: placeholder, call_function, get_attr (a constant tensor), output; "torch.ops.aten.add.Tensor".
  std::string op() const;
  std::string target() const;
  /// That of its result; of several, that of the operator.
  std::string name() const;
  /// "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; empty for operators that are not known here.
  std::string schema() const;

  /// All arguments in the schema's order, with its defaults. Where the operator is not known they have no names.
  std::vector<NamedArg> arguments() const;
  /// As torch.fx writes the call: positional ones, without the defaults at their end; those given by keyword, without defaults.
  std::vector<Arg> args() const;
  std::vector<NamedArg> kwargs() const;
  Arg arg(std::string_view name) const;
  void setArg(std::string_view name, Arg value) const;
  std::vector<NamedArg> attributes() const;
  /// A number, text, dtype or list of one kind of these, for the function of a custom operator to read (tenon_op_call::attributes).
  void setAttribute(std::string_view name, Arg value) const;

  /// The values among the arguments, in order, those in lists included.
  std::vector<Value> inputs() const;
  std::vector<Value> outputs() const;
  Value input(size_t i) const { return inputs().at(i); }
  Value output(size_t i = 0) const { return outputs().at(i); }
  Value namedInput(std::string_view name) const;
  /// Whether the argument is no value, or that of a constant; get gives it then.
  bool is_constant(std::string_view name) const;
  std::optional<Arg> get(std::string_view name) const;
  template <class T> std::optional<T> get(std::string_view name) const {
    std::optional<Arg> a = get(name);
    return a && a->is<T>() ? std::optional<T>(a->get<T>()) : std::nullopt;
  }

  /// To the list argument that is the last of the node's, or that input number `offset` stands in.
  Value addInput(Value value) const;
  Value insertInput(size_t offset, Value value) const;
  /// Gives the value that was there.
  Value replaceInput(size_t offset, Value value) const;
  void replaceInputWith(Value from, Value to) const;
  Value addOutput(const Type& type) const;
  Value insertOutput(size_t offset, const Type& type) const;
  void eraseOutput(size_t offset) const; ///< which nothing may use
  std::vector<Block> blocks() const;
  Block addBlock() const;
  void eraseBlock(size_t offset) const;
  /// Takes it out of the graph; nothing may use its outputs. Handles to it and to them are good for nothing then.
  void destroy() const;
  void moveBefore(Node other) const;
  void moveAfter(Node other) const;
  Block owningBlock() const;
  Graph& owningGraph() const;

  /// What the export recorded: stack_trace, nn_module_stack, source_fn_stack, torch_fn; those that are not there left out.
  std::vector<std::pair<std::string, std::string>> meta() const;
  std::string meta(std::string_view key) const; ///< "" where it is not there
  /// The line of the model's own source, `File "model.py", line 12, in forward`: the innermost frame that is not torch's.
  std::string sourceFrame() const;

  std::string toString() const;
  void dump() const; ///< to stdout

private:
  friend struct Access;
  enum class Role : uint8_t { Call, Param, Return };
  Node(struct GraphImpl* impl, Role role, uint32_t id) : impl_(impl), role_(role), id_(id) {}
  struct GraphImpl* impl_ = nullptr;
  Role role_ = Role::Call;
  uint32_t id_ = 0; // of the node; of the parameter's value; of the block
};

struct Value::Use {
  Node user;
  size_t offset; ///< among the user's inputs
};

/// A list of nodes with parameters and results.
class TENON_API Block {
public:
  Block() = default;
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Block&) const = default;

  std::vector<Value> inputs() const;
  /// What it gives; an empty Value in the place of a result that is none (a constant, None), which returns() tells.
  std::vector<Value> outputs() const;
  std::vector<Arg> returns() const;
  std::vector<Node> nodes() const;
  Value addInput(const Type& type, std::string name = {}) const;
  Value insertInput(size_t offset, const Type& type, std::string name = {}) const;
  void eraseInput(size_t offset) const; ///< which nothing may use
  size_t registerOutput(Arg value) const;
  void replaceOutput(size_t offset, Arg value) const;
  void eraseOutput(size_t offset) const;
  Node param_node(size_t i) const;
  Node return_node() const;
  Node owningNode() const; ///< none for the top-level block
  Graph& owningGraph() const;

private:
  friend struct Access;
  Block(struct GraphImpl* impl, uint32_t id) : impl_(impl), id_(id) {}
  struct GraphImpl* impl_ = nullptr;
  uint32_t id_ = 0;
};

/// A graph of one dialect: aten, edge or backend. It owns its blocks, nodes and values; a copy has its own. Not for several threads at
/// once; distinct graphs may be used from distinct threads.
class TENON_API Graph {
public:
  explicit Graph(std::string_view dialect = "aten");
  Graph(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph other) noexcept;
  ~Graph();

  std::string_view dialect() const;
  std::vector<Value> inputs() const { return block().inputs(); }
  std::vector<Value> outputs() const { return block().outputs(); }
  std::vector<Node> nodes() const { return block().nodes(); } ///< calls of the top-level block, in order
  /// As torch.fx lists them: placeholders, calls, output.
  std::vector<Node> fxNodes() const;
  Value addInput(const Type& type, std::string name = {}) { return block().addInput(type, std::move(name)); }
  Value insertInput(size_t offset, const Type& type, std::string name = {}) { return block().insertInput(offset, type, std::move(name)); }
  void eraseInput(size_t offset) { block().eraseInput(offset); }
  size_t registerOutput(Arg value) { return block().registerOutput(std::move(value)); }
  void eraseOutput(size_t offset) { block().eraseOutput(offset); }
  Block block() const;

  /// Calls an operator where the insert point is: "aten::add.Tensor", or "aten::add", whose overload the arguments choose. Constants may be
  /// given as they are: insert("aten::add", {some_value, 3}). Types of results come from the operator's row. In an Edge graph ATen calls
  /// become what Edge has for them: casts, tensors in the place of numbers, decompositions. Gives the only result.
  Value insert(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  /// The same, for all results.
  std::vector<Value> insertValues(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  /// The call as one node, as it stands. Nodes with blocks begin without any, and without outputs: addBlock, addOutput.
  Node insertNode(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  Value insertConstant(Tensor tensor, std::string name = {});
  /// Before a node, or at the end of a block; a new graph's is the end of block(). Nodes inserted have the metadata of the node they stand
  /// before.
  void setInsertPoint(Node before);
  void setInsertPoint(Block at_end);

  /// Removes calls whose results nothing uses. Gives whether there were any.
  bool eliminateDeadCode();
  /// Throws Error(BadInput) where the graph is none of its dialect: nodes out of order, arguments that do not fit their schema, types of
  /// results that are not the operator's, in the Edge dialect dtypes that the operator does not allow (tenon/edge.h).
  void lint() const;
  /// src/ir/parse.h has the grammar.
  std::string toString() const;
  void dump() const; ///< to stdout

  struct GraphImpl& impl() const { return *impl_; }
  explicit Graph(std::unique_ptr<struct GraphImpl> impl);

private:
  std::unique_ptr<struct GraphImpl> impl_;
};

} // namespace tenon::ir
