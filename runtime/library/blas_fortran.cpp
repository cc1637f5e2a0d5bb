// The BLAS that LAPACK calls most, in place of the reference implementation's: the linker takes these first. Matrices
// are column-major, so each is seen here as the row-major transposed one; sizes are by pointer, texts have hidden
// lengths.
#include <algorithm>
#include <vector>

#include "runtime/library/blas.h"
#include "runtime/library/common.h"

namespace tenon::library::blas {

namespace {

thread_local const Workers* shared_workers = nullptr;

} // namespace

// Here, because every step of linear algebra uses it: so this file is in the program before the linker looks for BLAS.
Sharing::Sharing(const Workers* workers) : before_(shared_workers) { shared_workers = workers; }
Sharing::~Sharing() { shared_workers = before_; }
const Workers* Sharing::now() { return shared_workers; }

namespace {

bool is(const char* text, char c) { return *text == c || *text == c - 'A' + 'a'; }

// What a matrix is to code that takes rows: element (i, j) of the transposed one at data[i * ld + j].
template <class T> View<T> turned(const T* data, int ld, bool transpose) { return transpose ? View<T>{data, 1, ld} : View<T>{data, ld, 1}; }

template <class T> void scale(int64_t rows, int64_t columns, T beta, T* c, int64_t ld) {
  if (beta == 1) return;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) c[i * ld + j] = beta == 0 ? T(0) : beta * c[i * ld + j];
}

// C' = alpha op(B)' op(A)' + beta C'
template <class T>
void gemm(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  scale(n, m, beta, c, ldc);
  if (alpha != 0) multiply(Sharing::now(), n, m, k, alpha, turned(b, ldb, tb), turned(a, lda, ta), c, ldc);
}

// A part of a vector with any stride, side by side.
template <class T> struct Packed {
  std::vector<T> own;
  const T* data;
  Packed(int64_t n, const T* x, int64_t step) : data(x) {
    if (step == 1) return;
    own.resize(static_cast<size_t>(n));
    if (step < 0) x -= (n - 1) * step;
    for (int64_t i = 0; i < n; i++) own[static_cast<size_t>(i)] = x[i * step];
    data = own.data();
  }
};
// The same for one that is written: beta times it comes in, and goes back at the end.
template <class T> struct Result {
  std::vector<T> own;
  T *data, *back;
  int64_t n, step;
  Result(int64_t n, T beta, T* y, int64_t step) : data(y), back(step < 0 ? y - (n - 1) * step : y), n(n), step(step) {
    if (step != 1) {
      own.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; i++) own[static_cast<size_t>(i)] = back[i * step];
      data = own.data();
    }
    scale(1, n, beta, data, n);
  }
  ~Result() {
    if (step != 1)
      for (int64_t i = 0; i < n; i++) back[i * step] = data[i];
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
};

template <class T> void gemv(bool transpose, int m, int n, T alpha, const T* a, int lda, const T* x, int incx, T beta, T* y, int incy) {
  Packed<T> in(transpose ? m : n, x, incx);
  Result<T> out(transpose ? n : m, beta, y, incy);
  if (alpha == 0) return;
  const auto& k = blas_kernels<T>();
  transpose ? k.rows_times(n, m, alpha, a, lda, in.data, out.data) : k.columns_times(n, m, alpha, a, lda, in.data, out.data);
}

// Column j of A gets y[j] x: rows of one number, times a row.
template <class T> void ger(int m, int n, T alpha, const T* x, int incx, const T* y, int incy, T* a, int lda) {
  Packed<T> rows(m, x, incx), columns(n, y, incy);
  for (int64_t j = 0; j < n; j++)
    if (columns.data[j] != 0) blas_kernels<T>().columns_times(1, m, alpha, rows.data, m, columns.data + j, a + j * lda);
}

// y += alpha A x with one triangle of A: blocks on the diagonal, and beside each what is off it, which counts twice.
template <class T> void symv(bool lower, int n, T alpha, const T* a, int lda, const T* x, int incx, T beta, T* y, int incy) {
  Packed<T> in(n, x, incx);
  Result<T> out(n, beta, y, incy);
  if (alpha == 0) return;
  const auto& k = blas_kernels<T>();
  constexpr int64_t block = 32;
  T square[block * block];
  for (int64_t j = 0; j < n; j += block) {
    int64_t width = std::min(block, n - j);
    for (int64_t p = 0; p < width; p++)
      for (int64_t q = 0; q < width; q++) {
        bool given = lower ? q >= p : q <= p;
        square[p * block + q] = a[given ? (j + p) * lda + j + q : (j + q) * lda + j + p];
      }
    k.rows_times(width, width, alpha, square, block, in.data + j, out.data + j);
    int64_t off = lower ? j + width : 0, size = lower ? n - off : j;
    k.rows_times(width, size, alpha, a + j * lda + off, lda, in.data + off, out.data + j);
    k.columns_times(width, size, alpha, a + j * lda + off, lda, in.data + j, out.data + off);
  }
}

// C += alpha (op(A) op(B)') in one triangle, by blocks of columns; on the diagonal by way of a whole block.
template <class T> void add_triangle(bool lower, int n, int k, T alpha, View<T> a, View<T> b, T* c, int64_t ldc) {
  constexpr int64_t block = 48;
  const Workers* workers = Sharing::now();
  auto update = [&](int64_t begin, int64_t end) {
    T square[block * block];
    for (int64_t j = begin * block; j < std::min<int64_t>(end * block, n); j += block) {
      int64_t width = std::min<int64_t>(block, n - j), off = lower ? j + width : 0, size = lower ? n - off : j;
      std::fill_n(square, block * block, T(0));
      multiply<T>(nullptr, width, width, k, alpha, b.at(j, 0), a.at(j, 0).transposed(), square, block);
      for (int64_t p = 0; p < width; p++)
        for (int64_t q = lower ? p : 0; q < (lower ? width : p + 1); q++) c[(j + p) * ldc + j + q] += square[p * block + q];
      multiply<T>(nullptr, width, size, k, alpha, b.at(j, 0), a.at(off, 0).transposed(), c + j * ldc + off, ldc);
    }
  };
  int64_t blocks = (n + block - 1) / block;
  parallel(double{1} * n * n * k > 2e6 ? workers : nullptr, blocks, 1, update);
}
template <class T> void scale_triangle(bool lower, int n, T beta, T* c, int64_t ldc) {
  for (int64_t j = 0; j < n; j++) lower ? scale(1, n - j, beta, c + j * ldc + j, ldc) : scale(1, j + 1, beta, c + j * ldc, ldc);
}
// op(A) is n x k: its rows.
template <class T> View<T> rows_of(const T* a, int lda, bool transpose) { return transpose ? View<T>{a, lda, 1} : View<T>{a, 1, lda}; }

template <class T> void syrk(bool lower, bool transpose, int n, int k, T alpha, const T* a, int lda, T beta, T* c, int ldc) {
  scale_triangle(lower, n, beta, c, ldc);
  if (alpha != 0) add_triangle(lower, n, k, alpha, rows_of(a, lda, transpose), rows_of(a, lda, transpose), c, ldc);
}
template <class T>
void syr2k(bool lower, bool transpose, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  scale_triangle(lower, n, beta, c, ldc);
  if (alpha == 0) return;
  add_triangle(lower, n, k, alpha, rows_of(a, lda, transpose), rows_of(b, ldb, transpose), c, ldc);
  add_triangle(lower, n, k, alpha, rows_of(b, ldb, transpose), rows_of(a, lda, transpose), c, ldc);
}

// op(A) X = alpha B is X' op(A)' = alpha B'; the right side has X op(A) = alpha B, that is op(A)' X' = alpha B'.
template <class T> void trsm(bool left, bool lower, bool transpose, bool unit, int m, int n, T alpha, const T* a, int lda, T* b, int ldb) {
  scale(n, m, alpha, b, ldb);
  if (alpha == 0) return;
  // op(A)' of A as rows: A' where nothing is transposed
  if (!left) return solve(Sharing::now(), n, m, turned(a, lda, transpose), lower == transpose, unit, b, ldb);
  std::vector<T> columns(static_cast<size_t>(m) * static_cast<size_t>(n));
  blas_kernels<T>().transpose(n, m, b, ldb, columns.data(), n);
  solve(Sharing::now(), m, n, turned(a, lda, !transpose), lower != transpose, unit, columns.data(), n);
  blas_kernels<T>().transpose(m, n, columns.data(), n, b, ldb);
}

// A product with the triangle, filled up with zeros.
template <class T> void trmm(bool left, bool lower, bool transpose, bool unit, int m, int n, T alpha, const T* a, int lda, T* b, int ldb) {
  int64_t size = left ? m : n;
  std::vector<T> square(static_cast<size_t>(size * size)), out(static_cast<size_t>(m) * static_cast<size_t>(n));
  for (int64_t j = 0; j < size; j++)
    for (int64_t i = lower ? j : 0; i < (lower ? size : j + 1); i++)
      square[static_cast<size_t>(j * size + i)] = unit && i == j ? T(1) : a[j * lda + i];
  View<T> triangle = turned(square.data(), static_cast<int>(size), transpose), x{b, ldb, 1};
  if (left) multiply(Sharing::now(), n, m, m, alpha, x, triangle, out.data(), m);
  else multiply(Sharing::now(), n, m, n, alpha, triangle, x, out.data(), m);
  for (int64_t j = 0; j < n; j++) std::copy_n(&out[static_cast<size_t>(j * m)], m, b + j * ldb);
}

} // namespace

