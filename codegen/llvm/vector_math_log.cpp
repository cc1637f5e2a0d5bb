// Logarithms and what is built on them. x = 2^e (1 + f); f32 takes ln(1 + f) from one polynomial, f64 from a series in
// s = f / (2 + f).
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

// log_base(x) = e k + c ln(1 + f), with k = log_base(2) and c = 1 / ln(base) in two parts each.
struct Base {
  double k_hi, k_lo, c_hi, c_lo;
};

double upper(double x) { return static_cast<double>(static_cast<float>(x)); }

Base split(const Math& m, double k, double k_low, double c) {
  if (m.f64) return {k, k_low, c, 0};
  return {upper(k), k - upper(k), upper(c), c - upper(c)};
}
Base base_e(const Math& m) { return split(m, 0.6931471805599453, 2.3190468138462996e-17, 1); }
Base base_2(const Math& m) { return split(m, 1, 0, 1.4426950408889634); }
Base base_10(const Math& m) { return split(m, 0.3010299956639812, -2.8037281277851704e-18, 0.4342944819032518); }

V log1p_tail(const Math& m, V f) { // (ln(1 + f) - f) / f^2 for f32, error 2^-26 of ln(1 + f)
  return m.poly(f, {-0.5, 0.333332092, -0.249997169, 0.200107485, -0.166823044, 0.140011549, -0.121671654, 0.140047804, -0.129489332});
}

V combine(const Math& m, V e, V f, const Base& base) {
  V l = m.f64            ? log1p_poly(m, f) * base.c_hi
        : base.c_hi == 1 ? log1p_poly(m, f)
                         : m.fma(f, base.c_hi, m.fma(f * f, log1p_tail(m, f) * base.c_hi, f * base.c_lo));
  if (base.k_lo != 0) l = m.fma(e, base.k_lo, l);
  return m.fma(e, base.k_hi, l);
}

// The value at +inf, zero, negative numbers and NaN instead of r.
V with_specials(const Math& m, V x, V zero_at, V r) {
  V special = m.select(zero_at == 0, -m.infinity(), m.nan());
  return m.select(zero_at > 0, m.select(x < m.infinity(), r, x), special);
}

constexpr Avx512Instruction getexp = {{llvm::Intrinsic::x86_avx512_mask_getexp_ps_128, llvm::Intrinsic::x86_avx512_mask_getexp_ps_256,
                                       llvm::Intrinsic::x86_avx512_mask_getexp_ps_512},
                                      {llvm::Intrinsic::x86_avx512_mask_getexp_pd_128, llvm::Intrinsic::x86_avx512_mask_getexp_pd_256,
                                       llvm::Intrinsic::x86_avx512_mask_getexp_pd_512}};
constexpr Avx512Instruction getmant = {{llvm::Intrinsic::x86_avx512_mask_getmant_ps_128, llvm::Intrinsic::x86_avx512_mask_getmant_ps_256,
                                        llvm::Intrinsic::x86_avx512_mask_getmant_ps_512},
                                       {llvm::Intrinsic::x86_avx512_mask_getmant_pd_128, llvm::Intrinsic::x86_avx512_mask_getmant_pd_256,
                                        llvm::Intrinsic::x86_avx512_mask_getmant_pd_512}};
constexpr int nan_of_negatives = 2 << 2; // getmant's immediate; its mantissas are in [1, 2)

// By instructions that take floats apart, denormals too, what the formula below gives bit for bit: e is infinite for 0 and infinities, f is
// NaN for negative numbers and NaN.
V log_by_parts(const Math& m, V x, const Base& base) {
  V e = call_avx512(m, getexp, {x}), mantissa = call_avx512(m, getmant, {x}, nan_of_negatives);
  V upper = mantissa >= (m.f64 ? 0x1.5555555555555p0 : 0x1.555556p0); // as log_parts parts them
  e = m.select(upper, e + 1, e);
  V f = m.select(upper, mantissa * 0.5, mantissa) - 1;
  return m.select(m.abs(e) == m.infinity(), e + f, combine(m, e, f, base));
}

V log_base(const Math& m, V x, const Base& base) {
  if (fills_avx512(m)) return log_by_parts(m, x, base);
  V tiny = x < (m.f64 ? 0x1p-1022 : 0x1p-126);
  double shift = m.f64 ? 54 : 25;
  LogParts a = log_parts(m, m.select(tiny, x * (m.f64 ? 0x1p54 : 0x1p25), x));
  V e = a.e - m.select(tiny, shift, m.number(0));
  return with_specials(m, x, x, combine(m, e, a.f, base));
}

V log_value(const Math& m, V x) { return log_base(m, x, base_e(m)); }

} // namespace

LogParts log_parts(const Math& m, V x) {
  // Bits relative to 2/3: the exponent field then counts from 2/3 to 4/3.
  int64_t one = int64_t(m.bias) << m.mantissa;
  int64_t two_thirds = m.f64 ? INT64_C(0x3fe5555555555555) : INT64_C(0x3f2aaaab);
  V above = m.bits(x) + m.integer(one - two_thirds);
  V exponent = above >> m.mantissa;
  // An integer below 2^mantissa under the exponent of 2^mantissa is that float plus 2^mantissa.
  int64_t anchor = int64_t(m.bias + m.mantissa) << m.mantissa;
  V e = m.as_float(exponent | m.integer(anchor)) - ((m.f64 ? 0x1p52 : 0x1p23) + m.bias);
  int64_t field = m.f64 ? INT64_C(0x7ff0000000000000) : INT64_C(0x7f800000);
  V exponent_bits = (above & m.integer(field)) - m.integer(one);
  return {e, m.as_float(m.bits(x) - exponent_bits) - 1, exponent_bits};
}

