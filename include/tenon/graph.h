// A program's graph, to read and to change: SSA whose nodes own blocks, in the shape of TorchScript's IR, with what torch.fx says of a
// node. Program::graph gives one, Program::transform takes passes over one (pass.h); Script::graph and Script::from do for TorchScript
// (script.h).
#pragma once
#include <complex>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/type.h"

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

/// A value of the graph; a small handle, like Node and Block, that is good while the Graph lives, wherever it is moved. A default one is
/// none, and false. Methods throw Error(BadInput) for what does not fit, naming the node.
class TENON_API Value {
public:
  struct Use;

  Value() = default;
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Value&) const = default;

  Type type() const;
  /// Nothing is looked at; Graph::lint tells what does not go together.
  void setType(const Type& type) const;
  /// What makes it: a node, or the placeholder of a block's parameter.
  Node node() const;
  /// Its place among the outputs of node().
  size_t offset() const;
  bool requiresGrad() const;         ///< of tensors, as exported; nothing is recorded for gradients
  std::string device() const;        ///< of tensors, as exported: "cpu", "cuda:0"
  std::vector<int> dimOrder() const; ///< of tensors: dims in the order of memory, outermost first; empty: row-major, or with gaps
  std::string name() const;          ///< as printed, without %; unique in the graph
  void setName(std::string name) const;
  /// Nodes that take it, those in inner blocks and outputs of blocks included: kept with the value, not searched for.
  std::vector<Use> uses() const;
  bool hasUses() const;
  /// Both must be of one kind, dtype and rank; in TorchScript, the other one's type must be one for this one's.
  void replaceAllUsesWith(Value other) const;
  Graph& owningGraph() const;

private:
  friend struct Access;
  Value(struct GraphImpl* impl, uint32_t id) : impl_(impl), id_(id) {}
  struct GraphImpl* impl_ = nullptr;
  uint32_t id_ = 0;
};

/// An argument: None, a value, a constant, or a list of arguments. Graphs are attributes only.
struct TENON_API Arg {
  using List = std::vector<Arg>;
  std::variant<std::monostate, Value, bool, int64_t, double, std::complex<double>, std::string, DType, Word, Size, Tensor, List,
               std::shared_ptr<const Graph>>
      v;

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
  Arg(std::shared_ptr<const Graph> x) : v(std::move(x)) {}
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

  std::string kind() const; ///< the operator: "aten::add.Tensor", "prim::If"; in TorchScript without overload, "aten::add"
  /// As torch.fx tells it: placeholder, call_function, get_attr (a constant tensor), output; "torch.ops.aten.add.Tensor".
  std::string op() const;
  std::string target() const;
  /// That of its result; of several, that of the operator.
  std::string name() const;
  /// "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor": in TorchScript, that of the overload for the types of the
  /// arguments. Empty for operators that are not known here.
  std::string schema() const;

  /// All arguments in the schema's order, with its defaults. Where the operator is not known they have no names.
  std::vector<NamedArg> arguments() const;
  /// As torch.fx writes the call: positional ones, without the defaults at their end; those given by keyword, without defaults.
  std::vector<Arg> args() const;
  std::vector<NamedArg> kwargs() const;
  Arg arg(std::string_view name) const;
  void setArg(std::string_view name, Arg value) const;
  std::vector<NamedArg> attributes() const;
  /// A number, text, dtype or list of one kind of these, for the function of a custom operator to read (tenon_op_call::attributes); in
  /// TorchScript also a tensor, a graph, or a list of these.
  void setAttribute(std::string_view name, Arg value) const;
  bool hasAttribute(std::string_view name) const;
  void removeAttribute(std::string_view name) const;
  /// Under TorchScript's names: int, float, text, tensor, graph, and lists of them. Each throws where there is no attribute of that name,
  /// or it is of another kind.
  int64_t i(std::string_view name) const;
  double f(std::string_view name) const;
  std::string s(std::string_view name) const;
  Tensor t(std::string_view name) const;
  std::shared_ptr<const Graph> g(std::string_view name) const;
  std::vector<int64_t> is(std::string_view name) const;
  std::vector<double> fs(std::string_view name) const;
  std::vector<std::string> ss(std::string_view name) const;
  std::vector<Tensor> ts(std::string_view name) const;
  std::vector<std::shared_ptr<const Graph>> gs(std::string_view name) const;
  /// node.i_("dim", 1).f_("scale", 0.5)
  Node i_(std::string_view name, int64_t v) const { return setAttribute(name, v), *this; }
  Node f_(std::string_view name, double v) const { return setAttribute(name, v), *this; }
  Node s_(std::string_view name, std::string v) const { return setAttribute(name, std::move(v)), *this; }
  Node t_(std::string_view name, Tensor v) const { return setAttribute(name, std::move(v)), *this; }
  Node g_(std::string_view name, std::shared_ptr<const Graph> v) const { return setAttribute(name, std::move(v)), *this; }
  Node is_(std::string_view name, const std::vector<int64_t>& v) const { return setAttribute(name, v), *this; }
  Node fs_(std::string_view name, const std::vector<double>& v) const { return setAttribute(name, v), *this; }
  Node ss_(std::string_view name, const std::vector<std::string>& v) const { return setAttribute(name, v), *this; }
  Node ts_(std::string_view name, const std::vector<Tensor>& v) const { return setAttribute(name, v), *this; }
  Node gs_(std::string_view name, const std::vector<std::shared_ptr<const Graph>>& v) const { return setAttribute(name, v), *this; }

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

