// Error functions, roots, rounding, remainders.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

llvm::Value* intrinsic(const Emitter& e, llvm::Intrinsic::ID id, llvm::Value* x) {
  Math m(e, x);
  return m.call(id, m.wrap(x)).v;
}

// fmod of magnitudes. The truncated quotient is exact or one too large while it fits the mantissa: x - q y is exact then.
V remainder_of(const Math& m, V x, V y) {
  V a = m.abs(x), d = m.abs(y), quotient = a / d;
  V q = m.call(llvm::Intrinsic::trunc, quotient);
  V r = m.fma(-q, d, a);
  r = m.select(r < 0, r + d, r);
  r = m.select(a < d, a, r); // also where y is infinite
  V fast = m.copysign(r, x);
  return m.unless(quotient >= (m.f64 ? 0x1p53 : 0x1p24), fast, [&] { return m.libm("fmod", {x, y}); });
}

bool is_number(llvm::Value* v, bool zero_too) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  return number && !number->isNaN() && (zero_too || !number->isZero());
}

// The operand that is before the other, the second of equal ones, NaN where there is one. `before` is false of NaN, so that a number's
// other operand needs no test; a second one that is no zero may change places with the first.
llvm::Value* bounded(const Emitter& e, llvm::Value* x, llvm::Value* y, V (*before)(V, V)) {
  if (is_number(y, false)) std::swap(x, y);
  Math m(e, x);
  V first = m.select(before(m.wrap(x), m.wrap(y)), m.wrap(x), m.wrap(y));
  return is_number(x, true) ? first.v : m.b.CreateSelect(m.b.CreateFCmpUNO(x, x), x, first.v);
}

// x + x P(x^2), of f64, for |x| up to 1
V small_erf(const Math& m, V x) {
  V z = x * x;
  V p = m.poly(z, {0.12837916709551256, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225,
                   -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06, -1.6208483801871705e-07,
                   1.3720064546777686e-08, -7.795898827002142e-10});
  return m.fma(x, p, x);
}

} // namespace

llvm::Value* erf(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (!m.f64) return erf_by_table(m, x).v;
  // Large: 1 - exp(-Q(|x|)) with Q = -ln(erfc), up to where erf rounds to 1.
  V a = m.abs(x), limited = m.at_most(a, 5.95);
  V q = m.poly(limited,
               {-5.179622162402391e-10,  1.1283791986181957,      0.6366194226455938,     0.10277456094499346,    -0.019135416061588504,
                -0.00019170545123878808, 0.0016634546248529944,   -0.0005427415646668051, -2.824501914600788e-05, 0.00011391659151123627,
                -6.596338447832111e-05,  2.4619950134181462e-05,  -6.847973352400287e-06, 1.4745264035820692e-06, -2.4682941734593265e-07,
                3.1650074547545516e-08,  -3.0082816160716833e-09, 1.9972271309786236e-10, -8.262015365376909e-12, 1.6013513528190139e-13});
  ExpParts t = exp_parts(m, -q);
  V large = 1 - t.p * power_of_two(m, t.shifted);
  return m.select(a < 0.92, small_erf(m, x), m.copysign(large, x)).v;
}

namespace {

// erfc(a) = exp(-a^2) / (1 + 2 a) times a polynomial in (a - 3) / (a + 3), of f64; a^2 in two parts. Small ones: 1 - erf.
V wide_erfc(const Math& m, V x) {
  V a = m.at_most(m.abs(x), 27.3), d = m.fma(a, 2, 1.0), e = a + 3, both = 1 / (d * e), inverse = e * both;
  V h = m.poly((a - 3) * d * both,
               {1.2530080582697296,      -0.13562110612458067,   -0.047562294353446846,  0.12964515870270404,     -0.11927366341550479,
                0.06830802734585574,     -0.023770514914689324,  0.002529391787439232,   0.001888690316398722,    -0.0007798320304284554,
                -0.00010515951430802023, 0.00012509811046590528, 4.948225243188312e-06,  -2.0096488951806807e-05, -7.277331693189205e-07,
                3.4636901087184284e-06,  3.491325343220638e-07,  -6.045980671336693e-07, -1.3114298770307867e-07, 9.156244231434985e-08,
                3.2852433981759875e-08,  -8.405721805214884e-09, -4.1709678137948285e-09});
  V quotient = h * inverse, scaled = m.fma(m.fma(-quotient, d, h), inverse, quotient);
  V square = a * a;
  ExpParts p = exp_parts(m, -square);
  V r = scale(m, m.fma(p.p, -m.fma(a, a, -square), p.p) * scaled, p.n, p.shifted);
  return m.select(a < 0.75, 1 - small_erf(m, x), m.select(x < 0, 2 - r, r));
}

} // namespace

// f32 in f64: erfc(a) = exp(-a^2) times a polynomial in (a - 2) / (a + 2).
llvm::Value* erfc(const Emitter& e, llvm::Value* v) {
  if (v->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, v);
    return wide_erfc(m, m.wrap(v)).v;
  }
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.at_most(m.abs(x), 10.2);
    V t = (a - 2) / (a + 2);
    V scaled = m.poly(t, {0.2553956765669704, -0.4271858530585664, 0.24165817437105563, -0.07897836072851241, 0.0037331625396971064,
                          0.00699514207349882, -0.0008488444113508764, -0.0009719377775912938, 5.00683430625854e-05, 0.00015460064574673144,
                          1.3369035152282564e-05, -1.1986419245818873e-05});
    ExpParts p = exp_parts(m, -(a * a));
    V r = scaled * p.p * power_of_two(m, p.shifted);
    return m.select(x < 0, 2 - r, r);
  });
}

llvm::Value* sqrt(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::sqrt, x); }
llvm::Value* abs(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::fabs, x); }
llvm::Value* floor(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::floor, x); }
llvm::Value* ceil(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::ceil, x); }
llvm::Value* trunc(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::trunc, x); }
llvm::Value* round(const Emitter& e, llvm::Value* x) { return intrinsic(e, llvm::Intrinsic::roundeven, x); }

llvm::Value* rsqrt(const Emitter& e, llvm::Value* x) {
  Math m(e, x);
  return (1 / m.sqrt(m.wrap(x))).v;
}

llvm::Value* fmod(const Emitter& e, llvm::Value* x, llvm::Value* y) {
  Math m(e, x);
  return remainder_of(m, m.wrap(x), m.wrap(y)).v;
}

llvm::Value* remainder(const Emitter& e, llvm::Value* vx, llvm::Value* vy) {
  Math m(e, vx);
  V y = m.wrap(vy), r = remainder_of(m, m.wrap(vx), y);
  V differ = m.wrap(m.b.CreateXor((r < 0).v, (y < 0).v));
  V nonzero = m.wrap(m.b.CreateFCmpUNE(r.v, m.number(0).v));
  return m.select(nonzero & differ, r + y, r).v;
}

llvm::Value* minimum(const Emitter& e, llvm::Value* x, llvm::Value* y) {
  return bounded(e, x, y, [](V a, V b) { return a < b; });
}
llvm::Value* maximum(const Emitter& e, llvm::Value* x, llvm::Value* y) {
  return bounded(e, x, y, [](V a, V b) { return b < a; });
}

} // namespace tenon::vmath
