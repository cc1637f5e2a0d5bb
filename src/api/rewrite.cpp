// Rewriting by patterns: a search for each place where the pattern's graph may begin, which tries both orders of operands that commute.
#include <algorithm>
#include <map>
#include <set>

#include "api/graph_impl.h"
#include "base/strided.h"
#include "edge/match.h"
#include "ir/op.h"
#include "ir/promote.h"
#include "tenon/pass.h"

namespace tenon::ir {

namespace {

// The pattern as a graph whose values have no types.
struct Pattern {
  explicit Pattern(const Rewrite& rewrite) {
    require_input(rewrite.pattern != nullptr, "a rewrite without a pattern");
    GraphImpl& g = graph.impl();
    g.is_pattern = true;
    std::vector<Value> given;
    for (size_t i = 0; i < rewrite.inputs; i++) given.push_back(graph.addInput(Type::tensor(DType::F32, {}), fmt::format("input{}", i)));
    for (Value v : rewrite.pattern(graph, given)) {
      require_input(static_cast<bool>(v) && &v.owningGraph() == &graph && Access::is_call(v.node()),
                    "the pattern gives what it does not insert");
      outputs.push_back(Access::id(v));
    }
    require_input(!outputs.empty(), "the pattern gives nothing");
    for (Value v : given)
      require_input(v.hasUses(), "the pattern does not use its input {}", inputs.size()), inputs.push_back(Access::id(v));
    nodes = g.graph.block(g.graph.top()).nodes;
  }
  const tenon::Graph& g() const { return graph.impl().graph; }

  Graph graph;
  std::vector<ValueId> inputs, outputs;
  std::vector<NodeId> nodes;
};

using ArgPairs = std::vector<std::pair<tenon::Arg, tenon::Arg>>; // of the pattern, of the graph: to be equal

struct State {
  std::map<ValueId, tenon::Arg> values; // by the pattern's
  std::map<NodeId, NodeId> nodes;
};

// Whether the operator gives the same for its two tensors in the other order. Its body says so: sums and products of the expression
// language are kept in one order.
bool commutes(const tenon::Graph& g, const tenon::Node& n) {
  if (!n.def || n.def->kind != Kind::Pointwise || !n.def->body) return false;
  std::vector<size_t> tensors;
  for (size_t i = 0; i < n.args.size(); i++)
    if (n.def->signature.args[i].type == ArgType::Tensor && !n.args[i].is_none()) tensors.push_back(i);
  if (tensors.size() != 2 || is_kept(*n.def, tensors[0]) || is_kept(*n.def, tensors[1])) return false;
  DType type = compute_type(promotion_of(g, *n.def, n.args).compute);
  auto body = [&](int64_t first, int64_t second) {
    std::vector<Expr> operands(n.args.size());
    for (size_t i = 0; i < n.args.size(); i++) {
      if (i == tensors[0] || i == tensors[1]) operands[i] = g.pool().reg(i == tensors[0] ? first : second, type);
      else if (n.def->signature.args[i].type == ArgType::Scalar && !n.args[i].is_none()) {
        // Where a number scales one of the two, which the body may leave to a decomposition, they do not commute.
        std::optional<double> number;
        if (n.args[i].is<ValueId>()) number = filled_with(g, n.args[i].get<ValueId>());
        else if (Expr e = to_expr(g.pool(), n.args[i]); e && e->is_const()) number = e->number();
        const SchemaArg& schema = n.def->signature.args[i];
        if (!number || (schema.has_default && to_expr(g.pool(), schema.fallback)->number() != *number)) return Expr();
        operands[i] = g.pool().number(*number, type);
      }
    }
    return n.def->body(BodyArgs(Call(g, *n.def, n.args), std::move(operands)));
  };
  Expr there = body(0, 1);
  return there && there == body(1, 0);
}

class Search {
public:
  Search(const Rewrite& rewrite, const Pattern& pattern, GraphImpl& graph) : rewrite_(rewrite), p_(pattern), g_(graph) {}

  /// Calls `found` with each match and the node before which its replacement goes. It may change the graph: nodes that it inserts are not
  /// looked at.
  void run(const std::function<void(const Match&, NodeId)>& found) { search(g_.graph.top(), found); }

private:
  void search(BlockId block, const std::function<void(const Match&, NodeId)>& found) {
    for (NodeId n : std::vector<NodeId>(g_.graph.block(block).nodes)) {
      if (!g_.block_of.get(n).valid()) continue; // replaced
      block_ = block;
      if (auto s = at(n))
        if (Match m = match_of(*s); !rewrite_.filter || rewrite_.filter(m)) {
          for (auto& [mine, theirs] : s->nodes) taken_.insert(theirs);
          size_t before = g_.graph.num_nodes();
          found(m, place(*s));
          for (size_t k = before; k < g_.graph.num_nodes(); k++) taken_.insert(NodeId{static_cast<uint32_t>(k)});
          continue;
        }
      for (BlockId b : std::vector<BlockId>(g_.graph.node(n).blocks)) search(b, found);
    }
  }

