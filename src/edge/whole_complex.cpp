// Complex tensors that the program returns, or that library steps read: the last pass, as what asks for their parts has them by then.
//   %z = complex(%x, %y)   ->   %1 = cat([unsqueeze(%x, -1), unsqueeze(%y, -1)], -1); %z = tenon::as_complex(%1)
#include "edge/match.h"
#include "edge/passes.h"
#include "ops/complex.h"
#include "ops/names.h"

namespace tenon {

bool whole_complex(LoadedProgram& program) {
  auto concerns = [](const Graph&, const Node& n) { return n.op == edge::complex; };
  bool any = rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    ArgList args = r(n.args);
    Call c(r.builder.graph(), *n.def, args);
    ops::Parts z{r.builder.input(c, "real"), r.builder.input(c, "imag")};
    return {r.builder.call1(own::as_complex, {ops::interleaved(z)}).id};
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
