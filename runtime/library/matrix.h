// Batches of row-major matrices as linear algebra's steps see them, and copies to and from LAPACK's column-major ones.
#pragma once
#include "runtime/library/blas.h"
#include "runtime/library/common.h"
#include "runtime/library/lapack.h"

namespace tenon::library {

/// The last two dims of a tensor, and how many such matrices it holds.
struct Matrices {
  int64_t count = 1;
  int rows = 1, cols = 1;
  explicit Matrices(const LibraryTensor& t) {
    auto r = t.sizes.size();
    rows = static_cast<int>(t.sizes[r - 2]), cols = static_cast<int>(t.sizes[r - 1]);
    for (size_t d = 0; d + 2 < r; d++) count *= t.sizes[d];
  }
  int64_t size() const { return int64_t{rows} * cols; }
  int smaller() const { return std::min(rows, cols); }
  int ld() const { return std::max(1, rows); }
};

/// Empty where `other` has `each` elements for each of the matrices.
inline const char* check_batch(const Matrices& m, const LibraryTensor& other, int64_t each) {
  return other.numel() == m.count * each ? nullptr
                                         : message("{} matrices do not fit {} elements, {} of each", m.count, other.numel(), each);
}

/// Columns of one matrix, in memory of their own.
template <class T> std::vector<T> columns_of(const T* in, int rows, int cols, int ld) {
  std::vector<T> out(static_cast<size_t>(std::max(1, ld)) * static_cast<size_t>(std::max(1, cols)));
  blas_kernels<T>().transpose(rows, cols, in, cols, out.data(), ld);
  return out;
}
template <class T> std::vector<T> columns_of(const T* in, const Matrices& m) { return columns_of(in, m.rows, m.cols, m.ld()); }
template <class T> void store_columns(const T* columns, int ld, T* out, int rows, int cols) {
  blas_kernels<T>().transpose(cols, rows, columns, ld, out, cols);
}
template <class T> void store_columns(const std::vector<T>& columns, T* out, const Matrices& m) {
  store_columns(columns.data(), m.ld(), out, m.rows, m.cols);
}
template <class T> void store_identity(T* out, int n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) out[i * n + j] = i == j;
}

/// f(T{}) for f32 and f64.
template <class F> const char* for_lapack(DType t, F&& f) {
  return guarded([&]() -> const char* {
    if (t == DType::F32) return f(float{});
    if (t == DType::F64) return f(double{});
    return "linear algebra needs f32 or f64";
  });
}

/// f(i), or f(i, workers), for every matrix of a batch. Where there are fewer matrices than threads, one after the other, each
/// with the workers to share it; else several at a time, each on one thread. `work`: operations per matrix.
template <class F> void each_matrix(const LibraryCall& c, int64_t count, double work, F&& f) {
  auto run = [&](int64_t i, const Workers* workers) {
    blas::Sharing sharing(workers);
    if constexpr (std::is_invocable_v<F, int64_t, const Workers*>) f(i, workers);
    else f(i);
  };
  if (c.workers && count < c.workers->threads()) {
    for (int64_t i = 0; i < count; i++) run(i, c.workers);
    return;
  }
  auto grain = static_cast<int64_t>(std::max(1.0, 1e5 / std::max(work, 1.0)));
  parallel(c, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) run(i, nullptr);
  });
}
/// Batches of small matrices are done with one in each lane: f(first, used, rows, room) for the matrices first, first + 1, ...,
/// with room for `vectors` vectors.
constexpr int64_t most_in_lanes = 16;
inline bool fit_lanes(int64_t count, int64_t rows, int64_t columns) {
  return count >= 4 && std::max(rows, columns) <= most_in_lanes && rows > 0 && columns > 0;
}
template <class T, class F> void each_in_lanes(const LibraryCall& c, int64_t count, int64_t vectors, F&& f) {
  int64_t w = blas_kernels<T>().lanes;
  parallel(c, (count + w - 1) / w, std::max<int64_t>(1, 1024 / vectors), [&](int64_t begin, int64_t end) {
    Memory<T> room(vectors * w);
    for (int64_t g = begin; g < end; g++) f(g * w, std::min(w, count - g * w), room.data());
  });
}
/// `used` matrices of `size` numbers each, one after the other, become lanes; the other lanes get copies of the first.
template <class T> void load_lanes(const T* from, int64_t used, int64_t size, T* z) {
  const T* rows[16];
  for (int64_t l = 0; l < 16; l++) rows[l] = from + (l < used ? l : 0) * size;
  blas_kernels<T>().load_rows(rows, size, z, 1);
}
template <class T> void store_lanes(const T* z, int64_t used, int64_t size, T* to) {
  T* rows[16];
  for (int64_t l = 0; l < used; l++) rows[l] = to + l * size;
  blas_kernels<T>().store_rows(rows, used, size, z, 1, T(1));
}
inline double cube(const Matrices& m) { return double{1} * m.rows * m.cols * m.smaller(); }

} // namespace tenon::library
