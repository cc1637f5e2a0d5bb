// Factorisations of small matrices, one in each lane of vectors: many of them at a time. For the files that are
// compiled for each instruction set.
#pragma once
#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

TENON_INLINE Vector<float> root_of(Vector<float> v) {
#ifdef __AVX512F__
  return _mm512_sqrt_ps(v);
#else
  return _mm256_sqrt_ps(v);
#endif
}
TENON_INLINE Vector<double> root_of(Vector<double> v) {
#ifdef __AVX512F__
  return _mm512_sqrt_pd(v);
#else
  return _mm256_sqrt_pd(v);
#endif
}

/// Element (i, j) of every lane's matrix.
template <class T> struct LaneMatrix {
  T* data;
  int64_t row, column;
  T* at(int64_t i, int64_t j) const { return data + (i * row + j * column) * lanes_of<T>; }
};

// Row j changes places with the row that `place` names, in each lane.
template <class T> void swap_lanes(int64_t n, LaneMatrix<T> a, int64_t j, Vector<T> place) {
  for (int64_t k = 0; k < n; k++) {
    Vector<T> first = load(a.at(j, k)), chosen = first;
    for (int64_t i = j + 1; i < n; i++) {
      Vector<T> x = load(a.at(i, k));
      auto here = place == splat(static_cast<T>(i));
      chosen = here ? x : chosen;
      store(a.at(i, k), here ? first : x);
    }
    store(a.at(j, k), chosen);
  }
}

/// LU with pivots from 0 and the first column without one, from 1, or 0: both vectors of numbers.
template <class T> void lanes_lu(int64_t n, T* z, T* pivots, T* info) {
  constexpr int64_t w = lanes_of<T>;
  LaneMatrix<T> a{z, n, 1};
  const Vector<T> none{}, one = splat(T(1));
  Vector<T> failed = none;
  for (int64_t j = 0; j < n; j++) {
    Vector<T> most = load(a.at(j, j)), place = splat(static_cast<T>(j));
    most = most < none ? -most : most;
    for (int64_t i = j + 1; i < n; i++) {
      Vector<T> v = load(a.at(i, j));
      v = v < none ? -v : v;
      auto more = (v > most) | ((most != most) & (v == v));
      most = more ? v : most;
      place = more ? splat(static_cast<T>(i)) : place;
    }
    store(pivots + j * w, place);
    swap_lanes(n, a, j, place);
    Vector<T> pivot = load(a.at(j, j));
    auto zero = pivot == none;
    failed = (zero & (failed == none)) ? splat(static_cast<T>(j + 1)) : failed;
    pivot = zero ? one : pivot;
    for (int64_t i = j + 1; i < n; i++) {
      Vector<T> factor = load(a.at(i, j)) / pivot;
      store(a.at(i, j), factor);
      for (int64_t k = j + 1; k < n; k++) store(a.at(i, k), load(a.at(i, k)) - factor * load(a.at(j, k)));
    }
  }
  store(info, failed);
}

/// A = U'U from the upper triangle, or LL' from the lower one; the other becomes zero. A lane stops at the first minor
/// that is not positive: `info`, from 1.
template <class T> void lanes_cholesky(int64_t n, T* z, bool lower, T* info) {
  LaneMatrix<T> a{z, lower ? 1 : n, lower ? n : 1};
  const Vector<T> none{}, one = splat(T(1));
  Vector<T> failed = none;
  for (int64_t j = 0; j < n; j++) {
    Vector<T> square = load(a.at(j, j));
    failed = ((failed == none) & ~(square > none)) ? splat(static_cast<T>(j + 1)) : failed;
    auto good = failed == none;
    Vector<T> root = root_of(good ? square : one);
    store(a.at(j, j), good ? root : square);
    for (int64_t i = j + 1; i < n; i++) {
      store(a.at(j, i), load(a.at(j, i)) / root);
      store(a.at(i, j), none);
    }
    for (int64_t i = j + 1; i < n; i++) {
      Vector<T> factor = good ? load(a.at(j, i)) : none;
      for (int64_t k = i; k < n; k++) store(a.at(i, k), load(a.at(i, k)) - factor * load(a.at(j, k)));
    }
  }
  store(info, failed);
}

/// B = inverse(triangle of A) B for n x n and n x width; strides in vectors.
template <class T>
void lanes_solve(int64_t n, int64_t width, const T* a, int64_t a_row, int64_t a_col, bool lower, bool unit, T* b, int64_t b_row,
                 int64_t b_col) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t step = 0; step < n; step++) {
    int64_t i = lower ? step : n - 1 - step, first = lower ? 0 : i + 1;
    for (int64_t c = 0; c < width; c++) {
      T* to = b + (i * b_row + c * b_col) * w;
      Vector<T> sum = load(to);
      for (int64_t k = first; k < first + step; k++) sum -= load(a + (i * a_row + k * a_col) * w) * load(b + (k * b_row + c * b_col) * w);
      store(to, unit ? sum : sum / load(a + i * (a_row + a_col) * w));
    }
  }
}

} // namespace tenon::library::TENON_ISA
