// Operators that lay tensors out along diagonals and grids: diag, diag_embed, block_diag, meshgrid, cartesian_prod, vander.
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// The last dim becomes the diagonal column = row + offset of two new dims.
std::vector<Type> diag_embed_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  if (sizes.empty()) c.fail("self is of rank 0");
  size_t rank = sizes.size() + 1;
  int64_t d1 = c.dim("dim1", rank), d2 = c.dim("dim2", rank);
  if (d1 == d2) c.fail("dim1 and dim2 are the same");
  Expr side = sizes.back() + static_cast<double>(std::abs(c.integer("offset")));
  sizes.pop_back();
  return self_with(c, with(with(sizes, std::min(d1, d2), side), std::max(d1, d2), side));
}

Compute diag_embed_define(const DefineArgs& d) {
  int64_t d1 = d.call.dim("dim1", d.axes.size()), d2 = d.call.dim("dim2", d.axes.size()), offset = d.call.integer("offset");
  Expr row = d.i(static_cast<size_t>(d1)), column = d.i(static_cast<size_t>(d2));
  std::vector<Expr> index = without(without(d.axes, std::max(d1, d2)), std::min(d1, d2));
  index.push_back(offset >= 0 ? row : column);
  Expr x = d.load("self", index);
  return {.axes = d.axes, .body = select(eq(column, row + static_cast<double>(offset)), x, constant_like(0, x))};
}

Values diag(Builder& b, const Call& c) {
  if (c.rank("self") == 1) return b.call("aten::diag_embed.default", {c["self"], c["diagonal"]});
  if (c.rank("self") != 2) c.fail(fmt::format("diag(): Supports 1D or 2D tensors. Got {}D", c.rank("self")));
  return b.call("aten::diagonal.default", {c["self"], c["diagonal"]});
}

Values diagflat(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return b.call("aten::diag_embed.default", {b.reshape(x, {product(b.pool(), x.sizes())}), c["offset"]});
}

// All indices equal; a tall matrix may wrap around after columns + 1 rows.
Compute fill_diagonal_define(const DefineArgs& d) {
  if (d.axes.size() < 2) d.call.fail("self has less than two dims");
  Expr on = d.pool.boolean(true), x = d.load("self", d.axes);
  for (size_t k = 1; k < d.axes.size(); k++) on = logical_and(on, eq(d.i(0), d.i(k)));
  if (d.call.flag("wrap") && d.axes.size() == 2) on = eq(mod(d.i(0), d.output.sizes[1] + 1.0), d.i(1));
  return {.axes = d.axes, .body = select(on, cast(d.call.scalar("fill_value"), x->type), x)};
}

// Each matrix padded to the full width, one below the other.
Values block_diag(Builder& b, const Call& c) {
  std::vector<V> blocks = inputs(b, c, "tensors");
  Expr zero = b.integer(0), before = zero, width = zero;
  for (V& t : blocks) {
    if (t.rank() > 2) c.fail("a tensor has more than two dims");
    while (t.rank() < 2) t = b.unsqueeze(t, 0);
    width = width + t.size(1);
  }
  ArgList rows;
  for (V t : blocks) {
    Expr after = width - before - t.size(1);
    rows.push_back(b.call1("aten::constant_pad_nd.default", {t, std::vector<Expr>{before, after}}));
    before = before + t.size(1);
  }
  return b.call("aten::cat.default", {rows, 0});
}

std::vector<V> grid(Builder& b, const std::vector<V>& tensors, bool swap) {
  std::vector<Expr> sizes, one(tensors.size(), b.integer(1));
  std::vector<int64_t> place = iota(tensors.size());
  if (swap && place.size() >= 2) std::swap(place[0], place[1]);
  for (int64_t p : place) sizes.push_back(tensors[static_cast<size_t>(p)].size(0));
  std::vector<V> out;
  for (size_t k = 0; k < tensors.size(); k++) {
    V t = tensors[k];
    out.push_back(b.expand(b.reshape(t, replaced(one, place[k], t.size(0))), sizes));
  }
  return out;
}

