// View operators of the Edge dialect that move whole dims: reshape, permute, expand, unsqueeze, squeeze, bit casts. Each
// output element is one input element; as functions they never alias.
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

std::vector<Type> permute_types(const Call& c) {
  std::vector<Expr> sizes;
  for (int64_t d : c.dims("dims", c.rank("self"), false)) sizes.push_back(c.size("self", d));
  if (sizes.size() != c.rank("self")) c.fail("dims is not a permutation");
  return self_with(c, sizes);
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
  if (want.size() < have.size()) c.fail("fewer sizes than dims");
  size_t lead = want.size() - have.size();
  for (size_t k = 0; k < want.size(); k++) {
    Expr from = k < lead ? Expr() : have[k - lead];
    if (is_const_int(want[k], -1)) {
      if (!from) c.fail("-1 for a new dim");
      want[k] = from;
    } else if (from && const_int(from) && const_int(want[k]) && from != want[k] && !is_const_int(from, 1))
      c.fail(fmt::format("size {} cannot become {}", to_string(from), to_string(want[k])));
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

Values squeeze_identity(Builder& b, const Call& c) {
  if (squeezed(c).empty()) return b.input(c, "self");
  return {};
}

Values squeeze_dim(Builder& b, const Call& c) { return b.squeeze(b.input(c, "self"), c.dim("dim", c.rank("self"))); }

Values squeeze_all(Builder& b, const Call& c) { return b.call("aten::squeeze.dims", {c["self"], iota(c.rank("self"))}); }

// A bit cast. To a smaller type the last dim grows, to a larger one it shrinks; only equal sizes are expressed here.
std::vector<Type> view_dtype_types(const Call& c) {
  DType to = c.dtype("dtype").value_or(c.type("self").dtype);
  if (size_of(to) != size_of(c.type("self").dtype)) unsupported("aten::view.dtype from {} to {}", name_of(c.type("self").dtype), name_of(to));
  return {Type::tensor(to, c.type("self").sizes)};
}

Compute view_dtype_define(const DefineArgs& d) {
  return {.axes = d.axes, .body = d.pool.make(Op::Bitcast, d.output.dtype, {d.load("self", d.axes)})};
}

Values view_dtype_identity(Builder& b, const Call& c) {
  if (view_dtype_types(c)[0].dtype == c.type("self").dtype) return b.input(c, "self");
  return {};
}

const OpRow rows[] = {
    {.schema = "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
     .kind = Kind::View, .infer = permute_types, .define = permute_define, .decompose = permute_identity},
    {.schema = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .kind = Kind::View, .infer = view_types, .define = view_define, .decompose = view_identity},
    {.schema = "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
     .kind = Kind::View, .infer = view_dtype_types, .define = view_dtype_define, .decompose = view_dtype_identity},
    {.schema = "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     .kind = Kind::View, .infer = expand_types, .define = expand_define, .decompose = expand_identity},
    {.schema = "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", .kind = Kind::View, .infer = unsqueeze_types, .define = unsqueeze_define},
    {.schema = "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
     .kind = Kind::View, .infer = squeeze_types, .define = squeeze_define, .decompose = squeeze_identity},
    {.schema = "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", .decompose = squeeze_dim},
    {.schema = "aten::squeeze(Tensor(a) self) -> Tensor(a)", .decompose = squeeze_all},
};

} // namespace

std::span<const OpRow> view_rows() { return rows; }

} // namespace tenon::ops
