// Reductions over dims.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

std::vector<Type> reduced(const Call& c, DType dtype, const std::vector<int64_t>& dims, bool keepdim) {
  std::vector<Expr> sizes;
  const Type& t = c.type("self");
  for (size_t d = 0; d < t.rank(); d++) {
    bool gone = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!gone) sizes.push_back(t.sizes[d]);
    else if (keepdim) sizes.push_back(c.pool().integer(1));
  }
  return {Type::tensor(dtype, sizes)};
}

// The load at the output's axes and new reduction axes for `dims`.
Compute reduce_over(const DefineArgs& d, const std::vector<int64_t>& dims, bool keepdim, Reduction reduction, DType accumulate) {
  Compute out{.axes = d.axes, .reduction = reduction};
  std::vector<Expr> index;
  size_t next = 0;
  for (size_t k = 0; k < d.call.rank("self"); k++) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(k)) == dims.end()) index.push_back(d.i(next++));
    else {
      index.push_back(d.reduce_axis(d.call.size("self", static_cast<int64_t>(k))));
      out.reduce_axes.push_back(index.back());
      next += keepdim;
    }
  }
  out.body = cast(d.load("self", index), accumulate);
  return out;
}

DType sum_type(const Call& c) {
  DType t = c.type("self").dtype;
  return c.dtype("dtype").value_or(is_int(t) || t == DType::Bool ? DType::I64 : t);
}

const OpRow rows[] = {
    {.schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Reduce,
     .infer = [](const Call& c) { return reduced(c, sum_type(c), c.dims("dim", c.rank("self")), c.flag("keepdim")); },
     .define = [](const DefineArgs& d) {
       return reduce_over(d, d.call.dims("dim", d.call.rank("self")), d.call.flag("keepdim"), Reduction::Sum, compute_type(d.output.dtype));
     }},
};

} // namespace

std::span<const OpRow> reduce_rows() { return rows; }

} // namespace tenon::ops
