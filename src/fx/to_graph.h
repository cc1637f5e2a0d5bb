// FX graphs as SSA: arguments in schema order, types as recorded or by the rows, results of tuples by operator.getitem, nodes that only
// compute sizes as expressions, higher-order operators as nodes with blocks.
#pragma once
#include <map>
#include <span>

#include "fx/graph.h"
#include "ir/op.h"
#include "ir/program.h"

namespace tenon {

/// Converts one FX graph into a block of `graph`, which shares its pool. Errors are BadInput that name the node, and Unsupported.
class ToGraph {
public:
  ToGraph(Graph& graph, const FxGraph& fx);

  /// The placeholders, in order.
  std::vector<uint32_t> placeholders() const;
  /// A placeholder as a parameter of the block, of the type recorded; where none is, of `otherwise`.
  ValueId add_param(BlockId block, uint32_t node, const Type* otherwise = nullptr);
  /// A placeholder that stands for `value`. One that is a number with a known expression stays that expression.
  void bind(uint32_t node, const Arg& value);
  /// All nodes but placeholders.
  void add_nodes(BlockId block) { add_range(block, all_nodes()); }
  /// What the graph returns, one Arg a result.
  ArgList results() const;

private:
  using Nodes = std::vector<uint32_t>;

  /// Of a graph that a node of `outer` runs.
  ToGraph(const ToGraph& outer, const FxGraph& fx);

  const FxNode& node(uint32_t at) const { return fx_.nodes[at]; }
  Nodes all_nodes() const;
  Arg resolve(const Arg& arg) const;
  Arg argument(const FxNode& n, size_t i) const;
  ArgList operands(const FxNode& n, size_t first) const;
  const FxGraph& module_of(const FxNode& n, size_t i) const;

  void add_node(BlockId block, uint32_t at);
  void convert(BlockId block, uint32_t at);
  void add_constant(BlockId block, uint32_t at);
  void add_subclass_part(BlockId block, uint32_t at);
  void append_constant(BlockId block, uint32_t at, const Tensor& value);
  void take_item(uint32_t at);
  void add_operator(BlockId block, uint32_t at, const std::string& op);
  bool take_apart(BlockId block, uint32_t at, const OpDef& def, const ArgList& args);
  void add_call(BlockId block, uint32_t at, const std::string& op, size_t first_arg, size_t first_output);
  NodeId append(BlockId block, Node made, uint32_t at, size_t first_output = 0);
  std::vector<Type> output_types(const FxNode& n, const Node& made, size_t first) const;
  ArgList schema_args(const std::string& name, const OpDef& def, std::span<const Arg> args, std::span<const Attribute> kwargs) const;
  Arg size_or_word(const Arg& arg) const;
  Arg converted(const SchemaArg& schema, const Arg& arg) const;
  void correct_types(const Node& made, std::vector<Type>& types) const;
  void correct_type(Type& now, const Type& right) const;
  void cast_operands(BlockId block, const OpDef* op, ArgList& args);

  bool add_symbolic(BlockId block, uint32_t at, const std::string& op);
  void check_dtype(uint32_t at) const;
  bool add_check(BlockId block, uint32_t at, const std::string& op);
  void add_item(BlockId block, uint32_t at);
  void read_item(BlockId block, uint32_t at);
  std::optional<Expr> size_of(const FxNode& n, const std::string& op) const;
  const std::string* reads_item(uint32_t at) const;
  Arg unproved(BlockId block, const Arg& condition);
  std::optional<Expr> computed(const FxNode& n, const std::map<uint32_t, Expr>& items) const;

  const OpDef* functional_overload(const FxNode& n, const std::string& op, size_t& written) const;
  bool add_out_overload(BlockId block, uint32_t at, const std::string& op);

  bool add_control_flow(BlockId block, uint32_t at, const std::string& op);
  void add_if(BlockId block, uint32_t at);
  void add_while(BlockId block, uint32_t at);
  void add_scan(BlockId block, uint32_t at, bool map);
  void add_wrapped(BlockId block, uint32_t at, size_t graph_at, std::optional<DType> autocast);
  void add_effects(BlockId block, uint32_t at);
  void add_print(BlockId block, uint32_t at, size_t first);
  void add_body(BlockId block, const FxGraph& body, const std::vector<Type>& params, const ArgList& rest);
  NodeId append_control(BlockId block, OpId op, ArgList args, uint32_t at);
  void add_results(NodeId id, uint32_t at, const std::vector<Type>& types);
  Type carried_type(const Arg& a) const;
  std::vector<Type> carried_types(const ArgList& carried) const;
  Type joined_type(const Arg& a, const Arg& b) const;
  Expr fresh(DType type) const;

  bool is_vmap_call(uint32_t at, std::string_view name) const;
  size_t end_of_vmap(std::span<const uint32_t> nodes, size_t begin) const;
  void add_range(BlockId block, std::span<const uint32_t> nodes);
  void add_vmap(BlockId block, uint32_t start, std::span<const uint32_t> nodes);

  Graph& graph_;
  const FxGraph& fx_;
  std::vector<std::optional<ArgList>> results_; // of each node; none where it has not been converted
  std::map<std::string, uint32_t> items_;       // by symbol: the node that reads it from a tensor
  bool exact_types_;                            // recorded types hold
  int vmaps_ = 0;                               // around the nodes
  std::optional<DType> autocast_;               // operators are under autocast to this dtype
};

/// The ATen graph as a program whose placeholders are a user's inputs. BadInput where a placeholder has no type; Unsupported for modules
/// and methods.
LoadedProgram program_of(const FxGraph& graph);

} // namespace tenon
