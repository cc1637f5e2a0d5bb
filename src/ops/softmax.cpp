// Softmax and its kin: amax_or_lowest, exp and sum as separate operators, which the fusion passes put together again.
#include "ops/body.h"
#include "ops/jvp.h"
#include "ops/table.h"
#include "ops/vectorize.h"

namespace tenon::ops {

namespace {

struct Shifted {
  V x; // the input in the dtype it is computed in, less the maximum
  int64_t dim;
  DType result;
};

Shifted shift(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  DType result = x.dtype();
  if (c.def.signature.find("dtype") >= 0) result = c.dtype("dtype").value_or(result);
  else if (c.flag("half_to_float")) result = DType::F32;
  if (!is_float(result)) c.fail("needs a tensor of floats");
  x = b.to(x, compute_type(result));
  if (x.rank() == 0) return {x - x, dim, result};
  return {x - b.call1("tenon::amax_or_lowest.default", {x, {dim}, true}), dim, result};
}

V sum_of(Builder& b, V x, int64_t dim) { return x.rank() == 0 ? x : b.sum(x, {dim}, true); }

Values softmax(Builder& b, const Call& c) {
  auto [x, dim, result] = shift(b, c);
  V e = b.call1("aten::exp.default", {x});
  return b.to(e / sum_of(b, e, dim), result);
}

Values log_softmax(Builder& b, const Call& c) {
  auto [x, dim, result] = shift(b, c);
  V total = sum_of(b, b.call1("aten::exp.default", {x}), dim);
  return b.to(x - b.call1("aten::log.default", {total}), result);
}

// Rows of -inf alone give zeros.
Values safe_softmax(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  V soft = b.call1("aten::softmax.int", {x, dim, c["dtype"]});
  V masked = b.call1("aten::all.dim", {b.call1("aten::eq.Scalar", {x, -INFINITY}), dim, true});
  return b.where(masked, b.scalar(0, soft.dtype()), soft);
}

Values logsumexp(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  DType result = is_float(x.dtype()) ? x.dtype() : DType::F32;
  x = b.to(x, compute_type(result));
  auto dims = c.dims("dim", x.rank());
  if (x.rank() == 0) return b.to(b.call1("aten::log.default", {b.call1("aten::exp.default", {x})}), result);
  V top = b.call1("tenon::amax_or_lowest.default", {x, dims, true});
  V infinite = b.call1("aten::eq.Scalar", {b.call1("aten::abs.default", {top}), INFINITY});
  top = b.where(infinite, b.scalar(0, top.dtype()), top); // inf - inf would be NaN
  V total = b.sum(b.call1("aten::exp.default", {x - top}), dims, true);
  V out = b.call1("aten::log.default", {total}) + top;
  return b.to(c.flag("keepdim") ? out : b.call1("aten::squeeze.dims", {out, dims}), result);
}

V jvp_softmax(Builder& b, const Tangents& d) { return d.y * (d.t - b.sum(d.y * d.t, {d.call.integer("dim")}, true)); }
V jvp_log_softmax(Builder& b, const Tangents& d) {
  V p = b.call1("aten::exp", {d.y});
  return d.t - b.sum(p * d.t, {d.call.integer("dim")}, true);
}

const OpRow softmax_ops[] = {
    {.schema = "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decompose = softmax,
     .jvp = jvp_softmax,
     .vjp = "self: torch._softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     .decompose = softmax,
     .jvp = jvp_softmax,
     .vectorize = along_dims,
     .vjp = "self: torch._softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decompose = softmax,
     .vjp = "self: torch._softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decompose = safe_softmax,
     .vjp = "self: torch._softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decompose = log_softmax,
     .jvp = jvp_log_softmax,
     .vjp = "self: torch._log_softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     .decompose = log_softmax,
     .jvp = jvp_log_softmax,
     .vjp = "self: torch._log_softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     .decompose = log_softmax,
     .vjp = "self: torch._log_softmax_backward_data(grad, result, dim, self_dtype).to(self_dtype)"},
    {.schema = "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     .decompose = logsumexp,
     .vjp = "self: grad.reshape(kept(self_size, dim)) * (self - result.reshape(kept(self_size, dim))).exp()"},
    {.schema = "aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     .decompose = logsumexp,
     .vjp = "aten::logsumexp"},
};

} // namespace

std::span<const OpRow> softmax_rows() { return softmax_ops; }

} // namespace tenon::ops
