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
  r = m.select(a < d, a, r);  // also where y is infinite
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

} // namespace

llvm::Value* erf(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) return m.libm("erf", {x}).v;
  if (has_tables(m)) return erf_by_table(m, x).v;
  // Small: x + x P(x^2). Large: 1 - exp(-Q(|x|)) with Q = -ln(erfc), up to where erf rounds to 1.
  V a = m.abs(x), z = x * x;
  V p = m.poly(z, {0.128379151, -0.376124978, 0.112818457, -0.0267677195, 0.00499482919, -0.000599940075});
  V q = m.poly(m.at_most(a, 3.95), {0.000150187741, 1.12786603, 0.636857867, 0.104219228, -0.0223668106, 0.00307857548,
                                    -0.000199563816});
  ExpParts t = exp_parts(m, -q);
  V large = 1 - t.p * power_of_two(m, t.shifted);
  return m.select(a < 0.92, m.fma(x, p, x), m.copysign(large, x)).v;
}

// f32 in f64: erfc(a) = exp(-a^2) times a polynomial in (a - 2) / (a + 2).
llvm::Value* erfc(const Emitter& e, llvm::Value* v) {
  if (v->getType()->getScalarType()->isDoubleTy()) return call_per_lane(e, "erfc", {{v}});
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.at_most(m.abs(x), 10.2);
    V t = (a - 2) / (a + 2);
    V scaled = m.poly(t, {0.2553956765669704, -0.4271858530585664, 0.24165817437105563, -0.07897836072851241,
                          0.0037331625396971064, 0.00699514207349882, -0.0008488444113508764, -0.0009719377775912938,
                          5.00683430625854e-05, 0.00015460064574673144, 1.3369035152282564e-05, -1.1986419245818873e-05});
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

llvm::Value* minimum(const Emitter& e, llvm::Value* x, llvm::Value* y) { return bounded(e, x, y, [](V a, V b) { return a < b; }); }
llvm::Value* maximum(const Emitter& e, llvm::Value* x, llvm::Value* y) { return bounded(e, x, y, [](V a, V b) { return b < a; }); }

} // namespace tenon::vmath
