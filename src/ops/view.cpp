// View operators of the Edge dialect that move whole dims: reshape, permute, expand, unsqueeze, squeeze, bit casts. Each
// output element is one input element; as functions they never alias.
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"
#include "ops/vectorize.h"
#include "ops/view_inverse.h"

namespace tenon::ops {

namespace {

std::vector<Type> permute_types(const Call& c) {
  std::vector<Expr> sizes;
  for (int64_t d : c.dims("dims", c.rank("self"), false)) sizes.push_back(c.size("self", d));
  if (sizes.size() != c.rank("self")) c.fail("dims is not a permutation");
  return self_with(c, sizes);
}

V permuted_back(Builder& b, const ViewWrite& w) {
  std::vector<int64_t> order = w.call.dims("dims", w.parent.rank(), false), back(order.size());
  for (size_t k = 0; k < order.size(); k++) back[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
  return b.permute(w.now, back);
}

Compute permute_define(const DefineArgs& d) {
  std::vector<Expr> index(d.axes.size());
  auto dims = d.call.dims("dims", d.axes.size(), false);
  for (size_t k = 0; k < dims.size(); k++) index[static_cast<size_t>(dims[k])] = d.i(k);
  return {.axes = d.axes, .body = d.load("self", index)};
}

Values permute_identity(Builder& b, const Call& c) {
  if (c.dims("dims", c.rank("self"), false) == iota(c.rank("self"))) return b.input(c, "self");
  return {};
}

std::vector<Type> view_types(const Call& c) { return self_with(c, reshape_sizes(c, c.type("self").sizes, c.syms("size"))); }

Compute view_define(const DefineArgs& d) {
  return {.axes = d.axes, .body = d.load("self", reshape_index(d.pool, d.call.type("self").sizes, d.output.sizes, d.axes))};
}

Values view_identity(Builder& b, const Call& c) {
  if (view_types(c)[0].sizes == c.type("self").sizes) return b.input(c, "self");
  return {};
}

std::vector<Type> expand_types(const Call& c) {
  const std::vector<Expr>& have = c.type("self").sizes;
  std::vector<Expr> want = c.syms("size");
  if (want.size() < have.size())
    c.fail(fmt::format("the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
                       want.size(), have.size()));
  size_t lead = want.size() - have.size();
  for (size_t k = want.size(); k-- > 0;) {
    Expr from = k < lead ? Expr() : have[k - lead];
    if (is_const_int(want[k], -1)) {
      if (!from) c.fail(fmt::format("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {}", k));
      want[k] = from;
    } else if (from && const_int(from) && const_int(want[k]) && from != want[k] && !is_const_int(from, 1))
      c.fail(fmt::format("The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  Target "
                         "sizes: {}.  Tensor sizes: {}",
                         to_string(want[k]), to_string(from), k, sizes_text(want), sizes_text(have)));
    else if (from && const_int(from) && !is_const_int(from, 1)) want[k] = from;
  }
  return self_with(c, want);
}

Compute expand_define(const DefineArgs& d) {
  const std::vector<Expr>& have = d.call.type("self").sizes;
  std::vector<Expr> index(have.size());
  size_t lead = d.axes.size() - have.size();
  for (size_t k = 0; k < have.size(); k++) index[k] = is_const_int(have[k], 1) ? d.integer(0) : d.i(lead + k);
  return {.axes = d.axes, .body = d.load("self", index)};
}

Values expand_identity(Builder& b, const Call& c) {
  if (expand_types(c)[0].sizes == c.type("self").sizes) return b.input(c, "self");
  return {};
}

std::vector<Type> unsqueeze_types(const Call& c) {
  return self_with(c, with(c.type("self").sizes, c.dim("dim", c.rank("self") + 1), c.pool().integer(1)));
}

Compute unsqueeze_define(const DefineArgs& d) {
  return {.axes = d.axes, .body = d.load("self", without(d.axes, d.call.dim("dim", d.axes.size())))};
}

// [C] beside a batch of channels: [1, C, 1, ...].
Values as_channels(Builder& b, const Call& c) {
  V self = b.input(c, "self");
  int64_t rank = c.integer("ndim");
  require_input(self.rank() == 1 && rank >= 2 && rank <= 64, "_ncf_unsqueeze: {} dims to {}", self.rank(), rank);
  std::vector<Expr> sizes(static_cast<size_t>(rank), b.integer(1));
  sizes[1] = self.size(0);
  return b.reshape(self, sizes);
}

// The dims that squeeze removes: those named whose size is 1. A symbolic size is not 1, as the export took it.
std::vector<int64_t> squeezed(const Call& c) {
  std::vector<int64_t> out;
  for (int64_t d : c.dims("dim", c.rank("self"), false))
    if (is_const_int(c.size("self", d), 1)) out.push_back(d);
  return out;
}

std::vector<Type> squeeze_types(const Call& c) {
  std::vector<Expr> sizes;
  auto gone = squeezed(c);
  for (int64_t d : iota(c.rank("self")))
    if (std::find(gone.begin(), gone.end(), d) == gone.end()) sizes.push_back(c.size("self", d));
  return self_with(c, sizes);
}

Compute squeeze_define(const DefineArgs& d) {
  std::vector<Expr> index;
  auto gone = squeezed(d.call);
  size_t next = 0;
  for (int64_t k : iota(d.call.rank("self")))
    index.push_back(std::find(gone.begin(), gone.end(), k) == gone.end() ? d.i(next++) : d.integer(0));
  return {.axes = d.axes, .body = d.load("self", index)};
}

// A dim of unknown size stays named, for guard_sizes.
Values squeeze_identity(Builder& b, const Call& c) {
  for (int64_t d : c.dims("dim", c.rank("self"), false))
    if (!const_int(c.size("self", d)) || is_const_int(c.size("self", d), 1)) return {};
  return b.input(c, "self");
}

Values squeeze_dim(Builder& b, const Call& c) { return b.squeeze(b.input(c, "self"), c.dim("dim", c.rank("self"))); }

Values squeeze_all(Builder& b, const Call& c) { return b.call("aten::squeeze.dims", {c["self"], iota(c.rank("self"))}); }

// A bit cast. To a smaller type the last dim grows, to a larger one it shrinks.
std::vector<Type> view_dtype_types(const Call& c) {
  Type t = c.type("self");
  DType from = t.dtype;
  t.dtype = c.dtype("dtype").value_or(from);
  size_t before = size_of(from), after = size_of(t.dtype);
  if (before == after) return {Type::tensor(t.dtype, t.sizes)};
  if (is_complex(from) || is_complex(t.dtype)) unsupported("aten::view.dtype from {} to {}", name_of(from), name_of(t.dtype));
  if (t.rank() == 0) c.fail("a number has no dim for elements of another size");
  Expr k = c.pool().integer(static_cast<int64_t>(std::max(before, after) / std::min(before, after)));
  Expr& last = t.sizes.back();
  if (before > after) last = last * k;
  else if (auto rest = const_int(mod(last, k)); rest && *rest != 0)
    c.fail(fmt::format("the last dim does not hold whole elements of {}", name_of(t.dtype)));
  else last = floor_div(last, k);
  return {Type::tensor(t.dtype, t.sizes)};
}

Compute view_dtype_define(const DefineArgs& d) {
  return {.axes = d.axes, .body = d.pool.make(Op::Bitcast, d.output.dtype, {d.load("self", d.axes)})};
}

DType integer_as_large_as(DType t) {
  constexpr DType of_bytes[] = {DType::U8, DType::I16, DType::I32, DType::I64};
  return of_bytes[std::countr_zero(size_of(t))];
}
V view_as(Builder& b, V x, DType t) { return b.call1("aten::view.dtype", {x, t}); }

// The low bytes come first.
V split_elements(Builder& b, V x, DType part) {
  int64_t bits = 8 * static_cast<int64_t>(size_of(part)), all = 8 * static_cast<int64_t>(size_of(x.dtype()));
  ArgList parts;
  for (int64_t shift = 0; shift < all; shift += bits)
    parts.push_back(b.unsqueeze(b.to(b.call1("aten::bitwise_right_shift.Tensor_Scalar", {x, shift}), part), -1));
  std::vector<Expr> sizes = x.sizes();
  sizes.back() = sizes.back() * static_cast<double>(all / bits);
  return b.reshape(b.call1("aten::cat.default", {parts, -1}), sizes);
}
V join_elements(Builder& b, V x, DType whole) {
  int64_t bits = 8 * static_cast<int64_t>(size_of(x.dtype())), all = 8 * static_cast<int64_t>(size_of(whole));
  std::vector<Expr> sizes = x.sizes();
  sizes.back() = floor_div(sizes.back(), b.integer(all / bits));
  sizes.push_back(b.integer(all / bits));
  V parts = b.call1("aten::bitwise_and.Scalar", {b.to(b.reshape(x, sizes), whole), (int64_t{1} << bits) - 1}), y;
  for (int64_t k = 0; k < all / bits; k++) {
    V part = b.call1("aten::bitwise_left_shift.Tensor_Scalar", {b.select(parts, -1, b.integer(k)), k * bits});
    y = k == 0 ? part : b.call1("aten::bitwise_or.Tensor", {y, part});
  }
  return y;
}

// Bools are bytes of 0 or 1.
Values view_dtype(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  DType from = x.dtype(), to = view_dtype_types(c)[0].dtype;
  if (from == to) return x;
  if (from == DType::Bool) return view_as(b, b.to(x, DType::U8), to);
  if (to == DType::Bool) return b.call("aten::ne.Scalar", {view_as(b, x, DType::U8), 0});
  if (size_of(from) == size_of(to)) return {};
  DType bits = integer_as_large_as(from), wanted = integer_as_large_as(to);
  x = view_as(b, x, bits);
  return view_as(b, size_of(from) > size_of(to) ? split_elements(b, x, wanted) : join_elements(b, x, wanted), to);
}

// ---- on batches

Values permuted_batch(Builder& b, const BatchedCall& c) {
  size_t rank = c.call.rank("self");
  auto dims = rank == 0 ? std::nullopt : moved_dims(c.call["dims"], rank);
  if (!dims || !dims->is<ArgList>()) return {};
  ArgList order = with(dims->get<ArgList>(), 0, Arg(0));
  return c.again(b, {c.operands(rank)[0], order});
}
Values unsqueezed_batch(Builder& b, const BatchedCall& c) {
  size_t rank = c.call.rank("self");
  auto dim = moved_dims(c.call["dim"], rank + 1);
  return dim ? c.again(b, {c.operands(rank)[0], *dim}) : Values();
}
Values reshaped_batch(Builder& b, const BatchedCall& c) {
  return b.reshape(c.operand(c.call.value("self"), c.call.rank("self")), c.sizes(c.result));
}
Values expanded_batch(Builder& b, const BatchedCall& c) {
  return b.expand(c.operand(c.call.value("self"), c.result.rank()), c.sizes(c.result));
}

const OpRow view_ops[] = {
    {.schema = "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
     .kind = Kind::View,
     .infer = permute_types,
     .define = permute_define,
     .decompose = permute_identity,
     .view_inverse = permuted_back,
     .vectorize = permuted_batch,
     .vjp = "self: grad.permute(inverse_of(dims))"},
    {.schema = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .kind = Kind::View,
     .infer = view_types,
     .define = view_define,
     .decompose = view_identity,
     .view_inverse = reshaped_back,
     .vectorize = reshaped_batch,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
     .kind = Kind::View,
     .infer = view_dtype_types,
     .define = view_dtype_define,
     .decompose = view_dtype,
     .types = "bool: ; u8|i8|float8: -> u8|i8|float8 ; i16|reduced: -> i16|reduced ; i32|f32: -> i32|f32 ; i64|u64|f64: -> i64|u64|f64"},
    {.schema = "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     .kind = Kind::View,
     .infer = expand_types,
     .define = expand_define,
     .decompose = expand_identity,
     .view_inverse = all_elements,
     .vectorize = expanded_batch,
     .vjp = "self: grad.sum_to_size(self_size)"},
    {.schema = "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
     .kind = Kind::View,
     .infer = unsqueeze_types,
     .define = unsqueeze_define,
     .view_inverse = reshaped_back,
     .vectorize = unsqueezed_batch,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::_ncf_unsqueeze(Tensor(a) self, int ndim) -> Tensor(a)",
     .decompose = as_channels,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
     .kind = Kind::View,
     .infer = squeeze_types,
     .define = squeeze_define,
     .decompose = squeeze_identity,
     .view_inverse = reshaped_back,
     .vectorize = along_named_dims,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
     .decompose = squeeze_dim,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze(Tensor(a) self) -> Tensor(a)",
     .decompose = squeeze_all,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
};

} // namespace

std::span<const OpRow> view_rows() { return view_ops; }

} // namespace tenon::ops
