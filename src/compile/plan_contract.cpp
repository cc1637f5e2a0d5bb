// PlanBuilder: matrix products and convolutions, their packed weights and epilogues.
#include "backend/affine.h"
#include "backend/contract.h"
#include "compile/plan_builder.h"

namespace tenon {

namespace {

Inliner region_inliner(const Graph& g) {
  Inliner inliner(g);
  inliner.is_inline = [&g](ValueId v) {
    NodeId n = g.value(v).node;
    return n.valid() && g.node(n).attribute("inline") != nullptr;
  };
  return inliner;
}

} // namespace

// The epilogue kernel, and the value in whose memory the contraction itself writes: the last result, in place, where it
// has the same layout.
TileKernel PlanBuilder::build_epilogue(NodeId id, ValueId& home) {
  TileKernel t;
  home = g_.node(id).outputs.back();
  auto k = kernel_of_epilogue(g_, id, vector_bytes_);
  for (ValueId v : g_.node(id).outputs) define(v);
  if (!k) return t;
  require(k->home.valid(), "a contraction has no place to write to");
  home = k->home;
  for (ValueId v : k->buffers) t.buffers.push_back(buffer_of(v)), use(t.buffers.back());
  t.kernel = add_kernel(k->kernel, Heat::Tile, t.scalars);
  return t;
}

const float* PlanBuilder::pack_matmul(const Tensor& w, int64_t offset, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride) {
  auto key = std::tuple(static_cast<const void*>(w.data_as<float>() + offset), k, n, k_stride, n_stride, int64_t{0});
  if (auto it = packed_.find(key); it != packed_.end()) return it->second;
  float* to = own(packed_b_size(*plan_.micro_kernels, k, n));
  const Panels panels = choose_panels(n, *plan_.micro_kernels);
  const BSource source{w.data_as<float>() + offset, k_stride, n_stride};
  packers_.run(panels.count(), 1, [&](int64_t p0, int64_t p1, int) {
    pack_panels(*plan_.micro_kernels, panels, source, 0, k, p0, p1, to + p0 * panels.width() * k);
  });
  return packed_[key] = to;
}

void PlanBuilder::build_matmul(NodeId id) {
  ExprPool& pool = g_.pool();
  NodeId node = contraction_of(g_, id);
  const Node& n = g_.node(node);
  Inliner inliner = region_inliner(g_);
  std::vector<ValueId> operands = tensor_operands(n.args, g_);
  auto a = matmul_operand(g_, inliner, operands.at(0)), b = matmul_operand(g_, inliner, operands.at(1));
  require(a && b, "an operand of {} has no address", n.op);
  const Type& out = g_.type(n.outputs[0]);
  size_t rank = out.rank();
  Expr one = pool.integer(1), batch = rank == 3 ? out.sizes[0] : one;
  Expr m = out.sizes[rank - 2], cols = out.sizes[rank - 1], k = g_.type(operands[0]).sizes[rank - 1];
  Expr inner = a->inner_batch == one ? b->inner_batch : a->inner_batch;
  auto strides = [&](const MatmulOperand& o, Slot* to) {
    require(o.inner_batch == inner || o.inner_batch == one, "operands divide the batch differently");
    bool whole = o.inner_batch == one && inner != one;
    to[0] = slot(whole ? o.batch[0] * inner : o.batch[0]);
    to[1] = slot(whole ? o.batch[0] : o.batch[1]);
  };
  MatmulStep s;
  ValueId home;
  s.epilogue = build_epilogue(id, home);
  s.c = buffer_of(home);
  s.a = buffer_of(a->value), s.b = buffer_of(b->value);
  use(s.a), use(s.c);
  s.batch[0] = slot(floor_div(batch, inner)), s.batch[1] = slot(inner);
  s.m = slot(m), s.n = slot(cols), s.k = slot(k);
  s.a_offset = slot(a->offset), s.a_row = slot(a->row_stride), s.a_k = slot(a->column_stride);
  s.b_offset = slot(b->offset), s.b_k = slot(b->row_stride), s.b_n = slot(b->column_stride);
  strides(*a, s.a_batch);
  strides(*b, s.b_batch);
  s.c_row = slot(cols);
  s.c_batch[0] = slot(m * cols * inner), s.c_batch[1] = slot(m * cols);
  const Tensor* w = g_.constant(b->value);
  if (w && rank == 2 && const_int(cols) && const_int(k) && const_int(b->offset) && w->is_contiguous())
    s.packed = pack_matmul(*w, *const_int(b->offset), *const_int(k), *const_int(cols), *const_int(b->row_stride), *const_int(b->column_stride));
  else use(s.b);
  prepare_matmul(*plan_.micro_kernels, {.m = const_int(m).value_or(any_size),
                                        .n = const_int(cols).value_or(any_size),
                                        .a_k = const_int(a->column_stride).value_or(0),
                                        .packed = s.packed != nullptr,
                                        .b_n = const_int(b->column_stride).value_or(0)});
  append(id, std::move(s));
}

const float* PlanBuilder::pack_conv(const Tensor& w, const Conv& shape) {
  auto key = std::tuple(static_cast<const void*>(w.data()), shape.groups, shape.in_channels, shape.out_channels, shape.window.positions(), int64_t{1});
  if (auto it = packed_.find(key); it != packed_.end()) return it->second;
  float* to = own(packed_conv_size(*plan_.micro_kernels, shape));
  int64_t strides[5] = {w.strides()[0], w.strides()[1], 0, 0, 0};
  for (size_t d = 2; d < w.rank(); d++) strides[5 - (w.rank() - d)] = w.strides()[d];
  pack_conv_weights(*plan_.micro_kernels, shape, w.data_as<float>(), strides, to);
  return packed_[key] = to;
}

void PlanBuilder::build_conv(NodeId id) {
  NodeId node = contraction_of(g_, id);
  const Node& n = g_.node(node);
  Call c(g_, *n.def, n.args);
  const Type &in = g_.type(c.value("input")), &out = g_.type(n.outputs[0]);
  size_t spatial = in.rank() - 2;
  ConvStep s;
  ValueId home;
  s.epilogue = build_epilogue(id, home);
  s.input = buffer_of(c.value("input")), s.output = buffer_of(home);
  use(s.input), use(s.output);
  const Tensor* w = g_.constant(c.value("weight"));
  require(w != nullptr, "the weight of a convolution is not constant");
  Conv& v = s.shape;
  v.groups = c.integer("groups");
  v.in_channels = w->sizes()[1] * v.groups, v.out_channels = w->sizes()[0];
  auto stride = c.integers("stride"), padding = c.integers("padding"), dilation = c.integers("dilation");
  Slot one = slots_.constant(1);
  for (size_t d = 0; d < 3; d++) s.in[d] = s.out[d] = one;
  for (size_t d = 0; d < spatial; d++) {
    size_t to = 3 - spatial + d;
    v.window.kernel[to] = w->sizes()[2 + d];
    v.window.stride[to] = stride.at(stride.size() == 1 ? 0 : d);
    v.window.pad[to] = padding.at(padding.size() == 1 ? 0 : d);
    v.window.dilation[to] = dilation.at(dilation.size() == 1 ? 0 : d);
    s.in[to] = slot(in.sizes[2 + d]), s.out[to] = slot(out.sizes[2 + d]);
    v.window.in[to] = const_int(in.sizes[2 + d]).value_or(any_size), v.window.out[to] = const_int(out.sizes[2 + d]).value_or(any_size);
  }
  s.batch = slot(in.sizes[0]);
  v.weights = pack_conv(*w, v);
  prepare_conv(*plan_.micro_kernels, v);
  if (c.has("bias")) {
    const Tensor* bias = g_.constant(c.value("bias"));
    require(bias != nullptr, "the bias of a convolution is not constant");
    plan_.constants.push_back(bias->contiguous());
    v.bias = plan_.constants.back().data_as<float>();
  }
  append(id, std::move(s));
}

} // namespace tenon
