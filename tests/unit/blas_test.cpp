// The products, solves and factorisations under linear algebra, against sums in doubles.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/library/blas.h"

namespace tenon::blas_test {
using namespace tenon::library;

namespace {

const Workers workers(2);

template <class T> struct Matrix {
  int64_t m, n;
  std::vector<T> data;
  Matrix(int64_t m, int64_t n, uint32_t seed = 0) : m(m), n(n), data(static_cast<size_t>(m * n)) {
    std::mt19937 g(seed);
    std::uniform_real_distribution<double> u(-1, 1);
    if (seed)
      for (T& x : data) x = static_cast<T>(u(g));
  }
  T& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * n + j)]; }
  double at(int64_t i, int64_t j) const { return static_cast<double>(data[static_cast<size_t>(i * n + j)]); }
  Matrix turned() const {
    Matrix t(n, m);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) t(j, i) = static_cast<T>(at(i, j));
    return t;
  }
};
template <class T> double epsilon_of(int64_t k) {
  return 16 * static_cast<double>(std::numeric_limits<T>::epsilon()) * std::sqrt(static_cast<double>(k) + 1);
}

template <class T> double worst_product(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c) {
  double worst = 0;
  for (int64_t i = 0; i < c.m; i++)
    for (int64_t j = 0; j < c.n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < a.n; k++) sum += a.at(i, k) * b.at(k, j);
      worst = std::max(worst, std::abs(sum - c.at(i, j)));
    }
  return worst;
}

template <class T> void check_product(int64_t m, int64_t n, int64_t k, const Workers* w) {
  Matrix<T> a(m, k, 1), b(k, n, 2), at = a.turned(), bt = b.turned();
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      Matrix<T> c(m, n);
      blas::multiply(w, m, n, k, T(1), ta ? blas::View<T>{at.data.data(), 1, m} : blas::View<T>{a.data.data(), k, 1},
                     tb ? blas::View<T>{bt.data.data(), 1, k} : blas::View<T>{b.data.data(), n, 1}, c.data.data(), n);
      CHECK_MESSAGE(worst_product(a, b, c) <= epsilon_of<T>(k), m, " ", n, " ", k, " ", ta, tb);
    }
}

template <class T> void check_solve(int64_t n, int64_t width, const Workers* w) {
  for (int flags = 0; flags < 8; flags++) {
    bool lower = flags & 1, unit = flags & 2, transposed = flags & 4;
    Matrix<T> a(n, n, 3), full(n, n), x(n, width, 4), b(n, width);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        a(i, j) = static_cast<T>(a.at(i, j) / static_cast<double>(n));
        if (i == j) a(i, j) = static_cast<T>(2 + a.at(i, j));
        if (i == j) full(i, j) = unit ? T(1) : a(i, j);
        else if (lower == (i > j)) full(i, j) = a(i, j);
      }
    blas::multiply<T>(nullptr, n, width, n, T(1), {full.data.data(), n, 1}, {x.data.data(), width, 1}, b.data.data(), width);
    Matrix<T> stored = transposed ? a.turned() : a;
    blas::solve<T>(w, n, width, transposed ? blas::View<T>{stored.data.data(), 1, n} : blas::View<T>{stored.data.data(), n, 1}, lower, unit,
                   b.data.data(), width);
    double worst = 0;
    for (size_t i = 0; i < b.data.size(); i++) worst = std::max(worst, std::abs(static_cast<double>(b.data[i] - x.data[i])));
    CHECK_MESSAGE(worst <= 8 * epsilon_of<T>(n), n, " ", width, " flags ", flags, " ", worst);
  }
}

template <class T> void check_lu(int64_t m, int64_t n, const Workers* w) {
  Matrix<T> a(m, n, 5), f = a;
  int64_t k = std::min(m, n);
  std::vector<int32_t> pivots(static_cast<size_t>(k));
  CHECK(blas::lu(w, m, n, f.data.data(), n, pivots.data()) == 0);
  Matrix<T> l(m, k), u(k, n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j++) l(i, j) = i > j ? f(i, j) : T(i == j);
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = i; j < n; j++) u(i, j) = f(i, j);
  for (T x : l.data) CHECK(std::abs(x) <= 1);
  blas::swap_rows(n, a.data.data(), n, pivots.data(), k);
  CHECK_MESSAGE(worst_product(l, u, a) <= 8 * epsilon_of<T>(k), m, " ", n);
  blas::swap_rows(n, a.data.data(), n, pivots.data(), k, true);
  CHECK(a.data == Matrix<T>(m, n, 5).data);
}

template <class T> void check_cholesky(int64_t n, const Workers* w) {
  Matrix<T> x(n, n, 6), a(n, n), xt = x.turned();
  blas::multiply<T>(nullptr, n, n, n, T(1), {x.data.data(), n, 1}, {xt.data.data(), n, 1}, a.data.data(), n);
  for (int64_t i = 0; i < n; i++) a(i, i) += T(1);
  Matrix<T> u = a;
  CHECK(blas::cholesky(w, n, u.data.data(), n) == 0);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) u(i, j) = 0;
  CHECK_MESSAGE(worst_product(u.turned(), u, a) <= 4 * static_cast<double>(n) * epsilon_of<T>(n), n);
  if (n < 2) return;
  Matrix<T> bad = a;
  bad(n / 2, n / 2) = -1;
  CHECK(blas::cholesky(w, n, bad.data.data(), n) == n / 2 + 1);
}

