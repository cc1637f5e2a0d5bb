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

// What an epilogue reads and writes at each of its tiles, where that lies as the contraction's result does.
std::vector<int> PlanBuilder::beside_of(NodeId id, const RegionKernel& k) {
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

// The epilogue kernel; none where the sums are the region's only result.
TileKernel PlanBuilder::build_epilogue(NodeId id) {
  TileKernel t;
  auto k = kernel_of_epilogue(g_, id, vector_bytes_);
  if (k && g_.node(id).outputs.size() == 1) define_result(id, *k);
  else
    for (ValueId v : g_.node(id).outputs) define(v);
  if (!k) return t;
  for (ValueId v : k->buffers) {
    t.buffers.push_back(v.valid() ? buffer_of(v) : -1);
    if (v.valid()) use(t.buffers.back());
  }
  for (size_t i = 0; i < t.buffers.size(); i++)
    if (k->kernel.buffers[i].kind == BufferKind::Output) t.written.push_back(t.buffers[i]);
  t.kernel = add_kernel(k->kernel, Heat::Tile, t.scalars);
  t.beside = beside_of(id, *k);
  return t;
}

// The packed weights of a product; one that is read by slices of its columns has as many as their blocks hold.
int PlanBuilder::pack_constant(const Tensor& w, const MatmulOperand& b, int64_t slices, Matmul& shape) {
  const KernelTable& kernels = *linked_.micro_kernels;
  const GemmFamily& f = kernels.families()[static_cast<size_t>(shape.family)];
  ProductWeights from{shape.family,    {}, *const_int(b.offset), *const_int(b.row_stride), *const_int(b.column_stride), slices,
                      shape.n / slices};
  if (slices > 1) {
    require(f.lanes == slice_lanes(vector_bytes_, f.sum), "{} has vectors of {} sums", f.name, f.lanes);
    bool wide = f.rows[8] > 0; // registers for tiles of four vectors and six rows
    shape.panel_vectors = static_cast<int>(slices == 2 && wide ? 4 : slices);
    shape.n = (from.width + f.lanes - 1) / f.lanes * f.lanes * slices;
  }
  from.panels = choose_panels(f, shape.n, shape.k, shape.panel_vectors);
  return weights_.add(kernels, w, from);
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
  s.epilogue = build_epilogue(id);
  s.c = s.epilogue.kernel >= 0 ? -1 : buffer_of(g_.node(id).outputs.at(0));
  s.a = buffer_of(a->value);
  s.a_type = g_.type(a->value).dtype, s.b_type = g_.type(b->value).dtype;
  use(s.a);
  if (s.c >= 0) use(s.c);
  s.batch[0] = slot(floor_div(batch, inner)), s.batch[1] = slot(inner);
  s.m = slot(m), s.k = slot(k);
  s.a_offset = slot(a->offset), s.a_row = slot(a->row_stride), s.a_k = slot(a->column_stride);
  s.b_offset = slot(b->offset), s.b_k = slot(b->row_stride), s.b_n = slot(b->column_stride);
  strides(*a, s.a_batch);
  strides(*b, s.b_batch);
  std::vector<Expr> to = strides_of(pool, out);
  Expr matrix = rank == 3 ? to[0] : m * cols;
  s.c_row = slot(to[rank - 2]);
  s.c_batch[0] = slot(matrix * inner), s.c_batch[1] = slot(matrix);
  const Tensor* w = g_.constant(b->value);
  Matmul shape{.m = const_int(m).value_or(any_size),
               .n = const_int(cols).value_or(any_size),
               .k = const_int(k).value_or(any_size),
               .a_type = s.a_type,
               .b_type = s.b_type,
               .a_row = const_int(a->row_stride).value_or(0),
               .a_k = const_int(a->column_stride).value_or(0),
               .b_n = const_int(b->column_stride).value_or(0)};
  shape.family = choose_family(*linked_.micro_kernels, s.a_type, s.b_type, shape.m, shape.n, shape.k);
  if (w && rank == 2 && shape.n != any_size && shape.k != any_size && const_int(b->offset) && w->is_contiguous())
    s.packed = pack_constant(*w, *b, slices_of(n), shape), s.family = shape.family;
  else use(s.b = buffer_of(b->value)); // its family is chosen when sizes are bound
  s.panel_vectors = shape.panel_vectors;
  s.n = shape.panel_vectors ? slots_.constant(shape.n) : slot(cols);
  s.number = plan_.num_matmuls++;
  s.repeated = scans_ > 0;
  append(id, std::move(s));
}

// What the call says of the convolution: all but the image's sizes and pointers.
static Conv conv_shape(const Graph& g, const Call& c) {
  const Type &in = g.type(c.value("input")), &weight = g.type(c.value("weight"));
  size_t spatial = in.rank() - 2;
  Conv v;
  v.transposed = c.flag("transposed"), v.groups = c.integer("groups");
  v.in_type = in.dtype, v.weight_type = weight.dtype;
  v.padding = c.def.signature.find("padding_value") >= 0 ? static_cast<int>(c.integer("padding_value")) : 0;
  v.packed = false;
  auto size = [&](size_t d) { return *const_int(weight.sizes[d]); };
  v.in_channels = v.transposed ? size(0) : size(1) * v.groups;
  v.out_channels = v.transposed ? size(1) * v.groups : size(0);
  auto stride = c.integers("stride"), padding = c.integers("padding"), dilation = c.integers("dilation");
  std::vector<Expr> strides = strides_of(g.pool(), weight);
  for (size_t d : {size_t{0}, size_t{1}}) v.weight_strides[d] = *const_int(strides[d]);
  for (size_t d = 0; d < spatial; d++) {
    size_t to = 3 - spatial + d;
    v.window.kernel[to] = size(2 + d);
    v.window.stride[to] = stride.at(stride.size() == 1 ? 0 : d);
    v.window.pad[to] = padding.at(padding.size() == 1 ? 0 : d);
    v.window.dilation[to] = dilation.at(dilation.size() == 1 ? 0 : d);
    v.weight_strides[2 + to] = *const_int(strides[2 + d]);
  }
  return v;
}

/// `v` with the smallest or the largest image that it may get.
static Conv at_bound(Conv v, const Type& out, bool largest) {
  constexpr int64_t most = 1024; // of a size without bound
  for (size_t d = 2; d < out.rank(); d++) {
    const ExprNode& size = *out.sizes[d];
    v.window.out[3 - out.rank() + d] = std::clamp<int64_t>(largest ? size.hi : size.lo, 1, most);
  }
  return v;
}

// Where only some of the sizes are worth Winograd, the weights are packed for windows, too.
void PlanBuilder::pack_constant(const Tensor& w, const Type& out, ConvStep& s) {
  const KernelTable& kernels = *linked_.micro_kernels;
  Conv& v = s.shape;
  for (size_t d = 0; d < w.rank(); d++) v.weight_strides[d < 2 ? d : 5 - w.rank() + d] = w.strides()[d];
  v.family = conv_family(kernels, v);
  const Scaled* scaled = scaled_of(w);
  v.weights = scaled ? scaled->from.data() : w.data();
  v.scales = scaled ? scaled->by.data() : nullptr;
  Conv least = at_bound(v, out, false), most = at_bound(v, out, true), windows = v;
  bool small = suits_winograd(kernels, plan_.caches, least), large = suits_winograd(kernels, plan_.caches, most);
  v.winograd = pays_winograd(kernels, plan_.caches, small ? least : most);
  bool both = v.winograd && small != large;
  if (scaled && (!packs_scaled(kernels, v) || (both && !packs_scaled(kernels, windows)))) {
    settle(w);
    v.weights = windows.weights = w.data(), v.scales = windows.scales = nullptr;
  }
  s.packed = weights_.add(kernels, w, v);
  if (both) s.packed_windows = weights_.add(kernels, w, windows);
  v.weights = nullptr, v.scales = nullptr, v.packed = true;
}

void PlanBuilder::build_conv(NodeId id) {
  const KernelTable& kernels = *linked_.micro_kernels;
  NodeId node = contraction_of(g_, id);
  const Node& n = g_.node(node);
  Call c(g_, *n.def, n.args);
  const Type &in = g_.type(c.value("input")), &out = g_.type(n.outputs[0]);
  ConvStep s;
  s.epilogue = build_epilogue(id);
  s.input = buffer_of(c.value("input"));
  s.output = s.epilogue.kernel >= 0 ? -1 : buffer_of(g_.node(id).outputs.at(0));
  use(s.input);
  if (s.output >= 0) use(s.output);
  s.shape = conv_shape(g_, c);
  Conv& v = s.shape;
  v.row_major = is_row_major(without_gaps(g_.pool(), out)), v.by_lines = v.row_major && is_row_major(without_gaps(g_.pool(), in));
  require(v.by_lines ? has_line_kernels(v) : !v.row_major || !v.depthwise(), "{} has no kernels for its layout", n.op);
  for (size_t d = 0; d < 3; d++) s.in[d] = s.out[d] = slots_.constant(1);
  for (size_t d = 2; d < in.rank(); d++) {
    size_t to = 3 - in.rank() + d;
    s.in[to] = slot(in.sizes[d]), s.out[to] = slot(out.sizes[d]);
    v.window.in[to] = const_int(in.sizes[d]).value_or(any_size), v.window.out[to] = const_int(out.sizes[d]).value_or(any_size);
  }
  s.batch = slot(in.sizes[0]);
  Expr pixel = v.by_lines ? g_.pool().integer(v.in_channels) : strides_of(g_.pool(), in).back();
  s.in_pixel = slot(pixel), s.in_batch = slot(strides_of(g_.pool(), in)[0]);
  s.out_pixel = v.row_major ? slots_.constant(v.out_channels) : slot(strides_of(g_.pool(), out).back());
  s.out_batch = slot(strides_of(g_.pool(), out)[0]);
  const Tensor* w = g_.stored_constant(c.value("weight"));
  v.winograd = !w && pays_winograd(kernels, plan_.caches, v);
  if (w) pack_constant(*w, out, s);
  else use(s.weight = buffer_of(c.value("weight")));
  s.number = plan_.num_convs++;
  append(id, std::move(s));
}

} // namespace tenon
