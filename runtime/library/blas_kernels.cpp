// Products, small triangular solves and factorisations of small blocks. Compiled once for each instruction set.
#include "runtime/library/blas_kernels.h"
#include "runtime/library/blas_lanes.h"
#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

namespace {

template <class T> T absolute(T x) { return x < 0 ? -x : x; }

// ---- products

#ifdef __AVX512F__
constexpr int most_rows = 12; // 24 sums, 2 vectors of B, of 32 registers
#else
constexpr int most_rows = 6; // 12 sums, 2 vectors of B, 1 number of A, of 16 registers
#endif
constexpr int64_t depth = 256; // a panel of B stays in the first cache

// Rows x `V` vectors of C += alpha A B, of which `columns` columns exist. B: `pitch` from row to row, whole vectors.
template <class T, int Rows, int V>
void tile(int64_t k, T alpha, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t pitch, T* c, int64_t ld, int64_t columns) {
  constexpr int64_t w = lanes_of<T>;
  Vector<T> sum[Rows][V] = {};
  for (int64_t p = 0; p < k; p++, a += a_col, b += pitch) {
    Vector<T> row[V];
    unroll<V>([&](auto j) __attribute__((always_inline)) { row[j] = load(b + j * w); });
    unroll<Rows>([&](auto i) __attribute__((always_inline)) {
      T x = a[i * a_row];
      unroll<V>([&](auto j) __attribute__((always_inline)) { sum[i][j] += x * row[j]; });
    });
  }
  unroll<Rows>([&](auto i) __attribute__((always_inline)) {
    unroll<V>([&](auto j) __attribute__((always_inline)) {
      T* to = c + i * ld + j * w;
      int64_t left = columns - j * w;
      if (left >= w) store(to, load(to) + alpha * sum[i][j]);
      else if (left > 0) store_part(to, load_part(to, left) + alpha * sum[i][j], left);
    });
  });
}

template <class T> using Tile = void (*)(int64_t, T, const T*, int64_t, int64_t, const T*, int64_t, T*, int64_t, int64_t);
template <class T, int V> Tile<T> tile_of(int64_t rows, int64_t& taken) {
#ifdef __AVX512F__
  if (rows >= 12) {
    taken = 12;
    return tile<T, 12, V>;
  }
  if (rows >= 8) {
    taken = 8;
    return tile<T, 8, V>;
  }
#endif
  if (rows >= 6) {
    taken = 6;
    return tile<T, 6, V>;
  }
  if (rows >= 4) {
    taken = 4;
    return tile<T, 4, V>;
  }
  if (rows >= 2) {
    taken = 2;
    return tile<T, 2, V>;
  }
  taken = 1;
  return tile<T, 1, V>;
}

// Panels of 2 vectors of columns, filled up with zeros.
template <class T> void pack(int64_t k, int64_t n, const T* b, int64_t b_row, int64_t b_col, T* to) {
  constexpr int64_t w = lanes_of<T>, wide = 2 * w;
  for (int64_t j = 0; j < n; j += wide) {
    int64_t left = n - j < wide ? n - j : wide;
    const T* from = b + j * b_col;
    if (b_col == 1 && left == wide)
      for (int64_t p = 0; p < k; p++, from += b_row, to += wide) store(to, load(from)), store(to + w, load(from + w));
    else
      for (int64_t p = 0; p < k; p++, from += b_row, to += wide) {
        for (int64_t i = 0; i < left; i++) to[i] = from[i * b_col];
        for (int64_t i = left; i < wide; i++) to[i] = 0;
      }
  }
}

// Columns of B that are rows in memory, by way of registers.
template <class T> void pack_transposed(int64_t k, int64_t n, const T* b, int64_t b_col, T* to) {
  constexpr int64_t w = lanes_of<T>, wide = 2 * w;
  for (int64_t j = 0; j < n; j += w)
    for (int64_t p = 0; p < k; p += w) {
      Vector<T> v[w];
      unroll<w>([&](auto i) __attribute__((always_inline)) {
        v[i] = j + i < n ? load_part(b + (j + i) * b_col + p, k - p < w ? k - p : w) : Vector<T>{};
      });
      transpose<T>(v);
      T* out = to + j / wide * wide * k + j % wide;
      unroll<w>([&](auto i) __attribute__((always_inline)) {
        if (p + i < k) store(out + (p + i) * wide, v[i]);
      });
      if (j + w >= n && j % wide == 0)
        for (int64_t i = p; i < (p + w < k ? p + w : k); i++) store(out + i * wide + w, Vector<T>{});
    }
}

// Rows of A as tiles take them, one after the other: [tile][k][row]. Some numbers after the end are written too.
constexpr int64_t packed_rows = 240;
template <class T> void pack_rows(int64_t m, int64_t k, const T* a, int64_t a_row, int64_t a_col, T* to) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t i = 0, taken; i < m; i += taken, a += taken * a_row, to += taken * k) {
    tile_of<T, 1>(m - i, taken);
    if (a_col == 1 && taken <= w) {
      for (int64_t p = 0; p < k; p += w) {
        Vector<T> v[w];
        unroll<w>([&](auto r) __attribute__((always_inline)) {
          v[r] = r < taken ? load_part(a + r * a_row + p, k - p < w ? k - p : w) : Vector<T>{};
        });
        transpose<T>(v);
        unroll<w>([&](auto q) __attribute__((always_inline)) {
          if (p + q < k) store(to + (p + q) * taken, v[q]);
        });
      }
    } else {
      for (int64_t p = 0; p < k; p++)
        for (int64_t r = 0; r < taken; r++) to[p * taken + r] = a[r * a_row + p * a_col];
    }
  }
}