extern "C" {
void dtrmm_(const char*, const char*, const char*, const char*, const int*, const int*, const double*, const double*, const int*, double*,
            const int*, size_t, size_t, size_t, size_t);
void dtrsm_(const char*, const char*, const char*, const char*, const int*, const int*, const double*, const double*, const int*, double*,
            const int*, size_t, size_t, size_t, size_t);
void dsymv_(const char*, const int*, const double*, const double*, const int*, const double*, const int*, const double*, double*,
            const int*, size_t);
void dsyr2k_(const char*, const char*, const int*, const int*, const double*, const double*, const int*, const double*, const int*,
             const double*, double*, const int*, size_t, size_t);
void dgemv_(const char*, const int*, const int*, const double*, const double*, const int*, const double*, const int*, const double*,
            double*, const int*, size_t);
}

} // namespace

TEST_CASE("products, triangular solves and factorisations of every small size, and larger ones on two threads") {
  auto all = [](auto zero) {
    using T = decltype(zero);
    for (int64_t n = 1; n <= 40; n++) {
      check_product<T>(n, 41 - n, n, nullptr), check_product<T>(13, n, 5, nullptr), check_product<T>(n, 3, 300, nullptr);
      check_solve<T>(n, n % 7 + 1, nullptr), check_solve<T>(9, n, nullptr);
      check_lu<T>(n, n, nullptr), check_lu<T>(n, 20, nullptr), check_lu<T>(50, n, nullptr);
      check_cholesky<T>(n, nullptr);
    }
    for (int64_t n : {65, 100, 129, 200}) {
      check_product<T>(n, 150, n, &workers), check_solve<T>(n, 130, &workers), check_solve<T>(n, 1, &workers);
      check_lu<T>(n, n, &workers), check_lu<T>(n, 150, &workers), check_cholesky<T>(n, &workers);
    }
    check_product<T>(30, 700, 513, &workers), check_product<T>(700, 30, 513, &workers);
  };
  all(float{}), all(double{});
}

TEST_CASE("LAPACK's products with triangles and symmetric matrices") {
  using M = Matrix<double>; // column-major here: (j, i) is row i of column j
  for (int n : {1, 5, 33, 70})
    for (int flags = 0; flags < 16; flags++) {
      bool left = flags & 1, lower = flags & 2, transposed = flags & 4, unit = flags & 8;
      int m = left ? n : 7, width = left ? 7 : n;
      M a(n, n, 8), b(width, m, 9), x = b, full(n, n);
      for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
          a(j, i) = i == j ? a(j, i) + 3 : a(j, i) / n;
          double v = i == j ? (unit ? 1 : a(j, i)) : lower == (i > j) ? a(j, i) : 0;
          transposed ? full(i, j) = v : full(j, i) = v;
        }
      double two = 2, half = 0.5, one = 1;
      const char *side = left ? "L" : "R", *uplo = lower ? "L" : "U", *t = transposed ? "T" : "N", *diag = unit ? "U" : "N";
      dtrmm_(side, uplo, t, diag, &m, &width, &two, a.data.data(), &n, x.data.data(), &m, 1, 1, 1, 1);
      M want = b;
      for (double& v : b.data) v *= 2;
      // memory holds the transposed matrices: X' = B' op(A)', or op(A)' B'
      CHECK((left ? worst_product(b, full, x) : worst_product(full, b, x)) < 1e-12);
      dtrsm_(side, uplo, t, diag, &m, &width, &half, a.data.data(), &n, x.data.data(), &m, 1, 1, 1, 1);
      double worst = 0;
      for (size_t i = 0; i < x.data.size(); i++) worst = std::max(worst, std::abs(x.data[i] - want.data[i]));
      CHECK_MESSAGE(worst < 1e-10, n, " ", flags);
      if (flags > 1) continue;
      // symmetric: from one triangle
      const char* part = flags ? "L" : "U";
      M s(n, n, 10), v(n, 1, 11), y(2 * n, 1, 12), sum(n, 1), c(n, n, 13), p(4, n, 14), q(4, n, 15);
      for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) sum(j, 0) += ((flags ? i >= j : i <= j) ? s(j, i) : s(i, j)) * v(i, 0);
      int step = 2, single = 1, four = 4;
      M y0 = y, c0 = c;
      dsymv_(part, &n, &two, s.data.data(), &n, v.data.data(), &single, &half, y.data.data(), &step, 1);
      for (int64_t j = 0; j < n; j++) CHECK(std::abs(y(2 * j, 0) - 0.5 * y0(2 * j, 0) - 2 * sum(j, 0)) < 1e-12);
      dsyr2k_(part, "N", &n, &four, &two, p.data.data(), &n, q.data.data(), &n, &one, c.data.data(), &n, 1, 1);
      for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
          double more = 0;
          for (int64_t k = 0; k < 4; k++) more += 2 * (p(k, i) * q(k, j) + q(k, i) * p(k, j));
          CHECK(std::abs(c(j, i) - c0(j, i) - ((flags ? i >= j : i <= j) ? more : 0)) < 1e-12);
        }
      M z(n, 1, 16), z0 = z;
      dgemv_("T", &n, &n, &one, s.data.data(), &n, v.data.data(), &single, &half, z.data.data(), &single, 1);
      for (int64_t j = 0; j < n; j++) {
        double dot = z0(j, 0) / 2;
        for (int64_t i = 0; i < n; i++) dot += s(j, i) * v(i, 0);
        CHECK(std::abs(z(j, 0) - dot) < 1e-12);
      }
    }
}

} // namespace tenon::blas_test
