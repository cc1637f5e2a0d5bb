// Factorisations and solves: LU, Cholesky, LDL, QR, triangular matrices, the exponential.
#include "runtime/library/blas.h"
#include "runtime/library/matrix.h"

// LAPACK reports a wrong argument through this; its own would print and end the process.
extern "C" void xerbla_(const char*, const int*, size_t) {}
// What LAPACK needs of the Fortran runtime: a//b, cut or filled with blanks to the length of the result.
extern "C" void _gfortran_concat_string(size_t n, char* to, size_t na, const char* a, size_t nb, const char* b) {
  for (size_t i = 0; i < n; i++) to[i] = i < na ? a[i] : i - na < nb ? b[i - na] : ' ';
}

namespace tenon::library {

using lapack::Routines;
using lapack::with_work;

const char* linalg_check(const LibraryCall& c) {
  const LibraryTensor& info = c.inputs[0];
  for (int64_t i = 0, n = info.numel(); i < n; i++) {
    int at = info.as<const int32_t>()[i];
    if (at == 0) continue;
    char batch[40] = "";
    if (info.rank() > 0) *fmt::format_to_n(batch, sizeof batch - 1, "(Batch element {}): ", i).out = 0;
    switch (static_cast<LinalgCheck>(c.ints[0])) {
    case LinalgCheck::Inverse:
      return message("linalg.inv: {}The diagonal element {} is zero, the inversion could not be completed because the "
                     "input matrix is singular.",
                     batch, at);
    case LinalgCheck::Solve: return message("linalg.solve: {}The solver failed because the input matrix is singular.", batch);
    case LinalgCheck::Cholesky:
      return message("linalg.cholesky: {}The factorization could not be completed because the input is not "
                     "positive-definite (the leading minor of order {} is "
                     "not positive-definite).",
                     batch, at);
    case LinalgCheck::LdlFactor: return message("linalg.ldl_factor: {}D[{},{}] is zero, and a solve would divide by it.", batch, at, at);
    case LinalgCheck::LuFactor: return message("linalg.lu_factor: {}U[{},{}] is zero, and a solve would divide by it.", batch, at, at);
    }
  }
  return nullptr;
}

template <class T> static void lu_in_lanes(const LibraryCall& c, int64_t count, int64_t n) {
  const auto& k = blas_kernels<T>();
  each_in_lanes<T>(c, count, n * n + n + 1, [&](int64_t first, int64_t used, T* a) {
    T *pivots = a + n * n * k.lanes, *info = pivots + n * k.lanes;
    load_lanes(c.inputs[0].as<const T>() + first * n * n, used, n * n, a);
    k.lanes_lu(n, a, pivots, info);
    store_lanes(a, used, n * n, c.outputs[0].as<T>() + first * n * n);
    for (int64_t l = 0; l < used; l++) {
      for (int64_t i = 0; i < n; i++) c.outputs[1].as<int32_t>()[(first + l) * n + i] = static_cast<int32_t>(pivots[i * k.lanes + l]) + 1;
      c.outputs[2].as<int32_t>()[first + l] = static_cast<int32_t>(info[l]);
    }
  });
}

const char* linalg_lu_factor(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (m.rows == m.cols && fit_lanes(m.count, m.rows, m.cols)) return lu_in_lanes<T>(c, m.count, m.rows), nullptr;
    int32_t* info = c.outputs[2].as<int32_t>();
    each_matrix(c, m.count, cube(m), [&](int64_t i, const Workers* workers) {
      info[i] = 0;
      if (m.size() == 0) return;
      T* a = c.outputs[0].as<T>() + i * m.size();
      std::copy_n(c.inputs[0].as<const T>() + i * m.size(), m.size(), a);
      info[i] = blas::lu(workers, m.rows, m.cols, a, m.cols, c.outputs[1].as<int32_t>() + i * m.smaller());
    });
    return nullptr;
  });
}

// Each matrix has its right sides and its row of pivots.
static const char* check_solve(const Matrices& a, const Matrices& b, const LibraryTensor& pivots, int64_t side) {
  if (a.rows != a.cols || side != a.rows || a.count != b.count || pivots.numel() != a.count * a.rows)
    return message("{} matrices of {} rows and {} pivots do not fit {} right sides of {}", a.count, a.rows, pivots.numel(), b.count, side);
  return nullptr;
}

