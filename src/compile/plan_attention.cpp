// PlanBuilder: attention steps.
#include "compile/plan_builder.h"
#include "loops/from_attention.h"

namespace tenon {

AttentionStep::Operand PlanBuilder::attention_operand(const AttentionOperand& o) {
  AttentionStep::Operand s{
      .buffer = buffer_of(o.value), .offset = slot(o.offset), .batch = {}, .row = slot(o.row_stride), .column = slot(o.column_stride)};
  use(s.buffer);
  // The last digits are those that exist; the others have one value.
  size_t missing = AttentionCall::most_digits - o.batch.size();
  for (size_t d = 0; d < AttentionCall::most_digits; d++) s.batch[d] = d < missing ? slots_.constant(0) : slot(o.batch[d - missing]);
  return s;
}

void PlanBuilder::build_attention(NodeId id) {
  NodeId product = contraction_of(g_, id), scores = scores_of(g_, id);
  Inliner inliner(g_);
  inliner.is_inline = [&](ValueId v) {
    NodeId n = g_.value(v).node;
    return n.valid() && g_.node(n).attribute("inline") && inliner.own(n).reduction == Reduction::None;
  };
  std::string why;
  auto a = match_attention(g_, product, scores, inliner, why);
  require(a.has_value(), "a region is no attention: {}", why);
  const Type &out = g_.type(g_.node(product).outputs[0]), &weights = g_.type(tensor_operands(g_.node(product).args, g_).at(0));
  Expr keys = weights.sizes.back(), columns = out.sizes.back();
  ValueId left = tensor_operands(g_.node(scores).args, g_).at(0);
  AttentionStep s;
  s.block_keys = attention_block_keys(const_int(keys).value_or(any_size));
  AttentionKernels k = kernels_of_attention(g_, id, *a, vector_bytes_, attention_score_stride(s.block_keys));
  for (ValueId v : g_.node(id).outputs) define(v);
  auto add = [&](const RegionKernel& from, TileKernel& to) {
    for (ValueId v : from.buffers) {
      to.buffers.push_back(v.valid() ? buffer_of(v) : -1);
      if (v.valid()) use(to.buffers.back());
    }
    to.kernel = add_kernel(from.kernel, Heat::Tile, to.scalars);
  };
  add(k.score, s.score);
  add(k.finish, s.finish);
  size_t missing = AttentionCall::most_digits - a->digits.size();
  for (size_t d = 0; d < AttentionCall::most_digits; d++) s.digits[d] = d < missing ? slots_.constant(1) : slot(a->digits[d - missing]);
  s.rows = slot(out.sizes[out.rank() - 2]), s.keys = slot(keys), s.columns = slot(columns), s.depth = slot(g_.type(left).sizes.back());
  s.q = attention_operand(a->q), s.k = attention_operand(a->k), s.v = attention_operand(a->v);
  if (a->upper) s.upper = slot(a->upper);
  if (a->lower) s.lower = slot(a->lower);
  append(id, std::move(s));
}

} // namespace tenon
