// The graph inside models/M.json: nodes, values, symbolic sizes, subgraphs.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "load/json.h"
#include "load/load.h"

namespace tenon {

/// Reads one Graph object of the schema into a block. Names are looked up in this object's `tensor_values` and
/// `sym_*_values`; subgraphs have readers of their own.
class GraphReader {
public:
  /// `exact`: the types that the program records are those of tenon's rows, which hold for torch 2.15.
  GraphReader(Graph& graph, json::Element scope, bool exact);

  /// A tensor or number among the graph's inputs, as a parameter of the block.
  ValueId add_param(BlockId block, json::Element argument);
  ValueId add_tensor_param(BlockId block, std::string_view name);
  /// The graph's input number `i` is `value`.
  void bind_input(size_t i, const Arg& value);
  /// A value of that name that carries nothing: a token, which only orders effects.
  void add_token(std::string_view name) { values_[std::string(name)] = {}; }
  void read_nodes(BlockId block);
  ArgList read_outputs();
  Arg read_argument(json::Element argument);

private:
  struct NamedArg {
    std::string name;
    Arg value;
  };
  Arg read_union(std::string_view kind, json::Element value);
  Arg read_list(json::Element list, std::string_view element_kind);
  Arg tensor_named(std::string_view name);
  Arg symbol_named(json::Element value);
  Expr read_sym(json::Element sym);
  Expr read_size(json::Element sym);
  Type read_type(json::Element meta);
  void read_symbols(std::string_view key);

  void read_node(BlockId block, json::Element node);
  Arg unproved(BlockId block, json::Element condition);
  bool read_symbolic(BlockId block, json::Element node, const std::string& op);
  bool read_control_flow(BlockId block, json::Element node, const std::string& op);
  void read_operator(BlockId block, json::Element node, const std::string& op);
  static ArgList schema_args(const OpDef* def, const std::vector<NamedArg>& given, const std::string& op);
  NodeId append(BlockId block, Node node, json::Element json, size_t first_output = 0);
  void correct_types(const Node& node, std::vector<Type>& types) const;
  void correct_type(Type& now, const Type& right) const;
  void output_types(json::Element node, size_t first, std::vector<Type>& types, std::vector<std::string>& names);

  std::vector<NamedArg> named_args(json::Element node, size_t first);
  NodeId append_call(BlockId block, const std::string& op, std::vector<NamedArg> args, json::Element node, size_t first_output);
  const OpDef* functional_overload(const std::string& op, const std::vector<NamedArg>& args, size_t& written);
  bool read_out(BlockId block, const std::string& op, std::vector<NamedArg> args, json::Element node);
  void cast_operands(BlockId block, const std::string& op, ArgList& args);

  void read_range(BlockId block, std::span<const json::Element> nodes);
  void read_vmap(BlockId block, json::Element start, std::span<const json::Element> nodes);
  static size_t end_of_vmap(std::span<const json::Element> nodes, size_t begin);
  void read_effects(BlockId block, json::Element node);
  void read_print(BlockId block, const std::vector<NamedArg>& args, json::Element node);
  void read_if(BlockId block, json::Element node);
  void read_while(BlockId block, json::Element node);
  void read_scan(BlockId block, json::Element node, bool map);
  void read_wrapped(BlockId block, json::Element node, size_t graph_at, std::optional<DType> autocast);
  void read_body(BlockId block, json::Element as_graph, size_t params, const ArgList& rest);
  ArgList operands(json::Element node, size_t first);
  json::Element graph_argument(json::Element node, size_t at);

  Graph& graph_;
  json::Element scope_;
  bool exact_;
  std::unordered_map<std::string, Arg> values_;
  std::unordered_map<std::string, Expr> symbols_;
  std::map<std::string, Arg> items_; // tensors that symbols are read from
  std::optional<DType> autocast_;    // operators are under autocast to this dtype
};

DType read_dtype(int64_t scalar_type);
/// The export's conditions on input sizes as asserts; inputs and calling convention are read already.
void add_guards(LoadedProgram& program);
std::string operator_name(std::string_view target);
std::shared_ptr<const Origin> read_origin(json::Element node);

} // namespace tenon