// Rows of each lane's matrix change places; strides in vectors.
template <class T>
static void swap_in_lanes(const int32_t* pivots, int64_t n, int64_t width, int64_t used, bool back, T* b, int64_t row, int64_t column) {
  int64_t w = blas_kernels<T>().lanes;
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < used; l++) {
      int64_t i = back ? n - 1 - k : k, other = pivots[l * n + i] - 1;
      if (other == i) continue;
      for (int64_t j = 0; j < width; j++) std::swap(b[(i * row + j * column) * w + l], b[(other * row + j * column) * w + l]);
    }
}
template <class T> static void lu_solve_in_lanes(const LibraryCall& c, const Matrices& m, const Matrices& b, bool left, bool transposed) {
  const auto& k = blas_kernels<T>();
  int64_t n = m.rows, width = left ? b.cols : b.rows, row = left ? b.cols : 1, column = left ? 1 : b.cols, a_row = transposed ? 1 : n,
          a_col = transposed ? n : 1;
  each_in_lanes<T>(c, b.count, m.size() + b.size(), [&](int64_t first, int64_t used, T* a) {
    T* x = a + m.size() * k.lanes;
    const int32_t* pivots = c.inputs[1].as<const int32_t>() + first * n;
    load_lanes(c.inputs[0].as<const T>() + first * m.size(), used, m.size(), a);
    load_lanes(c.inputs[2].as<const T>() + first * b.size(), used, b.size(), x);
    if (!transposed) swap_in_lanes(pivots, n, width, used, false, x, row, column);
    k.lanes_solve(n, width, a, a_row, a_col, true, !transposed, x, row, column);
    k.lanes_solve(n, width, a, a_row, a_col, false, transposed, x, row, column);
    if (transposed) swap_in_lanes(pivots, n, width, used, true, x, row, column);
    store_lanes(x, used, b.size(), c.outputs[0].as<T>() + first * b.size());
  });
}

// X of A X = B or of X A = B, that is A' X' = B': row-major B is B' to LAPACK.
const char* linalg_lu_solve(const LibraryCall& c) {
  Matrices m(c.inputs[0]), b(c.inputs[2]);
  bool left = c.ints[0] != 0, transposed = (c.ints[1] != 0) == left;
  if (auto* wrong = check_solve(m, b, c.inputs[1], left ? b.rows : b.cols)) return wrong;
  for (int64_t i = 0; i < c.inputs[1].numel(); i++)
    if (int32_t p = c.inputs[1].as<const int32_t>()[i]; p < 1 || p > m.rows)
      return message("pivot {} is out of range for {} rows", p, m.rows);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (m.rows <= most_in_lanes && fit_lanes(b.count, b.rows, b.cols)) return lu_solve_in_lanes<T>(c, m, b, left, transposed), nullptr;
    each_matrix(c, b.count, double{1} * m.rows * b.size(), [&](int64_t i, const Workers* workers) {
      const T* from = c.inputs[2].as<const T>() + i * b.size();
      T* to = c.outputs[0].as<T>() + i * b.size();
      if (b.size() == 0) return;
      const int32_t* pivots = c.inputs[1].as<const int32_t>() + i * m.rows;
      blas::View<T> a{c.inputs[0].as<const T>() + i * m.size(), m.cols, 1};
      std::vector<T> turned;
      T* x = to;
      int64_t width = left ? b.cols : b.rows;
      if (left) std::copy_n(from, b.size(), x);
      else turned = columns_of(from, b), x = turned.data();
      if (transposed) {
        blas::solve(workers, m.rows, width, a.transposed(), true, false, x, width);
        blas::solve(workers, m.rows, width, a.transposed(), false, true, x, width);
        blas::swap_rows(width, x, width, pivots, m.rows, true);
      } else {
        blas::swap_rows(width, x, width, pivots, m.rows);
        blas::solve(workers, m.rows, width, a, true, true, x, width);
        blas::solve(workers, m.rows, width, a, false, false, x, width);
      }
      if (!left) store_columns(turned, to, b);
    });
    return nullptr;
  });
}

