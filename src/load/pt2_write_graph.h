// An FX graph as the JSON of torch.export's schema: the way back of pt2_graph.h.
#pragma once
#include <map>
#include <string>

#include "fx/graph.h"

namespace tenon {

/// What writing needs to know beside the graph.
using SizeHints = std::map<std::string, int64_t>; // by symbol: its value in the export

/// Writes graphs whose nodes have types and compute sizes by nodes of their own (fx/from_graph.h), and the graphs that these run.
class GraphWriter {
public:
  GraphWriter(const FxGraph& fx, const SizeHints& hints) : fx_(fx), hints_(hints) {}

  /// A Graph object; `inputs` are its Arguments, which may be more than the placeholders.
  std::string graph(const std::string& inputs) const;
  /// An Argument, {"as_tensor": {"name": "x"}}. `schema`: the operator's argument that it is for, or null.
  std::string argument(const Arg& a, const struct SchemaArg* schema = nullptr) const;
  const FxNode& node(const Arg& a) const { return fx_.nodes[a.get<ValueId>().index]; }
  /// The Argument that is called so; empty where no node is.
  std::string argument_named(const std::string& name) const;

private:
  std::string call(uint32_t at) const;
  std::string outputs(uint32_t at) const;
  std::string subgraph(const FxNode& read) const;
  std::string value(const std::string& name, const Type& type) const;
  std::string list(const ArgList& list, const struct SchemaArg* schema) const;
  std::string size(Expr e) const;
  std::string values_of(TypeKind kind) const;

  const FxGraph& fx_;
  const SizeHints& hints_;
};

int scalar_type(DType t);
/// A TensorMeta; `sizes` and `strides` are JSON of SymInts.
std::string tensor_meta(DType dtype, const std::string& sizes, const std::string& strides, int64_t offset, const TensorMeta& meta);

} // namespace tenon
