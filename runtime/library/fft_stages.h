// The stages of a mixed-radix transform without reordering (Stockham), on blocks. For the files that are compiled for
// each instruction set.
#pragma once
#include "runtime/library/fft_kernels.h"
#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

template <class T> struct Complex {
  Vector<T> re, im;
};

// ---- transforms of R elements in registers

template <class T> TENON_INLINE void turn4(Complex<T>& x0, Complex<T>& x1, Complex<T>& x2, Complex<T>& x3) {
  Complex<T> a{x0.re + x2.re, x0.im + x2.im}, b{x0.re - x2.re, x0.im - x2.im}, c{x1.re + x3.re, x1.im + x3.im},
      d{x1.re - x3.re, x1.im - x3.im};
  x0 = {a.re + c.re, a.im + c.im}, x2 = {a.re - c.re, a.im - c.im};
  x1 = {b.re + d.im, b.im - d.re}, x3 = {b.re - d.im, b.im + d.re};
}

template <class T> TENON_INLINE void turn8(Complex<T>* x) {
  constexpr T root = T(0.70710678118654752440);
  turn4(x[0], x[2], x[4], x[6]);
  turn4(x[1], x[3], x[5], x[7]);
  Complex<T> a = x[1], b{(x[3].re + x[3].im) * root, (x[3].im - x[3].re) * root}, c{x[5].im, -x[5].re},
             d{(x[7].im - x[7].re) * root, -(x[7].re + x[7].im) * root};
  Complex<T> e[4] = {x[0], x[2], x[4], x[6]}, o[4] = {a, b, c, d};
  unroll<4>([&](auto q) __attribute__((always_inline)) {
    x[q] = {e[q].re + o[q].re, e[q].im + o[q].im};
    x[q + 4] = {e[q].re - o[q].re, e[q].im - o[q].im};
  });
}

// An odd number of elements: x[k] and x[p-k] occur as sum and difference. `roots`: p complex roots of 1. P is 0 for any
// p.
template <class T, int P> TENON_INLINE void turn_odd(Complex<T>* x, int p, const T* roots) {
  if constexpr (P != 0) p = P;
  constexpr int most = P ? P : max_radix;
  Complex<T> sum[most / 2], gap[most / 2], first = x[0]; // of k + 1
  unroll_or_loop<P / 2>(p / 2, [&](auto k) __attribute__((always_inline)) {
    const Complex<T>&a = x[k + 1], &b = x[p - 1 - k];
    sum[k] = {a.re + b.re, a.im + b.im}, gap[k] = {a.re - b.re, a.im - b.im};
    x[0] = {x[0].re + sum[k].re, x[0].im + sum[k].im};
  });
  unroll_or_loop<P / 2>(p / 2, [&](auto q) __attribute__((always_inline)) {
    Complex<T> even = first, odd{};
    unroll_or_loop<P / 2>(p / 2, [&](auto k) __attribute__((always_inline)) {
      int at = (q + 1) * (k + 1) % p;
      T c = roots[2 * at], s = -roots[2 * at + 1];
      even.re += sum[k].re * c, even.im += sum[k].im * c;
      odd.re += gap[k].re * s, odd.im += gap[k].im * s;
    });
    x[q + 1] = {even.re + odd.im, even.im - odd.re}, x[p - 1 - q] = {even.re - odd.im, even.im + odd.re};
  });
}

// The roots of the small odd radices are constants of the code.
template <class T> TENON_INLINE void turn3(Complex<T>* x) {
  constexpr T roots[] = {1, 0, T(-0.5), T(-0.86602540378443864676), T(-0.5), T(0.86602540378443864676)};
  turn_odd<T, 3>(x, 3, roots);
}
template <class T> TENON_INLINE void turn5(Complex<T>* x) {
  constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410), s1 = T(-0.95105651629515357212),
              s2 = T(-0.58778525229247312917);
  constexpr T roots[] = {1, 0, c1, s1, c2, s2, c2, -s2, c1, -s1};
  turn_odd<T, 5>(x, 5, roots);
}
template <class T> TENON_INLINE void turn7(Complex<T>* x) {
  constexpr T c1 = T(0.62348980185873353053), c2 = T(-0.22252093395631440429), c3 = T(-0.90096886790241912624);
  constexpr T s1 = T(-0.78183148246802980871), s2 = T(-0.97492791218182360702), s3 = T(-0.43388373911755812048);
  constexpr T roots[] = {1, 0, c1, s1, c2, s2, c3, s3, c3, -s3, c2, -s2, c1, -s1};
  turn_odd<T, 7>(x, 7, roots);
}

