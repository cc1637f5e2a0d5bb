// Circular functions and their inverses. sin, cos, tan: x = n pi/2 + r in three fused steps for |x| up to a limit; larger
// arguments take libm's exact reduction in a rare branch.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr double half_pi = 1.5707963267948966;

struct Trig {
  V r;        // in about [-pi/4, pi/4]
  V tail;     // what rounding took from r; of f64
  V quadrant; // n, in the low bits
  V huge;     // |x| beyond the limit, or not finite
};

// The first step is exact, the second rounds only r, the third adds what two words of pi/2 leave out.
Trig reduce_by_half_pi(const Math& m, V x) {
  V shifted = m.fma(x, 2 / pi, m.number(m.magic()));
  V n = shifted - m.magic();
  V first = m.fma(n, m.f64 ? -half_pi : -1.57079637, x);
  V second = m.fma(n, m.f64 ? -6.123233995736766e-17 : 4.37113883e-08, first);
  V r = m.fma(n, m.f64 ? 1.4973849048591833e-33 : 1.71512449e-15, second);
  V tail = m.fma(n, -6.123233995736766e-17, first - second) + m.fma(n, 1.4973849048591833e-33, second - r);
  V huge = !(m.abs(x) <= (m.f64 ? 0x1p30 : 0x1p20));
  return {r, tail, m.bits(shifted), huge};
}

V sin_tail(const Math& m, V z) { // (sin(r) - r) / r^3; error of sin(r) f32 2^-27, f64 2^-56
  return m.f64 ? m.poly(z, {-0.1666666666666663, 0.008333333333321544, -0.00019841269829113308, 2.7557313451039087e-06,
                            -2.5050720348634172e-08, 1.5894601083208033e-10})
               : m.poly(z, {-0.166666493, 0.00833183806, -0.000194733395});
}
V sin_poly(const Math& m, V r, V z) { return m.fma(r * z, sin_tail(m, z), r); }

V cos_tail(const Math& m, V z) { // (cos(r) - 1 + r^2 / 2) / r^4; error of cos(r) f32 2^-32, f64 2^-62
  return m.f64 ? m.poly(z, {0.04166666666666659, -0.0013888888888872245, 2.4801587288332706e-05, -2.755731402603784e-07,
                            2.0875679581157083e-09, -1.1357414679856005e-11})
               : m.poly(z, {0.0416666381, -0.00138869521, 2.43924133e-05});
}
V cos_poly(const Math& m, V z) { return m.fma(z * z, cos_tail(m, z), m.fma(z, -0.5, m.number(1))); }

// tan of f64: sine over cosine, or the negative inverse where odd, with what their sums round off.
V wide_tan(const Math& m, const Trig& t, V z, V odd) {
  V from_r = m.fma(t.r * z, sin_tail(m, z), m.fma(z, -0.5, m.number(1)) * t.tail);
  V from_one = m.fma(z * z, cos_tail(m, z), m.fma(-t.r, t.tail, z * -0.5));
  V s = t.r + from_r, s_lost = (t.r - s) + from_r, c = from_one + 1, c_lost = (1 - c) + from_one;
  V n = m.select(odd, -c, s), n_lost = m.select(odd, -c_lost, s_lost);
  V d = m.select(odd, s, c), d_lost = m.select(odd, s_lost, c_lost);
  V inverse = 1 / d, q = n * inverse;
  return m.fma(m.fma(-q, d, n) + m.fma(-q, d_lost, n_lost), inverse, q);
}

// sin(x + offset pi/2)
llvm::Value* sine(const Emitter& e, llvm::Value* v, int offset, const char* name) {
  Math m(e, v);
  V x = m.wrap(v);
  Trig t = reduce_by_half_pi(m, x);
  V z = t.r * t.r, n = t.quadrant + m.integer(offset);
  V r = m.select(m.nonzero(n & m.integer(1)), cos_poly(m, z), sin_poly(m, t.r, z));
  r = m.as_float(m.bits(r) ^ ((n >> 1) << (m.f64 ? 63 : 31)));
  if (offset == 0) r = m.select(x == 0, x, r);
  return m.unless(t.huge, r, [&] { return m.libm(name, {x}); }).v;
}

V minus(const Math& m, double c, V x) { // c - x for a multiple c of pi, in two words
  double hi = m.f64 ? c : static_cast<double>(static_cast<float>(c));
  return hi - (x - m.number(m.f64 ? c * (6.123233995736766e-17 / half_pi) : c - hi));
}

