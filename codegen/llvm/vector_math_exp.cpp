// Exponential family. e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln(2) / 2 and e^r a minimax polynomial (fitted with a
// Remez exchange for relative error, then rounded to the working precision).
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr double log2_e = 1.4426950408889634;
constexpr double ln2 = 0.6931471805599453;

struct Reduced {
  V r, n, shifted;
};

// r = x - n ln 2 in two steps; the first is exact, as n times the upper part cancels all but the low bits of x.
Reduced reduce_by_ln2(const Math& m, V x) {
  V shifted = m.fma(x, log2_e, m.number(m.magic()));
  V n = shifted - m.magic();
  double hi = m.f64 ? ln2 : static_cast<double>(static_cast<float>(ln2));
  double lo = m.f64 ? 2.3190468138462996e-17 : ln2 - hi;
  return {m.fma(n, -lo, m.fma(n, -hi, x)), n, shifted};
}

V exp_poly(const Math& m, V r) { // error f32 2^-28, f64 2^-57
  if (m.f64)
    return m.poly(r, {1, 1, 0.5000000000000012, 0.16666666666666385, 0.04166666666651915, 0.008333333333507302, 0.0013888888946920993,
                      0.0001984126948736706, 2.4801489348944075e-05, 2.755759583099304e-06, 2.763168934837646e-07, 2.499948550337863e-08});
  return m.poly(r, {1, 1, 0.49999994, 0.166665092, 0.0416680053, 0.0083700465, 0.00138493115});
}

V expm1_poly(const Math& m, V r) { // error f32 2^-26, f64 2^-59, relative to expm1(r)
  V q = m.f64 ? m.poly(r, {0.5, 0.16666666666666677, 0.04166666666666649, 0.00833333333332074, 0.0013888888888968277,
                           0.00019841269888680482, 2.480158716482279e-05, 2.7557241371693248e-06, 2.7557405934131164e-07,
                           2.5110109030925378e-08, 2.0875307142333844e-09})
              : m.poly(r, {0.49999997, 0.166665345, 0.0416677147, 0.00836774055, 0.00138405198});
  return m.fma(r * r, q, r);
}

// (e^x - 1) / 2 for x in [-40, 1024 ln 2]: the half keeps 2^n in range where e^x is next to overflow.
V half_expm1(const Math& m, V x) {
  Reduced a = reduce_by_ln2(m, x);
  V half = m.as_float((m.bits(a.shifted) << m.mantissa) + m.integer(int64_t(m.bias - 1) << m.mantissa));
  return m.fma(half, expm1_poly(m, a.r), half - 0.5);
}

constexpr Avx512Instruction scalef = {{llvm::Intrinsic::x86_avx512_mask_scalef_ps_128, llvm::Intrinsic::x86_avx512_mask_scalef_ps_256,
                                       llvm::Intrinsic::x86_avx512_mask_scalef_ps_512},
                                      {llvm::Intrinsic::x86_avx512_mask_scalef_pd_128, llvm::Intrinsic::x86_avx512_mask_scalef_pd_256,
                                       llvm::Intrinsic::x86_avx512_mask_scalef_pd_512}};

V exp_limited(const Math& m, V x) {
  ExpParts a = exp_parts(m, x);
  return scale(m, a.p, a.n, a.shifted);
}

// Below the first limit e^x rounds to zero, above the second to infinity.
double lowest(const Math& m) { return m.f64 ? -746 : -104; }
double highest(const Math& m) { return m.f64 ? 710 : 89; }

} // namespace

ExpParts exp_parts(const Math& m, V x) {
  Reduced a = reduce_by_ln2(m, x);
  return {exp_poly(m, a.r), a.n, a.shifted};
}

V power_of_two(const Math& m, V shifted) { return m.as_float((m.bits(shifted) << m.mantissa) + m.integer(int64_t(m.bias) << m.mantissa)); }

V scale(const Math& m, V p, V n, V shifted) {
  if (fills_avx512(m)) return call_avx512(m, scalef, {p, n});
  // 2^n = 2^h 2^(n-h): each factor is normal, and only the second product rounds.
  int64_t magic_bits = m.f64 ? INT64_C(0x4338000000000000) : INT64_C(0x4b400000);
  V biased = m.bits(shifted) + m.integer(2 * m.bias - magic_bits);
  V h = biased >> 1;
  return p * m.as_float(h << m.mantissa) * m.as_float((biased - h) << m.mantissa);
}

llvm::Value* exp(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return exp_limited(m, m.at_least(m.at_most(m.wrap(x), highest(m)), lowest(m))).v;
}

llvm::Value* exp2(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.at_least(m.at_most(m.wrap(v), m.f64 ? 1025 : 129), m.f64 ? -1077 : -152);
  V shifted = x + m.magic();
  V n = shifted - m.magic();
  return scale(m, exp_poly(m, (x - n) * ln2), n, shifted).v;
}