namespace {

// The rows that the swaps of `pivots` leave where.
template <class T> const char* store_permutation(const int32_t* pivots, int64_t k, T* out, int n) {
  std::vector<int64_t> row(static_cast<size_t>(n));
  for (size_t r = 0; r < row.size(); r++) row[r] = static_cast<int64_t>(r);
  for (int64_t r = 0; r < k; r++) {
    if (pivots[r] < 1 || pivots[r] > n) return message("pivot {} is out of range for {} rows", pivots[r], n);
    std::swap(row[static_cast<size_t>(r)], row[static_cast<size_t>(pivots[r] - 1)]);
  }
  std::fill_n(out, int64_t{n} * n, T(0));
  for (int64_t r = 0; r < n; r++) out[row[static_cast<size_t>(r)] * n + r] = 1;
  return nullptr;
}

} // namespace

const char* linalg_lu_unpack(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  int64_t k = m.smaller();
  bool data = c.ints[0] != 0, pivots = c.ints[1] != 0;
  if (auto* wrong = check_batch(m, c.inputs[1], k)) return wrong;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    for (int64_t i = 0; i < m.count; i++) {
      if (pivots)
        if (const char* wrong =
                store_permutation(c.inputs[1].as<const int32_t>() + i * k, k, c.outputs[0].as<T>() + i * m.rows * m.rows, m.rows))
          return wrong;
      if (!data) continue;
      const T* lu = c.inputs[0].as<const T>() + i * m.size();
      T *l = c.outputs[1].as<T>() + i * m.rows * k, *u = c.outputs[2].as<T>() + i * k * m.cols;
      for (int64_t r = 0; r < m.rows; r++)
        for (int64_t j = 0; j < k; j++) l[r * k + j] = r > j ? lu[r * m.cols + j] : T(r == j);
      for (int64_t r = 0; r < k; r++)
        for (int64_t j = 0; j < m.cols; j++) u[r * m.cols + j] = r <= j ? lu[r * m.cols + j] : T(0);
    }
    return nullptr;
  });
}

template <class T> static void cholesky_in_lanes(const LibraryCall& c, int64_t count, int64_t n, bool upper) {
  const auto& k = blas_kernels<T>();
  each_in_lanes<T>(c, count, n * n + 1, [&](int64_t first, int64_t used, T* a) {
    T* info = a + n * n * k.lanes;
    load_lanes(c.inputs[0].as<const T>() + first * n * n, used, n * n, a);
    k.lanes_cholesky(n, a, !upper, info);
    store_lanes(a, used, n * n, c.outputs[0].as<T>() + first * n * n);
    for (int64_t l = 0; l < used; l++) c.outputs[1].as<int32_t>()[first + l] = static_cast<int32_t>(info[l]);
  });
}

// By the upper factor: a lower triangle is turned round on its way in and out.
const char* linalg_cholesky(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  bool upper = c.ints[0] != 0;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (fit_lanes(m.count, m.rows, m.cols)) return cholesky_in_lanes<T>(c, m.count, m.rows, upper), nullptr;
    int32_t* info = c.outputs[1].as<int32_t>();
    each_matrix(c, m.count, cube(m), [&](int64_t i, const Workers* workers) {
      info[i] = 0;
      const T* from = c.inputs[0].as<const T>() + i * m.size();
      T* to = c.outputs[0].as<T>() + i * m.size();
      int64_t n = m.rows;
      if (n == 0) return;
      Memory<T> turned(upper ? 0 : m.size());
      T* a = upper ? to : turned.data();
      if (upper) std::copy_n(from, m.size(), to);
      else blas_kernels<T>().transpose(n, n, from, n, a, n);
      info[i] = blas::cholesky(workers, n, a, n);
      if (!upper) blas_kernels<T>().transpose(n, n, a, n, to, n);
      for (int64_t r = 0; r < n; r++) std::fill(to + r * n + (upper ? 0 : r + 1), to + r * n + (upper ? r : n), T(0));
    });
    return nullptr;
  });
}