// atan(low / high) for 0 <= low <= high
V atan_of_ratio(const Math& m, V low, V high) {
  if (!m.f64) { // error 2^-25
    V t = low / high, z = t * t;
    return m.fma(t * z,
                 m.poly(z, {-0.333331615, 0.199940085, -0.142131731, 0.10674987, -0.0757284686, 0.0434770249, -0.0165468901, 0.0029699076}),
                 t);
  }
  // Beyond tan(pi/8) as pi/4 - atan((high - low) / (high + low)); error 2^-57. The quotient is t and what rounding took from it.
  V turned = high * 0.41421356237309503 < low;
  V n = m.select(turned, low - high, low), d = m.select(turned, high + low, high), inverse = 1 / d;
  V d_lost = m.select(turned, (high - d) + low, 0.0), n_lost = m.select(turned, low - (n + high), 0.0);
  V t = n * inverse, tail = (m.fma(-t, d, n) + m.fma(-t, d_lost, n_lost)) * inverse, z = t * t;
  V p = t + m.fma(t * z,
                  m.poly(z, {-0.3333333333333333, 0.19999999999999993, -0.14285714285711518, 0.11111111110754629, -0.09090909067003983,
                             0.07692306735789252, -0.06666642015375167, 0.058819251850305856, -0.05258040893734448, 0.04719390811571214,
                             -0.041044192174651696, 0.0306353090758539, -0.013917829515596312}),
                  tail);
  return m.select(turned, minus(m, half_pi / 2, -p), p);
}

struct Arcsine {
  V s, tail; // asin(s) = s + tail; s is |x|, or sqrt((1 - |x|) / 2) where big
  V big;     // |x| > 1/2: asin(|x|) = pi/2 - 2 asin(s)
};
Arcsine arcsine(const Math& m, V x) {
  V a = m.abs(x), big = a > 0.5;
  V z = m.select(big, m.fma(a, -0.5, m.number(0.5)), a * a);
  V s = m.select(big, m.sqrt(z), a);
  V lost = m.f64 ? m.select(big, m.fma(-s, s, z) / m.fma(s, 2, 0x1p-1000), 0.0) : m.number(0); // by the root
  V q = m.f64 ? m.poly(z, {0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247, 0.02237217294214989,
                           0.017352392720869945, 0.013971212973553311, 0.011479177415181617, 0.0103228143502052, 0.005457506718563782,
                           0.01740087944288715, -0.014851887071528912, 0.028757851367602328})     // error 2^-57
              : m.poly(z, {0.166667521, 0.0749531388, 0.0454682074, 0.0241909176, 0.0421458855}); // error 2^-27
  return {s, m.f64 ? m.fma(s * z, q, lost) : s * z * q, big};
}

} // namespace

llvm::Value* sin(const Emitter& e, llvm::Value* x) { return sine(e, x, 0, "sin"); }
llvm::Value* cos(const Emitter& e, llvm::Value* x) { return sine(e, x, 1, "cos"); }

llvm::Value* tan(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  Trig t = reduce_by_half_pi(m, x);
  V z = t.r * t.r, odd = m.nonzero(t.quadrant & m.integer(1));
  if (m.f64) {
    V r = wide_tan(m, t, z, odd);
    return m.unless(t.huge, m.select(x == 0, x, r), [&] { return m.libm("tan", {x}); }).v;
  }
  V q = m.poly(z, {0.333333731, 0.133318692, 0.0541482642, 0.0208358392, 0.0119651491, -0.00130545127, 0.00504587311});
  V y = m.fma(t.r * z, q, t.r);
  V r = m.select(odd, m.number(-1), y) / m.select(odd, y, m.number(1));
  return m.unless(t.huge, m.select(x == 0, x, r), [&] { return m.libm("tan", {x}); }).v;
}

llvm::Value* asin(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  Arcsine a = arcsine(m, x);
  V big = m.fma(a.s, -2, half_pi) - m.fma(a.tail, 2, m.number(m.f64 ? -6.123233995736766e-17 : 4.37113883e-08));
  return m.copysign(m.select(a.big, big, a.s + a.tail), x).v;
}

llvm::Value* acos(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  Arcsine a = arcsine(m, x);
  V p = a.s + a.tail, twice = p * 2;
  V big = m.select(x < 0, minus(m, pi, twice), twice);
  return m.select(a.big, big, minus(m, half_pi, m.copysign(p, x))).v;
}

llvm::Value* atan(const Emitter& e, llvm::Value* v) {
  Math m(e, v);
  V x = m.wrap(v);
  V a = m.abs(x), big = a > 1, one = m.number(1);
  V p = atan_of_ratio(m, m.select(big, one, a), m.select(big, m.at_most(a, 0x1p100), one));
  return m.copysign(m.select(big, minus(m, half_pi, p), p), x).v;
}

llvm::Value* atan2(const Emitter& e, llvm::Value* vy, llvm::Value* vx) {
  Math m(e, vx);
  V y = m.wrap(vy), x = m.wrap(vx);
  V a = m.abs(y), b = m.abs(x), steep = b < a;
  V low = m.select(steep, b, a), high = m.select(steep, a, b);
  V endless = high == m.infinity();
  low = m.select(endless, m.select(low == high, 1, m.number(0)), low);
  high = m.select(endless | (high == 0), 1, high);
  if (m.f64) { // their sum and its inverse are numbers
    V scale = m.select(high >= 0x1p1000, 0x1p-100, m.select(high < m.number(0x1p-900), 0x1p150, m.number(1)));
    low = low * scale, high = high * scale;
  }
  V p = atan_of_ratio(m, low, high);
  p = m.select(steep, minus(m, half_pi, p), p);
  p = m.select(m.negative(x), minus(m, pi, p), p);
  V unordered = m.wrap(m.b.CreateFCmpUNO(y.v, x.v));
  return m.select(unordered, y + x, m.copysign(p, y)).v;
}

} // namespace tenon::vmath