// Where rows of A are read for many panels of B they are packed too: as they lie they may share their place in the
// cache.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, int64_t b_col,
          T* c, int64_t ld, T* room) {
  constexpr int64_t w = lanes_of<T>, wide = 2 * w;
  bool in_place = b_col == 1 && m <= most_rows, packs = n > 2 * wide;
  T* rows = room + depth * ((n + wide - 1) / wide * wide);
  for (int64_t p = 0; p < k; p += depth) {
    int64_t deep = k - p < depth ? k - p : depth;
    const T* from = b + p * b_row;
    if (in_place) {
    } else if (b_row == 1 && b_col != 1) pack_transposed(deep, n, from, b_col, room);
    else pack(deep, n, from, b_row, b_col, room);
    for (int64_t first = 0; first < m; first += packed_rows) {
      int64_t end = first + packed_rows < m ? first + packed_rows : m;
      if (packs) pack_rows(end - first, deep, a + first * a_row + p * a_col, a_row, a_col, rows);
      for (int64_t j = 0; j < n; j += wide) {
        int64_t columns = n - j < wide ? n - j : wide, pitch = wide;
        const T* panel = room + j * deep;
        if (in_place && columns % w == 0) panel = from + j, pitch = b_row;
        else if (in_place) pack(deep, columns, from + j, b_row, b_col, room), panel = room;
        for (int64_t i = first, taken; i < end; i += taken) {
          Tile<T> f = columns > w ? tile_of<T, 2>(end - i, taken) : tile_of<T, 1>(end - i, taken);
          if (packs) f(deep, alpha, rows + (i - first) * deep, 1, taken, panel, pitch, c + i * ld + j, ld, columns);
          else f(deep, alpha, a + i * a_row + p * a_col, a_row, a_col, panel, pitch, c + i * ld + j, ld, columns);
        }
      }
    }
  }
}

// ---- small triangular systems

// `V` vectors of columns, the last `left` lanes of one alone.
template <class T, int V, bool Part>
void solve_columns(int64_t n, const T* a, int64_t a_row, int64_t a_col, bool unit, T* b, int64_t ld, int64_t left) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t i = 0; i < n; i++) {
    Vector<T> sum[V];
    unroll<V>([&](auto j) __attribute__((always_inline)) { sum[j] = Part ? load_part(b + i * ld, left) : load(b + i * ld + j * w); });
    for (int64_t k = 0; k < i; k++) {
      T x = a[i * a_row + k * a_col];
      unroll<V>([&](auto j)
                    __attribute__((always_inline)) { sum[j] -= x * (Part ? load_part(b + k * ld, left) : load(b + k * ld + j * w)); });
    }
    T by = unit ? T(1) : a[i * (a_row + a_col)];
    unroll<V>([&](auto j) __attribute__((always_inline)) {
      if (!unit) sum[j] /= by;
      if (Part) store_part(b + i * ld, sum[j], left);
      else store(b + i * ld + j * w, sum[j]);
    });
  }
}

