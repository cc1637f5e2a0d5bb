// Operators that join tensors, or put one tensor into a part of another: cat and its relatives, the view scatters.
#include <algorithm>

#include "ops/autocast.h"
#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// torch skips tensors of sizes [0] among others of any rank.
bool is_legacy_empty(const Type& t) { return t.rank() == 1 && is_const_int(t.sizes[0], 0); }

// The parts that count, as elements of the list argument.
std::vector<size_t> joined_tensors(const Call& c, const std::vector<ValueId>& tensors) {
  std::vector<size_t> out;
  for (size_t k = 0; k < tensors.size(); k++)
    if (!is_legacy_empty(c.graph.type(tensors[k]))) out.push_back(k);
  if (out.empty() && !tensors.empty()) out.push_back(0);
  return out;
}

std::vector<Type> cat_types(const Call& c) {
  std::vector<ValueId> tensors = c.values("tensors");
  if (tensors.empty()) c.fail("torch.cat(): expected a non-empty list of Tensors");
  std::vector<size_t> used = joined_tensors(c, tensors);
  Type out = Type::tensor(c.graph.type(tensors[0]).dtype, c.graph.type(tensors[used[0]]).sizes);
  if (out.sizes.empty()) c.fail("zero-dimensional tensor (at position 0) cannot be concatenated");
  for (ValueId v : tensors) out.dtype = promote(out.dtype, c.graph.type(v).dtype);
  auto dim = static_cast<size_t>(c.dim("dim", out.rank()));
  for (size_t n = 1; n < used.size(); n++) {
    const Type& t = c.graph.type(tensors[used[n]]);
    if (t.rank() != out.rank()) c.fail(fmt::format("Tensors must have same number of dimensions: got {} and {}", out.rank(), t.rank()));
    for (size_t d = 0; d < out.rank(); d++) {
      if (d == dim) out.sizes[d] = out.sizes[d] + t.sizes[d];
      else if (const_int(out.sizes[d]) && const_int(t.sizes[d]) && out.sizes[d] != t.sizes[d])
        c.fail(fmt::format("Sizes of tensors must match except in dimension {}. Expected size {} but got size {} for tensor number {} in "
                           "the list.",
                           dim, *const_int(out.sizes[d]), *const_int(t.sizes[d]), used[n]));
      else if (const_int(t.sizes[d])) out.sizes[d] = t.sizes[d];
    }
  }
  return {out};
}

// A balanced tree of selects on the cat axis.
Compute cat_define(const DefineArgs& d) {
  std::vector<ValueId> tensors = d.call.values("tensors");
  std::vector<size_t> used = joined_tensors(d.call, tensors);
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr at = d.i(static_cast<size_t>(dim));
  std::vector<Expr> first{d.integer(0)};
  for (size_t k : used) first.push_back(first.back() + d.call.graph.type(tensors[k]).sizes[static_cast<size_t>(dim)]);
  auto tree = [&](auto& self, size_t lo, size_t hi) -> Expr {
    if (hi - lo == 1) return cast(d.load("tensors", replaced(d.axes, dim, at - first[lo]), used[lo]), d.output.dtype);
    size_t mid = (lo + hi) / 2;
    return select(lt(at, first[mid]), self(self, lo, mid), self(self, mid, hi));
  };
  return {.axes = d.axes, .body = tree(tree, 0, used.size())};
}

Values cat_identity(Builder& b, const Call& c) {
  std::vector<ValueId> tensors = c.values("tensors");
  if (tensors.size() == 1) return b.wrap(tensors[0]);
  return {};
}

V cat(Builder& b, const std::vector<V>& tensors, int64_t dim) {
  return b.call1("aten::cat.default", {ArgList(tensors.begin(), tensors.end()), dim});
}

Values stack(Builder& b, const Call& c) {
  std::vector<V> tensors = inputs(b, c, "tensors");
  if (tensors.empty()) c.fail("stack expects a non-empty TensorList");
  int64_t dim = c.dim("dim", tensors[0].rank() + 1);
  for (size_t k = 1; k < tensors.size(); k++) {
    std::vector<Expr> first = tensors[0].sizes(), other = tensors[k].sizes();
    bool same = first.size() == other.size();
    for (size_t d = 0; same && d < first.size(); d++) same = first[d] == other[d] || !const_int(first[d]) || !const_int(other[d]);
    if (!same)
      c.fail(fmt::format("stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}", sizes_text(first),
                         sizes_text(other), k));
  }
  for (V& t : tensors) t = b.unsqueeze(t, dim);
  return cat(b, tensors, dim);
}

