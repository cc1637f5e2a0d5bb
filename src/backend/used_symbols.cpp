// Symbols of expressions, types, arguments and nodes.
#include "backend/used_symbols.h"

namespace tenon {

void add_symbols(Expr e, Symbols& out) {
  if (e)
    visit(e, [&](const ExprNode& n) {
      if (n.op == Op::Symbol) out.insert(&n);
    });
}
void add_symbols(const Type& t, Symbols& out) {
  add_symbols(t.value, out);
  for (Expr e : t.sizes) add_symbols(e, out);
}
static void add_symbols(const Arg& a, Symbols& out) {
  if (a.is<Expr>()) add_symbols(a.get<Expr>(), out);
  else if (a.is<ArgList>())
    for (const Arg& x : a.get<ArgList>()) add_symbols(x, out);
}
void add_symbols(const Graph& g, NodeId id, Symbols& out) {
  const Node& n = g.node(id);
  for (const Arg& a : n.args) add_symbols(a, out);
  for (const Attribute& a : n.attributes) add_symbols(a.value, out);
  for (ValueId v : n.outputs) add_symbols(g.type(v), out);
  for (BlockId b : n.blocks) {
    for (NodeId inner : g.block(b).nodes) add_symbols(g, inner, out);
    for (const Arg& a : g.block(b).returns) add_symbols(a, out);
  }
}

} // namespace tenon
