// The error function's kin: scaled and inverse ones, those of the normal distribution. f32 is computed in f64 with shorter polynomials,
// some 2e-9 off.
#include "codegen/llvm/vector_math_ops.h"

namespace tenon::vmath {
namespace {

constexpr double root_half = 0.7071067811865476;

V ln(const Math& m, V x) { return m.wrap(log(m.e, x.v)); }

// e^(a^2) erfc(a) for a >= 0
V scaled_erfc(const Math& m, V a, bool wide) {
  V limited = m.at_most(a, 0x1p60), t = (limited - 3) / (limited + 3);
  V h = wide ? m.poly(t, {0.7160046047255598,      -0.2309273330838092,     0.09902075367944131,     -0.010235388899009623,
                          -0.023803913108729126,   0.021957764012706115,    -0.009750689291689244,   0.0016185691265658342,
                          0.0006458141936294197,   -0.0003672884779984122,  -2.0551556366093936e-05, 5.6119377733938464e-05,
                          -1.5145573600539075e-06, -8.990103517432568e-06,  2.610399295372129e-07,   1.5888526902758516e-06,
                          6.023907448671453e-08,   -2.9357086425655994e-07, -4.647267532385644e-08,  5.1084425167197365e-08,
                          1.588696202879195e-08,   -7.1098263476369225e-09, -3.350023480532831e-09,  5.647820770321374e-10,
                          3.46124846578113e-10})
             : m.poly(t, {0.7160046044572147, -0.23092731812125272, 0.09902077248346117, -0.010235825859280089, -0.023804120826430093,
                          0.02196140705583547, -0.0097498882800176, 0.0016054634279828038, 0.0006445621800593095, -0.0003439083064610891,
                          -1.9979149797382238e-05, 3.4974838870682365e-05, -1.15944217606395e-06});
  return h / (a + 1);
}

// f e^(c x^2), where c is a power of two or a negative one; the square in two parts
V times_gauss(const Math& m, V x, double c, V f) {
  V square = x * x, lost = m.fma(x, x, -square);
  ExpParts t = exp_parts(m, square * c);
  return scale(m, m.fma(t.p, lost * c, t.p) * f, t.n, t.shifted);
}

V erfcx_formula(const Math& m, V x, bool wide) {
  V a = m.abs(x), r = scaled_erfc(m, a, wide);
  return m.select(x < 0, times_gauss(m, m.at_most(a, 27), 1, m.number(2)) - r, r);
}

// The logarithm of the lower tail: ln(erfcx) - x^2 / 2, or ln(1 - q) of the upper one.
V log_ndtr_formula(const Math& m, V x, bool wide) {
  V a = m.abs(x), negative = x < 0;
  V half = scaled_erfc(m, a * root_half, wide) * 0.5, q = times_gauss(m, m.at_most(a, 40), -0.5, half);
  V w = 1 - q, lost = (1 - w) - q, l = ln(m, m.select(negative, half, w));
  V upper = m.select(q < 0x1p-54, -q, l + m.fma(lost, q, lost));
  return m.select(negative, m.fma(x * -0.5, x, l), upper);
}

// erfinv(x) / x, where w = -ln(1 - x^2): by w, by its root s from 2.5 or from 6, for f32 from sqrt(5) to 10.3
V inverse_near(const Math& m, V w, bool wide) {
  return wide ? m.poly(w - 3.125, {1.6536545626831027,     0.24015818242558826,     -0.0060336708714277525,  -0.000740702534153954,
                                   0.00018673420802425766, -1.3882523395790206e-05, -1.3654691844363292e-06, 4.2347881907605e-07,
                                   -2.907038277396073e-08, -4.11266197684455e-09,   1.0512183980787584e-09,  -5.414239031901723e-11,
                                   -1.297695820727422e-11, 2.6303546601846014e-12,  -8.117009731027799e-14,  -3.998979311987584e-14,
                                   6.5947008052352126e-15, -4.2863998326442975e-17, -1.3003910279899722e-16, 1.5759667058606236e-17,
                                   1.1444118566136701e-18, -3.5754546782374636e-19, -1.0090689314644015e-21, 3.3756742387862766e-21})
              : m.poly(w - 2.5, {1.501409351692562, 0.24664027578535427, -0.004177324636543298, -0.0012527048784574254,
                                 0.00021826355794256713, -4.998757665255799e-06, -3.426012342343243e-06, 4.796979845230675e-07,
                                 1.6457264370290797e-08, -1.1023068306264061e-08, 4.3702858532799634e-10, 1.3285035511373655e-10});
}
V inverse_far(const Math& m, V s) {
  return s * m.poly((s - 6) / (s + 6),
                    {0.9766521906577075, 0.0659058628834085, -0.07725402187404347, 0.05354346938709655, -0.015040923568408185,
                     -0.03180767667233401, 0.08011644388011312, -0.12525245927056364, 0.16315050882909776, -0.19117512144468105,
                     0.2070453865514893, -0.20822037954985556, 0.1911601035258746, -0.15404094388003217, 0.10234987767129433,
                     -0.05127186047001968, 0.01674526731688747, -0.0025211541691426364, -8.058464881459748e-05});
}
V inverse_between(const Math& m, V s, bool wide) {
  if (!wide)
    return s *
           m.poly((s - 1.5) / (s + 1.5) - 0.4765625,
                  {0.9626684781120094, 0.12235299498230097, -0.061692593500950875, -0.1113981060614162, 0.15491188233380943,
                   -0.30646897335253037, 1.7829725211460765, -12.3709431874274, 47.35528014925366, 8.316877987864528, -686.2466221176688,
                   1054.8784059482552, 4849.08720087327, -9378.353638448318, -20710.547582763487, 28475.361011922894, 44054.692414341036});
  V between = s * m.poly((s - 4) / (s + 4),
                         {0.9599459493528885,  0.0990946077850677, -0.0789370515117115, -0.012136343268179436, 0.13848996274576683,
                          -0.4315997334229066, 1.7653012585125762, -7.491780977489065,  23.119709160757942,    -31.16930722727617,
                          -96.26082790387278,  578.6224104194496,  -755.1479063448259,  -2865.21642583269,     11283.432573173914,
                          1966.9339468677438,  -78101.0848680312,  66930.61088198975,   413962.7519433971,     -554401.8925451051,
                          -1990795.7859821827, 2514908.6766550355, 8120258.692901698,   -5762370.607156762,    -19043705.84179891});
  return m.unless(s >= 6, between, [&] { return inverse_far(m, s); });
}
V inverse(const Math& m, V w, bool wide) {
  V near = inverse_near(m, w, wide);
  return m.unless(w >= (wide ? 6.25 : 5), near, [&] { return inverse_between(m, m.sqrt(w), wide); });
}

V erfinv_formula(const Math& m, V x, bool wide) {
  V a = m.abs(x), r = x * inverse(m, -ln(m, m.fma(-x, x, m.number(1))), wide);
  return m.select(a < 1, r, m.select(a == 1, m.copysign(m.infinity(), x), m.nan()));
}

// sqrt(2) erfinv(2 p - 1), where 1 - (2 p - 1)^2 = 4 p (1 - p)
V ndtri_formula(const Math& m, V p, bool wide) {
  V r = m.fma(p, 2, -1) * (inverse(m, -ln(m, p * 4 * (1 - p)), wide) * 1.4142135623730951);
  V end = m.select(p == 0, -m.infinity(), m.select(p == 1, m.infinity(), m.nan()));
  return m.select((p > 0) & (p < 1), r, end);
}

} // namespace

std::span<const UnaryRow> normal_functions() {
  static constexpr UnaryRow rows[] = {
      {"erfcx", in_f64<erfcx_formula>},
      {"erfinv", in_f64<erfinv_formula>},
      {"ndtri", in_f64<ndtri_formula>},
      {"log_ndtr", in_f64<log_ndtr_formula>},
  };
  return rows;
}

} // namespace tenon::vmath
