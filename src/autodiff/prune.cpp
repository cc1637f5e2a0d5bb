#include <algorithm>
#include <map>

#include "autodiff/passes.h"
#include "builtins/builtin.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

namespace {

class Pruner {
public:
  Pruner(Graph& g, uint32_t first) : g_(g), first_(first) {}

  void run(BlockId block) {
    for (BlockId b : {g_.top(), block}) {
      look(b, {}, b == g_.top());
      need_all(g_.block(b).returns);
    }
    settle();
    for (BlockId b : {g_.top(), block}) drop(b);
  }

private:
  // Whether an operator writes to what it is given, under any overload.
  static bool writes(OpId op) {
    if (op.name().ends_with('_') && !op.name().ends_with("__") && op.dialect() == "aten") return true;
    return std::ranges::any_of(find_builtins(op), [](const BuiltinOp* b) { return b->signature.mutates(); });
  }
  bool has_effect(NodeId id) const {
    const Node& n = g_.node(id);
    if (id.index < first_ || n.op == prim::RaiseException || n.op == call::gradient_take) return true;
    return n.blocks.empty() && (n.outputs.empty() || writes(n.op));
  }

  // Finds what has an effect, and in the forward pass who appends to a list that is kept.
  void look(BlockId block, NodeId owner, bool forward) {
    for (NodeId id : g_.block(block).nodes) {
      const Node& n = g_.node(id);
      owner_[id] = owner;
      for (BlockId b : n.blocks) look(b, id, forward);
      if (forward && n.op == call::append && id.index >= first_) appends_[n.args[0].get<ValueId>()].push_back(id);
      else if (has_effect(id)) need_node(id);
    }
  }

  void need_node(NodeId id) {
    if (!id.valid() || needed_.get(id)) return;
    needed_[id] = true;
    waiting_.push_back(id);
  }
  void need_all(const ArgList& args) {
    for (const Arg& a : args) need(a.get<ValueId>());
  }
  void need(ValueId v) {
    if (read_.get(v)) return;
    read_[v] = true;
    need_node(g_.value(v).node);
    for (NodeId append : appends_[v]) need_node(append);
  }
  void settle() {
    while (!waiting_.empty()) {
      NodeId id = waiting_.back();
      waiting_.pop_back();
      need_node(owner_.get(id));
      need_all(g_.node(id).args);
      for (BlockId b : g_.node(id).blocks) need_all(g_.block(b).returns);
    }
  }

  void drop(BlockId block) {
    std::erase_if(g_.block(block).nodes, [&](NodeId id) { return !needed_.get(id); });
    for (NodeId id : g_.block(block).nodes)
      for (BlockId b : g_.node(id).blocks) drop(b);
  }

  Graph& g_;
  uint32_t first_;
  SideTable<NodeId, NodeId> owner_;
  SideTable<NodeId, bool> needed_;
  SideTable<ValueId, bool> read_;
  std::map<ValueId, std::vector<NodeId>> appends_;
  std::vector<NodeId> waiting_;
};

} // namespace

void prune(Graph& graph, BlockId block, uint32_t first) { Pruner(graph, first).run(block); }

} // namespace tenon::autodiff
