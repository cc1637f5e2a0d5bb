// Views that are other views under another name or with other arguments: reshapes, transposes, *_copy variants, atleast_nd.
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"
#include "ops/view_inverse.h"

namespace tenon::ops {

namespace {

Values reshape_as(Builder& b, const Call& c) { return b.reshape(b.input(c, "self"), c.type("other").sizes); }
Values expand_as(Builder& b, const Call& c) { return b.expand(b.input(c, "self"), c.type("other").sizes); }

Values flatten_dims(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  auto first = static_cast<size_t>(c.dim("start_dim", x.rank())), last = static_cast<size_t>(c.dim("end_dim", x.rank()));
  if (first > last) c.fail("flatten() has invalid args: start_dim cannot come after end_dim");
  if (x.rank() == 0) return b.reshape(x, {b.integer(1)});
  std::vector<Expr> sizes(x.sizes().begin(), x.sizes().begin() + static_cast<int64_t>(first));
  sizes.push_back(product(b.pool(), std::span(x.sizes()).subspan(first, last - first + 1)));
  sizes.insert(sizes.end(), x.sizes().begin() + static_cast<int64_t>(last) + 1, x.sizes().end());
  return b.reshape(x, sizes);
}

Values unflatten(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  std::vector<Expr> parts = c.syms("sizes"), sizes = without(x.sizes(), dim);
  bool open = std::any_of(parts.begin(), parts.end(), [](Expr e) { return is_const_int(e, -1); });
  if (auto have = const_int(x.size(dim)), made = const_int(product(b.pool(), parts)); have && made && !open && *have != *made)
    c.fail(fmt::format("unflatten: Provided sizes {} don't multiply up to the size of dim {} ({}) in the input tensor", sizes_text(parts),
                       dim, *have));
  parts = reshape_sizes(c, {x.size(dim)}, parts);
  sizes.insert(sizes.begin() + dim, parts.begin(), parts.end());
  return b.reshape(x, sizes);
}

Values ravel(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.reshape(x, {product(b.pool(), x.sizes())});
}

template <Name A, Name B> Values transpose(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.transpose(x, c.dim(A.text, x.rank()), c.dim(B.text, x.rank()));
}

template <Name A, Name B> V transposed_back(Builder& b, const ViewWrite& w) {
  return b.transpose(w.now, w.call.integer(A.text), w.call.integer(B.text));
}
V matrix_back(Builder& b, const ViewWrite& w) { return w.parent.rank() == 2 ? b.transpose(w.now, 0, 1) : V(); }
V matrices_back(Builder& b, const ViewWrite& w) { return b.transpose(w.now, -1, -2); }

Values transpose_matrix(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() > 2) c.fail(fmt::format("t() expects a tensor with <= 2 dimensions, but self is {}D", x.rank()));
  return x.rank() < 2 ? x : b.transpose(x, 0, 1);
}

Values transpose_last(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() == 1) c.fail("self is of rank 1");
  return b.transpose(x, -2, -1);
}

Values reverse_dims(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<int64_t> order = iota(x.rank());
  std::reverse(order.begin(), order.end());
  return b.permute(x, order);
}

// The dims `source` go to `destination`; the others keep their order.
Values movedim(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  auto from = c.dims("source", x.rank(), false), to = c.dims("destination", x.rank(), false);
  if (from.size() != to.size()) c.fail("source and destination differ in length");
  std::vector<int64_t> order(x.rank(), -1), rest = iota(x.rank());
  for (size_t k = 0; k < from.size(); k++) order[static_cast<size_t>(to[k])] = from[k];
  std::erase_if(rest, [&](int64_t d) { return std::find(from.begin(), from.end(), d) != from.end(); });
  size_t next = 0;
  for (int64_t& d : order)
    if (d < 0) d = rest[next++];
  return b.permute(x, order);
}

Values broadcast_tensors(Builder& b, const Call& c) {
  std::vector<V> tensors = inputs(b, c, "tensors");
  std::vector<Expr> sizes;
  for (V t : tensors) sizes = broadcast(b.pool(), sizes, t.sizes(), c.def.signature.name);
  Values out;
  for (V t : tensors) out.push_back(b.expand(t, sizes));
  return out;
}

