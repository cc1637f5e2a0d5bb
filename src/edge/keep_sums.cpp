// keep_sums: what a convolution of reduced floats adds up goes on in f32 where nothing but one f32 computation reads it, as that of a batch
// norm does. It is rounded once less than when operators stand alone. Casts that the program asks for stay: sums of reduced floats in f32
// are ours.
#include <unordered_set>

#include "edge/match.h"
#include "edge/passes.h"
#include "ops/names.h"

namespace tenon {

namespace {

bool is_sum(const Graph& g, ValueId v) {
  if (const Node* add = made_by(g, v, edge::add_Tensor)) return made_by(g, add->args[0].get<ValueId>(), edge::convolution_dtype);
  return made_by(g, v, edge::convolution_dtype);
}

/// The f32 sums that `narrow`, of reduced floats, is rounded from.
V sums_of(Rewriter& r, ValueId narrow) {
  const Graph& from = r.from;
  if (const Node* cast = made_by(from, narrow, edge::_to_copy)) {
    ValueId wide = cast->args[0].get<ValueId>();
    return from.type(wide).dtype == DType::F32 && is_sum(from, wide) ? r.builder.wrap(r[wide]) : V();
  }
  const Node* conv = made_by(from, narrow, edge::convolution);
  if (!conv || from.type(conv->args[0].get<ValueId>()).dtype != from.type(narrow).dtype) return {};
  ArgList args = r(conv->args);
  args.push_back(DType::F32);
  return r.builder.call1(aten::convolution_dtype, args);
}

} // namespace

bool keep_sums(LoadedProgram& program) {
  const Graph& g = program.graph;
  if (!has_call(g, edge::convolution) && !has_call(g, edge::convolution_dtype)) return false;
  auto uses = count_uses(g);
  std::unordered_set<ValueId> pointwise; // used by a pointwise operator
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (const Node& n = g.node(NodeId{i}); n.def && n.def->kind == Kind::Pointwise)
      for_each_use(g, NodeId{i}, [&](ValueId v) { pointwise.insert(v); });
  auto concerns = [&](const Graph& from, const Node& n) {
    if (n.op != edge::_to_copy || from.type(n.outputs[0]).dtype != DType::F32) return false;
    ValueId narrow = n.args[0].get<ValueId>(), wide = n.outputs[0];
    return is_reduced_float(from.type(narrow).dtype) && uses[narrow] == 1 && uses[wide] == 1 && pointwise.contains(wide);
  };
  bool any = rewrite_nodes(program, concerns, [&](Rewriter& r, const Node& n) -> std::vector<ValueId> {
    V sums = sums_of(r, n.args[0].get<ValueId>());
    return sums ? std::vector{sums.id} : std::vector<ValueId>();
  });
  if (any) remove_dead_code(program);
  return any;
}

} // namespace tenon
