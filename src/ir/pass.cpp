// Rewriter and dead-code removal.
#include "ir/pass.h"

#include "ir/collective.h"

#include "ops/names.h"

#include <algorithm>
#include <unordered_set>

namespace tenon {

ValueId Rewriter::operator[](ValueId old) const {
  ValueId now = map_.get(old);
  require(now.valid(), "a pass lost value %{}", old.index);
  return now;
}

ArgList Rewriter::operator()(const ArgList& args) const {
  ArgList out;
  out.reserve(args.size());
  for (const Arg& a : args) out.push_back((*this)(a));
  return out;
}

void Rewriter::copy_params(BlockId old, BlockId now) {
  for (ValueId p : from.block(old).params) add_param(p, now);
}

ValueId Rewriter::add_param(ValueId old, BlockId block) {
  ValueId now = to.add_param(block, from.type(old), from.value(old).name);
  to.value(now).meta = from.value(old).meta;
  set(old, now);
  return now;
}

void Rewriter::copy_node(NodeId id) {
  const Node& n = from.node(id);
  Node copy{.op = n.op, .def = n.def, .args = (*this)(n.args), .origin = n.origin};
  for (const Attribute& a : n.attributes) copy.attributes.push_back({a.name, (*this)(a.value)});
  copy.outputs.reserve(n.outputs.size());
  NodeId now = to.append(builder.block(), std::move(copy), {});
  for (ValueId v : n.outputs) set(v, to.add_output(now, from.type(v), from.value(v).name));
  for (BlockId b : n.blocks) {
    BlockId inner = to.add_block(now);
    copy_params(b, inner);
    block(b, inner);
  }
}

void Rewriter::copy_block(BlockId old, BlockId now) {
  BlockId outer = builder.block();
  builder.set_block(now);
  for (NodeId id : from.block(old).nodes) {
    builder.set_origin(from.node(id).origin);
    node(id);
  }
  to.block(now).returns = (*this)(from.block(old).returns);
  builder.set_block(outer);
}

void Rewriter::copy_all() {
  for (uint32_t i = 0; i < from.num_tensors(); i++) to.add_tensor(from.stored(TensorId{i}));
  copy_params(from.top(), to.top());
  copy_block(from.top(), to.top());
}

Graph Rewriter::run() {
  copy_all();
  return std::move(to);
}

bool rewrite_program(LoadedProgram& program, Rewriter& r, const bool& changed) {
  Graph out = r.run();
  if (!changed) return false;
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = r[in.value];
  program.graph = std::move(out);
  return true;
}

bool binds_symbols(const Node& n) { return n.op == prim::Item || (n.def && n.def->data_dependent); }

namespace {

using SymbolSet = std::unordered_set<const ExprNode*>;

void add_symbols(Expr e, SymbolSet& out) {
  visit(e, [&](const ExprNode& n) {
    if (n.op == Op::Symbol) out.insert(&n);
  });
}

void add_symbols(const Arg& a, SymbolSet& out) {
  if (a.is<Expr>()) add_symbols(a.get<Expr>(), out);
  else if (a.is<ArgList>())
    for (const Arg& e : a.get<ArgList>()) add_symbols(e, out);
}

struct Liveness {
  const Graph& graph;
  bool any_bound; // whether symbols that are used matter
  SideTable<ValueId, bool> used{false};
  SideTable<NodeId, bool> live{false};
  SymbolSet symbols = {};

  explicit Liveness(const Graph& g) : graph(g), any_bound(has_binding(g)) {}

  static bool has_binding(const Graph& g) {
    for (uint32_t i = 0; i < g.num_nodes(); i++)
      if (binds_symbols(g.node(NodeId{i}))) return true;
    return false;
  }

  void use_sizes(ValueId v) {
    if (any_bound)
      for (Expr s : graph.type(v).sizes) add_symbols(s, symbols);
  }

  void use(const Arg& a) {
    for_each_value(a, [&](ValueId v) {
      used[v] = true;
      use_sizes(v);
    });
    if (any_bound) add_symbols(a, symbols);
  }

  bool binds_used_symbol(const Node& n) const {
    if (!binds_symbols(n)) return false;
    SymbolSet bound;
    for (ValueId v : n.outputs) {
      const Type& t = graph.type(v);
      if (t.value) add_symbols(t.value, bound);
      for (Expr s : t.sizes) add_symbols(s, bound);
    }
    for (auto* s : bound)
      if (symbols.contains(s)) return true;
    return false;
  }

  bool is_live(const Node& n) const {
    if (n.op == prim::Assert) return true;
    for (ValueId v : n.outputs)
      if (used.get(v)) return true;
    return binds_used_symbol(n) || n.outputs.empty() || is_collective(n);
  }

  // Whether any of the nodes, those of inner blocks included, is dead.
  bool has_dead(BlockId b) const {
    return std::ranges::any_of(graph.block(b).nodes, [&](NodeId id) {
      return !live.get(id) || std::ranges::any_of(graph.node(id).blocks, [&](BlockId inner) { return has_dead(inner); });
    });
  }

  // Backwards over the block; a live node's operands, and all that its blocks return, are used.
  bool mark(BlockId b) {
    bool changed = false;
    auto& nodes = graph.block(b).nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node& n = graph.node(nodes[i]);
      if (!live[nodes[i]] && is_live(n)) {
        live[nodes[i]] = changed = true;
        for (const Arg& a : n.args) use(a);
        for (const Attribute& a : n.attributes) use(a.value);
        for (BlockId inner : n.blocks)
          for (const Arg& r : graph.block(inner).returns) use(r);
        for (ValueId v : n.outputs) use_sizes(v);
      }
      if (live[nodes[i]])
        for (BlockId inner : n.blocks) changed |= mark(inner);
    }
    return changed;
  }
};

} // namespace

bool remove_dead_code(LoadedProgram& program) {
  const Graph& g = program.graph;
  Liveness l(g);
  for (const Arg& r : g.block(g.top()).returns) l.use(r);
  while (l.mark(g.top())) {}
  if (!l.has_dead(g.top())) return false;
  Rewriter r(g, false);
  r.node = [&](NodeId id) {
    if (l.live.get(id)) r.copy_node(id);
  };
  return rewrite_program(program, r, true);
}

std::vector<std::string> missing_operators(const Graph& graph) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < graph.num_nodes(); i++) {
    const Node& n = graph.node(NodeId{i});
    if (!n.def && std::find(out.begin(), out.end(), n.op) == out.end()) out.push_back(n.op.name());
  }
  return out;
}

} // namespace tenon
