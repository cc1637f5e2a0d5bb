// View operators: each output element is one input element. In the Edge dialect they are functions, not aliases.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

std::vector<Type> with_sizes(const Call& c, std::vector<Expr> sizes) { return {Type::tensor(c.type("self").dtype, std::move(sizes))}; }

// An index that may be negative, counted from `size`; symbols are taken as the export did: not negative.
Expr wrap_index(Expr i, Expr size) { return i->hi < 0 ? i + size : i; }

std::vector<Type> permute_types(const Call& c) {
  std::vector<Expr> sizes;
  for (int64_t d : c.dims("dims", c.rank("self"), false)) sizes.push_back(c.size("self", d));
  if (sizes.size() != c.rank("self")) c.fail("dims is not a permutation");
  return with_sizes(c, sizes);
}

Compute permute_define(const DefineArgs& d) {
  std::vector<Expr> index(d.axes.size());
  auto dims = d.call.dims("dims", d.axes.size(), false);
  for (size_t k = 0; k < dims.size(); k++) index[static_cast<size_t>(dims[k])] = d.i(k);
  return {.axes = d.axes, .body = d.load("self", index)};
}

std::vector<Type> select_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  sizes.erase(sizes.begin() + c.dim("dim", sizes.size()));
  return with_sizes(c, sizes);
}

Compute select_define(const DefineArgs& d) {
  int64_t dim = d.call.dim("dim", d.call.rank("self"));
  std::vector<Expr> index = d.axes;
  index.insert(index.begin() + dim, wrap_index(d.call.sym("index"), d.call.size("self", dim)));
  return {.axes = d.axes, .body = d.load("self", index)};
}

const OpRow rows[] = {
    {.schema = "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", .kind = Kind::View, .infer = permute_types, .define = permute_define},
    {.schema = "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", .kind = Kind::View, .infer = select_types, .define = select_define},
};

} // namespace

std::span<const OpRow> view_rows() { return rows; }

} // namespace tenon::ops
