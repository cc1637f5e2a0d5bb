// StepEmitter: matrix products and convolutions with their epilogues.
#include "backend/affine.h"
#include "backend/contract.h"
#include "compile/step_emitter.h"

namespace tenon {

// What an epilogue reads and writes at each of its tiles, where that lies as the contraction's result does.
std::vector<int> StepEmitter::beside_of(NodeId id, const RegionKernel& k) {
  const Type &out = g_.type(g_.node(id).outputs.at(0)), &sums = g_.type(g_.node(contraction_of(g_, id)).outputs.at(0));
  bool same = out.sizes == sums.sizes && out.strides == sums.strides;
  bool seen_otherwise =
      out.strides.empty() && sums.strides.empty() && out.rank() > 0 && sums.rank() > 0 && out.sizes.back() == sums.sizes.back();
  if (!same && !seen_otherwise) return {};
  std::vector<int> found;
  for (int b : inputs_beside_result(k.kernel))
    if (ValueId v = k.buffers[static_cast<size_t>(b)]; v.valid()) found.push_back(buffer_of(v));
  int result = buffer_of(g_.node(id).outputs[0]);
  if (g_.node(id).outputs.size() == 1 && std::find(found.begin(), found.end(), result) == found.end()) found.push_back(result);
  return found;
}

void StepEmitter::fill_tile(const RegionKernel& kernel, const KernelUse& use, TileKernel& to) {
  for (ValueId v : kernel.buffers) to.buffers.push_back(buffer_or_scratch(v));
  to.kernel = use.kernel, to.scalars = scalars_of(use);
}

// The epilogue kernel; none where the sums are the region's only result.
TileKernel StepEmitter::build_epilogue(NodeId id) {
  const auto& [lowered, selected] = region_of(id);
  const std::optional<RegionKernel>& k = lowered.epilogue;
  if (k && g_.node(id).outputs.size() == 1) define_result(id, *k);
  else
    for (ValueId v : g_.node(id).outputs) define(v);
  TileKernel t;
  if (!k) return t;
  fill_tile(*k, selected.kernels.at(0), t);
  for (size_t i = 0; i < t.buffers.size(); i++)
    if (k->kernel.buffers[i].kind == BufferKind::Output) t.written.push_back(t.buffers[i]);
  t.beside = beside_of(id, *k);
  return t;
}

void StepEmitter::build_matmul(NodeId id) {
  const auto& [lowered, selected] = region_of(id);
  const auto& [a, b] = *lowered.product;
  ExprPool& pool = g_.pool();
  NodeId node = contraction_of(g_, id);
  const Node& n = g_.node(node);
  std::vector<ValueId> operands = tensor_operands(n.args, g_);
  const Type& out = g_.type(n.outputs[0]);
  size_t rank = out.rank();
  Expr one = pool.integer(1), batch = rank == 3 ? out.sizes[0] : one;
  Expr m = out.sizes[rank - 2], cols = out.sizes[rank - 1], k = g_.type(operands[0]).sizes[rank - 1];
  Expr inner = a.inner_batch == one ? b.inner_batch : a.inner_batch;
  auto strides = [&](const MatmulOperand& o, Slot* to) {
    require(o.inner_batch == inner || o.inner_batch == one, "operands divide the batch differently");
    bool whole = o.inner_batch == one && inner != one;
    to[0] = slot(whole ? o.batch[0] * inner : o.batch[0]);
    to[1] = slot(whole ? o.batch[0] : o.batch[1]);
  };
  MatmulStep s;
  s.epilogue = build_epilogue(id);
  s.c = s.epilogue.kernel >= 0 ? -1 : buffer_of(g_.node(id).outputs.at(0));
  s.a = buffer_of(a.value);
  s.a_type = g_.type(a.value).dtype, s.b_type = g_.type(b.value).dtype;
  s.batch[0] = slot(floor_div(batch, inner)), s.batch[1] = slot(inner);
  s.m = slot(m), s.k = slot(k);
  s.a_offset = slot(a.offset), s.a_row = slot(a.row_stride), s.a_k = slot(a.column_stride);
  s.b_offset = slot(b.offset), s.b_k = slot(b.row_stride), s.b_n = slot(b.column_stride);
  strides(a, s.a_batch);
  const SelectedRegion::Product& product = *selected.product;
  MatmulOperand read = b;
  if (product.packed >= 0) // bytes, from matrix to matrix
    for (Expr& by : read.batch) by = pool.integer(const_int(by).value_or(0) / product.matrix_stride * product.matrix_bytes);
  strides(read, s.b_batch);
  std::vector<Expr> to = strides_of(pool, out);
  Expr matrix = rank == 3 ? to[0] : m * cols;
  s.c_row = slot(to[rank - 2]);
  s.c_batch[0] = slot(matrix * inner), s.c_batch[1] = slot(matrix);
  s.family = product.family, s.packed = product.packed, s.panel_vectors = product.panel_vectors;
  s.later = product.later, s.later_family = product.later_family;
  if (s.packed < 0) s.b = buffer_of(b.value);
  s.n = product.columns >= 0 ? slots_.constant(product.columns) : slot(cols);
  s.number = plan_.num_matmuls++;
  s.repeated = scans_ > 0;
  append(id, std::move(s));
}

void StepEmitter::build_conv(NodeId id) {
  const SelectedRegion::Convolution& selected = *region_of(id).selected.conv;
  const Node& n = g_.node(contraction_of(g_, id));
  Call c(g_, *n.def, n.args);
  const Type &in = g_.type(c.value("input")), &out = g_.type(n.outputs[0]);
  ConvStep s;
  s.epilogue = build_epilogue(id);
  s.input = buffer_of(c.value("input"));
  s.output = s.epilogue.kernel >= 0 ? -1 : buffer_of(g_.node(id).outputs.at(0));
  s.shape = selected.shape, s.packed = selected.packed, s.packed_windows = selected.packed_windows;
  for (size_t d = 0; d < 3; d++) s.in[d] = s.out[d] = slots_.constant(1);
  for (size_t d = 2; d < in.rank(); d++) s.in[3 - in.rank() + d] = slot(in.sizes[d]), s.out[3 - in.rank() + d] = slot(out.sizes[d]);
  s.batch = slot(in.sizes[0]);
  Expr pixel = s.shape.by_lines ? g_.pool().integer(s.shape.in_channels) : strides_of(g_.pool(), in).back();
  s.in_pixel = slot(pixel), s.in_batch = slot(strides_of(g_.pool(), in)[0]);
  s.out_pixel = s.shape.row_major ? slots_.constant(s.shape.out_channels) : slot(strides_of(g_.pool(), out).back());
  s.out_batch = slot(strides_of(g_.pool(), out)[0]);
  if (s.packed < 0) s.weight = buffer_of(c.value("weight"));
  s.number = plan_.num_convs++;
  append(id, std::move(s));
}

} // namespace tenon
