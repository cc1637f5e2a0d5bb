// whole_groups: kernels of narrow types read pairs of bf16 and fours of bytes where they lie. The three channels of a first layer become
// four, the last of them zeros in the weights too, or each window would be copied.
#include "base/rounding.h"
#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

/// How many channels a kernel reads at once, where it reads the memory of both operands.
int64_t group_of(DType input, DType weight) {
  if (input == DType::BF16 && weight == DType::BF16) return 2;
  return is_byte(input) && weight == DType::I8 ? 4 : 1;
}

/// Zeros behind the channels, dim 1.
V padded(V x, int64_t by) {
  ArgList sides(2 * x.rank() - 2, int64_t{0});
  sides.back() = by;
  return x.builder().call1(aten::constant_pad_nd, {x, sides, 0});
}

} // namespace

bool whole_groups(LoadedProgram& program) {
  auto concerns = [](const Graph& from, const Node& n) {
    if (n.op != edge::convolution && n.op != edge::convolution_dtype) return false;
    return group_of(from.type(n.args[0].get<ValueId>()).dtype, from.type(n.args[1].get<ValueId>()).dtype) > 1;
  };
  bool any = rewrite_nodes(program, concerns, [](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    Builder& b = r.builder;
    ArgList args = r(n.args);
    Call c(b.graph(), *n.def, args);
    V x = b.input(c, "input"), w = b.input(c, "weight");
    int64_t group = group_of(x.dtype(), w.dtype());
    auto channels = const_int(w.size(1));
    bool rows = product(b.pool(), w.sizes()) == w.size(0) * w.size(1); // of a product, which ends where they end
    for (int64_t step : c.integers("stride")) rows = rows && step == 1;
    if (c.flag("transposed") || c.integer("groups") != 1 || !channels || *channels % group == 0 || rows) return {};
    int64_t missing = round_up(*channels, group) - *channels;
    args[0] = padded(x, missing), args[1] = padded(w, missing);
    return {b.call_full(*n.def, args).at(0).id};
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
