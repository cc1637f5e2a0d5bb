// Transforms of blocks of lines, and the ways in and out of blocks. Compiled once for each instruction set.
#include "runtime/library/fft_kernels.h"
#include "runtime/library/fft_matrix.h"

namespace tenon::library::TENON_ISA {

namespace {

// ---- in and out

// Where lines of a tensor are read or written across, what the next block takes lies right after what this one does.
template <class T> TENON_INLINE void prefetch(const T* p, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(p + i, 0, 2);
}

template <class T> void load_columns(const T* base, int64_t stride, int64_t used, int64_t count, bool complex, T* z, int64_t step) {
  constexpr int64_t w = lanes_of<T>;
  if (!complex) {
    for (int64_t j = 0; j < count; j++, base += stride, z += step * w) {
      prefetch(base + w, w);
      store(z, used == w ? load(base) : load_part(base, used));
    }
    return;
  }
  int64_t first = 2 * used < w ? 2 * used : w, second = 2 * used - first;
  for (int64_t j = 0; j < count; j++, base += stride, z += 2 * w) {
    Vector<T> a, b;
    prefetch(base + 2 * w, 2 * w);
    if (used == w) a = load(base), b = load(base + w);
    else a = load_part(base, first), b = load_part(base + (second ? w : 0), second);
    split_pairs<T>(a, b);
    store(z, a), store(z + w, b);
  }
}

template <class T>
void store_columns(T* base, int64_t stride, int64_t used, int64_t count, bool complex, const T* z, int64_t step, T scale) {
  constexpr int64_t w = lanes_of<T>;
  if (!complex) {
    for (int64_t j = 0; j < count; j++, base += stride, z += step * w) {
      prefetch(base + w, w);
      used == w ? store(base, load(z) * scale) : store_part(base, load(z) * scale, used);
    }
    return;
  }
  int64_t first = 2 * used < w ? 2 * used : w, second = 2 * used - first;
  for (int64_t j = 0; j < count; j++, base += stride, z += 2 * w) {
    Vector<T> a = load(z) * scale, b = load(z + w) * scale;
    prefetch(base + 2 * w, 2 * w);
    join_pairs<T>(a, b);
    if (used == w) store(base, a), store(base + w, b);
    else {
      store_part(base, a, first);
      if (second) store_part(base + w, b, second);
    }
  }
}

// ---- products

template <class T> void multiply(T* z, const T* w, int64_t count, bool inverse) {
  constexpr int64_t v = lanes_of<T>;
  T *re = z + (inverse ? v : 0), *im = z + (inverse ? 0 : v);
  for (int64_t j = 0; j < count; j++, re += 2 * v, im += 2 * v) {
    Vector<T> x = load(re), y = load(im);
    store(re, x * w[2 * j] - y * w[2 * j + 1]), store(im, x * w[2 * j + 1] + y * w[2 * j]);
  }
}

template <class T> void multiply_real(T* z, const T* w, int64_t count, int64_t repeat) {
  constexpr int64_t v = lanes_of<T>;
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < repeat; i++, z += v) store(z, load(z) * w[j]);
}

template <class T> void multiply_lanes(T* z, const T* a, const T* b, int64_t count, bool inverse) {
  constexpr int64_t v = lanes_of<T>;
  T *re = z + (inverse ? v : 0), *im = z + (inverse ? 0 : v);
  for (int64_t j = 0; j < count; j++, re += 2 * v, im += 2 * v, a += 2 * v) {
    Vector<T> x = load(re), y = load(im), c = load(a), s = load(a + v);
    Vector<T> cos = c * b[2 * j] - s * b[2 * j + 1], sin = c * b[2 * j + 1] + s * b[2 * j];
    store(re, x * cos - y * sin), store(im, x * sin + y * cos);
  }
}

// ---- real transforms

template <class T, class F> void each_pair(T* z, int64_t n, const T* w, F&& f) {
  constexpr int64_t v = lanes_of<T>;
  for (int64_t k = 1; 2 * k <= n; k++) {
    T *p = z + 2 * k * v, *q = z + 2 * (n - k) * v;
    Vector<T> a[2] = {load(p), load(p + v)}, b[2] = {load(q), load(q + v)};
    f(a, b, splat<T>(w[2 * k]), splat<T>(w[2 * k + 1]));
    store(q, b[0]), store(q + v, b[1]);
    store(p, a[0]), store(p + v, a[1]);
  }
}

template <class T> void unpack_real(T* z, int64_t n, const T* w) {
  constexpr int64_t v = lanes_of<T>;
  Vector<T> re = load(z), im = load(z + v), none{};
  each_pair<T>(z, n, w,
               [](Vector<T>* p, Vector<T>* m, Vector<T> c, Vector<T> s) __attribute__((always_inline)) { unpack_pair<T>(p, m, c, s); });
  store(z, re + im), store(z + v, none);
  store(z + 2 * n * v, re - im), store(z + 2 * n * v + v, none);
}
template <class T> void pack_real(T* z, int64_t n, const T* w) {
  constexpr int64_t v = lanes_of<T>;
  Vector<T> first = load(z), last = load(z + 2 * n * v);
  each_pair<T>(z, n, w,
               [](Vector<T>* p, Vector<T>* m, Vector<T> c, Vector<T> s) __attribute__((always_inline)) { pack_pair<T>(p, m, c, s); });
  store(z, first + last), store(z + v, first - last);
}

template <class T> TENON_INLINE void load_complex(const T* p, int64_t used, Vector<T>* v) {
  constexpr int64_t w = lanes_of<T>;
  int64_t first = 2 * used < w ? 2 * used : w, second = 2 * used - first;
  v[0] = load_part(p, first), v[1] = load_part(p + (second ? w : 0), second);
  split_pairs<T>(v[0], v[1]);
}
template <class T> TENON_INLINE void store_complex(T* p, int64_t used, const Vector<T>* v) {
  constexpr int64_t w = lanes_of<T>;
  int64_t first = 2 * used < w ? 2 * used : w, second = 2 * used - first;
  Vector<T> a = v[0], b = v[1];
  join_pairs<T>(a, b);
  store_part(p, a, first);
  if (second) store_part(p + w, b, second);
}

// Elements 1 .. n/2 of a line with their mirrors, a vector of them at a time; the last ones are few. Lanes count from
// element 0, which is treated by the caller, after this: here it takes part in the first vector with any numbers.
template <class T, class F> void line_pairs(const T* from, T* to, int64_t n, const T* a, const T* b, F&& f) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t k = 0; 2 * k <= n; k += w) {
    // lanes k .. k+used-1 and their mirrors n-k-used+1 .. n-k
    int64_t used = n / 2 + 1 - k < w ? n / 2 + 1 - k : w, mirror = n - k - used + 1;
    Vector<T> z[2], m[2];
    load_complex(from + 2 * k, used, z);
    // mirrors, so that they end in the last lane: then reversed they start in the first
    T edge[4 * w] = {};
    if (used == w) load_complex(from + 2 * mirror, w, m);
    else {
      __builtin_memcpy(edge + 2 * (w - used), from + 2 * mirror, static_cast<size_t>(2 * used) * sizeof(T));
      load_complex(static_cast<const T*>(edge), w, m);
    }
    m[0] = reversed<T>(m[0]), m[1] = reversed<T>(m[1]);
    Vector<T> br = load(b), bi = load(b + w), c = br * a[0] - bi * a[1], s = br * a[1] + bi * a[0];
    a += 2;
    f(z, m, c, s);
    m[0] = reversed<T>(m[0]), m[1] = reversed<T>(m[1]);
    if (used == w) store_complex(to + 2 * mirror, w, m);
    else {
      store_complex(edge, w, m);
      __builtin_memcpy(to + 2 * mirror, edge + 2 * (w - used), static_cast<size_t>(2 * used) * sizeof(T));
    }
    store_complex(to + 2 * k, used, z);
  }
}

