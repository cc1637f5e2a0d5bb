// Checks of a graph as it was read: the verifier's, and that every symbol has a place that gives its value.
#include "fx/check.h"

#include <unordered_set>

#include "base/check.h"
#include "ir/verify.h"

namespace tenon {

namespace {

// Any value may give a symbol its value: as a number, or as one of its sizes. Whether it does so in time is found out
// when the plan is made.
class Symbols {
public:
  explicit Symbols(const Graph& g) : g_(g) {
    for (uint32_t i = 0; i < g.num_values(); i++) {
      const Type& t = g.type(ValueId{i});
      if (t.value) give(t.value);
      for (Expr e : t.sizes) give(e);
    }
    for (ValueId p : g.block(g.top()).params)
      for (Expr e : g.type(p).sizes) solve(e);
  }

  void run() {
    for (uint32_t i = 0; i < g_.num_nodes(); i++) {
      const Node& n = g_.node(NodeId{i});
      std::string name = n.outputs.empty() ? "" : g_.value(n.outputs[0]).name;
      within_node(name.empty() ? n.op.name() : "%" + name, n.origin.get(), [&] {
        for (const Arg& a : n.args) check(a);
      });
    }
    for (uint32_t i = 0; i < g_.num_values(); i++) {
      const Value& v = g_.value(ValueId{i});
      within_node("%" + v.name, v.node.valid() ? g_.node(v.node).origin.get() : nullptr, [&] {
        for (Expr e : v.type.sizes) check(e);
      });
    }
    within_node("the output", nullptr, [&] {
      for (const Arg& a : g_.block(g_.top()).returns) check(a);
    });
  }

private:
  // An input's size that depends on one symbol alone, as 4*s + 1, is solved for it.
  void solve(Expr e) {
    std::unordered_set<const ExprNode*> symbols;
    visit(e, [&](const ExprNode& n) {
      if (n.op == Op::Symbol) symbols.insert(&n);
    });
    if (symbols.size() == 1) given_.insert(*symbols.begin());
  }
  void give(Expr e) {
    if (e->op == Op::Symbol) given_.insert(e.get());
  }
  void check(const Arg& a) {
    if (a.is<Expr>()) check(a.get<Expr>());
    if (a.is<ArgList>())
      for (const Arg& e : a.get<ArgList>()) check(e);
  }
  void check(Expr e) {
    if (!checked_.insert(e.get()).second) return;
    visit(e, [&](const ExprNode& n) {
      require_input(n.op != Op::Symbol || given_.contains(&n), "{} is used, but nothing gives its value", n.name);
    });
  }

  const Graph& g_;
  std::unordered_set<const ExprNode*> given_, checked_;
};

} // namespace

void check_graph(const Graph& graph) {
  bool is_edge = false; // by any of its nodes: those that are none then are what is wrong
  for (uint32_t i = 0; i < graph.num_nodes(); i++) is_edge |= graph.node(NodeId{i}).op.dialect() == "edge";
  verify_given(graph, is_edge ? Dialect::Edge : Dialect::Aten);
  Symbols(graph).run();
}

} // namespace tenon