template <class T, int R> TENON_INLINE void turn(Complex<T>* x, int radix, const T* roots) {
  if constexpr (R == 2) {
    Complex<T> a = x[0], b = x[1];
    x[0] = {a.re + b.re, a.im + b.im}, x[1] = {a.re - b.re, a.im - b.im};
  } else if constexpr (R == 3) {
    turn3(x);
  } else if constexpr (R == 4) {
    turn4(x[0], x[1], x[2], x[3]);
  } else if constexpr (R == 5) {
    turn5(x);
  } else if constexpr (R == 7) {
    turn7(x);
  } else if constexpr (R == 8) {
    turn8(x);
  } else {
    turn_odd<T, R>(x, radix, roots);
  }
}

// ---- real numbers in pairs

// X[k] and X[n-k] of the transform of 2n real numbers, from Z[k] and Z[n-k]; (c, s) is the root of k.
template <class T> TENON_INLINE void unpack_pair(Vector<T>* z, Vector<T>* m, Vector<T> c, Vector<T> s, T half = T(0.5)) {
  Vector<T> er = (z[0] + m[0]) * half, ei = (z[1] - m[1]) * half, dr = (z[0] - m[0]) * half, di = (z[1] + m[1]) * half;
  Vector<T> tr = di * c + dr * s, ti = di * s - dr * c; // -i root (Z[k] - conj Z[n-k]) / 2
  z[0] = er + tr, z[1] = ei + ti;
  m[0] = er - tr, m[1] = ti - ei;
}
// Back, times 2.
template <class T> TENON_INLINE void pack_pair(Vector<T>* x, Vector<T>* m, Vector<T> c, Vector<T> s) {
  Vector<T> er = x[0] + m[0], ei = x[1] - m[1], dr = x[0] - m[0], di = x[1] + m[1];
  Vector<T> tr = dr * s - di * c, ti = dr * c + di * s; // i conj(root) (X[k] - conj X[n-k])
  x[0] = er + tr, x[1] = ei + ti;
  m[0] = er - tr, m[1] = ti - ei;
}

// ---- stages

// Where the elements of a number of transforms lie: each one's are `stride` apart, `step` from one to the next. In
// vectors' pairs.
template <class T> struct Places {
  T *re, *im;
  int64_t step, stride;
};

// `count` transforms of R elements, each of the last R - 1 first multiplied by a complex number of `turns`, which moves
// on by `turn_step` numbers. R is 0 where the radix has no code of its own; First: there are no turns.
template <class T, int R, bool First>
void sweep(const FftStage<T>& s, int64_t count, Places<const T> from, Places<T> to, const T* turns, int64_t turn_step) {
  constexpr int64_t v = 2 * lanes_of<T>;
  int radix = R ? R : s.radix;
  constexpr int most = R ? R : max_radix;
  int64_t in = from.stride * v, out = to.stride * v;
  for (int64_t i = 0; i < count; i++) {
    Complex<T> x[most];
    const T *re = from.re + i * from.step * v, *im = from.im + i * from.step * v;
    unroll_or_loop<R>(radix, [&](auto k) __attribute__((always_inline)) {
      Vector<T> a = load(re + k * in), b = load(im + k * in);
      if (First || k == 0) {
        x[k] = {a, b};
        return;
      }
      T c = turns[2 * k - 2], d = turns[2 * k - 1];
      x[k] = {a * c - b * d, a * d + b * c};
    });
    turn<T, R>(x, radix, s.roots);
    T *to_re = to.re + i * to.step * v, *to_im = to.im + i * to.step * v;
    unroll_or_loop<R>(radix,
                      [&](auto q) __attribute__((always_inline)) { store(to_re + q * out, x[q].re), store(to_im + q * out, x[q].im); });
    turns += turn_step;
  }
}

