// Pointwise comparisons, classification of floats, logic on truth values and on bits, and selection by a condition.
#include "ops/jvp.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

Expr infinity(Expr x) { return like(INFINITY, x); }
Expr never(const BodyArgs& a) { return a[0]->pool->boolean(false); }

Expr greater(const BodyArgs& a) { return gt(a[0], a[1]); }
Expr greater_equal(const BodyArgs& a) { return ge(a[0], a[1]); }

Expr isnan(const BodyArgs& a) { return is_nan(a[0]); }
Expr isinf(const BodyArgs& a) { return is_float(a[0]->type) ? eq(abs(a[0]), infinity(a[0])) : never(a); }
Expr is_finite(Expr x) { return is_float(x->type) ? lt(abs(x), infinity(x)) : x->pool->boolean(true); }
Expr isfinite(const BodyArgs& a) { return is_finite(a[0]); }
Expr isposinf(const BodyArgs& a) { return is_float(a[0]->type) ? eq(a[0], infinity(a[0])) : never(a); }
Expr isneginf(const BodyArgs& a) { return is_float(a[0]->type) ? eq(a[0], like(-INFINITY, a[0])) : never(a); }
Expr isreal(const BodyArgs& a) { return a[0]->pool->boolean(true); }
Expr signbit(const BodyArgs& a) {
  if (a[0]->type == DType::Bool) return never(a);
  return is_float(a[0]->type) ? sign_bit(a[0]) : lt(a[0], like(0, a[0]));
}

Expr isclose(const BodyArgs& a) {
  Expr x = a["self"], y = a["other"];
  Expr close = eq(x, y);
  if (a.call.flag("equal_nan")) close = logical_or(close, logical_and(is_nan(x), is_nan(y)));
  double rtol = a.call.number("rtol"), atol = a.call.number("atol");
  if ((rtol == 0 && atol == 0) || x->type == DType::Bool) return close;
  DType t = is_float(x->type) ? x->type : DType::F32;
  Expr difference = abs(cast(x, t) - cast(y, t)), allowed = abs(cast(y, t) * rtol) + atol;
  return logical_or(close, logical_and(is_finite(difference), le(difference, allowed)));
}

Expr where(const BodyArgs& a) { return select(cast(a["condition"], DType::Bool), a["self"], a["other"]); }

constexpr OpRow comparison(std::string_view schema, Body body) { return pointwise(schema, body, Promote::Compare); }
constexpr OpRow ordering(std::string_view schema, Body body) {
  return pointwise(schema, body, Promote::Compare, {}, real_types | bool_type);
}
constexpr OpRow logical(std::string_view schema, Body body) {
  return pointwise(schema, body, Promote::Logical, {}, real_types | bool_type);
}
constexpr OpRow bitwise(std::string_view schema, Body body, DTypes dtypes = int_types | bool_type | u64_type) {
  return pointwise(schema, body, Promote::Default, {}, dtypes);
}

const OpRow compare_ops[] = {
    comparison("aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Eq>),
    renamed<"aten::eq.Tensor">("aten::eq.Scalar(Tensor self, Scalar other) -> Tensor"),
    comparison("aten::ne.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Ne>),
    renamed<"aten::ne.Tensor">("aten::ne.Scalar(Tensor self, Scalar other) -> Tensor"),
    ordering("aten::lt.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Lt>),
    renamed<"aten::lt.Tensor">("aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"),
    ordering("aten::le.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Le>),
    renamed<"aten::le.Tensor">("aten::le.Scalar(Tensor self, Scalar other) -> Tensor"),
    ordering("aten::gt.Tensor(Tensor self, Tensor other) -> Tensor", greater),
    renamed<"aten::gt.Tensor">("aten::gt.Scalar(Tensor self, Scalar other) -> Tensor"),
    ordering("aten::ge.Tensor(Tensor self, Tensor other) -> Tensor", greater_equal),
    renamed<"aten::ge.Tensor">("aten::ge.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::ne.Tensor">("aten::not_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::ne.Tensor">("aten::not_equal.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::lt.Tensor">("aten::less.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::lt.Tensor">("aten::less.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::le.Tensor">("aten::less_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::le.Tensor">("aten::less_equal.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::gt.Tensor">("aten::greater.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::gt.Tensor">("aten::greater.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::ge.Tensor">("aten::greater_equal.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::ge.Tensor">("aten::greater_equal.Scalar(Tensor self, Scalar other) -> Tensor"),

    with_vjp(comparison("aten::isnan(Tensor self) -> Tensor", isnan), "none"),
    with_vjp(comparison("aten::isinf(Tensor self) -> Tensor", isinf), "none"),
    with_vjp(comparison("aten::isfinite(Tensor self) -> Tensor", isfinite), "none"),
    with_vjp(comparison("aten::isposinf(Tensor self) -> Tensor", isposinf), "none"),
    with_vjp(comparison("aten::isneginf(Tensor self) -> Tensor", isneginf), "none"),
    with_vjp(comparison("aten::isreal(Tensor self) -> Tensor", isreal), "none"),
    with_vjp(comparison("aten::signbit(Tensor self) -> Tensor", signbit), "none"),
    with_vjp(
        comparison(
            "aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
            isclose),
        "none"),

    logical("aten::logical_and(Tensor self, Tensor other) -> Tensor", binary_body<Op::And>),
    logical("aten::logical_or(Tensor self, Tensor other) -> Tensor", binary_body<Op::Or>),
    logical("aten::logical_xor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Xor>),
    logical("aten::logical_not(Tensor self) -> Tensor", unary_body<Op::Not>),

    bitwise("aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::And>),
    bitwise("aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Or>),
    bitwise("aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", binary_body<Op::Xor>),
    bitwise("aten::bitwise_not(Tensor self) -> Tensor", unary_body<Op::Not>, int_types | bool_type),
    renamed<"aten::bitwise_and.Tensor">("aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_and.Tensor">("aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_and.Tensor">("aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_and.Tensor">("aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_or.Tensor">("aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_or.Tensor">("aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_or.Tensor">("aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_or.Tensor">("aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_xor.Tensor">("aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor"),
    renamed<"aten::bitwise_xor.Tensor">("aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_xor.Tensor">("aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor"),
    renamed<"aten::bitwise_xor.Tensor">("aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor"),

    with_vjp(with_jvp(pointwise("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where, Promote::Default,
                                "condition", any_type, "condition=bool|u8"),
                      jvp_linear),
             "self: torch.where(condition, grad, 0.0); other: torch.where(condition, 0.0, grad)"),
    with_vjp(renamed<"aten::where.self">("aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"),
             "broadcasts; self: torch.where(condition, grad, 0.0)"),
    with_vjp(renamed<"aten::where.self">("aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"),
             "broadcasts; other: torch.where(condition, 0.0, grad)"),
    renamed<"aten::where.self">("aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"),
};

} // namespace

std::span<const OpRow> compare_rows() { return compare_ops; }

} // namespace tenon::ops
