// Checks of a graph as it was read: the verifier's, and that every symbol has a place that gives its value.
#include "load/pt2_check.h"

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
  }

  void check(const Arg& a) {
    if (a.is<Expr>()) check(a.get<Expr>());
    if (a.is<ArgList>())
      for (const Arg& e : a.get<ArgList>()) check(e);
  }

  void run() {
    for (uint32_t i = 0; i < g_.num_nodes(); i++)
      for (const Arg& a : g_.node(NodeId{i}).args) check(a);
    for (uint32_t i = 0; i < g_.num_values(); i++)
      for (Expr e : g_.type(ValueId{i}).sizes) check(e);
    for (const Arg& a : g_.block(g_.top()).returns) check(a);
  }

private:
  void give(Expr e) {
    if (e->op == Op::Symbol) given_.insert(e.get());
  }
  void check(Expr e) {
    if (!checked_.insert(e.get()).second) return;
    visit(e, [&](const ExprNode& n) {
      require_input(n.op != Op::Symbol || given_.contains(&n), "model.json: {} is used, but nothing gives its value", n.name);
    });
  }

  const Graph& g_;
  std::unordered_set<const ExprNode*> given_, checked_;
};

} // namespace

void check_graph(const Graph& graph) {
  verify_given(graph);
  Symbols(graph).run();
}

} // namespace tenon