// hstack, vstack and dstack join along dim 1 (0 for rank 1), 0 and 2, after atleast_1d, 2d and 3d.
template <Name AtLeast, int64_t Dim> Values stack_along(Builder& b, const Call& c) {
  std::vector<V> tensors;
  for (V t : inputs(b, c, "tensors")) tensors.push_back(b.call1(AtLeast.text, {t}));
  if (tensors.empty()) c.fail("no tensors");
  return cat(b, tensors, Dim == 1 && tensors[0].rank() == 1 ? 0 : Dim);
}

Values column_stack(Builder& b, const Call& c) {
  std::vector<V> tensors = inputs(b, c, "tensors");
  for (V& t : tensors)
    if (t.rank() <= 1) t = b.reshape(t, {product(b.pool(), t.sizes()), b.integer(1)});
  return cat(b, tensors, 1);
}

// Each tensor padded to a multiple of num_chunks along dim and folded to [..., num_chunks, -1]; then joined.
Values chunk_cat(Builder& b, const Call& c) {
  std::vector<V> tensors = inputs(b, c, "tensors");
  if (tensors.empty()) c.fail("no tensors");
  Expr chunks = c.sym("num_chunks"), zero = b.integer(0);
  auto dim = static_cast<size_t>(c.dim("dim", tensors[0].rank()));
  if (auto n = const_int(chunks); n && *n < 1) c.fail("num_chunks is less than 1");
  for (V& t : tensors) {
    if (t.rank() <= dim) c.fail("tensors of different ranks");
    Expr size = t.sizes()[dim], padded = ceil_div(size, chunks) * chunks;
    std::vector<Expr> pad(2 * (t.rank() - dim - 1), zero);
    pad.insert(pad.end(), {zero, padded - size});
    if (padded != size) t = b.call1("aten::constant_pad_nd.default", {t, pad});
    std::vector<Expr> folded(t.sizes().begin(), t.sizes().begin() + static_cast<int64_t>(dim));
    Expr rest = product(b.pool(), std::span(t.sizes()).subspan(dim + 1)) * floor_div(padded, chunks);
    folded.insert(folded.end(), {chunks, rest});
    t = b.reshape(t, folded);
  }
  return cat(b, tensors, static_cast<int64_t>(dim) + 1);
}

// The view scatters: self with the elements of a view of it taken from src.
template <Name View> std::vector<Type> like_view_of_self(const Call& c) {
  Type part = scattered_part(c, View.text), src = c.type("src");
  bool same = part.rank() == src.rank();
  for (size_t d = 0; same && d < src.rank(); d++)
    same = !const_int(part.sizes[d]) || !const_int(src.sizes[d]) || part.sizes[d] == src.sizes[d];
  if (!same) c.fail(fmt::format("src is {}, and what it replaces {}", to_string(src), to_string(part)));
  return self_with(c, c.type("self").sizes);
}

Compute slice_scatter_define(const DefineArgs& d) {
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr start = d.call.has("start") ? d.call.sym("start") : Expr(), end = d.call.has("end") ? d.call.sym("end") : Expr();
  Range r = slice_range(d.pool, d.output.sizes[static_cast<size_t>(dim)], start, end, d.call.integer("step"));
  Expr at = d.i(static_cast<size_t>(dim)), from = at - r.start, step = d.integer(r.step), place = floor_div(from, step);
  Expr inside = logical_and(le(r.start, at), lt(place, r.length));
  inside = logical_and(inside, eq(mod(from, step), d.integer(0)));
  Expr x = d.load("self", d.axes);
  return {.axes = d.axes, .body = select(inside, cast(d.load("src", replaced(d.axes, dim, place)), x->type), x)};
}

Compute select_scatter_define(const DefineArgs& d) {
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr index = wrap_index(d.call.sym("index"), d.output.sizes[static_cast<size_t>(dim)]), x = d.load("self", d.axes);
  Expr inside = eq(d.i(static_cast<size_t>(dim)), index);
  return {.axes = d.axes, .body = select(inside, cast(d.load("src", without(d.axes, dim)), x->type), x)};
}

Compute diagonal_scatter_define(const DefineArgs& d) {
  int64_t d1 = d.call.dim("dim1", d.axes.size()), d2 = d.call.dim("dim2", d.axes.size()), offset = d.call.integer("offset");
  Expr row = d.i(static_cast<size_t>(d1)), column = d.i(static_cast<size_t>(d2)), x = d.load("self", d.axes);
  std::vector<Expr> index = without(without(d.axes, std::max(d1, d2)), std::min(d1, d2));
  index.push_back(offset >= 0 ? row : column);
  return {.axes = d.axes, .body = select(eq(column, row + static_cast<double>(offset)), cast(d.load("src", index), x->type), x)};
}

