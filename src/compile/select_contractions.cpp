// Contractions: the family of micro-kernels, and what is packed for it.
#include <algorithm>

#include "backend/affine.h"
#include "compile/select_kernels.h"

namespace tenon {

namespace {

/// Matrices of a constant B, so many elements apart, that batches read one after the other, or again and again.
struct Stack {
  int64_t matrices = 1, stride = 0;
};

/// Empty where they do not lie so, or are not known to be so many.
std::optional<Stack> stack_of(const Type& out, const MatmulOperand& b) {
  if (out.rank() == 2) return Stack{};
  auto all = const_int(out.sizes[0]), outer = const_int(b.batch[0]), inner = const_int(b.batch[1]), count = const_int(b.inner_batch);
  if (!outer || !inner || !count || *count < 1 || (all && *all < 1)) return std::nullopt;
  if (*count == 1 || *inner == 0) // one matrix for each step of the outer loop
    return *outer == 0 ? std::optional(Stack{}) : all ? std::optional(Stack{*all / *count, *outer}) : std::nullopt;
  if (*outer == 0) return Stack{*count, *inner};
  return all && *outer == *inner * *count ? std::optional(Stack{*all, *inner}) : std::nullopt;
}

/// The packed weights of a product; one that is read by slices of its columns has as many as their blocks hold.
int pack_constant(const KernelTable& kernels, int vector_bytes, const Tensor& w, const MatmulOperand& b, int64_t slices, Matmul& shape,
                  PackRequests& weights, const Stack& stack = {}) {
  const GemmFamily& f = kernels.family(shape.family);
  ProductWeights from{.family = shape.family,
                      .offset = *const_int(b.offset),
                      .k_stride = *const_int(b.row_stride),
                      .n_stride = *const_int(b.column_stride),
                      .slices = slices,
                      .width = shape.n / slices,
                      .matrices = stack.matrices,
                      .matrix_stride = stack.stride};
  if (slices > 1) {
    require(f.lanes == slice_lanes(vector_bytes, f.sum), "{} has vectors of {} sums", f.name, f.lanes);
    bool wide = f.rows[8] > 0; // registers for tiles of four vectors and six rows
    shape.panel_vectors = static_cast<int>(slices == 2 && wide ? 4 : slices);
    shape.n = (from.width + f.lanes - 1) / f.lanes * f.lanes * slices;
  }
  from.panels = choose_panels(f, shape.n, shape.k, shape.panel_vectors);
  return weights.add(kernels, w, from);
}

/// What the call says of the convolution: all but pointers; sizes of images that are not known are any_size.
Conv conv_shape(const Graph& g, const Call& c, const Type& out) {
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
    v.window.in[to] = const_int(in.sizes[2 + d]).value_or(any_size), v.window.out[to] = const_int(out.sizes[2 + d]).value_or(any_size);
    v.weight_strides[2 + to] = *const_int(strides[2 + d]);
  }
  v.row_major = is_row_major(without_gaps(g.pool(), out)), v.by_lines = v.row_major && is_row_major(without_gaps(g.pool(), in));
  return v;
}

/// `v` with the smallest or the largest image that it may get.
Conv at_bound(Conv v, const Type& out, bool largest) {
  constexpr int64_t most = 1024; // of a size without bound
  for (size_t d = 2; d < out.rank(); d++) {
    const ExprNode& size = *out.sizes[d];
    v.window.out[3 - out.rank() + d] = std::clamp<int64_t>(largest ? size.hi : size.lo, 1, most);
  }
  return v;
}

/// Where only some of the sizes are worth Winograd, the weights are packed for windows, too.
void pack_constant(const KernelTable& kernels, const Caches& caches, const Tensor& w, const Type& out, SelectedRegion::Convolution& s,
                   PackRequests& weights) {
  Conv& v = s.shape;
  for (size_t d = 0; d < w.rank(); d++) v.weight_strides[d < 2 ? d : 5 - w.rank() + d] = w.strides()[d];
  v.family = conv_family(kernels, v);
  const Scaled* scaled = scaled_of(w);
  v.weights = scaled ? scaled->from.data() : w.data();
  v.scales = scaled ? scaled->by.data() : nullptr;
  Conv least = at_bound(v, out, false), most = at_bound(v, out, true), windows = v;
  bool small = suits_winograd(kernels, caches, least), large = suits_winograd(kernels, caches, most);
  v.winograd = pays_winograd(kernels, caches, small ? least : most);
  bool both = v.winograd && small != large;
  if (scaled && (!packs_scaled(kernels, v) || (both && !packs_scaled(kernels, windows)))) {
    settle(w);
    v.weights = windows.weights = w.data(), v.scales = windows.scales = nullptr;
  }
  s.packed = weights.add(kernels, w, v);
  if (both) s.packed_windows = weights.add(kernels, w, windows);
  v.weights = nullptr, v.scales = nullptr, v.packed = true;
}

/// Whether rows lie k by k, and B along one of its sizes: then `m` gets their strides.
bool lies_plainly(const LoweredRegion& r, Matmul& m) {
  const auto& [a, b] = *r.product;
  auto row = const_int(a.row_stride), b_k = const_int(b.row_stride), b_n = const_int(b.column_stride);
  if (!row || !is_const_int(a.column_stride, 1) || !b_k || !b_n || (*b_k != 1 && *b_n != 1)) return false;
  m.a_row = *row, m.a_k = 1;
  m.b_k = *b_k, m.b_n = *b_n;
  return true;
}

/// Weights given as out x in stay as they are where rows are known to be many: they take the part of A. Where rows are few the first calls
/// are done sooner than weights are packed. A loop's are packed, as it comes back to them.
bool stays_in_place(const Graph& g, const LoweredRegion& r, const KernelTable& kernels, const PlanTarget& target, Matmul m) {
  if (target.leaves == Leaves::None || m.m == any_size || !lies_plainly(r, m)) return false;
  auto& nodes = g.block(g.top()).nodes;
  if (std::ranges::find(nodes, r.node) == nodes.end()) return false;
  return (m.b_k == 1 && pays_to_leave(kernels, target.caches, m)) ||
         (target.leaves == Leaves::AtFirst && reads_at_once(kernels, target.caches, m));
}

/// Whether each call would pack the matrices of a stack: of many rows, where they are not known.
bool packs_stack(const LoweredRegion& r, const KernelTable& kernels, const Caches& caches, Matmul m) {
  constexpr int64_t many = 64;
  if (m.m == any_size) m.m = many;
  return !lies_plainly(r, m) || plan_matmul(kernels, caches, 1, m).use == BUse::Pack;
}

/// Weights of few columns stay as they are for dot products.
bool stays_for_dots(const LoweredRegion& r, const KernelTable& kernels, const Caches& caches, Matmul m) {
  return lies_plainly(r, m) && pays_as_dots(kernels, caches, m);
}

} // namespace