V log1p_poly(const Math& m, V f) {
  if (!m.f64) return m.fma(f * f, log1p_tail(m, f), f);
  V s = f / (f + 2), z = s * s;
  V r = m.poly(z, {0.666666666666666, 0.4000000000005973, 0.28571428555105516, 0.22222224376977387, 0.18181661110319422,
                   0.15391266052269464, 0.1317103031843892, 0.13860301859044233});
  return m.fma(-s, f - z * r, f); // ln(1 + f) = f - s (f - z r), error 2^-58
}

Pair log_pair(const Math& m, V x) {
  V tiny = x < 0x1p-1022;
  LogParts a = log_parts(m, m.select(tiny, x * 0x1p54, x));
  V e = a.e - m.select(tiny, 54, m.number(0)), f = a.f;
  // ln(1 + f) = 2 s + 2/3 s^3 + s^5 (2/5 + ...) with s = f / (2 + f): all but the last term by pairs.
  V d = f + 2, d_lo = f - (d - 2), inverse = 1 / d;
  V s = f * inverse, s_lo = (m.fma(-s, d, f) - s * d_lo) * inverse;
  V z = s * s, z_lo = m.fma(s, s, -z) + s * s_lo * 2;
  V cube = z * s, cube_lo = m.fma(z, s, -cube) + m.fma(z, s_lo, z_lo * s);
  constexpr double third = 0.6666666666666666, third_lo = 3.700743415417188e-17;
  V c = cube * third, c_lo = m.fma(cube, third, -c) + m.fma(cube, third_lo, cube_lo * third);
  V tail = cube * z *
           m.poly(z, {0.4, 0.2857142857142848, 0.22222222222280746, 0.18181818166941657, 0.15384617276248186, 0.13333198492496373,
                      0.1177033299405455, 0.103903540662365, 0.11266522505036809});
  V twice = s * 2, l = twice + c, l_lo = (twice - l) + c + (tail + m.fma(s_lo, 2, c_lo));
  // The upper part of ln 2 has 42 digits: its product with e is exact.
  V whole = e * 0.6931471805598903, upper = whole + l, rest = (whole - upper) + l + m.fma(e, 5.497923018708371e-14, l_lo);
  V hi = upper + rest, lo = (upper - hi) + rest;
  return {m.select(x == 0, -m.infinity(), m.select(x < m.infinity(), hi, x)), lo};
}

llvm::Value* log(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return log_value(m, m.wrap(x)).v;
}

llvm::Value* log2(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return log_base(m, m.wrap(x), base_2(m)).v;
}

llvm::Value* log10(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return log_base(m, m.wrap(x), base_10(m)).v;
}

llvm::Value* log1p(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v), u = x + 1;
  LogParts a = log_parts(m, u);
  // f = x 2^-e + (2^-e - 1), exactly the rounding u lost; 2^-e by way of 4 2^-e, which stays normal.
  V four = m.as_float(m.bits(m.number(4)) - a.exponent_bits);
  V f = m.as_float(m.bits(x) - a.exponent_bits) + m.fma(four, 0.25, m.number(-1));
  V r = with_specials(m, x, u, combine(m, a.e, f, base_e(m)));
  return m.select(x == 0, x, r).v;
}

namespace {

// ln(1 + t), or ln(2 x) where x is beyond 2^54, of f64.
V log1p_or_double(const Math& m, V x, V t) {
  V big = x > 0x1p54;
  V l = m.wrap(log1p(m.e, m.select(big, x, t).v));
  return l + m.select(big, 0.6931471805599453, m.number(0));
}

} // namespace

// The inverse hyperbolic functions, of f32 in f64: there the plain formulas are good to 2^-40 above 2^-7, and two terms of the
// series below.
llvm::Value* asinh(const Emitter& e, llvm::Value* v) {
  if (v->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, v);
    V x = m.wrap(v), a = m.abs(x), z = a * a;
    return m.copysign(log1p_or_double(m, a, a + z / (m.sqrt(z + 1) + 1)), x).v;
  }
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.abs(x), z = x * x;
    V l = log_value(m, a + m.sqrt(z + 1));
    V small = m.fma(a * z, m.poly(z, {-1.0 / 6, 3.0 / 40}), a);
    return m.copysign(m.select(a < 0x1p-7, small, l), x);
  });
}

llvm::Value* acosh(const Emitter& e, llvm::Value* v) {
  if (v->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, v);
    V x = m.wrap(v), t = x - 1;
    return m.select(x >= 1, log1p_or_double(m, x, t + m.sqrt(m.fma(t, t, t * 2))), m.nan()).v;
  }
  return through_f64(e, v, [](const Math& m, V x) {
    V r = log_value(m, x + m.sqrt(m.fma(x, x, m.number(-1))));
    return m.select(x >= 1, r, m.nan());
  });
}

llvm::Value* atanh(const Emitter& e, llvm::Value* v) {
  if (v->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, v);
    V x = m.wrap(v), a = m.abs(x);
    return m.copysign(m.wrap(log1p(e, (a * 2 / (1 - a)).v)) * 0.5, x).v;
  }
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.abs(x), z = x * x;
    V l = log_value(m, (1 + a) / (1 - a)) * 0.5;
    V small = m.fma(a * z, m.poly(z, {1.0 / 3, 1.0 / 5}), a);
    return m.copysign(m.select(a < 0x1p-7, small, l), x);
  });
}

} // namespace tenon::vmath
