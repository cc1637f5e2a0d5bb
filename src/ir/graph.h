// Graph, Block, Node, Value: SSA in the shape of TorchScript's IR. Everything is an id into an arena of the Graph, so a
// Graph can be copied, compared and printed deterministically. A node's arguments stand in its schema's order; each is a
// value or an immediate, so constants need no nodes of their own. Nodes own blocks (prim::If, prim::Loop, regions).
#pragma once
#include <complex>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/scaled_tensor.h"
#include "ir/op_id.h"
#include "ir/origin.h"
#include "ir/type.h"

namespace tenon {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using BlockId = Id<struct BlockTag>;
using TensorId = Id<struct TensorTag>; // a constant tensor held by the graph

struct OpDef;
struct Arg;
class Graph;
using ArgList = std::vector<Arg>;
using GraphP = std::shared_ptr<const Graph>;

/// torch's enumerations in arguments: "contiguous_format", "strided", "cpu".
struct Word {
  std::string text;
  bool operator==(const Word&) const = default;
};

/// An argument: a value, an immediate, or a list of these. Integers and booleans that depend on sizes are Exprs. Graphs are attributes
/// only.
struct Arg {
  std::variant<std::monostate, ValueId, bool, int64_t, double, std::complex<double>, std::string, DType, Word, Expr, TensorId, ArgList,
               GraphP>
      v;

  Arg() = default;
  Arg(ValueId x) : v(x) {}
  Arg(bool x) : v(x) {}
  Arg(int x) : v(int64_t{x}) {}
  Arg(int64_t x) : v(x) {}
  Arg(double x) : v(x) {}
  Arg(std::complex<double> x) : v(x) {}
  Arg(const char* x) : v(std::string(x)) {}
  Arg(std::string x) : v(std::move(x)) {}
  Arg(DType x) : v(x) {}
  Arg(Word x) : v(std::move(x)) {}
  Arg(Expr x);
  Arg(TensorId x) : v(x) {}
  Arg(ArgList x) : v(std::move(x)) {}
  Arg(GraphP x) : v(std::move(x)) {}
  template <class T> Arg(const std::vector<T>& list) : v(ArgList(list.begin(), list.end())) {}
  Arg(std::initializer_list<int64_t> list) : v(ArgList(list.begin(), list.end())) {}

  bool is_none() const { return v.index() == 0; }
  template <class T> bool is() const { return std::holds_alternative<T>(v); }
  template <class T> const T& get() const {
    if (auto* p = std::get_if<T>(&v)) return *p;
    wrong_kind();
  }
  bool operator==(const Arg&) const = default;
  [[noreturn]] static void wrong_kind(); ///< throws BadInput
};

/// Calls f on every value in `arg`, lists included.
template <class F> void for_each_value(const Arg& arg, F&& f) {
  if (auto* id = std::get_if<ValueId>(&arg.v)) f(*id);
  else if (auto* list = std::get_if<ArgList>(&arg.v))
    for (const Arg& a : *list) for_each_value(a, f);
}
/// The same argument with every value replaced by f(value).
template <class F> Arg map_values(const Arg& arg, F&& f) {
  if (auto* id = std::get_if<ValueId>(&arg.v)) return f(*id);
  auto* list = std::get_if<ArgList>(&arg.v);
  if (!list) return arg;
  ArgList out;
  out.reserve(list->size());
  for (const Arg& a : *list) out.push_back(map_values(a, f));
  return out;
}

struct Value {
  Type type;
  NodeId node;           // invalid for parameters of blocks
  uint32_t index = 0;    // among the node's outputs, or the block's parameters
  std::string name = {}; // a hint for printing
  TensorMeta meta = {};
};

struct Attribute {
  std::string name;
  Arg value;
  bool operator==(const Attribute&) const = default;
};

struct Node {
  OpId op;                    // "aten::add.Tensor", "prim::If"
  const OpDef* def = nullptr; // its row; null where no row has that name
  ArgList args = {};          // in schema order, defaults filled in
  std::vector<Attribute> attributes = {};
  std::vector<ValueId> outputs = {};
  std::vector<BlockId> blocks = {};
  std::shared_ptr<const Origin> origin = {};

  const Arg* attribute(std::string_view name) const {
    for (auto& a : attributes)
      if (a.name == name) return &a.value;
    return nullptr;
  }
};

struct Block {
  std::vector<ValueId> params = {};
  std::vector<NodeId> nodes = {};
  ArgList returns = {};
  NodeId owner = {};
};

class Graph {
public:
  explicit Graph(std::shared_ptr<ExprPool> pool = std::make_shared<ExprPool>());
  /// A copy has expressions of its own, in a pool of its own: threads may change, print and run copies of one graph at once.
  Graph(const Graph& other) : Graph(other, {}) {}
  /// The same where symbols, by their names, have values.
  Graph(const Graph& other, const std::map<std::string, int64_t>& symbols);
  Graph& operator=(const Graph& other) { return *this = Graph(other); }
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  ExprPool& pool() const { return *pool_; }
  const std::shared_ptr<ExprPool>& shared_pool() const { return pool_; }
  BlockId top() const { return BlockId{0}; }
  Block& block(BlockId id) { return blocks_[id]; }
  const Block& block(BlockId id) const { return blocks_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Type& type(ValueId id) const { return values_[id].type; }
  const Tensor& tensor(TensorId id) const {
    settle(tensors_[id]);
    return tensors_[id];
  }
  /// The tensor as the graph holds it: its elements may still be to be computed (base/scaled_tensor.h).
  const Tensor& stored(TensorId id) const { return tensors_[id]; }
  size_t num_values() const { return values_.size(); }
  size_t num_nodes() const { return nodes_.size(); }

  BlockId add_block(NodeId owner);
  ValueId add_param(BlockId block, Type type, std::string name = {});
  /// Appends a node to the block; its outputs get the given types.
  NodeId append(BlockId block, Node node, std::vector<Type> output_types, std::vector<std::string> output_names = {});
  /// One more output of a node.
  ValueId add_output(NodeId node, Type type, std::string name = {});
  TensorId add_tensor(Tensor tensor) { return tensors_.add(std::move(tensor)); }
  size_t num_tensors() const { return tensors_.size(); }
  /// Constants keep their types and lose their memory.
  void forget_tensors() {
    for (uint32_t i = 0; i < num_tensors(); i++) tensors_[TensorId{i}] = {};
  }

  /// The constant tensor that produces the value (prim::Constant), or null.
  const Tensor* constant(ValueId id) const;
  /// The same, as the graph holds it.
  const Tensor* stored_constant(ValueId id) const;

private:
  std::shared_ptr<ExprPool> pool_;
  Arena<NodeId, Node> nodes_;
  Arena<ValueId, Value> values_;
  Arena<BlockId, Block> blocks_;
  Arena<TensorId, Tensor> tensors_;
};

/// Canonical text; parse_graph of ir/parse.h reads it back.
std::string to_string(const Graph& graph);
std::string to_string(const Graph& graph, NodeId node);
std::string to_string(const Graph& graph, const Arg& arg);

/// Values used anywhere in `node`: arguments, and values of outer blocks that its blocks use.
void for_each_use(const Graph& graph, NodeId node, const std::function<void(ValueId)>& f);

} // namespace tenon