// "ij": tensor k varies along dim k. "xy": the first two dims change places.
Values meshgrid(Builder& b, const Call& c) {
  std::string indexing = c.def.signature.find("indexing") < 0 ? "ij" : c.text("indexing");
  if (indexing != "ij" && indexing != "xy") c.fail("indexing must be ij or xy");
  Values out;
  for (V v : grid(b, inputs(b, c, "tensors"), indexing == "xy")) out.push_back(v);
  return out;
}

Values cartesian_prod(Builder& b, const Call& c) {
  std::vector<V> tensors = inputs(b, c, "tensors");
  if (tensors.size() == 1) return tensors[0];
  ArgList columns;
  for (V v : grid(b, tensors, false)) columns.push_back(b.reshape(v, {product(b.pool(), v.sizes())}));
  return b.call("aten::stack.default", {columns, 1});
}

// Powers 0 to n-1 as a running product.
V powers(Builder& b, V x, int64_t n, bool increasing) {
  std::vector<Expr> sizes = x.sizes();
  sizes.push_back(b.integer(1));
  DType t = is_float(x.dtype()) ? x.dtype() : DType::I64;
  V one = b.full(sizes, 1, t), column = b.reshape(b.to(x, t), sizes);
  if (n == 0) return b.slice(one, -1, b.integer(0), b.integer(0));
  ArgList columns{one};
  sizes.back() = b.integer(n - 1);
  if (n > 1) columns.push_back(b.call1("aten::cumprod.default", {b.expand(column, sizes), -1}));
  V out = b.call1("aten::cat.default", {columns, -1});
  return increasing ? out : b.call1("aten::flip.default", {out, ArgList{-1}});
}

Values vander(Builder& b, const Call& c) {
  V x = b.input(c, "x");
  Expr n = c.has("N") ? c.sym("N") : x.size(0);
  if (!const_int(n)) unsupported("aten::vander of unknown width {}", to_string(n));
  return powers(b, x, *const_int(n), c.flag("increasing"));
}

Values linalg_vander(Builder& b, const Call& c) {
  V x = b.input(c, "x");
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  Expr n = c.has("N") ? c.sym("N") : x.size(-1);
  if (!const_int(n)) unsupported("aten::linalg_vander of unknown width {}", to_string(n));
  return powers(b, x, *const_int(n), true);
}

const OpRow create_matrix_ops[] = {
    {.schema = "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .kind = Kind::View,
     .infer = diag_embed_types,
     .define = diag_embed_define,
     .vjp = "self: torch.diagonal(grad, offset, dim1, dim2)"},
    {.schema = "aten::diag(Tensor self, int diagonal=0) -> Tensor", .decompose = diag, .vjp = "self: of_diag(grad, self_size, diagonal)"},
    {.schema = "aten::diagflat(Tensor self, int offset=0) -> Tensor",
     .decompose = diagflat,
     .vjp = "self: torch.diagonal(grad, offset).reshape(self_size)"},
    // The functional form of fill_diagonal_.
    {.schema = "aten::fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return self_with(c, c.type("self").sizes); },
     .define = fill_diagonal_define},
    {.schema = "aten::block_diag(Tensor[] tensors) -> Tensor", .decompose = block_diag, .vjp = "tensors: block_operands(grad, tensors)"},
    {.schema = "aten::meshgrid(Tensor[] tensors) -> Tensor[]",
     .decompose = meshgrid,
     .vjp = "tensors: meshgrid_operands(grad, tensors, \"ij\")"},
    {.schema = "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
     .decompose = meshgrid,
     .vjp = "tensors: meshgrid_operands(grad, tensors, indexing)"},
    {.schema = "aten::cartesian_prod(Tensor[] tensors) -> Tensor", .decompose = cartesian_prod},
    {.schema = "aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", .decompose = vander},
    {.schema = "aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", .decompose = linalg_vander},
};

} // namespace

std::span<const OpRow> create_matrix_rows() { return create_matrix_ops; }

} // namespace tenon::ops
