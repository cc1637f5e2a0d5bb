// Operators that make tensors from sizes and numbers.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

DType dtype_of_number(Expr e) { return is_float(e->type) ? DType::F32 : e->type; }

const OpRow rows[] = {
    {.schema = "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
               "bool? pin_memory=None) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return std::vector{Type::tensor(c.dtype("dtype").value_or(dtype_of_number(c.scalar("fill_value"))), c.syms("size"))}; },
     .define = [](const DefineArgs& d) { return Compute{.axes = d.axes, .body = cast(d.call.scalar("fill_value"), d.output.dtype)}; }},
};

} // namespace

std::span<const OpRow> create_rows() { return rows; }

} // namespace tenon::ops
