// StepEmitter: attention steps.
#include "compile/step_emitter.h"

namespace tenon {

AttentionStep::Operand StepEmitter::attention_operand(const AttentionOperand& o) {
  AttentionStep::Operand s{
      .buffer = buffer_of(o.value), .offset = slot(o.offset), .batch = {}, .row = slot(o.row_stride), .column = slot(o.column_stride)};
  // The last digits are those that exist; the others have one value.
  size_t missing = AttentionCall::most_digits - o.batch.size();
  for (size_t d = 0; d < AttentionCall::most_digits; d++) s.batch[d] = d < missing ? slots_.constant(0) : slot(o.batch[d - missing]);
  return s;
}

void StepEmitter::build_attention(NodeId id) {
  const auto& [lowered, selected] = region_of(id);
  const auto& [a, block_keys, kernels] = *lowered.attention;
  NodeId product = contraction_of(g_, id);
  const Type &out = g_.type(g_.node(product).outputs[0]), &weights = g_.type(tensor_operands(g_.node(product).args, g_).at(0));
  Expr keys = weights.sizes.back(), columns = out.sizes.back();
  ValueId left = tensor_operands(g_.node(a.scores).args, g_).at(0);
  AttentionStep s;
  s.block_keys = block_keys;
  for (ValueId v : g_.node(id).outputs) define(v);
  fill_tile(kernels.score, selected.kernels[0], s.score);
  fill_tile(kernels.finish, selected.kernels[1], s.finish);
  size_t missing = AttentionCall::most_digits - a.digits.size();
  for (size_t d = 0; d < AttentionCall::most_digits; d++) s.digits[d] = d < missing ? slots_.constant(1) : slot(a.digits[d - missing]);
  s.rows = slot(out.sizes[out.rank() - 2]), s.keys = slot(keys), s.columns = slot(columns), s.depth = slot(g_.type(left).sizes.back());
  s.q = attention_operand(a.q), s.k = attention_operand(a.k), s.v = attention_operand(a.v);
  if (a.upper) s.upper = slot(a.upper);
  if (a.lower) s.lower = slot(a.lower);
  append(id, std::move(s));
}

} // namespace tenon