template <class T> void solve(int64_t n, int64_t width, const T* a, int64_t a_row, int64_t a_col, bool lower, bool unit, T* b, int64_t ld) {
  constexpr int64_t w = lanes_of<T>;
  // from the last row up is the same with the rows turned round
  if (!lower) a += (n - 1) * (a_row + a_col), a_row = -a_row, a_col = -a_col, b += (n - 1) * ld, ld = -ld;
  int64_t j = 0;
  for (; j + 4 * w <= width; j += 4 * w) solve_columns<T, 4, false>(n, a, a_row, a_col, unit, b + j, ld, 0);
  for (; j + w <= width; j += w) solve_columns<T, 1, false>(n, a, a_row, a_col, unit, b + j, ld, 0);
  if (j < width) solve_columns<T, 1, true>(n, a, a_row, a_col, unit, b + j, ld, width - j);
}

// ---- rows

// y -= x * factor
template <class T> TENON_INLINE void subtract(int64_t n, T factor, const T* x, T* y) {
  constexpr int64_t w = lanes_of<T>;
  int64_t j = 0;
  for (; j + w <= n; j += w) store(y + j, load(y + j) - factor * load(x + j));
  if (j < n) store_part(y + j, load_part(y + j, n - j) - factor * load_part(x + j, n - j), n - j);
}

template <class T> void swap(int64_t n, T* x, T* y) {
  constexpr int64_t w = lanes_of<T>;
  int64_t j = 0;
  for (; j + w <= n; j += w) {
    Vector<T> v = load(x + j);
    store(x + j, load(y + j)), store(y + j, v);
  }
  if (j < n) {
    Vector<T> v = load_part(x + j, n - j);
    store_part(x + j, load_part(y + j, n - j), n - j), store_part(y + j, v, n - j);
  }
}

// The place of the largest number, of `n` > 0; NaN counts for nothing.
template <class T> int64_t largest(int64_t n, const T* x) {
  constexpr int64_t w = lanes_of<T>;
  T most = absolute(x[0]);
  int64_t i = 0;
  if (n >= w) {
    Vector<T> best{};
    for (; i + w <= n; i += w) {
      Vector<T> v = load(x + i);
      v = v < 0 ? -v : v;
      best = v > best ? v : best;
    }
    for (int64_t l = 0; l < w; l++)
      if (best[l] > most || most != most) most = best[l];
  }
  for (; i < n; i++)
    if (absolute(x[i]) > most) most = absolute(x[i]);
  for (i = 0; i < n; i++)
    if (absolute(x[i]) == most) return i;
  return 0;
}

template <class T> int lu(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots) {
  constexpr int64_t w = lanes_of<T>;
  int info = 0;
  for (int64_t j = 0; j < n && j < m; j++) {
    T* column = a + j * ld;
    int64_t best = j + largest(m - j, column + j);
    pivots[j] = static_cast<int32_t>(best);
    if (best != j)
      for (int64_t k = 0; k < n; k++) {
        T x = a[k * ld + j];
        a[k * ld + j] = a[k * ld + best], a[k * ld + best] = x;
      }
    T pivot = column[j];
    if (pivot == 0) {
      if (info == 0) info = static_cast<int>(j) + 1;
      continue;
    }
    int64_t i = j + 1;
    for (; i + w <= m; i += w) store(column + i, load(column + i) / pivot);
    for (; i < m; i++) column[i] /= pivot;
    for (int64_t k = j + 1; k < n; k++) subtract(m - j - 1, a[k * ld + j], column + j + 1, a + k * ld + j + 1);
  }
  return info;
}

template <class T> int cholesky(int64_t n, T* a, int64_t ld) {
  for (int64_t j = 0; j < n; j++) {
    T* row = a + j * ld;
    T square = row[j];
    if (!(square > 0)) return static_cast<int>(j) + 1;
    T root;
    if constexpr (sizeof(T) == 4) root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(square)));
    else root = _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(square)));
    row[j] = root;
    for (int64_t i = j + 1; i < n; i++) row[i] /= root;
    for (int64_t i = j + 1; i < n; i++) subtract(n - i, row[i], row + i, a + i * ld + i);
  }
  return 0;
}