V at_least(Builder& b, V x, size_t rank) {
  if (x.rank() >= rank) return x;
  Expr one = b.integer(1);
  if (x.rank() == 0) return b.reshape(x, std::vector(rank, one));
  if (rank == 2) return b.unsqueeze(x, 0);
  return x.rank() == 1 ? b.unsqueeze(b.unsqueeze(x, 0), 2) : b.unsqueeze(x, 2); // [n] to [1, n, 1], [m, n] to [m, n, 1]
}

template <size_t Rank> Values at_least_one(Builder& b, const Call& c) { return at_least(b, b.input(c, "self"), Rank); }
template <size_t Rank> Values at_least_all(Builder& b, const Call& c) {
  Values out;
  for (V t : inputs(b, c, "tensors")) out.push_back(at_least(b, t, Rank));
  return out;
}

// The first elements in row-major order; where there are too few, torch leaves the rest unset, here it is 0.
V resized(Builder& b, V x, const std::vector<Expr>& sizes) {
  Expr have = product(b.pool(), x.sizes()), want = product(b.pool(), sizes);
  if (have == want) return b.reshape(x, sizes);
  return b.reshape(b.call1("aten::constant_pad_nd.default", {b.reshape(x, {have}), std::vector<Expr>{b.integer(0), want - have}}), sizes);
}

Values resize(Builder& b, const Call& c) { return resized(b, b.input(c, "self"), c.syms("size")); }
Values resize_as(Builder& b, const Call& c) { return resized(b, b.input(c, "self"), c.type("the_template").sizes); }

