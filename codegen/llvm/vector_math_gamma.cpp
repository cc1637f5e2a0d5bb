// The logarithm of the gamma function, its derivatives and the inverse error function, for f32: computed in f64, which leaves the
// error of one rounding but next to zeros. Lengths and neighbours of numbers.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

V log_of(const Math& m, V x) { return m.wrap(log(m.e, x.v)); }

// x + n >= 8 for the least n, the product x (x + 1) ... (x + n - 1), and its derivative.
struct Shifted {
  V x, product, derivative;
};
Shifted shift_up(const Math& m, V x) {
  Shifted s{x, m.number(1), m.number(0)};
  for (int i = 0; i < 8; i++) {
    V small = s.x < 8;
    s.derivative = m.select(small, m.fma(s.derivative, s.x, s.product), s.derivative);
    s.product = m.select(small, s.product * s.x, s.product);
    s.x = m.select(small, s.x + 1, s.x);
  }
  return s;
}

// The logarithm of gamma for x > 0 by its asymptotic series (DLMF 5.11.1).
V positive_lgamma(const Math& m, V x) {
  Shifted s = shift_up(m, x);
  V r = 1 / s.x, z = r * r;
  V series = r * m.poly(z, {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156});
  V large = m.fma(s.x - 0.5, log_of(m, s.x) - 1, series + 0.41893853320467274);
  return large - log_of(m, s.product);
}

// The same for digamma (DLMF 5.11.2).
V positive_digamma(const Math& m, V x) {
  Shifted s = shift_up(m, x);
  V r = 1 / s.x, z = r * r;
  V series = z * m.poly(z, {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12});
  return log_of(m, s.x) - m.fma(r, 0.5, series) - s.derivative / s.product;
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

V fraction(const Math& m, V a) { return a - m.call(llvm::Intrinsic::floor, a); }

} // namespace

llvm::Value* lgamma(const Emitter& e, llvm::Value* v) {
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.abs(x), r = positive_lgamma(m, a);
    r = m.select(a == m.infinity(), m.infinity(), m.select(a == 0, m.infinity(), r));
    r = m.select(x == 1, 0.0, m.select(x == 2, 0.0, r));
    // By reflection: gamma(-a) gamma(a) = -pi / (a sin(pi a)).
    return m.unless(x < 0, r, [&] {
      V sine = m.wrap(sin(m.e, (fraction(m, a) * pi).v));
      V reflected = log_of(m, pi / (a * m.abs(sine))) - r;
      return m.select(a == m.infinity(), a, m.select(fraction(m, a) == 0, m.infinity(), reflected));
    });
  });
}

llvm::Value* digamma(const Emitter& e, llvm::Value* v) {
  return through_f64(e, v, [](const Math& m, V x) {
    V a = m.abs(x), r = positive_digamma(m, a);
    r = m.select(a == m.infinity(), m.infinity(), r);
    V zero = m.copysign(m.infinity(), -x);
    r = m.select(a == 0, zero, r);
    return m.unless(x < 0, r, [&] {
      V part = fraction(m, a), angle = part * pi;
      V cotangent = m.wrap(cos(m.e, angle.v)) / m.wrap(sin(m.e, angle.v));
      return m.select(part == 0, m.nan(), r + 1 / a + cotangent * pi);
    });
  });
}

// Of positive numbers: the operator reflects the others.
llvm::Value* trigamma(const Emitter& e, llvm::Value* v) {
  auto formula = [](const Math& m, V x) { return m.select(x == m.infinity(), 0, positive_trigamma(m, x)); };
  if (!v->getType()->getScalarType()->isDoubleTy()) return through_f64(e, v, formula);
  Math m(e, v);
  return formula(m, m.wrap(v)).v;
}

llvm::Value* erfinv(const Emitter& e, llvm::Value* v) {
  return through_f64(e, v, [](const Math& m, V x) {
    V w = -log_of(m, m.fma(-x, x, m.number(1)));
    V center =
        m.poly(w - 2.5, {1.5014093511388074, 0.24664027679065925, -0.0041773181313265878, -0.0012527081004784441, 0.00021825124687759135,
                         -4.9958665972249793e-06, -3.4175220496878697e-06, 4.7863946122879679e-07, 1.3816773423027962e-08,
                         -1.0853547421317518e-08, 8.1491181658322054e-10, 1.2297984367849915e-10, -2.0256120936453258e-11});
    V a = m.abs(x);
    V r = x * m.unless(w >= 5, center, [&] {
      return m.poly(m.sqrt(w) - 3.168, {3.0014926736602714, 1.0042965449258612, 0.0064044336109859061, -0.0046924668686860955,
                                        0.0032839100153013476, -0.0022106895921854665, 0.0011706380270854893, -0.00034541504997694973,
                                        -6.8114567386624451e-05, 0.00011032360939970097, -3.1458886607628503e-05});
    });
    return m.select(a < m.number(1), r, m.select(a == 1, m.copysign(m.infinity(), x), m.nan()));
  });
}

namespace {

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

std::span<const UnaryRow> special_functions_of(bool f64) {
  static constexpr UnaryRow rows[] = {{"trigamma", trigamma}, {"lgamma", lgamma}, {"digamma", digamma}, {"erfinv", erfinv}};
  return f64 ? std::span(rows).first(1) : std::span<const UnaryRow>(rows);
}

std::span<const BinaryRow> special_binary_functions_of(bool f64) {
  static constexpr BinaryRow rows_of_f32[] = {{"hypot", hypot}, {"nextafterf", nextafter}};
  static constexpr BinaryRow rows_of_f64[] = {{"hypot", hypot}, {"nextafter", nextafter}};
  return f64 ? std::span<const BinaryRow>(rows_of_f64) : rows_of_f32;
}

} // namespace tenon::vmath