SelectedRegion::Product select_product(const Graph& g, const LoweredRegion& r, const KernelTable& kernels, const PlanTarget& target,
                                       PackRequests& weights, PackRequests& later) {
  const Node& n = g.node(contraction_of(g, r.node));
  const auto& [a, b] = *r.product;
  const Type &out = g.type(n.outputs[0]), &left = g.type(tensor_operands(n.args, g).at(0));
  size_t rank = out.rank();
  const Tensor* w = g.constant(b.value);
  Matmul shape{.m = const_int(out.sizes[rank - 2]).value_or(any_size),
               .n = const_int(out.sizes[rank - 1]).value_or(any_size),
               .k = const_int(left.sizes[rank - 1]).value_or(any_size),
               .a_type = g.type(a.value).dtype,
               .b_type = g.type(b.value).dtype};
  SelectedRegion::Product p;
  if (!w || shape.n == any_size || shape.k == any_size || !const_int(b.offset) || !w->is_contiguous()) return p;
  std::optional<Stack> stack = stack_of(out, b);
  if (rank > 2 && (!stack || !const_int(b.row_stride) || !const_int(b.column_stride) || !packs_stack(r, kernels, target.caches, shape)))
    return p;
  if (rank == 2 && slices_of(n) == 1 && stays_for_dots(r, kernels, target.caches, shape)) return p;
  bool stays = rank == 2 && slices_of(n) == 1 && stays_in_place(g, r, kernels, target, shape);
  if (stays && target.leaves == Leaves::ForGood) return p;
  shape.family = choose_family(kernels, shape.a_type, shape.b_type, shape.m, shape.n, shape.k);
  if (stays) {
    p.later_family = shape.family;
    p.later = pack_constant(kernels, target.vector_bytes, *w, b, 1, shape, later);
    return p;
  }
  p.family = shape.family;
  p.packed = pack_constant(kernels, target.vector_bytes, *w, b, slices_of(n), shape, weights, *stack);
  if (stack->matrices > 1) p.matrix_stride = stack->stride, p.matrix_bytes = packed_b_bytes(kernels, shape.family, shape.k, shape.n);
  p.panel_vectors = shape.panel_vectors;
  if (p.panel_vectors) p.columns = shape.n;
  return p;
}

SelectedRegion::Convolution select_convolution(const Graph& g, const LoweredRegion& r, const KernelTable& kernels, const PlanTarget& target,
                                               PackRequests& weights) {
  const Node& n = g.node(contraction_of(g, r.node));
  Call c(g, *n.def, n.args);
  const Type& out = g.type(n.outputs[0]);
  SelectedRegion::Convolution s;
  s.shape = conv_shape(g, c, out);
  Conv& v = s.shape;
  require(v.by_lines ? has_line_kernels(v) : !v.row_major || !v.depthwise(), "{} has no kernels for its layout", n.op);
  const Tensor* w = g.stored_constant(c.value("weight"));
  v.winograd = !w && pays_winograd(kernels, target.caches, v);
  if (w) pack_constant(kernels, target.caches, *w, out, s, weights);
  return s;
}

} // namespace tenon
