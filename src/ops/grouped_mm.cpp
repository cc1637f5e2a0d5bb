// Products of groups of rows (or columns, or of the common axis) with a matrix each; `offs` holds where each group ends.
#include "ops/body.h"
#include "ops/matmul.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// out[i] = x[i] @ w[group[i]]; a row of no group (group[i] past the last) gives zeros.
std::vector<Type> grouped_mm_types(const Call& c) {
  if (c.rank("self") != 2 || c.rank("weights") != 3 || c.rank("group") != 1) c.fail("operands must be of ranks 2, 3 and 1");
  return {Type::tensor(c.dtype("out_dtype").value_or(c.type("self").dtype), {c.size("self", 0), c.size("weights", 2)})};
}

Compute grouped_mm_define(const DefineArgs& d) {
  Expr k = d.reduce_axis(d.call.size("self", 1)), g = d.load("group", {d.i(0)});
  Expr groups = d.call.size("weights", 0);
  Expr body = d.load_wide("self", {d.i(0), k}) * d.load_wide("weights", {checked(g, groups), k, d.i(1)});
  return {.axes = d.axes, .reduce_axes = {k}, .reduction = Reduction::Sum, .body = select(lt(g, groups), body, like(0, body))};
}

// For each place in [0, n) the group it belongs to: how many groups end at or before it.
V group_of(Builder& b, V offs, Expr n) {
  V ended = b.call1("aten::le.Tensor", {b.unsqueeze(b.to(offs, DType::I64), 0), b.unsqueeze(b.arange(n, DType::I64), 1)});
  return b.sum(ended, {1}, false);
}

V rows_by_group(Builder& b, V x, V w, V offs, DType result) {
  return b.call1("tenon::grouped_rows_mm.default", {x, w, group_of(b, offs, x.size(0)), result});
}

// out[g] = x[:, group g] @ y[group g, :]: the columns of other groups count as zeros.
V common_by_group(Builder& b, V x, V y, V offs, DType result) {
  V group = group_of(b, offs, x.size(1));
  V number = b.reshape(b.arange(offs.size(0), DType::I64), {offs.size(0), b.integer(1), b.integer(1)});
  V own = b.call1("aten::eq.Tensor", {number, group});
  V left = b.where(own, x, b.scalar(0, x.dtype()));
  return matmul(b, left, y, result);
}

Values grouped_mm(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "mat2");
  DType result = c.dtype("out_dtype").value_or(x.dtype()), wide = compute_type(result);
  V out;
  if (!c.has("offs")) {
    if (x.rank() != 3 || y.rank() != 3) c.fail("without offs both operands must be of rank 3");
    out = matmul(b, x, y, wide);
  } else {
    V offs = b.input(c, "offs");
    if (x.rank() == 2 && y.rank() == 3) out = rows_by_group(b, x, y, offs, wide);
    else if (x.rank() == 2) out = common_by_group(b, x, y, offs, wide);
    else if (y.rank() == 2) // groups of columns: the same with everything transposed
      out = b.transpose(rows_by_group(b, b.transpose(y, 0, 1), b.transpose(x, 1, 2), offs, wide), 0, 1);
    else c.fail("with offs one operand must be of rank 2");
  }
  if (c.has("bias")) out = out + b.to(b.input(c, "bias"), wide);
  return b.to(out, result);
}

Values grouped_mm_fallback(Builder& b, const Call& c) {
  V x = b.input(c, "input");
  return rows_by_group(b, x, b.input(c, "weight"), b.input(c, "offs"), x.dtype());
}

Values grouped_mm_fallback_backward(Builder& b, const Call& c) {
  V x = b.input(c, "input"), w = b.input(c, "weight"), offs = b.input(c, "offs"), grad = b.input(c, "grad_output");
  return {rows_by_group(b, grad, b.transpose(w, 1, 2), offs, x.dtype()), common_by_group(b, b.transpose(x, 0, 1), grad, offs, w.dtype())};
}

const OpRow grouped_mm_ops[] = {
    {.schema = "tenon::grouped_rows_mm(Tensor self, Tensor weights, Tensor group, ScalarType? out_dtype=None) -> Tensor",
     .kind = Kind::Matmul,
     .infer = grouped_mm_types,
     .define = grouped_mm_define},
    {.schema = "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     .decompose = grouped_mm},
    {.schema = "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", .decompose = grouped_mm_fallback},
    {.schema =
         "transformers::grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
     .decompose = grouped_mm_fallback_backward},
};

} // namespace

std::span<const OpRow> grouped_mm_rows() { return grouped_mm_ops; }

} // namespace tenon::ops
