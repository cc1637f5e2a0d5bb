// What the files of pointwise operators share: short forms of their rows, scalar parameters, special functions, and the
// computing of composites in f32 where torch's kernels do so for f16 and bf16.
#pragma once
#include "ops/body.h"

namespace tenon::ops {

constexpr OpRow pointwise(std::string_view schema, Body body, Promote promote = Promote::Default, std::string_view keep = {},
                          DTypes dtypes = number_types, std::string_view types = {}) {
  return {.schema = schema, .kind = Kind::Pointwise, .promote = promote, .keep = keep, .body = body, .dtypes = dtypes, .types = types};
}
/// A function of floats: integers become f32.
constexpr OpRow float_function(std::string_view schema, Body body, std::string_view keep = {}, DTypes dtypes = number_types) {
  return pointwise(schema, body, Promote::Float, keep, dtypes);
}
/// The same of functions that torch has for f32 and f64 alone.
constexpr OpRow full_float_function(std::string_view schema, Body body) {
  return float_function(schema, body, {}, number_types & ~reduced_types);
}
constexpr OpRow composite(std::string_view schema, Decompose decompose, Autocast autocast = nullptr) {
  return {.schema = schema, .decompose = decompose, .autocast = autocast};
}
/// Another name or overload of the operator N.
template <Name N> constexpr OpRow renamed(std::string_view schema, Autocast autocast = nullptr) {
  OpRow row = composite(schema, same<N>, autocast);
  row.vjp = N.text;
  return row;
}

/// A Scalar parameter that takes no part in promotion, in the dtype of x.
inline Expr parameter(const BodyArgs& a, std::string_view name, Expr x) { return cast(a[name], x->type); }

/// A function of expr/special.h. It computes in doubles whatever the dtype of its operands.
template <class... Rest> Expr special(const char* function, Expr x, Rest... rest) {
  return cast(x->pool->call(function, DType::F64, {cast(x, DType::F64), cast(rest, DType::F64)...}), x->type);
}
/// The sign bit of a float, as a condition: true for -0 and for NaNs that carry it.
inline Expr sign_bit(Expr x) {
  DType bits = x->type == DType::F64 ? DType::I64 : DType::I32;
  return lt(x->pool->make(Op::Bitcast, bits, {x}), x->pool->integer(0, bits));
}

/// x in the dtype it is computed in: f32 for f16 and bf16.
inline V widen(V x) { return x.builder().to(x, compute_type(x.dtype())); }
inline V widen(Builder& b, const Call& c, std::string_view name) { return widen(b.input(c, name)); }
/// x as an operand of a loss or distance: a float, and not a reduced one.
inline V as_float(V x) { return is_float(x.dtype()) ? widen(x) : x.builder().to(x, DType::F32); }
/// torch's result type of two tensors, f32 for integers.
DType float_result(Builder& b, V x, V y);
/// The code of `int reduction`: 0 none, 1 mean, 2 sum; over a loss computed wide, converted to `dtype`.
V reduce_loss(V loss, int64_t reduction, DType dtype);

} // namespace tenon::ops
