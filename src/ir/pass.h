// Passes over a program, the runner, and what passes share: copying a graph with changes, removing dead code.
#pragma once
#include <span>
#include <string_view>

#include "ir/builder.h"
#include "ir/program.h"

namespace tenon {

/// A pass says whether it changed anything; it is deterministic and does nothing the second time.
struct Pass {
  std::string_view name;
  bool (*run)(LoadedProgram&);
};

/// Copies blocks of one graph into another, with values renamed. A pass changes nodes by handling them itself.
class Rewriter {
public:
  Rewriter(const Graph& from, bool edge) : from(from), to(from.shared_pool()), builder(to, to.top(), edge) {}

  const Graph& from;
  Graph to;
  Builder builder;

  /// The new value of an old one.
  ValueId operator[](ValueId old) const;
  Arg operator()(const Arg& arg) const {
    return map_values(arg, [&](ValueId v) { return (*this)[v]; });
  }
  ArgList operator()(const ArgList& args) const;
  /// What a node makes in the place of another's result is recorded as that was.
  void set(ValueId old, ValueId now) {
    map_[old] = now;
    if (Value& v = to.value(now); v.node.valid() && v.meta == TensorMeta()) v.meta = from.value(old).meta;
  }
  /// The parameter `old` as one of `block`.
  ValueId add_param(ValueId old, BlockId block);
  /// Copies the parameters of a block.
  void copy_params(BlockId old, BlockId now);
  /// The node as it is, blocks included (their nodes go through `node`).
  void copy_node(NodeId id);
  /// Copies all nodes and the returns of `old` to `now`; each node goes through `node`.
  void copy_block(BlockId old, BlockId now);
  /// What happens to a node; the default is copy_node.
  std::function<void(NodeId)> node = [this](NodeId id) { copy_node(id); };
  /// What happens to an inner block; the default is copy_block.
  std::function<void(BlockId, BlockId)> block = [this](BlockId old, BlockId now) { copy_block(old, now); };
  /// Copies the whole graph to `to`.
  void copy_all();
  /// The same, and gives it.
  Graph run();

private:
  SideTable<ValueId, ValueId> map_;
};

/// Copies the program's graph by `r`; where `changed` holds afterwards, the copy takes its place. Gives `changed`.
bool rewrite_program(LoadedProgram& program, Rewriter& r, const bool& changed);

/// Operators without a row, each once, in order of appearance.
std::vector<std::string> missing_operators(const Graph& graph);
/// Whether the node gives a symbol its value: Item, and operators whose output sizes depend on data.
bool binds_symbols(const Node& node);
/// Removes nodes whose results nobody uses; checks and nodes that bind a symbol still in use stay.
bool remove_dead_code(LoadedProgram& program);

} // namespace tenon
