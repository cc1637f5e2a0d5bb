// prim: constants and control flow. The stages know these by name; the rows give their schemas.
#include "ops/table.h"

namespace tenon::ops {

namespace {

const OpRow prim_ops[] = {
    {.schema = "prim::Constant(Any value) -> Tensor", .kind = Kind::Prim},
    // Reads a 0-d tensor on the host and binds the symbol that is the result's value.
    {.schema = "prim::Item(Tensor self) -> Scalar", .kind = Kind::Prim},
    // Two blocks without parameters; returns those of the chosen one.
    {.schema = "prim::If(Tensor condition) -> Any[]", .kind = Kind::Prim},
    // Block 0 (condition) and block 1 (body) take the carried values; the body returns them anew.
    {.schema = "prim::While(Tensor[] carried) -> Any[]", .kind = Kind::Prim},
    // Block(carried..., slices of xs...) -> (carried..., ys...); runs over dim 0 of xs; ys are stacked.
    {.schema = "prim::Scan(Tensor[] carried, Tensor[] xs, bool reverse=False, bool each=False) -> Any[]", .kind = Kind::Prim},
    // A sub-graph that a backend runs, by what it made of it. Block(inputs...) -> results is what it means; gone with the Edge dialect.
    {.schema = "prim::Delegate(Tensor[] inputs, Tensor bytes, int[] sizes, str backend, str operators) -> Any[]", .kind = Kind::Prim},
    // The same elements in memory of other strides (those of the result's type).
    {.schema = "tenon::to_layout(Tensor self) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return std::vector{c.type("self")}; },
     .define = [](const DefineArgs& d) { return Compute{.axes = d.axes, .body = d.load("self", d.axes)}; }},
    // Texts and numbers, written to standard output one after the other.
    {.schema = "prim::Print(Any[] parts) -> ()", .kind = Kind::Prim},
    {.schema = "prim::Assert(bool condition, str message) -> ()", .kind = Kind::Prim},
};

} // namespace

std::span<const OpRow> prim_rows() { return prim_ops; }

} // namespace tenon::ops
