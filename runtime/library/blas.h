// Products, triangular solves and factorisations of row-major matrices, f32 and f64, on several threads where `workers`
// are given and there is enough to do. Small parts are done by blas_kernels.h, the others by halves.
#pragma once
#include "runtime/library/blas_kernels.h"
#include "runtime/parallel.h"

namespace tenon::library::blas {

/// A matrix with any strides.
template <class T> struct View {
  const T* data;
  int64_t row, column;
  View transposed() const { return {data, column, row}; }
  View at(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
};

/// C += alpha A B, for m x k and k x n.
template <class T> void multiply(const Workers* workers, int64_t m, int64_t n, int64_t k, T alpha, View<T> a, View<T> b, T* c, int64_t ld);
/// B = inverse(triangle of A) B, for n x n and n x width.
template <class T> void solve(const Workers* workers, int64_t n, int64_t width, View<T> a, bool lower, bool unit, T* b, int64_t ld);
/// P A = L U in place; pivots count from 1. Returns the first zero of U's diagonal, from 1, or 0.
template <class T> int lu(const Workers* workers, int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots);
/// A = U'U in place, of the upper triangle. Returns the order of the minor that is not positive, or 0.
template <class T> int cholesky(const Workers* workers, int64_t n, T* a, int64_t ld);
/// Rows change places as `count` pivots of a factorisation say, from 1; or back.
template <class T> void swap_rows(int64_t n, T* a, int64_t ld, const int32_t* pivots, int64_t count, bool back = false);

/// While it lives, LAPACK's calls on this thread share their products among these workers.
class Sharing {
public:
  explicit Sharing(const Workers* workers);
  ~Sharing();
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  static const Workers* now();

private:
  const Workers* before_;
};

} // namespace tenon::library::blas