  /// To the list argument that is the last of the node's, or that input number `offset` stands in; in TorchScript, to the arguments.
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
  /// Nothing is looked at but that a node is not moved into a block of its own; Graph::lint tells of values that stand behind their uses.
  void moveBefore(Node other) const;
  void moveAfter(Node other) const;
  Block owningBlock() const;
  Graph& owningGraph() const;

  /// What the export recorded: stack_trace, nn_module_stack, source_fn_stack, torch_fn; those that are not there left out.
  std::vector<std::pair<std::string, std::string>> meta() const;
  std::string meta(std::string_view key) const; ///< "" where it is not there
  /// The line of the model's own source, `File "model.py", line 12, in forward`: the innermost frame that is not torch's.
  std::string sourceFrame() const;

  /// Graph::propagateTypes for this node alone, of a script graph.
  void inferTypes() const;

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

/// Where nodes are inserted: before a node, or, where that is none, at the end of a block.
struct InsertPoint {
  Block block;
  Node before;
};

/// A graph of one dialect: aten, edge or backend of exported programs, or script, that of TorchScript. In a script graph operators have no
/// overloads, all arguments are values, and constants are nodes prim::Constant with an attribute `value`. It owns its blocks, nodes and
/// values; a copy has its own. Not for several threads at once; distinct graphs may be used from distinct threads.
class TENON_API Graph {
public:
  explicit Graph(std::string_view dialect = "aten");
  /// A script graph from TorchScript's text, as torch prints it or in the spelling of 2018. Throws Error(BadInput) with line and column.
  static Graph parse(std::string_view text);
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
  /// become what Edge has for them: casts, tensors in the place of numbers, decompositions. In a script graph constants become nodes, and
  /// arguments are converted as TorchScript converts them. Gives the only result.
  Value insert(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  /// The same, for all results.
  std::vector<Value> insertValues(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  /// The call as one node, as it stands. Nodes with blocks begin without any, and without outputs: addBlock, addOutput. So do, in a script
  /// graph, operators that are not known here.
  Node insertNode(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs = {});
  Value insertConstant(Tensor tensor, std::string name = {});
  /// In a script graph: any constant, None included; lists by prim::ListConstruct.
  Value insertConstant(const Arg& constant);
  /// Before a node, or at the end of a block; a new graph's is the end of block(). Nodes inserted have the metadata of the node they stand
  /// before.
  void setInsertPoint(Node before);
  void setInsertPoint(Block at_end);
  void setInsertPoint(InsertPoint point);
  InsertPoint insertPoint() const;

  /// Removes calls whose results nothing uses, and which have no effects. Gives whether there were any.
  bool eliminateDeadCode();
  /// Shape analysis of a script graph: types of all values from those of the inputs (Value::setType) and from constants, through branches
  /// and loops; what is not known becomes Tensor, or Float(*, 3). Nodes that are inserted get theirs at once. Throws as lint does. Gives
  /// whether a type has changed.
  bool propagateTypes();
  /// Throws Error(BadInput) where the graph is none of its dialect: nodes out of order, arguments that do not fit their schema, types of
  /// results that are not the operator's, in the Edge dialect dtypes that the operator does not allow (tenon/edge.h).
  void lint() const;
  /// src/ir/parse.h has the grammar; of script graphs, TorchScript's text, which parse() reads back.
  std::string toString() const;
  /// A script graph in the spelling of 2018: Dynamic, Tuple, braces.
  std::string toString2018() const;
  void dump() const; ///< to stdout

  struct GraphImpl& impl() const { return *impl_; }
  explicit Graph(std::unique_ptr<struct GraphImpl> impl);

private:
  std::unique_ptr<struct GraphImpl> impl_;
};

/// While it lives, nodes are inserted elsewhere; then where they were before.
class TENON_API WithInsertPoint {
public:
  explicit WithInsertPoint(Node before) : WithInsertPoint(before.owningGraph(), {before.owningBlock(), before}) {}
  explicit WithInsertPoint(Block at_end) : WithInsertPoint(at_end.owningGraph(), {at_end, {}}) {}
  WithInsertPoint(const WithInsertPoint&) = delete;
  WithInsertPoint& operator=(const WithInsertPoint&) = delete;
  ~WithInsertPoint();

private:
  WithInsertPoint(Graph& graph, const InsertPoint& point);
  struct GraphImpl& impl_;
  InsertPoint before_;
};

} // namespace tenon::ir