// Through index_put on the flat self: the places of src are the strided sums.
Values as_strided_scatter(Builder& b, const Call& c) {
  V self = b.input(c, "self"), src = b.input(c, "src");
  std::vector<Expr> sizes = c.syms("size"), strides = c.syms("stride"), one(sizes.size(), b.integer(1));
  Expr count = product(b.pool(), sizes), offset = c.has("storage_offset") ? c.sym("storage_offset") : b.integer(0);
  V places = b.full(one, offset, DType::I64);
  for (size_t d = 0; d < sizes.size(); d++)
    places = places + b.reshape(b.arange(sizes[d], DType::I64) * Arg(strides[d]), replaced(one, static_cast<int64_t>(d), sizes[d]));
  V flat = b.reshape(self, {product(b.pool(), self.sizes())});
  V put = b.call1("aten::index_put.default", {flat, ArgList{b.reshape(places, {count})}, b.reshape(b.to(src, self.dtype()), {count})});
  return b.reshape(put, self.sizes());
}

const OpRow combine_ops[] = {
    {.schema = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
     .kind = Kind::View,
     .infer = cat_types,
     .define = cat_define,
     .decompose = cat_identity,
     .jvp = jvp_linear,
     .autocast = to_widest,
     .layout_follows = true,
     .vjp = "tensors: cat_operands(grad, tensors, dim)"},
    // Of tensors that lie in the result's memory, or are to.
    {.schema = "tenon::join(Tensor[] tensors, int dim) -> Tensor", .kind = Kind::View, .infer = cat_types, .define = cat_define},
    {.schema = "aten::concat(Tensor[] tensors, int dim=0) -> Tensor",
     .decompose = same<"aten::cat.default">,
     .vjp = "tensors: cat_operands(grad, tensors, dim)"},
    {.schema = "aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor",
     .decompose = same<"aten::cat.default">,
     .vjp = "tensors: cat_operands(grad, tensors, dim)"},
    {.schema = "aten::stack(Tensor[] tensors, int dim=0) -> Tensor",
     .decompose = stack,
     .jvp = jvp_linear,
     .autocast = to_widest,
     .vjp = "tensors: stack_operands(grad, tensors, dim)"},
    {.schema = "aten::hstack(Tensor[] tensors) -> Tensor",
     .decompose = stack_along<"aten::atleast_1d.default", 1>,
     .vjp = "tensors: stacked_operands(grad, tensors, 0 if tensors[0].dim() <= 1 else 1, 1)"},
    {.schema = "aten::vstack(Tensor[] tensors) -> Tensor",
     .decompose = stack_along<"aten::atleast_2d.default", 0>,
     .vjp = "tensors: stacked_operands(grad, tensors, 0, 2)"},
    {.schema = "aten::row_stack(Tensor[] tensors) -> Tensor",
     .decompose = stack_along<"aten::atleast_2d.default", 0>,
     .vjp = "tensors: stacked_operands(grad, tensors, 0, 2)"},
    {.schema = "aten::dstack(Tensor[] tensors) -> Tensor",
     .decompose = stack_along<"aten::atleast_3d.default", 2>,
     .vjp = "tensors: stacked_operands(grad, tensors, 2, 3)"},
    {.schema = "aten::column_stack(Tensor[] tensors) -> Tensor",
     .decompose = column_stack,
     .vjp = "tensors: stacked_operands(grad, tensors, 1, 0)"},
    {.schema = "aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", .decompose = chunk_cat},
    {.schema = "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     .kind = Kind::View,
     .infer = like_view_of_self<"aten::slice.Tensor">,
     .define = slice_scatter_define,
     .types = "src=any",
     .vjp = "self: torch.slice_scatter(grad, torch.zeros_like(src), dim, start, end, step); src: torch.slice(grad, dim, start, end, step)"},
    {.schema = "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     .kind = Kind::View,
     .infer = like_view_of_self<"aten::select.int">,
     .define = select_scatter_define,
     .types = "src=any",
     .vjp = "self: torch.select_scatter(grad, torch.zeros_like(src), dim, index); src: torch.select(grad, dim, index)"},
    {.schema = "aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .kind = Kind::View,
     .infer = like_view_of_self<"aten::diagonal.default">,
     .define = diagonal_scatter_define,
     .types = "src=any",
     .vjp = "self: torch.diagonal_scatter(grad, torch.zeros_like(src), offset, dim1, dim2); src: torch.diagonal(grad, offset, dim1, dim2)"},
    {.schema = "aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> "
               "Tensor",
     .decompose = as_strided_scatter},
};

} // namespace

std::span<const OpRow> combine_rows() { return combine_ops; }

} // namespace tenon::ops
