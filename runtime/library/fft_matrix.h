// The transform of one line that lies in the first cache, as a matrix whose sides are whole vectors: columns of it beside each other in the
// lanes, then, turned over, its rows. For the files that are compiled for each instruction set.
#pragma once
#include "runtime/library/fft_stages.h"

namespace tenon::library::TENON_ISA {

// One stage of radix R after `Done` frequencies: in(e) gives element e, out(e, x) takes it.
template <class T, int R, int Done, int Rest, class In, class Out>
TENON_INLINE void matrix_stage(const T* turns, const In& in, const Out& out) {
  for (int j = 0; j < Done; j++, turns += 2 * (R - 1))
    for (int r = 0; r < Rest; r++) {
      Complex<T> x[R];
      unroll<R>([&](auto k) __attribute__((always_inline)) { x[k] = in((j * R + k) * Rest + r); });
      if constexpr (Done > 1)
        unroll<R - 1>([&](auto k) __attribute__((always_inline)) {
          Complex<T> a = x[k + 1];
          T c = turns[2 * k], d = turns[2 * k + 1];
          x[k + 1] = {a.re * c - a.im * d, a.re * d + a.im * c};
        });
      turn<T, R>(x, R, nullptr);
      unroll<R>([&](auto q) __attribute__((always_inline)) { out((q * Done + j) * Rest + r, x[q]); });
    }
}

// A side of P * Q * R elements, by way of the buffers `here` and `there`: pairs of vectors.
template <class T, int P, int Q, int R, class In, class Out>
TENON_INLINE void matrix_side(const FftStage<T>* stages, T* here, T* there, const In& in, const Out& out) {
  constexpr int64_t w = lanes_of<T>;
  auto put = [&](int64_t e, Complex<T> x)
                 __attribute__((always_inline)) { store(here + 2 * e * w, x.re), store(here + (2 * e + 1) * w, x.im); };
  auto get = [&](int64_t e) __attribute__((always_inline)) { return Complex<T>{load(here + 2 * e * w), load(here + (2 * e + 1) * w)}; };
  matrix_stage<T, P, 1, Q * R>(nullptr, in, put);
  if constexpr (R == 1) matrix_stage<T, Q, P, 1>(stages[1].turns, get, out);
  else {
    auto put2 = [&](int64_t e, Complex<T> x)
                    __attribute__((always_inline)) { store(there + 2 * e * w, x.re), store(there + (2 * e + 1) * w, x.im); };
    auto get2 = [&](int64_t e)
                    __attribute__((always_inline)) { return Complex<T>{load(there + 2 * e * w), load(there + (2 * e + 1) * w)}; };
    matrix_stage<T, Q, P, R>(stages[1].turns, get, put2);
    matrix_stage<T, R, P * Q, 1>(stages[2].turns, get2, out);
  }
}
template <class T, class In, class Out>
TENON_INLINE void matrix_side(int64_t n, const FftStage<T>* stages, T* here, T* there, const In& in, const Out& out) {
  switch (n) {
  case 16: return matrix_side<T, 4, 4, 1>(stages, here, there, in, out);
  case 32: return matrix_side<T, 8, 4, 1>(stages, here, there, in, out);
  case 48: return matrix_side<T, 4, 4, 3>(stages, here, there, in, out);
  case 64: return matrix_side<T, 8, 8, 1>(stages, here, there, in, out);
  case 96: return matrix_side<T, 8, 4, 3>(stages, here, there, in, out);
  case 128: return matrix_side<T, 8, 4, 4>(stages, here, there, in, out);
  default: __builtin_unreachable(); // is_matrix_side
  }
}

// Two vectors of the next line, which most often lies behind this one. Long lines would leave the first cache, and are fetched as they are
// read.
template <class T> constexpr int64_t most_fetched = 8192 / sizeof(T); // numbers of a line
template <class T> TENON_INLINE void fetch(const T* p, bool written) {
  for (size_t byte = 0; byte < 2 * vector_bytes; byte += 64) {
    const char* at = reinterpret_cast<const char*>(p) + byte;
    written ? __builtin_prefetch(at, 1) : __builtin_prefetch(at, 0);
  }
}

// The transform: out(k, x) takes vectors of it, from element k on.
template <class T, bool Inverse, class Out>
TENON_INLINE void matrix_line(const FftMatrix<T>& m, const T* from, const T* window, T* room, const Out& out) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  int64_t side = 2 * w * (m.rows > m.columns ? m.rows : m.columns);
  T *re = room, *im = re + n, *here = im + n, *there = here + side, *turned = there + side;
  bool near = 2 * n <= most_fetched<T>;
  for (int64_t b = 0; b < m.columns; b += w) {
    auto in = [&](int64_t e) __attribute__((always_inline)) {
      int64_t at = 2 * (e * m.columns + b);
      Vector<T> x = load(from + at), y = load(from + at + w);
      if (near) fetch(from + at + 2 * n, false);
      if (window) x *= load(window + at), y *= load(window + at + w);
      split_pairs<T>(x, y);
      return Inverse ? Complex<T>{y, x} : Complex<T>{x, y};
    };
    auto keep = [&](int64_t e, Complex<T> x)
                    __attribute__((always_inline)) { store(turned + e * w, x.re), store(turned + (m.rows + e) * w, x.im); };
    matrix_side<T>(m.rows, m.down, here, there, in, keep);
    for (int64_t k = 0; k < m.rows; k += w)
      for (int64_t part = 0; part < 2; part++) {
        Vector<T> v[w];
        const T* z = turned + (part * m.rows + k) * w;
        T* to = (part ? im : re) + b * m.rows + k;
        unroll<w>([&](auto i) __attribute__((always_inline)) { v[i] = load(z + i * w); });
        transpose<T>(v);
        unroll<w>([&](auto i) __attribute__((always_inline)) { store(to + i * m.rows, v[i]); });
      }
  }
  const T* turns = m.turns;
  for (int64_t k = 0; k < m.rows; k += w, turns += 2 * m.columns * w) {
    auto in = [&](int64_t e) __attribute__((always_inline)) {
      Vector<T> x = load(re + e * m.rows + k), y = load(im + e * m.rows + k), c = load(turns + 2 * e * w),
                s = load(turns + (2 * e + 1) * w);
      return Complex<T>{x * c - y * s, x * s + y * c};
    };
    matrix_side<T>(m.columns, m.across, here, there, in,
                   [&](int64_t e, Complex<T> x) __attribute__((always_inline)) { out(e * m.rows + k, x); });
  }
}

