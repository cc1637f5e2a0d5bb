// symbols_of: a walk over types, arguments and results.
#include "ir/symbols.h"

#include <unordered_set>

namespace tenon {

namespace {

class SymbolsInOrder {
public:
  explicit SymbolsInOrder(const Graph& g) : g_(g) { add_block(g.top()); }
  std::vector<Expr> found;

private:
  void add(Expr e) {
    if (!e) return;
    visit(e, [&](const ExprNode& n) {
      if (n.op == Op::Symbol && n.type == DType::I64 && seen_.insert(&n).second) found.push_back(Expr(&n));
    });
  }
  void add(const Arg& a) {
    if (a.is<Expr>()) add(a.get<Expr>());
    else if (a.is<ArgList>())
      for (const Arg& e : a.get<ArgList>()) add(e);
  }
  void add(ValueId id) {
    const Type& t = g_.type(id);
    for (Expr e : t.sizes) add(e);
    for (Expr e : t.strides) add(e);
    add(t.value);
  }
  void add_block(BlockId id) {
    const Block& b = g_.block(id);
    for (ValueId p : b.params) add(p);
    for (NodeId n : b.nodes) {
      for (ValueId v : g_.node(n).outputs) add(v);
      for (const Attribute& a : g_.node(n).attributes) add(a.value);
      for (const Arg& a : g_.node(n).args) add(a);
      for (BlockId inner : g_.node(n).blocks) add_block(inner);
    }
    for (const Arg& a : b.returns) add(a);
  }

  const Graph& g_;
  std::unordered_set<const ExprNode*> seen_;
};

} // namespace

std::vector<Expr> symbols_of(const Graph& graph) { return SymbolsInOrder(graph).found; }

} // namespace tenon