template <class T> void transpose_matrix(int64_t m, int64_t n, const T* from, int64_t from_ld, T* to, int64_t to_ld) {
  constexpr int64_t w = lanes_of<T>;
  for (int64_t i = 0; i < m; i += w)
    for (int64_t j = 0; j < n; j += w) {
      int64_t rows = m - i < w ? m - i : w, columns = n - j < w ? n - j : w;
      Vector<T> v[w];
      const T* p = from + i * from_ld + j;
      T* q = to + j * to_ld + i;
      if (rows == w && columns == w) {
        unroll<w>([&](auto r) __attribute__((always_inline)) { v[r] = load(p + r * from_ld); });
        transpose<T>(v);
        unroll<w>([&](auto r) __attribute__((always_inline)) { store(q + r * to_ld, v[r]); });
        continue;
      }
      for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++) q[s * to_ld + r] = p[r * from_ld + s];
    }
}

// ---- matrix times vector

template <class T, size_t S, size_t... I> TENON_INLINE Vector<T> folded(Vector<T> v, std::index_sequence<I...>) {
  constexpr size_t w = static_cast<size_t>(lanes_of<T>);
  if constexpr (S == 0) return v;
  else return folded<T, S / 2>(v + pick<T>(v, v, std::index_sequence<(I + S) % w...>()), Lanes_of<T>());
}
template <class T> TENON_INLINE T total(Vector<T> v) { return folded<T, static_cast<size_t>(lanes_of<T>) / 2>(v, Lanes_of<T>())[0]; }

template <class T, int Rows> void dots(int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y) {
  constexpr int64_t w = lanes_of<T>;
  Vector<T> sum[Rows] = {};
  int64_t j = 0;
  for (; j + w <= n; j += w) {
    Vector<T> v = load(x + j);
    unroll<Rows>([&](auto i) __attribute__((always_inline)) { sum[i] += v * load(a + i * ld + j); });
  }
  if (j < n) {
    Vector<T> v = load_part(x + j, n - j);
    unroll<Rows>([&](auto i) __attribute__((always_inline)) { sum[i] += v * load_part(a + i * ld + j, n - j); });
  }
  for (int i = 0; i < Rows; i++) y[i] += alpha * total<T>(sum[i]);
}
template <class T> void rows_times(int64_t m, int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) dots<T, 4>(n, alpha, a + i * ld, ld, x, y + i);
  for (; i < m; i++) dots<T, 1>(n, alpha, a + i * ld, ld, x, y + i);
}

template <class T, int Rows> void add_rows(int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y) {
  constexpr int64_t w = lanes_of<T>;
  T by[Rows];
  for (int i = 0; i < Rows; i++) by[i] = alpha * x[i];
  int64_t j = 0;
  for (; j + w <= n; j += w) {
    Vector<T> sum = load(y + j);
    unroll<Rows>([&](auto i) __attribute__((always_inline)) { sum += by[i] * load(a + i * ld + j); });
    store(y + j, sum);
  }
  if (j == n) return;
  Vector<T> sum = load_part(y + j, n - j);
  unroll<Rows>([&](auto i) __attribute__((always_inline)) { sum += by[i] * load_part(a + i * ld + j, n - j); });
  store_part(y + j, sum, n - j);
}
template <class T> void columns_times(int64_t m, int64_t n, T alpha, const T* a, int64_t ld, const T* x, T* y) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) add_rows<T, 4>(n, alpha, a + i * ld, ld, x + i, y);
  for (; i < m; i++) add_rows<T, 1>(n, alpha, a + i * ld, ld, x + i, y);
}

template <class T> constexpr BlasKernels<T> kernels() {
  return {2 * lanes_of<T>,
          depth,
          depth * packed_rows + lanes_of<T>,
          gemm<T>,
          solve<T>,
          lu<T>,
          cholesky<T>,
          transpose_matrix<T>,
          rows_times<T>,
          columns_times<T>,
          swap<T>,
          lanes_of<T>,
          load_rows<T>,
          store_rows<T>,
          lanes_lu<T>,
          lanes_cholesky<T>,
          lanes_solve<T>};
}

} // namespace

extern const BlasKernels<float> blas_kernels_f32 = kernels<float>();
extern const BlasKernels<double> blas_kernels_f64 = kernels<double>();

} // namespace tenon::library::TENON_ISA