llvm::Value* expm1(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  V y = half_expm1(m, m.at_least(m.at_most(x, highest(m)), m.f64 ? -40 : -20)) * 2;
  return m.select(m.abs(x) < 0x1p-60, x, y).v; // keeps -0 and denormals
}

llvm::Value* sigmoid(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  V t = exp_limited(m, m.at_least(-m.abs(x), lowest(m)));
  return (m.select(x < 0, t, m.number(1)) / (1 + t)).v;
}

llvm::Value* tanh(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) {
    V t = half_expm1(m, m.at_most(m.abs(x), 20) * 2);
    return m.copysign(t / (t + 1), x).v;
  }
  // One rational function of x would be shorter, but is 4 ulp off where tanh comes near 1.
  V a = m.abs(x), z = x * x;
  V small = m.fma(a * z, m.poly(z, {-0.333333164, 0.133325443, -0.0538475029, 0.0210502911, -0.00624190271}), a);
  ExpParts t = exp_parts(m, m.at_most(a, 9.02) * 2);
  V big = 1 - 2 / m.fma(t.p, power_of_two(m, t.shifted), m.number(1));
  return m.copysign(m.select(a < 0.55, small, big), x).v;
}

llvm::Value* sinh(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  V a = m.at_most(m.abs(x), m.f64 ? 711 : 90), z = x * x;
  V q = m.f64 ? m.poly(z, {0.16666666666666666, 0.008333333333333333, 0.0001984126984126984, 2.7557319223985893e-06, 2.505210838544172e-08,
                           1.6059043836821613e-10, 7.647163731819816e-13, 2.8114572543455206e-15, 8.22063524662433e-18})
              : m.poly(z, {0.166666672, 0.00833331048, 0.000198429101, 2.78205903e-06});
  V small = m.fma(x * z, q, x);
  ExpParts t = exp_parts(m, a);
  V half = scale(m, t.p, t.n - 1, t.shifted - 1);
  return m.select(m.abs(x) < 1, small, m.copysign(half - 0.25 / half, x)).v;
}

llvm::Value* cosh(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  ExpParts t = exp_parts(m, m.at_most(m.abs(x), m.f64 ? 711 : 90));
  V half = scale(m, t.p, t.n - 1, t.shifted - 1);
  return (half + 0.25 / half).v;
}

namespace {

// C's special cases of x^y, and its sign, given |x|^y.
V signed_power(const Math& m, V x, V y, V r) {
  auto whole = [&](V v) { return m.call(llvm::Intrinsic::floor, v) == v; };
  V a = m.abs(x), integral = whole(y), odd = integral & !whole(y * 0.5);
  r = m.select(m.negative(x) & odd, -r, r);
  r = m.select((x < 0) & (a < m.infinity()) & !integral, m.nan(), r);
  V one = (y == 0) | (x == 1) | ((a == 1) & (m.abs(y) == m.infinity()));
  return m.select(one, 1, r);
}

// e^(y ln |x|) of f64. The exponent is a sum of two numbers, the greater first, whose relative error is some 2^-64.
V wide_power(const Math& m, V x, V y) {
  Pair l = log_pair(m, m.abs(x));
  V p = y * l.hi, rest = m.fma(y, l.hi, -p) + y * l.lo;
  constexpr double limit = 800;
  rest = m.select(m.abs(p) < m.number(limit), rest, 0.0);
  ExpParts t = exp_parts(m, m.at_least(m.at_most(p, limit), -limit));
  return signed_power(m, x, y, scale(m, m.fma(t.p, rest, t.p), t.n, t.shifted));
}

} // namespace

llvm::Value* pow(const Emitter& e, llvm::Value* base, llvm::Value* exponent) {
  if (base->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, base);
    return wide_power(m, m.wrap(base), m.wrap(exponent)).v;
  }
  // f32 in f64: 2^(y log2 |x|) with 2^-40 to spare
  llvm::Value* wide = e.builder.CreateFPExt(exponent, exponent->getType()->getWithNewType(e.builder.getDoubleTy()));
  return through_f64(e, base, [wide](const Math& m, V x) {
    V y = m.wrap(wide), a = m.abs(x);
    LogParts l = log_parts(m, a);
    V log2_a = m.fma(log1p_poly(m, l.f), log2_e, l.e);
    log2_a = m.select(a == 0, -m.infinity(), m.select(a < m.infinity(), log2_a, a));
    V t = m.at_least(m.at_most(y * log2_a, 200), -200);
    V shifted = t + m.magic();
    return signed_power(m, x, y, exp_poly(m, (t - (shifted - m.magic())) * ln2) * power_of_two(m, shifted));
  });
}

} // namespace tenon::vmath
