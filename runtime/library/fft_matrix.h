// The transform of one line that lies in the first cache, as a matrix whose sides are whole vectors: columns of it beside each other in the
// lanes, then, turned over, its rows. For the files that are compiled for each instruction set.
#pragma once
#include "runtime/library/fft_stages.h"

namespace tenon::library::TENON_ISA {

// One stage of radix R after `Done` frequencies: in(e) gives element e, out(e, x) takes it.
template <class T, int R, int Done, int Rest, class In, class Out>
TENON_INLINE void matrix_stage(const T* turns, const In& in, const Out& out) {
  for (int j = 0; j < Done; j++)
    for (int r = 0; r < Rest; r++) {
      Complex<T> x[R];
      unroll<R>([&](auto k) __attribute__((always_inline)) { x[k] = in((j * R + k) * Rest + r); });
      if constexpr (Done > 1)
        unroll<R - 1>([&](auto k) __attribute__((always_inline)) {
          Complex<T> a = x[k + 1];
          T c = turns[2 * (j * (R - 1) + k)], d = turns[2 * (j * (R - 1) + k) + 1];
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

// The transform: from(k) gives vectors of elements from k on, out(k, x) takes them.
template <class T, bool Inverse, class In, class Out>
TENON_INLINE void matrix_line(const FftMatrix<T>& m, T* room, const In& from, const Out& out) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  int64_t side = 2 * w * (m.rows > m.columns ? m.rows : m.columns);
  T *re = room, *im = re + n, *here = im + n, *there = here + side, *turned = there + side;
  for (int64_t b = 0; b < m.columns; b += w) {
    auto in = [&](int64_t e) __attribute__((always_inline)) {
      Complex<T> x = from(e * m.columns + b);
      return Inverse ? Complex<T>{x.im, x.re} : x;
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

// Elements from k on of a line of n, and those to it, real and imaginary parts by turns.
template <class T> TENON_INLINE Complex<T> load_pairs(const T* from, int64_t k, int64_t n) {
  Vector<T> x = load(from + 2 * k), y = load(from + 2 * k + lanes_of<T>);
  if (2 * n <= most_fetched<T>) fetch(from + 2 * (k + n), false);
  split_pairs<T>(x, y);
  return {x, y};
}
template <class T> TENON_INLINE void store_pairs(T* to, int64_t k, int64_t n, Complex<T> x) {
  join_pairs<T>(x.re, x.im);
  store(to + 2 * k, x.re), store(to + 2 * k + lanes_of<T>, x.im);
  if (2 * n <= most_fetched<T>) fetch(to + 2 * (k + n), true);
}

template <class T, bool Inverse> TENON_INLINE void line(const FftMatrix<T>& m, const T* from, T scale, T* to, T* room) {
  int64_t n = m.rows * m.columns;
  auto in = [&](int64_t k) __attribute__((always_inline)) { return load_pairs(from, k, n); };
  matrix_line<T, Inverse>(m, room, in, [&](int64_t k, Complex<T> x) __attribute__((always_inline)) {
    store_pairs(to, k, n, {(Inverse ? x.im : x.re) * scale, (Inverse ? x.re : x.im) * scale});
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

// The factors of elements k on: of `vectors` and `lanes` of FftRealRoots.
template <class T> TENON_INLINE Complex<T> roots_from(int64_t k, const T* vectors, Complex<T> lanes) {
  T c = vectors[2 * (k / lanes_of<T>)], s = vectors[2 * (k / lanes_of<T>)+1];
  return {lanes.re * c - lanes.im * s, lanes.re * s + lanes.im * c};
}

// Of 2n real numbers, to n + 1 elements.
template <class T>
void real_line(const FftMatrix<T>& m, const T* from, const T* window, T scale, const T* vectors, const T* lanes, T* to, T* room) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  T *re = room, *im = re + n + w;
  auto in = [&](int64_t k) __attribute__((always_inline)) {
    if (!window) return load_pairs(from, k, n);
    Vector<T> x = load(from + 2 * k) * load(window + 2 * k), y = load(from + 2 * k + w) * load(window + 2 * k + w);
    split_pairs<T>(x, y);
    return Complex<T>{x, y};
  };
  matrix_line<T, false>(m, im + n + w, in,
                        [&](int64_t k, Complex<T> x) __attribute__((always_inline)) { store(re + k, x.re), store(im + k, x.im); });
  re[n] = re[0], im[n] = im[0];
  bool near = 2 * n <= most_fetched<T>;
  Complex<T> first{load(lanes), load(lanes + w)};
  for (int64_t k = 0; 2 * k < n; k += w) {
    int64_t mirror = n - k - w + 1;
    Vector<T> z[2] = {load(re + k), load(im + k)}, y[2] = {reversed<T>(load(re + mirror)), reversed<T>(load(im + mirror))};
    Complex<T> root = roots_from(k, vectors, first);
    unpack_pair<T>(z, y, root.re, root.im, scale / 2);
    store_pairs(to, k, n, {z[0], z[1]});
    join_reversed<T>(y[0], y[1], Lanes_of<T>());
    if (near) fetch(to + 2 * (mirror + n), true);
    store(to + 2 * mirror, y[0]), store(to + 2 * mirror + w, y[1]);
  }
  to[n] = re[n / 2] * scale, to[n + 1] = -im[n / 2] * scale;
}

// Back: of n + 1 elements 2n real numbers, times 2.
template <class T> void to_real_line(const FftMatrix<T>& m, const T* from, T scale, const T* vectors, const T* lanes, T* to, T* room) {
  constexpr int64_t w = lanes_of<T>;
  int64_t n = m.rows * m.columns;
  T *re = room, *im = re + n + w;
  Complex<T> first{load(lanes), load(lanes + w)};
  for (int64_t k = 0; 2 * k < n; k += w) {
    int64_t mirror = n - k - w + 1;
    Complex<T> x = load_pairs(from, k, n), y = load_pairs(from, mirror, n), root = roots_from(k, vectors, first);
    Vector<T> z[2] = {x.re, x.im}, q[2] = {reversed<T>(y.re), reversed<T>(y.im)};
    pack_pair<T>(z, q, root.re, root.im);
    store(re + k, z[0]), store(im + k, z[1]);
    store(re + mirror, reversed<T>(q[0])), store(im + mirror, reversed<T>(q[1]));
  }
  re[0] = from[0] + from[2 * n], im[0] = from[0] - from[2 * n];
  re[n / 2] = 2 * from[n], im[n / 2] = -2 * from[n + 1];
  auto in = [&](int64_t k) __attribute__((always_inline)) { return Complex<T>{load(re + k), load(im + k)}; };
  matrix_line<T, true>(m, im + n + w, in, [&](int64_t k, Complex<T> x) __attribute__((always_inline)) {
    store_pairs(to, k, n, {x.im * scale, x.re * scale});
  });
}

} // namespace tenon::library::TENON_ISA
