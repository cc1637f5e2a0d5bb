// Vectors of one instruction set, for files that are compiled once for each (TENON_ISA is avx2 or avx512;
// runtime/meson.build). Everything lives in a namespace of that name, and no other header with functions is included:
// the linker could keep the copy for the wider CPU.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon::library::TENON_ISA {

#ifdef __AVX512F__
constexpr size_t vector_bytes = 64;
#else
constexpr size_t vector_bytes = 32;
#endif

template <class T> struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T> using Vector = typename VectorOf<T>::type;
template <class T> constexpr int64_t lanes_of = vector_bytes / sizeof(T);

#define TENON_INLINE [[gnu::always_inline]] inline

/// f(0), f(1), ... f(N - 1), each with a constant, so that arrays it indexes become registers.
template <class F, size_t... I> TENON_INLINE void unroll(std::index_sequence<I...>, const F& f) {
  (f(std::integral_constant<int, static_cast<int>(I)>()), ...);
}
template <int N, class F> TENON_INLINE void unroll(const F& f) { unroll(std::make_index_sequence<static_cast<size_t>(N)>(), f); }
/// The same for what may be no constant.
template <int N, class F> TENON_INLINE void unroll_or_loop(int n, const F& f) {
  if constexpr (N > 0) unroll<N>(f);
  else
    for (int i = 0; i < n; i++) f(i);
}

template <class T> TENON_INLINE Vector<T> load(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> TENON_INLINE void store(T* p, Vector<T> v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T> TENON_INLINE Vector<T> splat(T x) { return x - Vector<T>{}; }

// The first `count` lanes; the others are zero, and their memory is not touched.
#ifdef __AVX512F__
TENON_INLINE Vector<float> load_part(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
TENON_INLINE Vector<double> load_part(const double* p, int64_t count) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
}
TENON_INLINE void store_part(float* p, Vector<float> v, int64_t count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
}
TENON_INLINE void store_part(double* p, Vector<double> v, int64_t count) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), v);
}
#else
inline __m256i lanes_below(const float*, int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i lanes_below(const double*, int64_t count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
TENON_INLINE Vector<float> load_part(const float* p, int64_t count) { return _mm256_maskload_ps(p, lanes_below(p, count)); }
TENON_INLINE Vector<double> load_part(const double* p, int64_t count) { return _mm256_maskload_pd(p, lanes_below(p, count)); }
TENON_INLINE void store_part(float* p, Vector<float> v, int64_t count) { _mm256_maskstore_ps(p, lanes_below(p, count), v); }
TENON_INLINE void store_part(double* p, Vector<double> v, int64_t count) { _mm256_maskstore_pd(p, lanes_below(p, count), v); }
#endif

/// Lane l of the result is lane I[l] of a and b one after the other.
template <class T, size_t... I> TENON_INLINE Vector<T> pick(const Vector<T>& a, const Vector<T>& b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, static_cast<int>(I)...);
}
template <class T> using Lanes_of = std::make_index_sequence<static_cast<size_t>(lanes_of<T>)>;

// Of blocks of S lanes: those of b's even blocks beside a's even ones, and the same of the odd ones.
template <class T, size_t S, size_t... I> TENON_INLINE void swap_blocks(Vector<T>& a, Vector<T>& b, std::index_sequence<I...>) {
  constexpr size_t w = static_cast<size_t>(lanes_of<T>);
  Vector<T> low = pick<T>(a, b, std::index_sequence<(I & S ? I - S + w : I)...>());
  b = pick<T>(a, b, std::index_sequence<(I & S ? I + w : I + S)...>());
  a = low;
}
template <class T, size_t S> TENON_INLINE void transpose_step(Vector<T>* v) {
  if constexpr (S < static_cast<size_t>(lanes_of<T>)) {
    unroll<lanes_of<T>>([&](auto i) __attribute__((always_inline)) {
      if constexpr (!(i & S)) swap_blocks<T, S>(v[i], v[i + S], Lanes_of<T>());
    });
    transpose_step<T, 2 * S>(v);
  }
}
/// v[i][j] becomes v[j][i].
template <class T> TENON_INLINE void transpose(Vector<T>* v) { transpose_step<T, 1>(v); }

template <class T, size_t... I> TENON_INLINE void split_pairs(Vector<T>& a, Vector<T>& b, std::index_sequence<I...>) {
  Vector<T> even = pick<T>(a, b, std::index_sequence<2 * I...>());
  b = pick<T>(a, b, std::index_sequence<2 * I + 1 ...>());
  a = even;
}
/// Of a b one after the other: those at even places, those at odd places.
template <class T> TENON_INLINE void split_pairs(Vector<T>& a, Vector<T>& b) { split_pairs<T>(a, b, Lanes_of<T>()); }

template <class T, size_t... I> TENON_INLINE void join_pairs(Vector<T>& a, Vector<T>& b, std::index_sequence<I...>) {
  constexpr size_t w = static_cast<size_t>(lanes_of<T>);
  Vector<T> low = pick<T>(a, b, std::index_sequence<(I / 2 + I % 2 * w)...>());
  b = pick<T>(a, b, std::index_sequence<(w / 2 + I / 2 + I % 2 * w)...>());
  a = low;
}
/// Undoes split_pairs.
template <class T> TENON_INLINE void join_pairs(Vector<T>& a, Vector<T>& b) { join_pairs<T>(a, b, Lanes_of<T>()); }

template <class T, size_t... I> TENON_INLINE Vector<T> reversed(Vector<T> a, std::index_sequence<I...>) {
  return pick<T>(a, a, std::index_sequence<(static_cast<size_t>(lanes_of<T>) - 1 - I)...>());
}
template <class T> TENON_INLINE Vector<T> reversed(Vector<T> a) { return reversed<T>(a, Lanes_of<T>()); }

// ---- rows of memory and lanes

/// Element i of `count` of each row becomes vector z[i * step]; `rows` has a pointer for every lane. What lies `ahead` numbers behind them
/// is fetched, where that is not 0.
template <class T> void load_rows(const T* const* rows, int64_t count, T* z, int64_t step, int64_t ahead) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t at = 0; at < count; at += w) {
    if (ahead != 0) unroll<w>([&](auto l) __attribute__((always_inline)) { __builtin_prefetch(rows[l] + at + ahead, 0, 2); });
    int64_t part = count - at < w ? count - at : w;
    Vector<T> v[w];
    if (part == w) unroll<w>([&](auto l) __attribute__((always_inline)) { v[l] = load(rows[l] + at); });
    else unroll<w>([&](auto l) __attribute__((always_inline)) { v[l] = load_part(rows[l] + at, part); });
    transpose<T>(v);
    T* to = z + at * step * w;
    if (part == w) unroll<w>([&](auto i) __attribute__((always_inline)) { store(to + i * step * w, v[i]); });
    else
      unroll<w>([&](auto i) __attribute__((always_inline)) {
        if (i < part) store(to + i * step * w, v[i]);
      });
  }
}

