// Eigenvalues, singular values, and least squares.
#include "runtime/library/matrix.h"

namespace tenon::library {

using lapack::Routines;
using lapack::with_work;

namespace {

/// The first failure among the matrices of a batch.
struct Failure {
  std::atomic<int64_t> at = -1;
  void note(int info, int64_t i) {
    int64_t none = -1;
    if (info > 0) at.compare_exchange_strong(none, i);
  }
  const char* text(const char* what) const {
    return at < 0 ? nullptr : message("linalg.{}: (Batch element {}): The algorithm failed to converge.", what, at.load());
  }
};

} // namespace

// The rows of a symmetric matrix are its columns: our lower triangle is LAPACK's upper one.
const char* linalg_eigh(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  bool lower = c.ints[0] != 0, vectors = c.ints[1] != 0;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Failure failed;
    each_matrix(c, m.count, 4 * cube(m), [&](int64_t i) {
      if (m.size() == 0) return;
      const T* from = c.inputs[0].as<const T>() + i * m.size();
      std::vector<T> a = columns_of(from, m);
      int info = 0, ask = -1, integers = 1;
      T* values = c.outputs[0].as<T>() + i * m.rows;
      const char *job = vectors ? "V" : "N", *side = lower ? "L" : "U";
      T size = 1;
      Routines<T>::syevd(job, side, &m.rows, a.data(), &m.rows, values, &size, &ask, &integers, &ask, &info, 1, 1);
      std::vector<int> iwork(static_cast<size_t>(integers));
      with_work<T>([&](T* work, int* lwork) {
        int given = *lwork == -1 ? -1 : integers;
        Routines<T>::syevd(job, side, &m.rows, a.data(), &m.rows, values, work, lwork, iwork.data(), &given, &info, 1, 1);
      });
      failed.note(info, i);
      if (vectors) store_columns(a, c.outputs[1].as<T>() + i * m.size(), m);
    });
    return failed.text("eigh");
  });
}

const char* linalg_eig(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  bool vectors = c.ints[0] != 0;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Failure failed;
    each_matrix(c, m.count, 10 * cube(m), [&](int64_t i) {
      if (m.size() == 0) return;
      int64_t n = m.rows;
      std::vector<T> a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m), re(static_cast<size_t>(n)), im(re),
                     v(vectors ? a.size() : 1);
      int info = 0, one = 1;
      T none = 0;
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::geev("N", vectors ? "V" : "N", &m.rows, a.data(), &m.rows, re.data(), im.data(), &none, &one, v.data(), &m.rows, work,
                          lwork, &info, 1, 1);
      });
      failed.note(info, i);
      T* values = c.outputs[0].as<T>() + 2 * i * n;
      for (size_t j = 0; j < re.size(); j++) values[2 * j] = re[j], values[2 * j + 1] = im[j];
      if (!vectors) return;
      // A pair of conjugate eigenvalues has its vectors' real parts in one column, imaginary parts in the next.
      auto* out = c.outputs[1].as<Complex<T>>() + i * m.size();
      for (int64_t j = 0; j < n; j++) {
        bool pair = im[static_cast<size_t>(j)] != 0 && j + 1 < n;
        const T *x = v.data() + j * n, *y = x + n;
        for (int64_t r = 0; r < n; r++) {
          out[r * n + j] = {x[r], pair ? y[r] : T(0)};
          if (pair) out[r * n + j + 1] = {x[r], -y[r]};
        }
        j += pair;
      }
    });
    return failed.text("eig");
  });
}

const char* linalg_svd(const LibraryCall& c) {
  Matrices m(c.inputs[0]);
  bool full = c.ints[0] != 0, vectors = c.ints[1] != 0;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Failure failed;
    int k = m.smaller(), u_cols = full ? m.rows : k, v_rows = full ? m.cols : k;
    int64_t u_size = int64_t{m.rows} * u_cols, v_size = int64_t{v_rows} * m.cols;
    each_matrix(c, m.count, 10 * cube(m), [&](int64_t i) {
      T *u = vectors ? c.outputs[0].as<T>() + i * u_size : nullptr, *v = vectors ? c.outputs[2].as<T>() + i * v_size : nullptr;
      if (k == 0) {
        if (vectors && full) store_identity(u, m.rows), store_identity(v, m.cols);
        return;
      }
      std::vector<T> a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m), left(static_cast<size_t>(vectors ? u_size : 1)),
                     right(static_cast<size_t>(vectors ? v_size : 1));
      std::vector<int> iwork(static_cast<size_t>(8 * k));
      int info = 0;
      with_work<T>([&](T* work, int* lwork) {
        Routines<T>::gesdd(!vectors ? "N"
                           : full   ? "A"
                                    : "S",
                           &m.rows, &m.cols, a.data(), &m.rows, c.outputs[1].as<T>() + i * k, left.data(), &m.rows, right.data(), &v_rows,
                           work, lwork, iwork.data(), &info, 1);
      });
      failed.note(info, i);
      if (vectors) store_columns(left.data(), m.rows, u, m.rows, u_cols), store_columns(right.data(), v_rows, v, v_rows, m.cols);
    });
    return failed.text("svd");
  });
}

