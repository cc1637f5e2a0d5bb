// The graph inside models/M.json: nodes, values, symbolic sizes, subgraphs.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "fx/graph.h"
#include "load/json.h"
#include "load/load.h"

namespace tenon {

/// Reads one Graph object of the schema. Names are looked up in this object's `tensor_values` and `sym_*_values`; subgraphs have
/// readers of their own.
class GraphReader {
public:
  /// `exact`: the types that the program records are those of tenon's rows, which hold for torch 2.15. `tokens`: inputs that carry
  /// nothing and only order effects.
  GraphReader(std::shared_ptr<ExprPool> pool, json::Element scope, bool exact, std::unordered_set<std::string> tokens = {});

  FxGraph read();
  /// The values that symbols had in the export's example.
  const std::map<std::string, int64_t>& hints() const { return hints_; }
  /// A constant argument.
  Arg read_argument(json::Element argument);

private:
  Arg read_union(std::string_view kind, json::Element value);
  Arg read_list(json::Element list, std::string_view element_kind);
  Arg value_named(std::string_view name) const;
  Arg symbol_named(json::Element value) const;
  Expr read_sym(json::Element sym) const;
  Expr read_size(json::Element sym) const;
  Type read_type(json::Element meta) const;
  FxVal val_of_tensor(std::string_view name) const;
  Type type_of_number(std::string_view kind, json::Element value) const;
  void read_symbols(std::string_view key);

  void read_input(json::Element argument);
  void read_node(json::Element node);
  static std::string name_of(json::Element node, const FxNode& call);
  void read_call(json::Element node, FxNode& call);
  bool is_positional(const OpDef* def, const FxNode& call, json::Element input) const;
  void read_outputs(json::Element node, FxNode call);
  std::pair<FxVal, std::string> read_output(const FxNode& call, size_t index, json::Element output) const;
  Arg read_subgraph(json::Element value);
  uint32_t add(FxNode node, bool is_named);
  std::string fresh(std::string name) const;

  json::Element scope_;
  FxGraph fx_;
  std::unordered_set<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> nodes_; // by name
  std::unordered_set<uint32_t> unnamed_;            // whose names are made up
  std::unordered_map<std::string, Expr> symbols_;
  mutable std::map<std::string, int64_t> hints_;
};

DType read_dtype(int64_t scalar_type);
std::shared_ptr<const Origin> read_origin(json::Element node);

} // namespace tenon
