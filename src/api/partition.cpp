// Partitioning: nodes that a backend takes are merged along their edges while the graph of parts stays one without cycles, which an order
// of the parts that is kept up to date tells.
#include "api/partition.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/define.h"
#include "ir/pass.h"
#include "runtime/library_steps.h"

namespace tenon::ir {

namespace {

bool is_random(const tenon::Graph& g, const tenon::Node& n) {
  return n.def && n.def->library && library::is_random(n.def->library(Call(g, *n.def, n.args)).function);
}

void add_symbols(Expr e, std::unordered_set<const ExprNode*>& out) {
  visit(e, [&](const ExprNode& n) {
    if (n.op == Op::Symbol) out.insert(&n);
  });
}
void add_symbols(const tenon::Arg& a, std::unordered_set<const ExprNode*>& out) {
  if (a.is<Expr>()) add_symbols(a.get<Expr>(), out);
  else if (a.is<ArgList>())
    for (const tenon::Arg& e : a.get<ArgList>()) add_symbols(e, out);
}
std::unordered_set<const ExprNode*> symbols_of(const tenon::Graph& g, const tenon::Node& n) {
  std::unordered_set<const ExprNode*> out;
  for (const tenon::Arg& a : n.args) add_symbols(a, out);
  auto of_value = [&](ValueId v) {
    for (Expr e : g.type(v).sizes) add_symbols(e, out);
    if (g.type(v).value) add_symbols(g.type(v).value, out);
  };
  for (const tenon::Arg& a : n.args) for_each_value(a, of_value);
  for (ValueId v : n.outputs) of_value(v);
  return out;
}

bool can_be_delegated(const tenon::Graph& g, const tenon::Node& n) {
  if (!n.def || n.def->kind == Kind::Prim || !n.blocks.empty() || n.outputs.empty() || n.def->data_dependent) return false;
  bool plain = !comes_along(g, n) && !is_random(g, n);
  for (ValueId v : n.outputs) plain &= g.type(v).is_tensor();
  for (const tenon::Arg& a : n.args) for_each_value(a, [&](ValueId v) { plain &= g.type(v).is_tensor(); });
  auto symbols = symbols_of(g, n); // sizes alone are handed on
  return plain && std::ranges::none_of(symbols, [](const ExprNode* s) { return is_float(s->type); });
}

bool lists(const Partitioner& p, const tenon::Graph& g, const tenon::Node& n) {
  return std::ranges::any_of(p.table, [&](const SupportedOp& s) {
    if (find_op(s.op) != n.def) return false;
    auto takes = [&](ValueId v) { return s.dtypes.empty() || std::ranges::find(s.dtypes, g.type(v).dtype) != s.dtypes.end(); };
    bool all = std::ranges::all_of(n.outputs, takes);
    for (const tenon::Arg& a : n.args)
      for_each_value(a, [&](ValueId v) {
        NodeId maker = g.value(v).node; // numbers that come along may have another dtype
        all &= takes(v) || (maker.valid() && comes_along(g, g.node(maker)) && g.type(v).rank() == 0);
      });
    return all;
  });
}

// The parts of a block, at first a node each, in an order in which none reads what a later one makes.
class Parts {
public:
  Parts(const tenon::Graph& g, BlockId block) : g_(g) {
    for (NodeId id : g.block(block).nodes) {
      number_[id] = order_.size();
      place_.push_back(order_.size()), order_.push_back(order_.size());
      members_.push_back({id}), part_of_.push_back(part_of_.size());
    }
    nodes_ = g.block(block).nodes;
    before_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); i++) note_before(i);
  }

  size_t part(NodeId id) const { return part_of_[number_.at(id)]; }
  const std::vector<size_t>& before(size_t node) const { return before_[node]; }
  const std::vector<NodeId>& members(size_t part) const { return members_[part]; }
  size_t number(NodeId id) const { return number_.at(id); }

  /// Makes one part of two. False, and nothing is changed: a path from one to the other leads through a third.
  bool merge(size_t a, size_t b) {
    if (a == b) return true;
    if (place_[a] > place_[b]) std::swap(a, b);
    std::vector<size_t> free, behind; // parts between them that a does not lead to, and those that it does
    std::unordered_set<size_t> reached{a};
    for (size_t at = place_[a] + 1; at <= place_[b]; at++) {
      size_t p = order_[at];
      if (p == none) continue;
      bool follows = false, from_behind = false;
      for (NodeId id : members_[p])
        for (size_t k : before_[number_.at(id)]) {
          size_t q = part_of_[k];
          if (q != p && reached.contains(q)) follows = true, from_behind |= q != a;
        }
      if (p == b && from_behind) return false;
      if (p != b) (follows ? behind : free).push_back(p);
      if (p != b && follows) reached.insert(p);
    }
    size_t at = place_[a], end = place_[b];
    for (size_t k = end - at - free.size() - behind.size(); k > 0; k--) order_[at++] = none;
    for (size_t p : free) put(p, at++);
    for (NodeId id : members_[b]) part_of_[number_.at(id)] = a, members_[a].push_back(id);
    members_[b].clear();
    put(a, at++);
    for (size_t p : behind) put(p, at++);
    return true;
  }

  std::vector<size_t> order() const {
    std::vector<size_t> out;
    for (size_t p : order_)
      if (p != none) out.push_back(p);
    return out;
  }

private:
  static constexpr size_t none = SIZE_MAX;

  void put(size_t p, size_t at) { order_[at] = p, place_[p] = at; }