template <class T> using Sweep = void (*)(const FftStage<T>&, int64_t, Places<const T>, Places<T>, const T*, int64_t);
template <class T, bool First> Sweep<T> sweep_of(int radix) {
  switch (radix) {
  case 2: return sweep<T, 2, First>;
  case 3: return sweep<T, 3, First>;
  case 4: return sweep<T, 4, First>;
  case 5: return sweep<T, 5, First>;
  case 7: return sweep<T, 7, First>;
  case 8: return sweep<T, 8, First>;
  default: return sweep<T, 0, First>;
  }
}
template <class T> Sweep<T> sweep_of(const FftStage<T>& s) {
  return s.done == 1 ? sweep_of<T, true>(s.radix) : sweep_of<T, false>(s.radix);
}

// [done][radix][rest] becomes [radix][done][rest]: along the longer of the two.
template <class T> void stage(const FftStage<T>& s, const T* from, T* to, int64_t re, int64_t im) {
  constexpr int64_t v = 2 * lanes_of<T>;
  Sweep<T> f = sweep_of<T>(s);
  int64_t pair = 2 * (s.radix - 1), apart = s.done * s.rest;
  if (s.rest < s.done) {
    for (int64_t r = 0; r < s.rest; r++, from += v, to += v)
      f(s, s.done, {from + re, from + im, s.radix * s.rest, s.rest}, {to + re, to + im, s.rest, apart}, s.turns, pair);
    return;
  }
  for (int64_t j = 0; j < s.done; j++, from += s.radix * s.rest * v, to += s.rest * v)
    f(s, s.rest, {from + re, from + im, 1, s.rest}, {to + re, to + im, 1, apart}, s.turns + j * pair, 0);
}

// Two stages at once, by way of a buffer in the first cache: blocks are larger than that.
constexpr int64_t joined_elements = 64;
template <class T> void two_stages(const FftStage<T>& s, const FftStage<T>& t, const T* from, T* to, int64_t re, int64_t im) {
  constexpr int64_t v = 2 * lanes_of<T>;
  alignas(64) T buffer[joined_elements * v];
  T *mid = buffer, *mid_im = buffer + lanes_of<T>;
  Sweep<T> f = sweep_of<T>(s), g = sweep_of<T>(t);
  int64_t p = s.radix, q = t.radix, rest = t.rest, pair = 2 * (q - 1);
  for (int64_t j = 0; j < s.done; j++)
    for (int64_t r = 0; r < rest; r++) {
      const T* x = from + (j * p * q * rest + r) * v;
      T* y = to + (j * rest + r) * v;
      f(s, q, {x + re, x + im, rest, q * rest}, {mid, mid_im, 1, q}, s.turns + j * 2 * (p - 1), 0);
      g(t, p, {mid, mid_im, q, 1}, {y + re, y + im, s.done * rest, t.done * rest}, t.turns + j * pair, s.done * pair);
    }
}

template <class T> T* transform(const FftStage<T>* stages, int64_t count, T* here, T* there, bool inverse) {
  int64_t re = inverse ? lanes_of<T> : 0, im = lanes_of<T> - re;
  for (int64_t i = 0; i < count; i++) {
    const FftStage<T>& s = stages[i];
    bool large = s.done * s.radix * s.rest > 2 * joined_elements;
    if (large && i + 1 < count && s.radix * stages[i + 1].radix <= joined_elements) two_stages(s, stages[++i], here, there, re, im);
    else stage(s, here, there, re, im);
    T* swap = here;
    here = there, there = swap;
  }
  return here;
}

} // namespace tenon::library::TENON_ISA