template <class T, bool Inverse> TENON_INLINE void line(const FftMatrix<T>& m, const T* from, T scale, T* to, T* room) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  bool near = 2 * n <= most_fetched<T>;
  matrix_line<T, Inverse>(m, from, nullptr, room, [&](int64_t k, Complex<T> x) __attribute__((always_inline)) {
    Vector<T> a = (Inverse ? x.im : x.re) * scale, b = (Inverse ? x.re : x.im) * scale;
    join_pairs<T>(a, b);
    store(to + 2 * k, a), store(to + 2 * k + w, b);
    if (near) fetch(to + 2 * (k + n), true);
  });
}
template <class T> void line(const FftMatrix<T>& m, const T* from, bool inverse, T scale, T* to, T* room) {
  inverse ? line<T, true>(m, from, scale, to, room) : line<T, false>(m, from, scale, to, room);
}

template <class T, size_t... I> TENON_INLINE void join_reversed(Vector<T>& a, Vector<T>& b, std::index_sequence<I...>) {
  constexpr size_t w = static_cast<size_t>(lanes_of<T>);
  Vector<T> low = pick<T>(a, b, std::index_sequence<(w - 1 - I / 2 + I % 2 * w)...>());
  b = pick<T>(a, b, std::index_sequence<(w / 2 - 1 - I / 2 + I % 2 * w)...>());
  a = low;
}

// Of 2n real numbers, to n + 1 elements. a, b: factors as unpack_line's.
template <class T> void real_line(const FftMatrix<T>& m, const T* from, const T* window, T scale, const T* a, const T* b, T* to, T* room) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  T *re = room, *im = re + n + w;
  room = im + n + w;
  matrix_line<T, false>(m, from, window, room,
                        [&](int64_t k, Complex<T> x) __attribute__((always_inline)) { store(re + k, x.re), store(im + k, x.im); });
  re[n] = re[0], im[n] = im[0];
  T half = scale / 2;
  bool near = 2 * n <= most_fetched<T>;
  Vector<T> br = load(b), bi = load(b + w);
  for (int64_t k = 0; 2 * k < n; k += w, a += 2) {
    int64_t mirror = n - k - w + 1;
    Vector<T> z[2] = {load(re + k), load(im + k)}, y[2] = {reversed<T>(load(re + mirror)), reversed<T>(load(im + mirror))};
    unpack_pair<T>(z, y, br * a[0] - bi * a[1], br * a[1] + bi * a[0], half);
    join_pairs<T>(z[0], z[1]);
    join_reversed<T>(y[0], y[1], Lanes_of<T>());
    store(to + 2 * k, z[0]), store(to + 2 * k + w, z[1]);
    if (near) fetch(to + 2 * (k + n), true), fetch(to + 2 * (mirror + n), true);
    store(to + 2 * mirror, y[0]), store(to + 2 * mirror + w, y[1]);
  }
  to[n] = re[n / 2] * scale, to[n + 1] = -im[n / 2] * scale;
}

} // namespace tenon::library::TENON_ISA
