// Partitioning: nodes that a backend takes are merged along their edges while the graph of parts stays one without cycles, which an order
// of the parts that is kept up to date tells.
#include "api/partition.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/collective.h"
#include "ir/define.h"
#include "ir/pass.h"
#include "ops/names.h"
#include "runtime/library_steps.h"

namespace tenon::ir {

namespace {

// Random numbers are drawn in turn, and other ranks take part in collectives: their order stays.
bool is_in_turn(const tenon::Graph& g, const tenon::Node& n) {
  if (is_collective(n)) return true;
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
  bool plain = !comes_along(g, n) && !is_in_turn(g, n);
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

// The parts of a block, at first a node each, in an order in which none reads what a later one makes. Nodes have numbers: their places in
// the block.
class Parts {
public:
  Parts(const tenon::Graph& g, BlockId block) : nodes(g.block(block).nodes), g_(g), before_(nodes.size()), seen_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); i++) {
      number_[nodes[i]] = i;
      place_.push_back(i), order_.push_back(i), part_of_.push_back(i), members_.push_back({i});
      note_before(i);
    }
  }

  const std::vector<NodeId> nodes;
  size_t number(NodeId id) const { return number_.at(id); }
  size_t part(size_t node) const { return part_of_[node]; }
  const std::vector<size_t>& members(size_t part) const { return members_[part]; }
  /// Those that must come before the node.
  const std::vector<size_t>& before(size_t node) const { return before_[node]; }

  /// Makes one part of two. False, and nothing is changed: a path from one to the other leads through a third.
  bool merge(size_t a, size_t b) {
    if (a == b) return true;
    if (place_[a] > place_[b]) std::swap(a, b);
    std::vector<size_t> free, behind; // parts between them that a does not lead to, and those that it does
    seen_[a] = ++search_;
    for (size_t at = place_[a] + 1; at <= place_[b]; at++) {
      size_t p = order_[at];
      if (p == none) continue;
      bool follows = false, from_behind = false;
      for (size_t node : members_[p])
        for (size_t k : before_[node])
          if (size_t q = part_of_[k]; q != p && seen_[q] == search_) follows = true, from_behind |= q != a;
      if (p == b && from_behind) return false;
      if (p != b) (follows ? behind : free).push_back(p);
      if (p != b && follows) seen_[p] = search_;
    }
    size_t at = place_[a], end = place_[b];
    for (size_t k = end - at - free.size() - behind.size(); k > 0; k--) order_[at++] = none;
    for (size_t p : free) put(p, at++);
    for (size_t node : members_[b]) part_of_[node] = a, members_[a].push_back(node);
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

  // What makes its operands, what gives its symbols their values and checks them, and of effects the one before.
  void note_before(size_t i) {
    const tenon::Node& n = g_.node(nodes[i]);
    auto symbols = symbols_of(g_, n);
    for_each_use(g_, nodes[i], [&](ValueId v) {
      if (auto at = number_.find(g_.value(v).node); at != number_.end() && at->second != i) before_[i].push_back(at->second);
    });
    bool binds = binds_symbols(n) || !n.blocks.empty(), checks = n.op == prim::Assert;
    for (const ExprNode* s : symbols) {
      for (auto* known : {&binders_, &checks_})
        if (auto at = known->find(s); at != known->end()) before_[i].push_back(at->second);
      if (binds) binders_.try_emplace(s, i);
      if (checks) checks_[s] = i; // behind the one before, as an effect
    }
    if (!n.outputs.empty() && n.blocks.empty() && !is_in_turn(g_, n)) return;
    if (last_effect_ != none) before_[i].push_back(last_effect_);
    last_effect_ = i;
  }

  const tenon::Graph& g_;
  std::unordered_map<NodeId, size_t> number_;
  std::vector<std::vector<size_t>> before_; // by node
  std::vector<size_t> part_of_;             // the same
  std::vector<std::vector<size_t>> members_;
  std::vector<size_t> order_, place_; // parts in order, and where each is
  std::vector<size_t> seen_;          // by part, the last search that found it behind
  size_t search_ = 0;
  std::unordered_map<const ExprNode*, size_t> binders_, checks_;
  size_t last_effect_ = none;
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

// By node.
std::vector<bool> taken_nodes(Graph& graph, const Partitioner& p, Parts& parts) {
  GraphImpl& impl = graph.impl();
  const tenon::Graph& g = impl.graph;
  std::vector<bool> taken(parts.nodes.size());
  BlockId block = taken.empty() ? BlockId() : impl.block_of.get(parts.nodes[0]);
  auto is_alone = [&](size_t i) { return parts.members(parts.part(i)).size() == 1; };
  for (const Rewrite& pattern : p.patterns)
    for (const Match& m : find(pattern, graph)) {
      std::vector<size_t> found;
      bool fits = true;
      for (Node n : m.nodes) {
        NodeId id = Access::id(n);
        if (comes_along(g, g.node(id))) continue;
        fits = fits && impl.block_of.get(id) == block && can_be_delegated(g, g.node(id)) && is_alone(parts.number(id)) &&
               !taken[parts.number(id)];
        if (fits) found.push_back(parts.number(id));
      }
      if (!fits || !std::ranges::all_of(found, [&](size_t i) { return parts.merge(parts.part(found[0]), parts.part(i)); })) continue;
      for (size_t i : found) taken[i] = true;
    }
  for (size_t i = 0; i < taken.size(); i++) {
    const tenon::Node& n = g.node(parts.nodes[i]);
    if (taken[i] || !is_alone(i) || !can_be_delegated(g, n)) continue;
    taken[i] = lists(p, g, n) || (p.predicate && p.predicate(Access::node(&impl, parts.nodes[i])));
  }
  return taken;
}

} // namespace

bool comes_along(const tenon::Graph& g, const tenon::Node& n) {
  if (n.op == prim::Constant) return true;
  return n.blocks.empty() && n.outputs.size() == 1 && has_definition(n) && tensor_operands(n.args, g).empty();
}

std::vector<BlockPart> partition_block(Graph& graph, BlockId block, const Partitioner& partitioner) {
  const tenon::Graph& g = graph.impl().graph;
  Parts parts(g, block);
  std::vector<bool> taken = taken_nodes(graph, partitioner, parts);
  if (partitioner.merge)
    for (size_t i = 0; i < taken.size(); i++)
      for (size_t k : parts.before(i))
        if (taken[i] && taken[k]) parts.merge(parts.part(i), parts.part(k));
  std::vector<BlockPart> out;
  for (size_t p : parts.order()) {
    std::vector<size_t> members = parts.members(p);
    std::ranges::sort(members);
    BlockPart part;
    for (size_t i : members) part.nodes.push_back(parts.nodes[i]);
    part.is_delegate = taken[members[0]] && has_operands(g, part.nodes);
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
      } else if (impl.graph.node(part.nodes[0]).op != prim::Delegate)
        for (BlockId inner : impl.graph.node(part.nodes[0]).blocks) visit_block(inner);
    }
  };
  visit_block(impl.graph.top());
  return out;
}

} // namespace tenon