template <class T> void unpack_line(T* line, int64_t n, const T* a, const T* b) {
  T re = line[0], im = line[1];
  line[2 * n] = re, line[2 * n + 1] = im;
  line_pairs<T>(line, line, n, a, b,
                [](Vector<T>* p, Vector<T>* m, Vector<T> c, Vector<T> s) __attribute__((always_inline)) { unpack_pair<T>(p, m, c, s); });
  line[0] = re + im, line[1] = 0;
  line[2 * n] = re - im, line[2 * n + 1] = 0;
}
// `to` has n + 1 elements too.
template <class T> void pack_line(const T* from, T* to, int64_t n, const T* a, const T* b) {
  T first = from[0], last = from[2 * n];
  line_pairs<T>(from, to, n, a, b,
                [](Vector<T>* p, Vector<T>* m, Vector<T> c, Vector<T> s) __attribute__((always_inline)) { pack_pair<T>(p, m, c, s); });
  to[0] = first + last, to[1] = first - last;
}

template <class T> void separate(const T* z, int64_t n, T* x, T* y) {
  constexpr int64_t v = lanes_of<T>;
  constexpr T half = T(0.5);
  for (int64_t k = 0; k <= n / 2; k++) {
    const T *p = z + 2 * k * v, *q = z + 2 * (k ? n - k : 0) * v;
    Vector<T> ar = load(p), ai = load(p + v), br = load(q), bi = load(q + v);
    store(x + 2 * k * v, (ar + br) * half), store(x + 2 * k * v + v, (ai - bi) * half);
    store(y + 2 * k * v, (ai + bi) * half), store(y + 2 * k * v + v, (br - ar) * half);
  }
}
template <class T> void combine(const T* x, const T* y, int64_t n, T* z) {
  constexpr int64_t v = lanes_of<T>;
  for (int64_t k = 0; k <= n / 2; k++) {
    T *p = z + 2 * k * v, *q = z + 2 * (n - k) * v;
    Vector<T> ar = load(x + 2 * k * v), ai = load(x + 2 * k * v + v), br = load(y + 2 * k * v), bi = load(y + 2 * k * v + v);
    if (k == 0) ai = bi = Vector<T>{}; // of real numbers
    else if (k < n - k) store(q, ar + bi), store(q + v, br - ai);
    if (k < n) store(p, ar - bi), store(p + v, ai + br);
  }
}

template <class T> constexpr FftKernels<T> kernels() {
  return {lanes_of<T>,  load_rows<T>,     store_rows<T>,     load_columns<T>, store_columns<T>, transform<T>,
          multiply<T>,  multiply_real<T>, multiply_lanes<T>, unpack_real<T>,  pack_real<T>,     unpack_line<T>,
          pack_line<T>, line<T>,          real_line<T>,      to_real_line<T>, separate<T>,      combine<T>};
}

} // namespace

extern const FftKernels<float> fft_kernels_f32 = kernels<float>();
extern const FftKernels<double> fft_kernels_f64 = kernels<double>();

} // namespace tenon::library::TENON_ISA
