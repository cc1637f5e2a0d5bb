// Circular functions and their inverses. sin, cos, tan: x = n pi/2 + r in three fused steps for |x| up to a limit; larger
// arguments take libm's exact reduction in a rare branch.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr double pi = 3.141592653589793, half_pi = 1.5707963267948966;

struct Trig {
  V r;         // in about [-pi/4, pi/4]
  V quadrant;  // n, in the low bits
  V huge;      // |x| beyond the limit, or not finite
};

// The first step is exact, the second rounds only r, the third adds what two words of pi/2 leave out.
Trig reduce(const Math& m, V x) {
  V shifted = m.fma(x, 2 / pi, m.number(m.magic()));
  V n = shifted - m.magic();
  V r = m.f64 ? m.fma(n, -6.123233995736766e-17, m.fma(n, -half_pi, x))
              : m.fma(n, 4.37113883e-08, m.fma(n, -1.57079637, x));
  r = m.fma(n, m.f64 ? 1.4973849048591833e-33 : 1.71512449e-15, r);
  V huge = !(m.abs(x) <= (m.f64 ? 0x1p30 : 0x1p20));
  return {r, m.bits(shifted), huge};
}

V sin_poly(const Math& m, V r, V z) {  // error f32 2^-27, f64 2^-56
  V q = m.f64 ? m.poly(z, {-0.1666666666666663, 0.008333333333321544, -0.00019841269829113308, 2.7557313451039087e-06,
                           -2.5050720348634172e-08, 1.5894601083208033e-10})
              : m.poly(z, {-0.166666493, 0.00833183806, -0.000194733395});
  return m.fma(r * z, q, r);
}

V cos_poly(const Math& m, V z) {  // error f32 2^-32, f64 2^-62
  V q = m.f64 ? m.poly(z, {0.04166666666666659, -0.0013888888888872245, 2.4801587288332706e-05, -2.755731402603784e-07,
                           2.0875679581157083e-09, -1.1357414679856005e-11})
              : m.poly(z, {0.0416666381, -0.00138869521, 2.43924133e-05});
  return m.fma(z * z, q, m.fma(z, -0.5, m.number(1)));
}

// sin(x + offset pi/2)
llvm::Value* sine(const Emitter& e, llvm::Value* v, int offset, const char* name) {
  Math m(e, v);
  V x = m.wrap(v);
  Trig t = reduce(m, x);
  V z = t.r * t.r, n = t.quadrant + m.integer(offset);
  V r = m.select(m.nonzero(n & m.integer(1)), cos_poly(m, z), sin_poly(m, t.r, z));
  r = m.as_float(m.bits(r) ^ ((n >> 1) << (m.f64 ? 63 : 31)));
  if (offset == 0) r = m.select(x == 0, x, r);
  return m.unless(t.huge, r, [&] { return m.libm(name, {x}); }).v;
}

// atan of t in [0, 1]
V atan_poly(const Math& m, V t) {  // error 2^-25
  V z = t * t;
  return m.fma(t * z, m.poly(z, {-0.333331615, 0.199940085, -0.142131731, 0.10674987, -0.0757284686, 0.0434770249,
                                 -0.0165468901, 0.0029699076}), t);
}

struct Arcsine {
  V s, tail;  // asin(s) = s + tail; s is |x|, or sqrt((1 - |x|) / 2) where big
  V big;      // |x| > 1/2: asin(|x|) = pi/2 - 2 asin(s)
};
Arcsine arcsine(const Math& m, V x) {
  V a = m.abs(x), big = a > 0.5;
  V z = m.select(big, m.fma(a, -0.5, m.number(0.5)), a * a);
  V s = m.select(big, m.sqrt(z), a);
  V q = m.poly(z, {0.166667521, 0.0749531388, 0.0454682074, 0.0241909176, 0.0421458855});  // error 2^-27
  return {s, s * z * q, big};
}

V minus(const Math& m, double c, V x) {  // c - x with c in two words
  double hi = static_cast<double>(static_cast<float>(c));
  return hi - (x - m.number(c - hi));
}

} // namespace

llvm::Value* sin(const Emitter& e, llvm::Value* x) { return sine(e, x, 0, "sin"); }
llvm::Value* cos(const Emitter& e, llvm::Value* x) { return sine(e, x, 1, "cos"); }

llvm::Value* tan(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) return m.libm("tan", {x}).v;
  Trig t = reduce(m, x);
  V z = t.r * t.r;
  V q = m.poly(z, {0.333333731, 0.133318692, 0.0541482642, 0.0208358392, 0.0119651491, -0.00130545127, 0.00504587311});
  V y = m.fma(t.r * z, q, t.r);
  V odd = m.nonzero(t.quadrant & m.integer(1));
  V r = m.select(odd, m.number(-1), y) / m.select(odd, y, m.number(1));
  return m.unless(t.huge, m.select(x == 0, x, r), [&] { return m.libm("tan", {x}); }).v;
}

llvm::Value* asin(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) return m.libm("asin", {x}).v;
  Arcsine a = arcsine(m, x);
  V big = m.fma(a.s, -2, half_pi) - m.fma(a.tail, 2, m.number(4.37113883e-08));
  return m.copysign(m.select(a.big, big, a.s + a.tail), x).v;
}

llvm::Value* acos(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) return m.libm("acos", {x}).v;
  Arcsine a = arcsine(m, x);
  V p = a.s + a.tail, twice = p * 2;
  V big = m.select(x < 0, minus(m, pi, twice), twice);
  return m.select(a.big, big, minus(m, half_pi, m.copysign(p, x))).v;
}

llvm::Value* atan(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  if (m.f64) return m.libm("atan", {x}).v;
  V a = m.abs(x), big = a > 1;
  V p = atan_poly(m, m.select(big, 1 / a, a));
  return m.copysign(m.select(big, minus(m, half_pi, p), p), x).v;
}

llvm::Value* atan2(const Emitter& e, llvm::Value* vy, llvm::Value* vx) {
  Math m(e, vx);
  V y = m.wrap(vy), x = m.wrap(vx);
  if (m.f64) return m.libm("atan2", {y, x}).v;
  V a = m.abs(y), b = m.abs(x), steep = b < a;
  V low = m.select(steep, b, a), high = m.select(steep, a, b);
  V t = m.select(high == 0, high, low / high);
  t = m.select(low == m.infinity(), 1, t);
  V p = atan_poly(m, t);
  p = m.select(steep, minus(m, half_pi, p), p);
  p = m.select(m.negative(x), minus(m, pi, p), p);
  V unordered = m.wrap(m.b.CreateFCmpUNO(y.v, x.v));
  return m.select(unordered, y + x, m.copysign(p, y)).v;
}

} // namespace tenon::vmath
