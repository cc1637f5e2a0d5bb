// The logarithm of the gamma function and its derivatives, by the same formulas for both types: f32 is computed in f64. Lengths and
// neighbours of numbers. The table of special functions.
#include <vector>

#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

V log_of(const Math& m, V x) { return m.wrap(log(m.e, x.v)); }
V from_integer(const Math& m, V x) { return x - m.call(llvm::Intrinsic::roundeven, x); } // the nearest one

// ln(gamma(2 + e)) / e for e in [-0.75, 0.25]
V near_lgamma(const Math& m, V e) {
  return m.poly(e, {0.42278433509846713, 0.32246703342411304, -0.06735230105318951, 0.02058080842785441, -0.0073855510298336076,
                    0.002890510322043023, -0.001192753862880718, 0.0005096699888385879, -0.00022315513904267367, 9.944639333751938e-05,
                    -4.4945958427537215e-05, 2.06040085611777e-05, -9.011677776594662e-06, 4.652959942054376e-06, -3.909474477165373e-06,
                    -4.8144688205477984e-06, -8.232875091417485e-06, -5.262717541842948e-06, -1.8253211955668485e-06});
}

// x times the rest of Stirling's formula (DLMF 5.11.1), where z = 1 / x^2, for x >= 2.25
V far_lgamma(const Math& m, V z) {
  return m.poly(z, {0.0833333333333233, -0.002777777774481666, 0.0007936503875523295, -0.000595211538487964, 0.0008406762139674497,
                    -0.0018880846196310044, 0.00582797545432531, -0.02075132060810106, 0.07120488011192942, -0.2029959387412486,
                    0.4241607354350093, -0.5601217052206148, 0.34576272033822436});
}

// For x >= -0.75. Small x move to [1.25, 2.25) by 1 or 2, as gamma(x + 1) = x gamma(x).
V right_lgamma(const Math& m, V x, bool wide) {
  V far = x >= 2.25, moved = x < 1.25, twice = x < 0.25;
  V factor = m.select(twice, m.abs(m.fma(x, x, x)), m.select(moved | far, x, 1));
  Pair l = wide ? log_pair(m, factor) : Pair{log_of(m, factor), m.number(0)};
  V e = m.select(twice, x, m.select(moved, x - 1, x - 2)), near = m.fma(e, near_lgamma(m, e), -l.hi) - l.lo;
  V r = 1 / x, h = x - 0.5, rest = m.fma(r, far_lgamma(m, r * r), m.fma(h, l.lo, m.number(1.6728209650585413e-17)));
  return m.select(far, m.fma(h, l.hi - 1, m.number(0.4189385332046727)) + rest, near);
}

// By reflection, where r is that of -x: gamma(x) gamma(-x) = -pi / (x sin(pi x)).
V left_lgamma(const Math& m, V x, V r) {
  V d = from_integer(m, x);
  V sine = d * m.poly(d * d, {1.0, -1.6449340668482264, 0.8117424252833404, -0.19075182412150135, 0.026147847805467566,
                              -0.002346080893834354, 0.00014842783073338784, -6.97206801927136e-06, 2.449937462409031e-07});
  return m.select(m.abs(d) > 0, -log_of(m, m.abs(x * sine)) - r, m.infinity());
}

V lgamma_formula(const Math& m, V x, bool wide) {
  V left = x < -0.75, r = right_lgamma(m, m.at_most(m.select(left, -x, x), 1e306), wide);
  return m.unless(left, r, [&] { return left_lgamma(m, x, r); });
}

// digamma(1 + w) for w in [0, 1]: its zero and a polynomial
V near_digamma(const Math& m, V w) {
  V p = m.poly(w - 0.5,
               {0.951055876031833,      -0.4236274212814606,   0.24054248424077357,    -0.14840492305389016,   0.09498872445497582,
                -0.06192213327468528,   0.040760833810629435,  -0.026975796691573344,  0.017907252486365464,   -0.011908219413551056,
                0.007926943941925241,   -0.005279946325079812, 0.003519012834542033,   -0.0023454202761177944, 0.0015565954180123548,
                -0.0010368444997742663, 0.0007234505374723729, -0.0004847235794719629, 0.00022699929296481481, -0.00014698843422189124,
                0.0002598723600907382,  -0.0001765557033637475});
  return ((w - 0.46163214496836225) - 9.549995429965697e-17) * p;
}

// x^2 (ln(x) - 1 / (2 x) - digamma(x)), where z = 1 / x^2, for x >= 2 (DLMF 5.11.2)
V far_digamma(const Math& m, V z) {
  return m.poly(z, {0.08333333333328398, -0.008333333314388925, 0.003968251289862321, -0.004166467349520672, 0.007566593026760914,
                    -0.020806390928469653, 0.07682059225949485, -0.32894379975714255, 1.404353686063559, -5.300165288738814,
                    16.21759326710289, -37.48710244784181, 60.530189773016154, -60.36576863689359, 27.858868115890907});
}

