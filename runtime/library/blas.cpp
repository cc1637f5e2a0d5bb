// Recursive algorithms: halves, joined by products.
#include "runtime/library/blas.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "runtime/library/common.h"
#include "runtime/library/vector_level.h"

namespace tenon::library {

// Of blas_kernels.cpp, compiled for each instruction set.
namespace avx2 {
extern const BlasKernels<float> blas_kernels_f32;
extern const BlasKernels<double> blas_kernels_f64;
} // namespace avx2
namespace avx512 {
extern const BlasKernels<float> blas_kernels_f32;
extern const BlasKernels<double> blas_kernels_f64;
} // namespace avx512

template <class T> const BlasKernels<T>& blas_kernels() {
  const bool wide = takes_avx512();
  if constexpr (std::is_same_v<T, float>) return wide ? avx512::blas_kernels_f32 : avx2::blas_kernels_f32;
  else return wide ? avx512::blas_kernels_f64 : avx2::blas_kernels_f64;
}
template const BlasKernels<float>& blas_kernels();
template const BlasKernels<double>& blas_kernels();

namespace blas {

namespace {

constexpr int64_t most_columns = 512; // that are packed at a time: 512 KB of f32
constexpr double worth_sharing = 1e6; // multiply-adds
constexpr int64_t small = 32;         // what kernels factor and solve

// Packed parts of B, kept by each thread: a product may be too short for an allocation.
template <class T> T* room_for(int64_t columns) {
  thread_local std::unique_ptr<T[]> room;
  thread_local int64_t size = 0;
  const auto& k = blas_kernels<T>();
  int64_t needed = k.depth * ((columns + k.columns - 1) / k.columns * k.columns) + k.rows + 16;
  if (size < needed) room = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(needed)), size = needed;
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(room.get()) + 63) / 64 * 64);
}

template <class T> void multiply_here(int64_t m, int64_t n, int64_t k, T alpha, View<T> a, View<T> b, T* c, int64_t ld) {
  for (int64_t j = 0; j < n; j += most_columns) {
    int64_t columns = std::min(most_columns, n - j);
    const T* from = b.data + j * b.column;
    blas_kernels<T>().gemm(m, columns, k, alpha, a.data, a.row, a.column, from, b.row, b.column, c + j, ld, room_for<T>(columns));
  }
}

int64_t rounded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

} // namespace

template <class T> void multiply(const Workers* workers, int64_t m, int64_t n, int64_t k, T alpha, View<T> a, View<T> b, T* c, int64_t ld) {
  if (m <= 0 || n <= 0 || k <= 0) return;
  int64_t threads = workers ? workers->threads() : 1;
  if (threads == 1 || static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < worth_sharing)
    return multiply_here(m, n, k, alpha, a, b, c, ld);
  bool by_columns = n >= m || n >= most_columns;
  int64_t whole = by_columns ? n : m, unit = by_columns ? blas_kernels<T>().columns : 12;
  int64_t piece = std::min(rounded((whole + threads - 1) / threads, unit), by_columns ? most_columns : whole);
  parallel(workers, (whole + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t at = i * piece, size = std::min(piece, whole - at);
      if (by_columns) multiply_here(m, size, k, alpha, a, b.at(0, at), c + at, ld);
      else multiply_here(size, n, k, alpha, a.at(at, 0), b, c + at * ld, ld);
    }
  });
}

template <class T> void solve(const Workers* workers, int64_t n, int64_t width, View<T> a, bool lower, bool unit, T* b, int64_t ld) {
  if (n <= 0 || width <= 0) return;
  int64_t threads = workers ? workers->threads() : 1, panel = blas_kernels<T>().columns;
  if (threads > 1 && width >= 2 * panel && static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(width) > worth_sharing) {
    int64_t piece = rounded((width + threads - 1) / threads, panel);
    parallel(workers, (width + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) solve<T>(nullptr, n, std::min(piece, width - i * piece), a, lower, unit, b + i * piece, ld);
    });
    return;
  }
  if (n <= small) return blas_kernels<T>().solve(n, width, a.data, a.row, a.column, lower, unit, b, ld);
  int64_t h = rounded(n / 2, 16), rest = n - h;
  if (lower) {
    solve(workers, h, width, a, lower, unit, b, ld);
    multiply(workers, rest, width, h, T(-1), a.at(h, 0), View<T>{b, ld, 1}, b + h * ld, ld);
    solve(workers, rest, width, a.at(h, h), lower, unit, b + h * ld, ld);
  } else {
    solve(workers, rest, width, a.at(h, h), lower, unit, b + h * ld, ld);
    multiply(workers, h, width, rest, T(-1), a.at(0, h), View<T>{b + h * ld, ld, 1}, b, ld);
    solve(workers, h, width, a, lower, unit, b, ld);
  }
}