  // Nodes of the block that must come before node i: who makes its operands, who gives its symbols their values, the last one with an
  // effect where it has one too.
  void note_before(size_t i) {
    const tenon::Node& n = g_.node(nodes_[i]);
    auto add = [&](NodeId id) {
      if (auto at = number_.find(id); at != number_.end() && at->second != i) before_[i].push_back(at->second);
    };
    for_each_use(g_, nodes_[i], [&](ValueId v) { add(g_.value(v).node); });
    auto symbols = symbols_of(g_, n);
    for (const ExprNode* s : symbols)
      if (auto at = binders_.find(s); at != binders_.end()) add(at->second);
    if (binds_symbols(n) || !n.blocks.empty())
      for (const ExprNode* s : symbols) binders_.try_emplace(s, nodes_[i]);
    if (n.outputs.empty() || !n.blocks.empty() || is_random(g_, n)) {
      if (last_effect_.valid()) add(last_effect_);
      last_effect_ = nodes_[i];
    }
  }

  const tenon::Graph& g_;
  std::vector<NodeId> nodes_;
  std::unordered_map<NodeId, size_t> number_;
  std::vector<std::vector<size_t>> before_; // by number of a node
  std::vector<size_t> part_of_;             // the same
  std::vector<std::vector<NodeId>> members_;
  std::vector<size_t> order_, place_; // parts in order, and where each is
  std::unordered_map<const ExprNode*, NodeId> binders_;
  NodeId last_effect_;
};

// A delegate whose operands are all constants would compute what the compiler folds.
bool has_operands(const tenon::Graph& g, const std::vector<NodeId>& nodes) {
  std::unordered_set<NodeId> inside(nodes.begin(), nodes.end());
  bool any = false;
  for (NodeId id : nodes)
    for (const tenon::Arg& a : g.node(id).args)
      for_each_value(a, [&](ValueId v) {
        NodeId maker = g.value(v).node;
        any |= !maker.valid() || (!inside.contains(maker) && !comes_along(g, g.node(maker)));
      });
  return any;
}

std::vector<bool> taken_nodes(Graph& graph, BlockId block, const Partitioner& p, Parts& parts) {
  GraphImpl& impl = graph.impl();
  const tenon::Graph& g = impl.graph;
  std::vector<bool> taken(g.block(block).nodes.size());
  for (const Rewrite& pattern : p.patterns)
    for (const Match& m : find(pattern, graph)) {
      std::vector<NodeId> nodes;
      for (Node n : m.nodes)
        if (const tenon::Node& made = g.node(Access::id(n)); !comes_along(g, made)) nodes.push_back(Access::id(n));
      auto fits = [&](NodeId id) {
        return impl.block_of.get(id) == block && can_be_delegated(g, g.node(id)) && parts.members(parts.part(id)).size() == 1;
      };
      if (nodes.empty() || !std::ranges::all_of(nodes, fits)) continue;
      if (std::ranges::all_of(nodes, [&](NodeId id) { return parts.merge(parts.part(nodes[0]), parts.part(id)); }))
        for (NodeId id : nodes) taken[parts.number(id)] = true;
    }
  for (NodeId id : g.block(block).nodes) {
    const tenon::Node& n = g.node(id);
    if (taken[parts.number(id)] || parts.members(parts.part(id)).size() > 1 || !can_be_delegated(g, n)) continue;
    taken[parts.number(id)] = lists(p, g, n) || (p.predicate && p.predicate(Access::node(&impl, id)));
  }
  return taken;
}

} // namespace

bool comes_along(const tenon::Graph& g, const tenon::Node& n) {
  if (n.op == "prim::Constant") return true;
  return n.blocks.empty() && n.outputs.size() == 1 && has_definition(n) && tensor_operands(n.args, g).empty();
}

std::vector<BlockPart> partition_block(Graph& graph, BlockId block, const Partitioner& partitioner) {
  const tenon::Graph& g = graph.impl().graph;
  Parts parts(g, block);
  std::vector<bool> taken = taken_nodes(graph, block, partitioner, parts);
  const std::vector<NodeId> nodes = g.block(block).nodes;
  if (partitioner.merge)
    for (size_t i = 0; i < nodes.size(); i++)
      for (size_t k : parts.before(i))
        if (taken[i] && taken[k]) parts.merge(parts.part(nodes[i]), parts.part(nodes[k]));
  std::vector<BlockPart> out;
  for (size_t p : parts.order()) {
    BlockPart part{parts.members(p), false};
    std::ranges::sort(part.nodes, {}, [&](NodeId id) { return parts.number(id); });
    part.is_delegate = taken[parts.number(part.nodes[0])] && has_operands(g, part.nodes);
    if (part.is_delegate) out.push_back(std::move(part));
    else
      for (NodeId id : part.nodes) out.push_back({{id}, false});
  }
  return out;
}

} // namespace tenon::ir

namespace tenon {

std::vector<std::vector<ir::Node>> partition(ir::Graph& graph, const Partitioner& partitioner) {
  require_input(graph.dialect() == "edge", "backends take parts of Edge graphs, this one is {}", graph.dialect());
  std::vector<std::vector<ir::Node>> out;
  ir::GraphImpl& impl = graph.impl();
  std::function<void(BlockId)> visit_block = [&](BlockId block) {
    for (const ir::BlockPart& part : ir::partition_block(graph, block, partitioner)) {
      if (part.is_delegate) {
        out.emplace_back();
        for (NodeId id : part.nodes) out.back().push_back(ir::Access::node(&impl, id));
      } else if (impl.graph.node(part.nodes[0]).op != "prim::Delegate")
        for (BlockId inner : impl.graph.node(part.nodes[0]).blocks) visit_block(inner);
    }
  };
  visit_block(impl.graph.top());
  return out;
}

} // namespace tenon
