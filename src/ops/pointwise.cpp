// Pointwise operators: arithmetic, comparisons, logic, elementary functions.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// alpha * other becomes a product of its own, so that the Edge form has two operands.
template <Name N> Values split_alpha(Builder& b, const Call& c) {
  Expr alpha = c.scalar("alpha");
  if (alpha->is_const() && alpha->number() == 1) return {};
  return b.call(N.text, {c["self"], Arg(b.call1("aten::mul.Tensor", {c["other"], c["alpha"]}))});
}

Expr gelu(const BodyArgs& a) {
  Expr x = a[0];
  if (a.call.text("approximate") != "tanh") return x * 0.5 * (erf(x * M_SQRT1_2) + 1.0);
  Expr inner = (x + x * x * x * 0.044715) * (M_SQRT2 * M_2_SQRTPI * 0.5);
  return x * 0.5 * (tanh(inner) + 1.0);
}

const OpRow rows[] = {
    {.schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", .kind = Kind::Pointwise, .keep = "alpha",
     .body = binary_body<Op::Add>, .decompose = split_alpha<"aten::add.Tensor">},
    {.schema = "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", .decompose = same<"aten::add.Tensor">},
    {.schema = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", .kind = Kind::Pointwise, .body = binary_body<Op::Mul>},
    {.schema = "aten::exp(Tensor self) -> Tensor", .kind = Kind::Pointwise, .promote = Promote::Float, .body = unary_body<Op::Exp>},
    {.schema = "aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", .kind = Kind::Pointwise, .promote = Promote::Compare, .body = binary_body<Op::Eq>},
    {.schema = "aten::gelu(Tensor self, *, str approximate='none') -> Tensor", .kind = Kind::Pointwise, .body = gelu, .dtypes = float_types},
    {.schema = "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", .kind = Kind::Pointwise, .keep = "condition",
     .body = [](const BodyArgs& a) { return select(a["condition"], a["self"], a["other"]); }},
    // The one cast of the Edge dialect: the body's operand is still of the input's dtype, the output's is what is asked for.
    {.schema = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
               "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     .kind = Kind::View,
     .infer = [](const Call& c) { return std::vector{Type::tensor(c.dtype("dtype").value_or(c.type("self").dtype), c.type("self").sizes)}; },
     .define = [](const DefineArgs& d) { return Compute{.axes = d.axes, .body = cast(d.load("self", d.axes), d.output.dtype)}; }},
};

} // namespace

std::span<const OpRow> pointwise_rows() { return rows; }

} // namespace tenon::ops