template <class T> void swap_rows(int64_t n, T* a, int64_t ld, const int32_t* pivots, int64_t count, bool back) {
  if (n <= 0) return;
  for (int64_t k = 0; k < count; k++) {
    int64_t i = back ? count - 1 - k : k, other = pivots[i] - 1;
    if (other != i) blas_kernels<T>().swap(n, a + i * ld, a + other * ld);
  }
}

template <class T> int lu(const Workers* workers, int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots) {
  constexpr int64_t narrow = 16;
  int64_t k = std::min(m, n);
  if (k <= 0) return 0;
  if (n <= narrow) {
    // by columns: those are what a panel is long along
    const auto& kernels = blas_kernels<T>();
    auto panel = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(m * n));
    kernels.transpose(m, n, a, ld, panel.get(), m);
    int info = kernels.lu(m, n, panel.get(), m, pivots);
    kernels.transpose(n, m, panel.get(), m, a, ld);
    for (int64_t i = 0; i < k; i++) pivots[i]++;
    return info;
  }
  int64_t h = n > m ? m : rounded(n / 2, narrow);
  int info = lu(workers, m, h, a, ld, pivots);
  swap_rows(n - h, a + h, ld, pivots, h);
  solve(workers, h, n - h, View<T>{a, ld, 1}, true, true, a + h, ld);
  if (m == h) return info;
  T* rest = a + h * ld + h;
  multiply(workers, m - h, n - h, h, T(-1), View<T>{a + h * ld, ld, 1}, View<T>{a + h, ld, 1}, rest, ld);
  int later = lu(workers, m - h, n - h, rest, ld, pivots + h);
  swap_rows(h, a + h * ld, ld, pivots + h, k - h);
  for (int64_t i = h; i < k; i++) pivots[i] += static_cast<int32_t>(h);
  return info ? info : later ? later + static_cast<int>(h) : 0;
}

template <class T> int cholesky(const Workers* workers, int64_t n, T* a, int64_t ld) {
  if (n <= small) return blas_kernels<T>().cholesky(n, a, ld);
  int64_t h = rounded(n / 2, 16), rest = n - h;
  if (int info = cholesky(workers, h, a, ld)) return info;
  T *beside = a + h, *below = a + h * ld + h;
  solve(workers, h, rest, View<T>{a, 1, ld}, true, false, beside, ld);
  constexpr int64_t block = 48; // rows of the triangle that are updated at a time
  auto update = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * block; i < std::min(end * block, rest); i += block) {
      int64_t rows = std::min(block, rest - i);
      multiply_here(rows, rest - i, h, T(-1), View<T>{beside + i, 1, ld}, View<T>{beside + i, ld, 1}, below + i * ld + i, ld);
    }
  };
  int64_t blocks = (rest + block - 1) / block;
  double work = static_cast<double>(rest) * static_cast<double>(rest) * static_cast<double>(h);
  parallel(work > worth_sharing ? workers : nullptr, blocks, 1, update);
  int info = cholesky(workers, rest, below, ld);
  return info ? info + static_cast<int>(h) : 0;
}

#define TENON_BLAS(T)                                                                                                                      \
  template void multiply(const Workers*, int64_t, int64_t, int64_t, T, View<T>, View<T>, T*, int64_t);                                     \
  template void solve(const Workers*, int64_t, int64_t, View<T>, bool, bool, T*, int64_t);                                                 \
  template int lu(const Workers*, int64_t, int64_t, T*, int64_t, int32_t*);                                                                \
  template int cholesky(const Workers*, int64_t, T*, int64_t);                                                                             \
  template void swap_rows(int64_t, T*, int64_t, const int32_t*, int64_t, bool);
TENON_BLAS(float)
TENON_BLAS(double)
#undef TENON_BLAS

} // namespace blas

} // namespace tenon::library