// For x >= 0, or a negative zero; w = x below 1, x - 1 up to 2.
V right_digamma(const Math& m, V x, V w) {
  V r = 1 / x, z = r * r, near = near_digamma(m, w);
  V far = log_of(m, x) - m.fma(r, 0.5, z * far_digamma(m, z));
  return m.select(x >= 2, far, m.select(x < 1, near - r, near));
}

// By reflection, where r is digamma(1 - x): pi / tan(pi x) is (1 - 4 d^2) / d times a polynomial.
V left_digamma(const Math& m, V x, V r) {
  V d = from_integer(m, x);
  V p = m.poly(d * d, {1.0, 0.7101318663035299, 0.6758809977970319, 0.6688378666006505, 0.6671967929051831, 0.6667965373227028,
                       0.6667312223667512, 0.6661558963304739, 0.6725982546899179, 0.6184224766751535, 0.9462720698303321,
                       -0.4705325713525163, 3.793566193307374, -4.695739961565151, 5.351729281950779});
  return m.select(m.abs(d) > 0, r - m.fma(d * -4, d, m.number(1)) * p / d, m.nan());
}

V digamma_formula(const Math& m, V x, bool) {
  V left = x < 0, a = m.abs(x), r = right_digamma(m, m.select(left, a + 1, x), m.select(a < 1, a, a - 1));
  return m.unless(left, r, [&] { return left_digamma(m, x, r); });
}

// The derivative of digamma: the sum of 1 / (x + i)^2 as a fraction, and the asymptotic series (DLMF 5.15.8).
V positive_trigamma(const Math& m, V x) {
  V over = m.number(0), under = m.number(1), at = x;
  for (int i = 0; i < 8; i++) {
    V small = at < 8, square = at * at;
    over = m.select(small, m.fma(over, square, under), over);
    under = m.select(small, under * square, under);
    at = m.select(small, at + 1, at);
  }
  V r = 1 / at, z = r * r;
  V series =
      m.poly(z, {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330});
  return over / under + (r + m.fma(series * z, r, z * 0.5));
}

// Of positive numbers: the operator reflects the others.
V trigamma_formula(const Math& m, V x, bool) { return m.select(x == m.infinity(), 0, positive_trigamma(m, x)); }

V wide_hypot(const Math& m, V x, V y) {
  V a = m.abs(x), b = m.abs(y), high = m.select(a < b, b, a);
  V large = high >= 0x1p500, small = high < m.number(0x1p-400);
  V scale = m.select(large, 0x1p-600, m.select(small, 0x1p600, m.number(1)));
  V back = m.select(large, 0x1p600, m.select(small, 0x1p-600, m.number(1)));
  V c = a * scale, d = b * scale, r = m.sqrt(m.fma(c, c, d * d)) * back;
  return m.select((a == m.infinity()) | (b == m.infinity()), m.infinity(), r);
}

} // namespace

// Squares of f32 neither overflow nor vanish in f64.
llvm::Value* hypot(const Emitter& e, llvm::Value* x, llvm::Value* y) {
  if (x->getType()->getScalarType()->isDoubleTy()) {
    Math m(e, x);
    return wide_hypot(m, m.wrap(x), m.wrap(y)).v;
  }
  return through_f64(e, x, [&](const Math& m, V a) {
    V b = m.wrap(e.builder.CreateFPExt(y, m.type));
    V r = m.sqrt(m.fma(a, a, b * b));
    return m.select(m.abs(a) == m.infinity(), m.infinity(), m.select(m.abs(b) == m.infinity(), m.infinity(), r));
  });
}

// Patterns of numbers are ordered as integers on each side of 0.
llvm::Value* nextafter(const Emitter& e, llvm::Value* vx, llvm::Value* vy) {
  Math m(e, vx);
  V x = m.wrap(vx), y = m.wrap(vy), zero = x == 0;
  V away = m.wrap(e.builder.CreateICmpEQ((x < y).v, (x > 0).v));
  V next = m.as_float(m.bits(x) + m.select(away, m.integer(1), m.integer(-1)));
  V r = m.select(x == y, y, m.select(zero, m.copysign(m.as_float(m.integer(1)), y), next));
  return m.select(m.wrap(e.builder.CreateFCmpUNO(vx, vy)), x + y, r).v;
}

std::span<const UnaryRow> special_functions() {
  static const std::vector<UnaryRow> rows = [] {
    std::vector<UnaryRow> all{
        {"lgamma", in_f64<lgamma_formula>}, {"digamma", in_f64<digamma_formula>}, {"trigamma", in_f64<trigamma_formula>}};
    for (auto more : {airy_functions(), bessel_functions(), normal_functions()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

std::span<const BinaryRow> special_binary_functions_of(bool f64) {
  static constexpr BinaryRow rows_of_f32[] = {{"hypot", hypot}, {"nextafterf", nextafter}};
  static constexpr BinaryRow rows_of_f64[] = {{"hypot", hypot}, {"nextafter", nextafter}};
  return f64 ? std::span<const BinaryRow>(rows_of_f64) : rows_of_f32;
}

} // namespace tenon::vmath
