// The vector code of linear algebra, compiled for each instruction set. Matrices are row-major unless both strides are
// given; `ld` is the stride of rows.
#pragma once
#include <cstdint>

namespace tenon::library {

template <class T> struct BlasKernels {
  int64_t columns; ///< of a panel of packed B
  int64_t depth;   ///< rows of B that are packed at a time
  int64_t rows;    ///< room for rows of A

  /// C += alpha A B. `room`: depth * (n rounded up to columns) + rows numbers.
  void (*gemm)(int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, int64_t b_col,
               T* c, int64_t ld, T* room);
  /// B = inverse(triangle of A) B for n x n A with n rows of B: for small n. The triangle lies at any strides.
  void (*solve)(int64_t n, int64_t width, const T* a, int64_t a_row, int64_t a_col, bool lower, bool unit, T* b, int64_t ld);
  /// LU of a panel of few columns, column-major, with the pivots from 0; returns the first column without one, from 1,
  /// or 0.
  int (*lu)(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots);
  /// The upper factor of a small symmetric matrix, from its upper triangle; returns the order of the minor that fails,
  /// or 0.
  int (*cholesky)(int64_t n, T* a, int64_t ld);
  /// `to` = transposed m x n matrix.
  void (*transpose)(int64_t m, int64_t n, const T* from, int64_t from_ld, T* to, int64_t to_ld);
  /// y += alpha A x, of rows; and y += alpha A' x. x and y are contiguous.
  void (*rows_times)(int64_t m, int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y);
  void (*columns_times)(int64_t m, int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y);
  void (*swap)(int64_t n, T* x, T* y);

  // One small matrix in each lane (blas_lanes.h): element (i, j) of n x n is vector i * n + j.
  int64_t lanes;
  void (*load_rows)(const T* const* rows, int64_t count, T* z, int64_t step);
  void (*store_rows)(T* const* rows, int64_t used, int64_t count, const T* z, int64_t step, T scale);
  void (*lanes_lu)(int64_t n, T* a, T* pivots, T* info);
  void (*lanes_cholesky)(int64_t n, T* a, bool lower, T* info);
  void (*lanes_solve)(int64_t n, int64_t width, const T* a, int64_t a_row, int64_t a_col, bool lower, bool unit, T* b, int64_t b_row,
                      int64_t b_col);
};

/// Those of the CPU.
template <class T> const BlasKernels<T>& blas_kernels();

} // namespace tenon::library