template <class T> void load_rows(const T* const* rows, int64_t count, T* z, int64_t step) { load_rows<T>(rows, count, z, step, 0); }

/// Vectors of every row together: rows that lie a multiple of 4 KB apart share one set of L1, which does not hold the lines that two
/// vectors of a row have in common until the second is stored.
template <class T> TENON_INLINE void store_vectors(T* const* rows, int64_t at, const T* z, int64_t step, T scale, int64_t ahead) {
  constexpr int64_t w = lanes_of<T>, together = 4;
  alignas(64) T turned[w * together * w];
  for (int64_t t = 0; t < together; t++) {
    Vector<T> v[w];
    unroll<w>([&](auto i) __attribute__((always_inline)) { v[i] = load(z + (t * w + i) * step * w) * scale; });
    transpose<T>(v);
    unroll<w>([&](auto l) __attribute__((always_inline)) { store(turned + (l * together + t) * w, v[l]); });
  }
  for (int64_t l = 0; l < w; l++) {
    if (ahead != 0) unroll<together>([&](auto t) __attribute__((always_inline)) { __builtin_prefetch(rows[l] + at + t * w + ahead, 1); });
    unroll<together>([&](auto t) __attribute__((always_inline)) { store(rows[l] + at + t * w, load(turned + (l * together + t) * w)); });
  }
}

/// Back, times scale: only the first `used` rows are written.
template <class T> void store_rows(T* const* rows, int64_t used, int64_t count, const T* z, int64_t step, T scale, int64_t ahead) {
  constexpr int64_t w = lanes_of<T>;
  int64_t at = 0;
  for (; used == w && at + 4 * w <= count; at += 4 * w) store_vectors<T>(rows, at, z + at * step * w, step, scale, ahead);
  for (; at < count; at += w) {
    Vector<T> v[w];
    const T* from = z + at * step * w;
    int64_t part = count - at < w ? count - at : w;
    unroll<w>([&](auto i) __attribute__((always_inline)) { v[i] = load(from + (i < part ? i : 0) * step * w) * scale; });
    transpose<T>(v);
    if (used == w && part == w) unroll<w>([&](auto l) __attribute__((always_inline)) { store(rows[l] + at, v[l]); });
    else
      unroll<w>([&](auto l) __attribute__((always_inline)) {
        if (l < used) store_part(rows[l] + at, v[l], part);
      });
  }
}

template <class T> void store_rows(T* const* rows, int64_t used, int64_t count, const T* z, int64_t step, T scale) {
  store_rows<T>(rows, used, count, z, step, scale, 0);
}

} // namespace tenon::library::TENON_ISA
