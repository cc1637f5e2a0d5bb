#include "runtime/winograd_kernels.h"

#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

namespace {

using V = Vector<float>;
constexpr int64_t width = lanes_of<float>;

using D = Vector<double>;
typedef float Half __attribute__((vector_size(vector_bytes / 2)));

TENON_INLINE D load_wide(const float* p) {
  Half h;
  __builtin_memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, D);
}
TENON_INLINE void store_narrow(float* p, D v) {
  Half h = __builtin_convertvector(v, Half);
  __builtin_memcpy(p, &h, sizeof h);
}

/// One dimension of U = G g G'.
TENON_INLINE void expand(D a, D b, D c, D* to, int64_t step) {
  D sum = a + c;
  to[0] = a, to[step] = (sum + b) * 0.5, to[2 * step] = (sum - b) * 0.5, to[3 * step] = c;
}

bool weights(const float* from, int64_t row, int64_t count, float* to, int64_t plane) {
  constexpr double most = 1e18;
  decltype(D{} < D{}) small = D{} == D{};
  for (int64_t j = 0; j < count; j += lanes_of<double>) {
    D w[9], rows[12], u[16];
    unroll<9>([&](auto q) __attribute__((always_inline)) {
      w[q] = load_wide(from + q * row + j);
      small &= (w[q] < most) & (w[q] > -most);
    });
    unroll<3>([&](auto x) __attribute__((always_inline)) { expand(w[x], w[3 + x], w[6 + x], rows + x, 3); });
    unroll<4>([&](auto y) __attribute__((always_inline)) { expand(rows[3 * y], rows[3 * y + 1], rows[3 * y + 2], u + 4 * y, 1); });
    unroll<16>([&](auto e) __attribute__((always_inline)) { store_narrow(to + e * plane + j, u[e]); });
  }
  bool all = true;
  for (int64_t l = 0; l < lanes_of<double>; l++) all = all && small[l];
  return all;
}

/// One dimension of B' d B: four values in place.
TENON_INLINE void transform(V& a, V& b, V& c, V& d) {
  V first = a - c, last = b - d, sum = b + c;
  c = c - b, a = first, b = sum, d = last;
}

TENON_INLINE V load_from(const float* p, int64_t left) { return left >= width ? load(p) : load_part(p, left); }
TENON_INLINE void store_to(float* p, V v, int64_t left) { left >= width ? store(p, v) : store_part(p, v, left); }

void input(const float* const* from, int64_t count, float* to, int64_t plane) {
  for (int64_t c = 0; c < count; c += width) {
    V d[16];
    unroll<16>([&](auto e) __attribute__((always_inline)) { d[e] = load_from(from[e] + c, count - c); });
    unroll<4>([&](auto j) __attribute__((always_inline)) { transform(d[j], d[4 + j], d[8 + j], d[12 + j]); });
    unroll<4>([&](auto i) __attribute__((always_inline)) { transform(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]); });
    unroll<16>([&](auto e) __attribute__((always_inline)) { store(to + e * plane + c, d[e]); });
  }
}

TENON_INLINE bool no_nan(V v) {
#ifdef __AVX512F__
  return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) == 0;
#else
  return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)) == 0;
#endif
}

bool output(const float* from, int64_t plane, int64_t count, float* const* to) {
  V unlike = {}; // NaN where a value is not finite
  for (int64_t c = 0; c < count; c += width) {
    V upper[4], lower[4];
    unroll<4>([&](auto j) __attribute__((always_inline)) {
      const float* at = from + j * plane + c;
      V a = load(at), b = load(at + 4 * plane), x = load(at + 8 * plane), y = load(at + 12 * plane);
      upper[j] = a + b + x, lower[j] = b - x - y;
    });
    V sums[4] = {upper[0] + upper[1] + upper[2], upper[1] - upper[2] - upper[3], lower[0] + lower[1] + lower[2],
                 lower[1] - lower[2] - lower[3]};
    unroll<4>([&](auto p) __attribute__((always_inline)) {
      unlike += sums[p] - sums[p];
      store_to(to[p] + c, sums[p], count - c);
    });
  }
  return no_nan(unlike);
}

/// The 3x3 weights that transformed ones came from, up to rounding.
TENON_INLINE void weights_of(const float* u, int64_t plane, V* w) {
  V rows[3][4];
  unroll<4>([&](auto j) __attribute__((always_inline)) {
    V a = load(u + j * plane), b = load(u + (4 + j) * plane), c = load(u + (8 + j) * plane);
    rows[0][j] = a, rows[1][j] = b - c, rows[2][j] = load(u + (12 + j) * plane);
  });
  unroll<3>([&](auto i) __attribute__((always_inline)) {
    w[3 * i] = rows[i][0], w[3 * i + 1] = rows[i][1] - rows[i][2], w[3 * i + 2] = rows[i][3];
  });
}

void direct(const float* const* from, int64_t channels, const float* weights, int64_t plane, int64_t row, int64_t count, float* const* to) {
  for (int64_t c = 0; c < count; c += width) {
    V sums[4] = {};
    for (int64_t i = 0; i < channels; i++) {
      V w[9];
      weights_of(weights + i * row + c, plane, w);
      unroll<4>([&](auto p) __attribute__((always_inline)) {
        unroll<9>([&](auto q) __attribute__((always_inline)) { sums[p] += from[(p / 2 + q / 3) * 4 + p % 2 + q % 3][i] * w[q]; });
      });
    }
    unroll<4>([&](auto p) __attribute__((always_inline)) { store_to(to[p] + c, sums[p], count - c); });
  }
}

} // namespace

const WinogradKernels winograd_kernels = {weights, input, output, direct};

} // namespace tenon::library::TENON_ISA