  // The pattern where `n` makes its first output.
  std::optional<State> at(NodeId n) {
    size_t k = p_.g().value(p_.outputs[0]).index;
    if (g_.graph.node(n).outputs.size() <= k) return std::nullopt;
    return solve({{tenon::Arg(p_.outputs[0]), tenon::Arg(g_.graph.node(n).outputs[k])}}, {});
  }

  std::optional<State> solve(ArgPairs work, State s) {
    while (!work.empty()) {
      auto [mine, theirs] = std::move(work.back());
      work.pop_back();
      if (mine.is<ValueId>()) {
        auto [bound, is_new] = s.values.try_emplace(mine.get<ValueId>(), theirs);
        if (!is_new && !(bound->second == theirs)) return std::nullopt;
        NodeId node = p_.g().value(mine.get<ValueId>()).node;
        if (!is_new || !node.valid()) continue;
        if (!enter(node, theirs, s)) return std::nullopt;
        const ArgList &a = p_.g().node(node).args, &b = g_.graph.node(s.nodes[node]).args;
        if (rewrite_.commute && commutes(g_.graph, g_.graph.node(s.nodes[node])))
          if (auto swapped = solve(joined(work, a, exchanged(s.nodes[node])), s)) return swapped;
        work = joined(std::move(work), a, b);
      } else if (mine.is<ArgList>() && theirs.is<ArgList>()) {
        if (mine.get<ArgList>().size() != theirs.get<ArgList>().size()) return std::nullopt;
        work = joined(std::move(work), mine.get<ArgList>(), theirs.get<ArgList>());
      } else if (!constant_fits(mine, theirs)) return std::nullopt;
    }
    return rest(std::move(s));
  }

  // Outputs that the first one does not lead to may be anywhere in the block.
  std::optional<State> rest(State s) {
    for (ValueId out : p_.outputs) {
      if (s.values.contains(out)) continue;
      size_t k = p_.g().value(out).index;
      for (NodeId n : g_.graph.block(block_).nodes)
        if (g_.graph.node(n).outputs.size() > k)
          if (auto all = solve({{tenon::Arg(out), tenon::Arg(g_.graph.node(n).outputs[k])}}, s)) return all;
      return std::nullopt;
    }
    return is_closed(s) && place(s).valid() ? std::optional(std::move(s)) : std::nullopt;
  }

  // The pattern's node stands for the one that makes the value.
  bool enter(NodeId mine, const tenon::Arg& value, State& s) {
    if (!value.is<ValueId>()) return false;
    NodeId theirs = g_.graph.value(value.get<ValueId>()).node;
    if (!theirs.valid() || taken_.contains(theirs) || g_.block_of.get(theirs) != block_) return false;
    const tenon::Node &a = p_.g().node(mine), &b = g_.graph.node(theirs);
    if (a.def != b.def || a.args.size() != b.args.size() || a.outputs.size() > b.outputs.size() || !b.blocks.empty()) return false;
    if (auto [at, is_new] = s.nodes.try_emplace(mine, theirs); !is_new) return at->second == theirs;
    if (std::ranges::any_of(s.nodes, [&](auto& e) { return e.first != mine && e.second == theirs; })) return false;
    for (size_t i = 0; i < a.outputs.size(); i++) {
      auto [bound, is_new] = s.values.try_emplace(a.outputs[i], b.outputs[i]);
      if (!is_new && !(bound->second == tenon::Arg(b.outputs[i]))) return false;
    }
    return true;
  }

  static ArgPairs joined(ArgPairs work, const ArgList& a, const ArgList& b) {
    for (size_t i = a.size(); i-- > 0;) work.emplace_back(a[i], b[i]);
    return work;
  }

  ArgList exchanged(NodeId n) const {
    ArgList args = g_.graph.node(n).args;
    std::vector<size_t> tensors;
    for (size_t i = 0; i < args.size(); i++)
      if (g_.graph.node(n).def->signature.args[i].type == ArgType::Tensor && !args[i].is_none()) tensors.push_back(i);
    std::swap(args[tensors.at(0)], args[tensors.at(1)]);
    return args;
  }

  static std::optional<double> number_of(const tenon::Arg& a) {
    if (a.is<bool>()) return a.get<bool>();
    if (a.is<int64_t>()) return static_cast<double>(a.get<int64_t>());
    if (a.is<double>()) return a.get<double>();
    return std::nullopt;
  }

  bool constant_fits(const tenon::Arg& mine, const tenon::Arg& theirs) const {
    if (mine.is<TensorId>())
      return theirs.is<TensorId>() && equal(p_.g().tensor(mine.get<TensorId>()), g_.graph.tensor(theirs.get<TensorId>()));
    if (mine.is<Expr>()) return theirs.is<Expr>() && to_string(mine.get<Expr>()) == to_string(theirs.get<Expr>());
    std::optional<double> number = number_of(mine);
    if (!number) return mine == theirs;
    if (!theirs.is<ValueId>()) return number == number_of(theirs);
    const tenon::Type& t = g_.graph.type(theirs.get<ValueId>());
    std::optional<double> filled = t.is_tensor() && t.rank() == 0 ? filled_with(g_.graph, theirs.get<ValueId>()) : std::nullopt;
    return filled && filled == round_to(*number, t.dtype);
  }