// X of A X = B; or of X A = B, that is A' X' = B'.
const char* linalg_solve_triangular(const LibraryCall& c) {
  Matrices m(c.inputs[0]), b(c.inputs[1]);
  bool upper = c.ints[0] != 0, left = c.ints[1] != 0, unit = c.ints[2] != 0;
  if (m.rows != m.cols || m.rows != (left ? b.rows : b.cols)) return "a triangle does not fit its right sides";
  if (auto* wrong = check_batch(b, c.inputs[0], m.size())) return wrong;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, b.count, double{1} * m.rows * b.size(), [&](int64_t i, const Workers* workers) {
      const T* from = c.inputs[1].as<const T>() + i * b.size();
      T* x = c.outputs[0].as<T>() + i * b.size();
      if (b.size() == 0) return;
      blas::View<T> a{c.inputs[0].as<const T>() + i * m.size(), m.cols, 1};
      if (left) {
        std::copy_n(from, b.size(), x);
        return blas::solve(workers, m.rows, b.cols, a, !upper, unit, x, b.cols);
      }
      std::vector<T> turned = columns_of(from, b);
      blas::solve(workers, m.rows, b.rows, a.transposed(), upper, unit, turned.data(), b.rows);
      store_columns(turned, x, b);
    });
    return nullptr;
  });
}

const char* linalg_geqrf(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, m.count, cube(m), [&](int64_t i) {
      if (m.size() == 0) return;
      auto a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m);
      int info = 0;
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::geqrf(&m.rows, &m.cols, a.data(), &m.rows, c.outputs[1].as<T>() + i * m.smaller(), work, lwork, &info);
      });
      store_columns(a, c.outputs[0].as<T>() + i * m.size(), m);
    });
    return nullptr;
  });
}

const char* linalg_householder_product(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  auto k = static_cast<int>(c.inputs[1].sizes.back());
  if (m.rows < m.cols || m.cols < k) return "a product of reflectors needs rows >= columns >= reflectors";
  if (auto* wrong = check_batch(m, c.inputs[1], k)) return wrong;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, m.count, cube(m), [&](int64_t i) {
      if (m.size() == 0) return;
      auto a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m);
      int info = 0;
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::orgqr(&m.rows, &m.cols, &k, a.data(), &m.rows, c.inputs[1].as<const T>() + i * k, work, lwork, &info);
      });
      store_columns(a, c.outputs[0].as<T>() + i * m.size(), m);
    });
    return nullptr;
  });
}

const char* linalg_ormqr(const LibraryCall& c) {
  Matrices m(c.inputs[0]), b(c.inputs[2]);
  auto k = static_cast<int>(c.inputs[1].sizes.back());
  bool left = c.ints[0] != 0, transpose = c.ints[1] != 0;
  if (m.rows != (left ? b.rows : b.cols) || m.smaller() < k) return "reflectors do not fit what they are applied to";
  if (auto* wrong = check_batch(b, c.inputs[0], m.size())) return wrong;
  if (auto* wrong = check_batch(m, c.inputs[1], k)) return wrong;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, b.count, double{1} * m.rows * b.size(), [&](int64_t i) {
      if (b.size() == 0) return;
      auto a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m), x = columns_of(c.inputs[2].as<const T>() + i * b.size(), b);
      int info = 0, ld = m.ld();
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::ormqr(left ? "L" : "R", transpose ? "T" : "N", &b.rows, &b.cols, &k, a.data(), &ld, c.inputs[1].as<const T>() + i * k,
                           x.data(), &b.rows, work, lwork, &info, 1, 1);
      });
      store_columns(x, c.outputs[0].as<T>() + i * b.size(), b);
    });
    return nullptr;
  });
}

const char* linalg_ldl_factor(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    int32_t* info = c.outputs[2].as<int32_t>();
    each_matrix(c, m.count, cube(m), [&](int64_t i) {
      info[i] = 0;
      if (m.size() == 0) return;
      auto a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m);
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::sytrf("L", &m.rows, a.data(), &m.rows, c.outputs[1].as<int32_t>() + i * m.rows, work, lwork, info + i, 1);
      });
      T* to = c.outputs[0].as<T>() + i * m.size();
      store_columns(a, to, m);
      for (int64_t r = 0; r < m.rows; r++) std::fill(to + r * m.cols + r + 1, to + (r + 1) * m.cols, T(0));
    });
    return nullptr;
  });
}

