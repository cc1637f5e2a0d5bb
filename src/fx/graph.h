// A graph as torch.fx has it: a list of nodes whose arguments name earlier nodes, with what torch.export records of each. Files
// (load/pt2_graph.h) and texts (fx/text.h) are read into this form; fx/to_graph.h makes SSA of it, fx/from_graph.h leads back.
#pragma once
#include <map>
#include <optional>

#include "ir/graph.h"

namespace tenon {

enum class FxKind : uint8_t { Placeholder, GetAttr, CallFunction, CallMethod, CallModule };

/// What a node gives, torch's meta["val"].
struct FxVal {
  bool is_list = false;         // results that operator.getitem takes out
  std::vector<Type> types = {}; // of the result, or of the list's elements; none: the node gives nothing
  TensorMeta meta = {};         // of a result that is no list

  static FxVal one(Type type, TensorMeta meta = {}) { return {.types = {std::move(type)}, .meta = meta}; }
};

/// Arguments are Args: a ValueId is the index of an earlier node, a std::string a bare word (torch prints strings so), a Word
/// what follows "torch." (strided, ops.aten.sin.default), and a tuple is a list whose first element is fx_tuple.
struct FxNode {
  std::string name;
  std::optional<FxVal> val = {}; // none: not known
  FxKind kind = FxKind::CallFunction;
  std::string target = {};
  ArgList args = {};
  std::vector<Attribute> kwargs = {};
  std::shared_ptr<const Origin> origin = {};
};
inline const Word fx_tuple{"()"};

/// "p_weight.qdata" of placeholder number 3.
struct SubclassPart {
  uint32_t placeholder;
  std::string name;
};

struct FxGraph {
  std::string name = {}; // that a get_attr node of an outer graph reads it by
  std::vector<FxNode> nodes = {};
  Arg result = {};
  std::vector<FxGraph> modules = {};          // graphs that nodes of this one run
  std::map<std::string, Tensor> tensors = {}; // that get_attr nodes read, by target
  std::shared_ptr<ExprPool> pool = std::make_shared<ExprPool>();
  bool exact_types = true; // what nodes give is what tenon's rows say; not so where an older torch recorded it
};

/// What the node reads of a weight that is a tensor subclass, which holds several tensors by name; none for other nodes.
std::optional<SubclassPart> subclass_part(const FxGraph& graph, const FxNode& node);
/// Whether placeholder number `at` is such a weight.
bool is_subclass(const FxGraph& graph, uint32_t at);

/// The elements of a list or tuple.
std::span<const Arg> fx_elements(const ArgList& list);

/// "torch.ops.aten.add.Tensor" -> "aten::add.Tensor"; other targets stay as they are. BadInput where there is no overload's name.
std::string operator_name(std::string_view target);
/// The way back.
std::string fx_target(std::string_view op);

} // namespace tenon