#define TENON_BLAS(T, p)                                                                                                                   \
  extern "C" {                                                                                                                             \
  void p##gemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const T* alpha, const T* a, const int* lda,      \
                const T* b, const int* ldb, const T* beta, T* c, const int* ldc, size_t, size_t) {                                         \
    gemm(!is(ta, 'N'), !is(tb, 'N'), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);                                                \
  }                                                                                                                                        \
  void p##gemv_(const char* t, const int* m, const int* n, const T* alpha, const T* a, const int* lda, const T* x, const int* incx,        \
                const T* beta, T* y, const int* incy, size_t) {                                                                            \
    gemv(!is(t, 'N'), *m, *n, *alpha, a, *lda, x, *incx, *beta, y, *incy);                                                                 \
  }                                                                                                                                        \
  void p##ger_(const int* m, const int* n, const T* alpha, const T* x, const int* incx, const T* y, const int* incy, T* a,                 \
               const int* lda) {                                                                                                           \
    ger(*m, *n, *alpha, x, *incx, y, *incy, a, *lda);                                                                                      \
  }                                                                                                                                        \
  void p##symv_(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda, const T* x, const int* incx, const T* beta,    \
                T* y, const int* incy, size_t) {                                                                                           \
    symv(is(uplo, 'L'), *n, *alpha, a, *lda, x, *incx, *beta, y, *incy);                                                                   \
  }                                                                                                                                        \
  void p##syrk_(const char* uplo, const char* t, const int* n, const int* k, const T* alpha, const T* a, const int* lda, const T* beta,    \
                T* c, const int* ldc, size_t, size_t) {                                                                                    \
    syrk(is(uplo, 'L'), !is(t, 'N'), *n, *k, *alpha, a, *lda, *beta, c, *ldc);                                                             \
  }                                                                                                                                        \
  void p##syr2k_(const char* uplo, const char* t, const int* n, const int* k, const T* alpha, const T* a, const int* lda, const T* b,      \
                 const int* ldb, const T* beta, T* c, const int* ldc, size_t, size_t) {                                                    \
    syr2k(is(uplo, 'L'), !is(t, 'N'), *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);                                                   \
  }                                                                                                                                        \
  void p##trsm_(const char* side, const char* uplo, const char* t, const char* diag, const int* m, const int* n, const T* alpha,           \
                const T* a, const int* lda, T* b, const int* ldb, size_t, size_t, size_t, size_t) {                                        \
    trsm(is(side, 'L'), is(uplo, 'L'), !is(t, 'N'), is(diag, 'U'), *m, *n, *alpha, a, *lda, b, *ldb);                                      \
  }                                                                                                                                        \
  void p##trmm_(const char* side, const char* uplo, const char* t, const char* diag, const int* m, const int* n, const T* alpha,           \
                const T* a, const int* lda, T* b, const int* ldb, size_t, size_t, size_t, size_t) {                                        \
    trmm(is(side, 'L'), is(uplo, 'L'), !is(t, 'N'), is(diag, 'U'), *m, *n, *alpha, a, *lda, b, *ldb);                                      \
  }                                                                                                                                        \
  }
TENON_BLAS(float, s)
TENON_BLAS(double, d)
#undef TENON_BLAS

} // namespace tenon::library::blas