// LAPACK's sytrf: a row number, or for a block of 2 by 2 two negative ones.
static bool are_ldl_pivots(const int32_t* pivots, int n) {
  for (int k = 0; k < n; k++) {
    if (pivots[k] == 0 || pivots[k] > n || pivots[k] < -n) return false;
    if (pivots[k] > 0) continue;
    if (++k == n || pivots[k] >= 0 || pivots[k] < -n) return false;
  }
  return true;
}

const char* linalg_ldl_solve(const LibraryCall& c) {
  Matrices m(c.inputs[0]), b(c.inputs[2]);
  if (auto* wrong = check_solve(m, b, c.inputs[1], b.rows)) return wrong;
  for (int64_t i = 0; i < m.count; i++)
    if (!are_ldl_pivots(c.inputs[1].as<const int32_t>() + i * m.rows, m.rows))
      return message("the pivots of matrix {} are no pivots of its size", i);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, b.count, double{1} * m.rows * b.size(), [&](int64_t i) {
      if (b.size() == 0) return;
      auto a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m), x = columns_of(c.inputs[2].as<const T>() + i * b.size(), b);
      int info = 0;
      Routines<T>::sytrs("L", &m.rows, &b.cols, a.data(), &m.rows, c.inputs[1].as<const int32_t>() + i * m.rows, x.data(), &m.rows, &info,
                         1);
      store_columns(x, c.outputs[0].as<T>() + i * b.size(), b);
    });
    return nullptr;
  });
}

namespace {

// C + A B.
template <class T>
std::vector<T> plus_product(const Workers* workers, int n, std::vector<T> c, const std::vector<T>& a, const std::vector<T>& b) {
  blas::multiply<T>(workers, n, n, n, T(1), {a.data(), n, 1}, {b.data(), n, 1}, c.data(), n);
  return c;
}

// Scaled until its norm is below 1/2, where sixteen terms of the series are exact to rounding, then squared back. The
// series by fours: (c0 + c1 A + c2 A^2 + c3 A^3) + A^4 ((c4 + ...) + A^4 (...)).
template <class T> std::vector<T> exponential(const Workers* workers, std::vector<T> a, int n) {
  const size_t size = static_cast<size_t>(n), all = size * size;
  double norm = 0;
  for (size_t i = 0; i < size; i++) {
    double sum = 0;
    for (size_t j = 0; j < size; j++) sum += std::abs(static_cast<double>(a[i * size + j]));
    norm = std::isnan(sum) ? sum : std::max(norm, sum);
    if (!std::isfinite(norm)) return std::vector<T>(all, std::numeric_limits<T>::quiet_NaN());
  }
  int squarings = norm > 0.5 ? std::ilogb(norm) + 2 : 0;
  for (T& v : a) v = std::ldexp(v, -squarings);
  const std::vector<T> none(all, T(0));
  std::vector<T> a2 = plus_product(workers, n, none, a, a), a3 = plus_product(workers, n, none, a2, a),
                 a4 = plus_product(workers, n, none, a2, a2), sum;
  auto over_factorial = [](int k) { return static_cast<T>(1 / std::tgamma(k + 1.0)); };
  for (int k = 12; k >= 0; k -= 4) {
    T c0 = over_factorial(k), c1 = over_factorial(k + 1), c2 = over_factorial(k + 2), c3 = over_factorial(k + 3);
    std::vector<T> terms(all);
    for (size_t i = 0; i < all; i++) terms[i] = c1 * a[i] + c2 * a2[i] + c3 * a3[i];
    for (size_t i = 0; i < size; i++) terms[i * size + i] += c0;
    if (k == 12)
      for (size_t i = 0; i < all; i++) terms[i] += over_factorial(16) * a4[i];
    sum = k == 12 ? terms : plus_product(workers, n, std::move(terms), a4, sum);
  }
  for (; squarings > 0; squarings--) sum = plus_product(workers, n, none, sum, sum);
  return sum;
}

} // namespace

const char* linalg_matrix_exp(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    each_matrix(c, m.count, 8 * cube(m), [&](int64_t i, const Workers* workers) {
      const T* from = c.inputs[0].as<const T>() + i * m.size();
      std::vector<T> e = exponential<T>(workers, {from, from + m.size()}, m.rows);
      std::copy(e.begin(), e.end(), c.outputs[0].as<T>() + i * m.size());
    });
    return nullptr;
  });
}

} // namespace tenon::library
