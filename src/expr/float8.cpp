// Conversions of the floats of 8 bits as expressions, as base/numeric.cpp does them. They are spelled out in 32-bit integers,
// which vectorise, so nothing else has to know these dtypes but as bytes.
#include "base/numeric.h"
#include "expr/expr.h"

namespace tenon {

namespace {

constexpr int exponent(int e) { return e << 23; }

struct Bits {
  ExprPool& pool;
  Expr operator()(int64_t v) const { return pool.integer(v, DType::I32); }
  Expr of(Expr f) const { return pool.make(Op::Bitcast, DType::I32, {f}); }
  Expr as_float(Expr i) const { return pool.make(Op::Bitcast, DType::F32, {i}); }
};

Expr shift_right(Expr x, Expr by) { return binary(Op::Shr, x, by); }
Expr shift_left(Expr x, Expr by) { return binary(Op::Shl, x, by); }
Expr bit_and(Expr x, Expr y) { return binary(Op::And, x, y); }
Expr bit_or(Expr x, Expr y) { return binary(Op::Or, x, y); }

} // namespace

Expr float8_of(Expr f, DType type) {
  Float8Format q = float8_format(type);
  Bits bits{*f->pool};
  Expr u = bits.of(f), sign = bit_and(shift_right(u, bits(24)), bits(0x80)), mag = bit_and(u, bits(0x7fffffff)),
       shift = bits(23 - q.mantissa_bits);
  Expr magic = bits(exponent(151 - q.bias - q.mantissa_bits));
  Expr small = bits.of(bits.as_float(mag) + bits.as_float(magic)) - magic;
  Expr odd = bit_and(shift_right(mag, shift), bits(1)), half = bits((1 << (22 - q.mantissa_bits)) - 1 - exponent(127 - q.bias));
  Expr r = select(lt(mag, bits(exponent(128 - q.bias))), small, shift_right(mag + half + odd, shift));
  r = select(lt(bits(q.largest), r), bits(q.overflow), r);
  r = select(lt(bits(exponent(255)), mag), bits(q.nan), r);
  Expr whole = bit_or(r, sign);
  if (q.one_zero) whole = select(eq(r, bits(0)), r, whole);
  return f->pool->make(Op::Bitcast, type, {cast(whole, DType::U8)});
}

Expr value_of_float8(Expr byte) {
  Float8Format q = float8_format(byte->type);
  ExprPool& pool = *byte->pool;
  Bits bits{pool};
  Expr u = cast(pool.make(Op::Bitcast, DType::U8, {byte}), DType::I32), mag = bit_and(u, bits(0x7f)),
       sign = shift_left(bit_and(u, bits(0x80)), bits(24));
  Expr normal = shift_left(mag, bits(23 - q.mantissa_bits)) + bits(exponent(127 - q.bias));
  Expr small = bits.of(cast(mag, DType::F32) * pool.number(std::ldexp(1.0, 1 - q.bias - q.mantissa_bits), DType::F32));
  Expr r = bit_or(select(lt(mag, bits(1 << q.mantissa_bits)), small, normal), sign);
  if (q.has_infinity()) r = select(eq(mag, bits(q.overflow)), bit_or(bits(exponent(255)), sign), r);
  Expr nan = q.one_zero ? eq(u, bits(q.nan)) : lt(bits(q.overflow), mag);
  return bits.as_float(select(nan, bits(0x7fc00000), r));
}

} // namespace tenon
