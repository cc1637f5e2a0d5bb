// The Airy function Ai: polynomials about 0, the asymptotic forms beyond (DLMF 9.7.5, 9.7.9). f32 is computed in f64 with shorter
// polynomials, some 2e-9 off.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr double airy_low = -4.5, airy_high = 2;

V near_airy(const Math& m, V x, bool wide) {
  if (!wide)
    return m.poly(x + 1.25, {0.5200454775790786,     0.1390795649499651,      -0.3250284261440508,     0.05769932600833635,
                             0.04544710061558937,    -0.019857606531255078,   2.9668570982360278e-05,  0.001673052051977734,
                             -0.0003552523687834829, -2.8622040869926907e-05, 2.351897182331906e-05,   -2.9083056820104717e-06,
                             -4.382298628858329e-07, 1.7492609857417174e-07,  -1.3221248578190804e-08, -3.2497938786703482e-09,
                             8.293225710442517e-10,  -2.241955271240684e-11,  -1.6591776290545803e-11, 1.85416023859381e-12,
                             1.264097275512755e-13,  -2.3486800015785745e-14});
  V waves = m.poly(
      x + 2.625, {-0.19439353537659895,   0.6294581183027284,     0.25514151518178635,     -0.30778684932021094,   -0.0033573632541253466,
                  0.05315409973237439,    -0.009965792359248524,  -0.0034020684536411406,  0.001416326869130742,   -1.4380036986610314e-05,
                  -7.911029413894768e-05, 1.3218858672546427e-05, 1.4642762298276037e-06,  -7.29549879750824e-07,  5.151186545249278e-08,
                  1.6092045786667216e-08, -3.603282693397389e-09, 3.4114336747773634e-11,  8.353009081256695e-11,  -1.0807877225507186e-11,
                  -4.953986508785067e-13, 2.6853227210190893e-13, -1.9203631177868216e-14, -2.648201750699509e-15, 4.4278164794951416e-16});
  V rest = m.poly(x - 0.625,
                  {0.2045197758952865,      -0.20962149933407934,   0.06391242996727714,    0.012251056468581063,    -0.014139685883713327,
                   0.003578467013008502,    0.00011379175972621303, -0.000283408190501515,  6.517119391453099e-05,   -8.796993927203942e-07,
                   -2.69640202108571e-06,   5.874670183156677e-07,  -1.943162521680151e-08, -1.4930882155359377e-08, 3.161261279422422e-09,
                   -1.3705652649716911e-10, -5.405783492070738e-11, 1.1349288489562194e-11, -5.33667427112605e-13,   -1.48761991556714e-13,
                   2.4788453942894367e-14});
  return m.select(x < -0.75, waves, rest);
}

// hi + lo = 2/3 x^1.5 for x >= 0, where s = sqrt(x) and r = 1 / s; for exponents that fit
Pair airy_zeta(const Math& m, V x, V s, V r) {
  constexpr double third = 0.6666666666666666, third_lost = 3.700743415417188e-17;
  V p = x * s, lost = m.fma(x, s, -p) + x * m.fma(-s, s, x) * r * 0.5, hi = p * third;
  return {hi, m.fma(p, third, -hi) + m.fma(p, third_lost, lost * third)};
}

// e^zeta x^(1/4) Ai(x), where t = (zeta - 1.25) / (zeta + 1.25), for x >= 2
V decaying_airy(const Math& m, V t, bool wide) {
  return wide ? m.poly(t, {0.2704222553200858, 0.018231734458086197, -0.011306198177715911, 0.008393951513641439, -0.006608372820823498,
                           0.005434880002076104, -0.004574079082374529, 0.0038719277784162232, -0.0032043071409613984,
                           0.0024923481435334145, -0.0017354803505240809, 0.001026033457555765, -0.0004864425725382601,
                           0.00017290424896704876, -4.1914125702556165e-05, 5.860139935727465e-06, -3.090177793422212e-07})
              : m.poly(t, {0.2704229678935878, 0.01821827260168358, -0.011198031750205069, 0.00790512339937451, -0.005218741856862036,
                           0.0027836398411485233, -0.0009842977300550827, 0.00016586005207672023});
}

// 0 beyond 110
V positive_airy(const Math& m, V x, bool wide) {
  V a = m.at_most(x, 110), s = m.sqrt(a), r = 1 / s;
  Pair zeta = airy_zeta(m, a, s, r);
  V f = decaying_airy(m, m.fma(1 / (zeta.hi + 1.25), -2.5, 1), wide) * m.sqrt(r);
  ExpParts t = exp_parts(m, -zeta.hi);
  return scale(m, m.fma(-zeta.lo, t.p, t.p) * f, t.n, t.shifted);
}

// P and Q of DLMF 9.7.9, where z = 1 / zeta^2: (P - 1) / z, Q / sqrt(z)
V airy_p(const Math& m, V z, bool wide) {
  return wide ? m.poly(z, {-0.03713348765413751, 0.05764918976625604, -0.291590596790539, 3.0789438857845495, -55.42759980472126,
                           1483.2059685594616, -50701.4223436946, 1847346.1600679911, -60792361.698027864, 1590892952.366333,
                           -29673281672.001682, 343442688089.74695, -1834765886425.8567})
              : m.poly(z, {-0.037133054815599906, 0.057462609951373346, -0.2654318355520999, 1.434463674607069});
}
V airy_q(const Math& m, V z, bool wide) {
  return wide ? m.poly(z, {0.06944444444443869, -0.037993059096716894, 0.1160990139412778, -0.8776289480899337, 12.324975486399994,
                           -273.79381939226323, 8289.54504395696, -284748.2494915302, 9228386.664923241, -243517882.14136773,
                           4630047555.169346, -54860335784.39383, 300363489401.64044})
              : m.poly(z, {0.069444384369252, -0.037957849241598, 0.1103558751995479, -0.49400929057957965});
}

// For x <= -4.5. The phase zeta + pi/4 is exact to some 2^-53 up to zeta = 2^36, a guess beyond 2^53.
V negative_airy(const Math& m, V x, bool wide) {
  V a = -x, s = m.sqrt(a), r = 1 / s;
  Pair zeta = airy_zeta(m, m.at_most(a, 0x1p500), s, r);
  V d = m.select(zeta.hi < 0x1p50, zeta.lo, 0), inverse = r * r * r * 1.5, z = inverse * inverse;
  V p = m.fma(airy_p(m, z, wide), z, m.number(1)), q = airy_q(m, z, wide) * inverse, sum = p + q, difference = p - q;
  V sine = m.wrap(sin(m.e, zeta.hi.v)), cosine = m.wrap(cos(m.e, zeta.hi.v));
  V wave = m.fma(sine, sum, cosine * difference), slope = m.fma(cosine, sum, -(sine * difference));
  return m.fma(d, m.fma(d * -0.5, wave, slope), wave) * m.sqrt(r * (0.5 / pi));
}

// NaN of -infinity
V airy_formula(const Math& m, V x, bool wide) {
  V up = m.unless(x > airy_high, near_airy(m, x, wide), [&] { return positive_airy(m, x, wide); });
  return m.unless(x < airy_low, up, [&] { return negative_airy(m, x, wide); });
}

} // namespace

std::span<const UnaryRow> airy_functions() {
  static constexpr UnaryRow rows[] = {{"airy_ai", in_f64<airy_formula>}};
  return rows;
}

} // namespace tenon::vmath