const OpRow view_alias_ops[] = {
    {.schema = "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
     .decompose = same<"aten::view.default">,
     .shares = reshapes_in_place,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
     .decompose = same<"aten::view.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
     .decompose = same<"aten::view.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
     .decompose = same<"aten::view.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::view_copy(Tensor self, SymInt[] size) -> Tensor",
     .decompose = same<"aten::view.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor", .decompose = same<"aten::view.dtype">},
    {.schema = "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .decompose = reshape_as,
     .shares = reshapes_in_place,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .decompose = reshape_as,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
     .decompose = flatten_dims,
     .shares = reshapes_in_place,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
     .decompose = unflatten,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::ravel(Tensor(a) self) -> Tensor(a)",
     .decompose = ravel,
     .shares = is_row_major,
     .view_inverse = reshaped_back,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::permute_copy(Tensor self, int[] dims) -> Tensor",
     .decompose = same<"aten::permute.default">,
     .vjp = "self: grad.permute(inverse_of(dims))"},
    {.schema = "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .decompose = transpose<"dim0", "dim1">,
     .view_inverse = transposed_back<"dim0", "dim1">,
     .vjp = "self: grad.transpose(dim0, dim1)"},
    // Of transpose_.
    {.schema = "aten::transpose(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .decompose = transpose<"dim0", "dim1">,
     .view_inverse = transposed_back<"dim0", "dim1">,
     .vjp = "self: grad.transpose(dim0, dim1)"},
    {.schema = "aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
     .decompose = transpose<"dim0", "dim1">,
     .vjp = "self: grad.transpose(dim0, dim1)"},
    {.schema = "aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
     .decompose = transpose<"axis0", "axis1">,
     .view_inverse = transposed_back<"axis0", "axis1">,
     .vjp = "self: grad.transpose(axis0, axis1)"},
    {.schema = "aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .decompose = transpose<"dim0", "dim1">,
     .view_inverse = transposed_back<"dim0", "dim1">,
     .vjp = "self: grad.transpose(dim0, dim1)"},
    {.schema = "aten::t(Tensor(a) self) -> Tensor(a)", .decompose = transpose_matrix, .view_inverse = matrix_back, .vjp = "self: grad.t()"},
    {.schema = "aten::t_copy(Tensor self) -> Tensor", .decompose = transpose_matrix, .vjp = "self: grad.t()"},
    {.schema = "aten::mT(Tensor(a) self) -> Tensor(a)",
     .decompose = transpose_last,
     .view_inverse = matrices_back,
     .vjp = "self: grad.transpose(-2, -1)"},
    {.schema = "aten::mH(Tensor(a) self) -> Tensor(a)", .decompose = transpose_last, .vjp = "self: grad.transpose(-2, -1)"},
    {.schema = "aten::matrix_H(Tensor(a) self) -> Tensor(a)", .decompose = transpose_last, .vjp = "self: grad.t()"},
    {.schema = "aten::adjoint(Tensor(a) self) -> Tensor(a)", .decompose = transpose_last, .vjp = "self: grad.transpose(-2, -1)"},
    {.schema = "aten::numpy_T(Tensor(a) self) -> Tensor(a)",
     .decompose = reverse_dims,
     .view_inverse = matrix_back,
     .vjp = "self: grad.permute(backwards(len(self_size)))"},
    {.schema = "aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
     .decompose = movedim,
     .vjp = "self: torch.movedim(grad, destination, source)"},
    {.schema = "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
     .decompose = movedim,
     .vjp = "self: torch.movedim(grad, destination, source)"},
    {.schema = "aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
     .decompose = movedim,
     .vjp = "self: torch.movedim(grad, destination, source)"},
    {.schema = "aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
     .decompose = movedim,
     .vjp = "self: torch.movedim(grad, destination, source)"},
    {.schema = "aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .decompose = expand_as,
     .vjp = "self: grad.sum_to_size(self_size)"},
    {.schema = "aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
     .decompose = same<"aten::expand.default">,
     .vjp = "self: grad.sum_to_size(self_size)"},
    {.schema = "aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .decompose = same<"aten::expand.default">,
     .vjp = "self: grad.sum_to_size(self_size)"},
    {.schema = "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
     .decompose = broadcast_tensors,
     .vjp = "tensors: broadcast_operands(grad, tensors)"},
    {.schema = "aten::unsqueeze_copy(Tensor self, int dim) -> Tensor",
     .decompose = same<"aten::unsqueeze.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze_copy(Tensor self) -> Tensor",
     .decompose = same<"aten::squeeze.default">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor",
     .decompose = same<"aten::squeeze.dim">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
     .decompose = same<"aten::squeeze.dims">,
     .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     .decompose = same<"aten::slice.Tensor">,
     .vjp = "self: slice_back(grad, self_size, dim, start, end, step)"},
    {.schema = "aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
     .decompose = same<"aten::select.int">,
     .vjp = "self: torch.select_backward(grad, self_size, dim, index)"},
    {.schema = "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
     .decompose = same<"aten::narrow.default">,
     .vjp = "self: slice_back(grad, self_size, dim, start + (self_size[dim] if start < 0 else 0), start + (self_size[dim] if start < 0 "
            "else 0) + length, 1)"},
    {.schema = "aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .decompose = same<"aten::diagonal.default">,
     .vjp = "self: torch.diagonal_backward(grad, self_size, offset, dim1, dim2)"},
    {.schema = "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
     .decompose = same<"aten::diagonal.default">,
     .vjp = "A: torch.diagonal_backward(grad, A_size, offset, dim1, dim2)"},
    {.schema = "aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
     .decompose = same<"aten::unfold.default">,
     .vjp = "self: torch.unfold_backward(grad, self_size, dimension, size, step)"},
    {.schema = "aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
     .decompose = same<"aten::as_strided.default">},
    {.schema = "aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
     .decompose = same<"aten::split.Tensor">,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     .decompose = same<"aten::split_with_sizes.default">,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
     .decompose = same<"aten::unbind.int">,
     .vjp = "self: torch.stack(grad, dim)"},
    {.schema = "aten::alias(Tensor(a) self) -> Tensor(a)", .decompose = identity, .view_inverse = all_elements, .vjp = "self: grad"},
    {.schema = "aten::alias_copy(Tensor self) -> Tensor", .decompose = identity, .vjp = "self: grad"},
    {.schema = "aten::resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor", .decompose = resize},
    {.schema = "aten::resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor", .decompose = resize_as},
    {.schema = "aten::atleast_1d(Tensor self) -> Tensor", .decompose = at_least_one<1>, .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::atleast_2d(Tensor self) -> Tensor", .decompose = at_least_one<2>, .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::atleast_3d(Tensor self) -> Tensor", .decompose = at_least_one<3>, .vjp = "self: grad.reshape(self_size)"},
    {.schema = "aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", .decompose = at_least_all<1>},
    {.schema = "aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", .decompose = at_least_all<2>},
    {.schema = "aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", .decompose = at_least_all<3>},
};

} // namespace

std::span<const OpRow> view_alias_rows() { return view_alias_ops; }

} // namespace tenon::ops