namespace {

// One matrix: the driver's solution in the first rows of x; the rank; singular values where the driver finds them.
template <class T>
int least_squares(LstsqDriver driver, Matrices m, int width, std::vector<T>& a, std::vector<T>& x, int ld, T rcond, int* rank,
                  T* singular) {
  int info = 0;
  std::vector<int> iwork(static_cast<size_t>(std::max(1, m.cols)));
  if (driver == LstsqDriver::Gelsd) iwork.resize(static_cast<size_t>(11 * m.smaller() + 3 * m.smaller() * 32 + 64));
  with_work<T>([&](T* work, int* lwork) {
    int all = m.rows;
    switch (driver) {
    case LstsqDriver::Gels: Routines<T>::gels("N", &all, &m.cols, &width, a.data(), &all, x.data(), &ld, work, lwork, &info, 1); break;
    case LstsqDriver::Gelsy:
      Routines<T>::gelsy(&all, &m.cols, &width, a.data(), &all, x.data(), &ld, iwork.data(), &rcond, rank, work, lwork, &info);
      break;
    case LstsqDriver::Gelsd:
      Routines<T>::gelsd(&all, &m.cols, &width, a.data(), &all, x.data(), &ld, singular, &rcond, rank, work, lwork, iwork.data(), &info);
      break;
    case LstsqDriver::Gelss:
      Routines<T>::gelss(&all, &m.cols, &width, a.data(), &all, x.data(), &ld, singular, &rcond, rank, work, lwork, &info);
      break;
    }
  });
  return info;
}

// What LAPACK leaves below the solution has the norm of the residual.
template <class T> void store_residuals(const std::vector<T>& x, int ld, int begin, int end, T* out, int width) {
  for (int64_t j = 0; j < width; j++) {
    T sum = 0;
    for (int64_t r = begin; r < end; r++) sum += x[static_cast<size_t>(j * ld + r)] * x[static_cast<size_t>(j * ld + r)];
    out[j] = sum;
  }
}

} // namespace

const char* linalg_lstsq(const LibraryCall& c) {
  Matrices m(c.inputs[0]), b(c.inputs[1]);
  auto driver = static_cast<LstsqDriver>(c.ints[0]);
  if (auto* wrong = check_batch(m, c.inputs[1], int64_t{m.rows} * b.cols)) return wrong;
  return for_lapack(c.inputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    Failure failed;
    T rcond =
        c.numbers[0] >= 0 ? static_cast<T>(c.numbers[0]) : std::numeric_limits<T>::epsilon() * static_cast<T>(std::max(m.rows, m.cols));
    int ld = std::max({1, m.rows, m.cols});
    each_matrix(c, m.count, 4 * cube(m), [&](int64_t i) {
      T* out = c.outputs[0].as<T>() + i * m.cols * b.cols;
      if (m.size() == 0 || b.cols == 0) return void(std::fill_n(out, int64_t{m.cols} * b.cols, T(0)));
      std::vector<T> a = columns_of(c.inputs[0].as<const T>() + i * m.size(), m),
                     x = columns_of(c.inputs[1].as<const T>() + i * b.size(), b.rows, b.cols, ld);
      std::vector<T> singular(static_cast<size_t>(m.smaller()));
      int rank = m.smaller();
      failed.note(least_squares(driver, m, b.cols, a, x, ld, rcond, &rank, singular.data()), i);
      store_columns(x.data(), ld, out, m.cols, b.cols);
      if (c.outputs[1].numel() > 0) store_residuals(x, ld, m.cols, m.rows, c.outputs[1].as<T>() + i * b.cols, b.cols);
      if (c.outputs[2].numel() > 0) c.outputs[2].as<int64_t>()[i] = rank;
      if (c.outputs[3].numel() > 0) std::copy(singular.begin(), singular.end(), c.outputs[3].as<T>() + i * m.smaller());
    });
    return failed.text("lstsq");
  });
}

} // namespace tenon::library
