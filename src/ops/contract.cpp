// Contractions: matrix products, convolutions, attention.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// linear(x, w, b): x @ w.T + b, over the last dim of x.
Values linear(Builder& b, const Call& c) {
  V x = b.input(c, "input"), w = b.input(c, "weight");
  V y = b.matmul(x, w.rank() == 1 ? w : b.transpose(w, 0, 1));
  return c.has("bias") ? y + b.input(c, "bias") : y;
}

const OpRow rows[] = {
    {.schema = "aten::bmm(Tensor self, Tensor mat2) -> Tensor", .kind = Kind::Matmul,
     .infer = [](const Call& c) {
       if (c.rank("self") != 3 || c.rank("mat2") != 3) c.fail("operands must be of rank 3");
       return std::vector{Type::tensor(c.type("self").dtype, {c.size("self", 0), c.size("self", 1), c.size("mat2", 2)})};
     },
     .define = [](const DefineArgs& d) {
       Expr k = d.reduce_axis(d.call.size("self", 2));
       Expr product = d.load_wide("self", {d.i(0), d.i(1), k}) * d.load_wide("mat2", {d.i(0), k, d.i(2)});
       return Compute{.axes = d.axes, .reduce_axes = {k}, .reduction = Reduction::Sum, .body = product};
     }},
    {.schema = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", .decompose = linear},
};

} // namespace

std::span<const OpRow> contract_rows() { return rows; }

} // namespace tenon::ops