  static bool equal(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
    Tensor x = a.contiguous(), y = b.contiguous();
    return x.numel() == 0 || std::memcmp(x.data(), y.data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
  }

  bool is_output(const State& s, ValueId v) const {
    return std::ranges::any_of(p_.outputs, [&](ValueId out) { return s.values.at(out) == tenon::Arg(v); });
  }
  static bool is_inside(const State& s, const GraphImpl::User& user) {
    return !user.is_block && std::ranges::any_of(s.nodes, [&](auto& e) { return e.second == NodeId{user.id}; });
  }

  // Inner results are used inside alone.
  bool is_closed(const State& s) const {
    for (auto& [mine, theirs] : s.nodes)
      for (ValueId v : g_.graph.node(theirs).outputs)
        if (!is_output(s, v))
          for (const auto& [user, offset] : g_.uses.get(v))
            if (!is_inside(s, user)) return false;
    return true;
  }

  // The node of the block that holds `n`, at whatever depth.
  NodeId in_block(NodeId n) const {
    while (g_.block_of.get(n) != block_) n = g_.graph.block(g_.block_of.get(n)).owner;
    return n;
  }

  // Before which node the replacement goes: the last one found, or the first user of an output that stands before it; none where an input
  // is made later.
  NodeId place(const State& s) const {
    NodeId at = s.nodes.begin()->second;
    for (auto& [mine, theirs] : s.nodes)
      if (g_.position(theirs) > g_.position(at)) at = theirs;
    for (ValueId out : p_.outputs)
      for (const auto& [user, offset] : g_.uses.get(s.values.at(out).get<ValueId>()))
        if (!user.is_block && !is_inside(s, user))
          if (NodeId u = in_block(NodeId{user.id}); g_.position(u) < g_.position(at)) at = u;
    bool fits = true;
    for (ValueId in : p_.inputs)
      for_each_value(s.values.at(in), [&](ValueId v) {
        NodeId maker = g_.graph.value(v).node;
        fits &= !maker.valid() || g_.block_of.get(maker) != block_ || g_.position(maker) < g_.position(at);
      });
    return fits ? at : NodeId{};
  }

  Match match_of(const State& s) const {
    Match m;
    for (ValueId v : p_.inputs) m.inputs.push_back(g_.out(s.values.at(v)));
    for (ValueId v : p_.outputs) m.outputs.push_back(Access::value(&g_, s.values.at(v).get<ValueId>()));
    for (NodeId n : p_.nodes)
      if (auto at = s.nodes.find(n); at != s.nodes.end()) m.nodes.push_back(Access::node(&g_, at->second));
    return m;
  }

  const Rewrite& rewrite_;
  const Pattern& p_;
  GraphImpl& g_;
  BlockId block_ = {};
  std::set<NodeId> taken_;
};

void put(const Rewrite& rewrite, Graph& graph, const Match& m, NodeId place) {
  graph.setInsertPoint(Access::node(&graph.impl(), place));
  std::vector<Value> now = rewrite.replacement(graph, m);
  require_input(now.size() == m.outputs.size(), "the replacement gives {} values for {}", now.size(), m.outputs.size());
  for (size_t i = 0; i < now.size(); i++) {
    require_input(static_cast<bool>(now[i]), "the replacement gives an empty Value");
    // What the export recorded besides, as whether gradients are needed, may be another.
    auto type = [](Value v) -> const tenon::Type& { return Access::graph(v)->graph.type(Access::id(v)); };
    require_input(type(now[i]) == type(m.outputs[i]), "the replacement gives {} for {} : {}", now[i].type().str(), m.outputs[i].name(),
                  m.outputs[i].type().str());
    m.outputs[i].replaceAllUsesWith(now[i]);
  }
  graph.setInsertPoint(graph.block());
  std::vector<Node> dead = m.nodes;
  std::ranges::sort(dead, std::greater(), [&](Node n) { return graph.impl().position(Access::id(n)); });
  for (Node n : dead) n.destroy();
}

} // namespace

static void check_dialect(const Graph& graph) {
  require_input(!graph.impl().is_script(), "patterns are for graphs of exported programs, this one is TorchScript's");
}

std::vector<Match> find(const Rewrite& rewrite, Graph& graph) {
  check_dialect(graph);
  Pattern pattern(rewrite);
  std::vector<Match> list;
  Search(rewrite, pattern, graph.impl()).run([&](const Match& m, NodeId) { list.push_back(m); });
  return list;
}

size_t replace(const Rewrite& rewrite, Graph& graph) {
  require_input(rewrite.replacement != nullptr, "a rewrite without a replacement");
  check_dialect(graph);
  Pattern pattern(rewrite);
  size_t count = 0;
  Search(rewrite, pattern, graph.impl()).run([&](const Match& m, NodeId place) { put(rewrite, graph, m, place), count++; });
  return count;
}

} // namespace tenon::ir
