#include "runtime/gemm_shuffle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/wide.h"

namespace tenon {
namespace {

template <class T, int N> struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N> using Vector = typename VectorOf<T, N>::type;

template <class V> [[gnu::always_inline]] inline V load(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

/// Elements [first, first + N) of a0 b0 a1 b1 ...; a and b have N elements.
template <int First, class V, int... I>
[[gnu::always_inline]] inline V interleave(const V& a, const V& b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, ((First + I) / 2 + (First + I) % 2 * n)...);
}

constexpr int64_t lanes = 16; // columns at a time; those of narrower panels are a part of that

/// One group of up to `lanes` columns, from rows that may be read in full.
template <class T, int G> [[gnu::always_inline]] inline void weave_columns(const char* const* rows, int64_t at, char* to) {
  using V = Vector<T, lanes>;
  using All = std::make_integer_sequence<int, lanes>;
  V v[G], w[G];
  for (int g = 0; g < G; g++) v[g] = load<V>(rows[g] + at);
  if constexpr (G == 2) {
    w[0] = interleave<0>(v[0], v[1], All{}), w[1] = interleave<lanes>(v[0], v[1], All{});
  } else {
    V low[2] = {interleave<0>(v[0], v[2], All{}), interleave<0>(v[1], v[3], All{})};
    V high[2] = {interleave<lanes>(v[0], v[2], All{}), interleave<lanes>(v[1], v[3], All{})};
    w[0] = interleave<0>(low[0], low[1], All{}), w[1] = interleave<lanes>(low[0], low[1], All{});
    w[2] = interleave<0>(high[0], high[1], All{}), w[3] = interleave<lanes>(high[0], high[1], All{});
  }
  for (int g = 0; g < G; g++) std::memcpy(to + g * static_cast<int>(sizeof(V)), &w[g], sizeof(V));
}

/// Element i is all ones where i < count.
template <class T> [[gnu::always_inline]] inline Vector<T, lanes> first_elements(int64_t count) {
  alignas(64) static const T ones_then_zeros[2 * lanes] = {T(-1), T(-1), T(-1), T(-1), T(-1), T(-1), T(-1), T(-1),
                                                           T(-1), T(-1), T(-1), T(-1), T(-1), T(-1), T(-1), T(-1)};
  return load<Vector<T, lanes>>(ones_then_zeros + lanes - count);
}

/// One group of the last `count` columns: they are read in full where bytes of a later row follow (before `end`), and copied first where
/// not. Rows from `depth` on are zeros.
template <class T, int G>
[[gnu::always_inline]] inline void weave_last(const char* const* rows, int64_t depth, int64_t at, int64_t count, const char* end, char* to,
                                              int64_t to_bytes) {
  using V = Vector<T, lanes>;
  char copies[G][sizeof(V)], woven[G * sizeof(V)];
  const char* parts[G];
  const V mask = first_elements<T>(count);
  for (int g = 0; g < G; g++) {
    V v{};
    if (g >= depth) {
    } else if (rows[g] + at + sizeof(V) <= end) {
      v = load<V>(rows[g] + at) & mask;
    } else {
      std::memcpy(&v, rows[g] + at, static_cast<size_t>(count) * sizeof(T));
    }
    std::memcpy(copies[g], &v, sizeof v);
    parts[g] = copies[g];
  }
  weave_columns<T, G>(parts, 0, woven);
  std::memcpy(to, woven, static_cast<size_t>(to_bytes));
}

template <class T, int G>
[[gnu::always_inline]] inline void weave_all(const char* from, int64_t from_stride, int64_t depth, int64_t columns, int64_t width,
                                             char* to) {
  int64_t whole = columns / lanes * lanes;
  constexpr int64_t bytes = sizeof(T), unit = G * bytes;
  const char* end = from + (depth - 1) * from_stride + columns * bytes;
  for (int64_t k = 0; k < depth; k += G, to += width * unit) {
    const char* rows[G];
    bool all = k + G <= depth;
    for (int g = 0; g < G; g++) rows[g] = from + (k + g) * from_stride;
    if (all)
      for (int64_t j = 0; j < whole; j += lanes) weave_columns<T, G>(rows, j * bytes, to + j * unit);
    for (int64_t j = all ? whole : 0; j < width; j += lanes)
      weave_last<T, G>(rows, depth - k, j * bytes, std::clamp<int64_t>(columns - j, 0, lanes), end, to + j * unit,
                       std::min(lanes, width - j) * unit);
  }
}
TENON_WIDE void weave_pairs(const char* from, int64_t from_stride, int64_t depth, int64_t columns, int64_t width, char* to) {
  weave_all<uint8_t, 2>(from, from_stride, depth, columns, width, to);
}
TENON_WIDE void weave2(const char* from, int64_t from_stride, int64_t depth, int64_t columns, int64_t width, char* to) {
  weave_all<uint16_t, 2>(from, from_stride, depth, columns, width, to);
}
TENON_WIDE void weave4(const char* from, int64_t from_stride, int64_t depth, int64_t columns, int64_t width, char* to) {
  weave_all<uint8_t, 4>(from, from_stride, depth, columns, width, to);
}

/// Weaves the upper with the lower half of N rows, as many times as `half` can be halved.
template <int Half, int N, class V> [[gnu::always_inline]] inline void weave_halves(V (&v)[N]) {
  if constexpr (Half > 0) {
    using All = std::make_integer_sequence<int, N>;
    V w[N];
#pragma GCC unroll 16
    for (int i = 0; i < N / 2; i++)
      w[2 * i] = interleave<0>(v[i], v[i + N / 2], All{}), w[2 * i + 1] = interleave<N>(v[i], v[i + N / 2], All{});
    weave_halves<Half / 2, N>(w);
#pragma GCC unroll 16
    for (int i = 0; i < N; i++) v[i] = w[i];
  }
}

/// A square of N x N: log2(N) such steps transpose it.
template <class T, int N>
[[gnu::always_inline]] inline void transpose_square(const char* from, int64_t from_stride, char* to, int64_t to_stride) {
  using V = Vector<T, N>;
  V v[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) v[i] = load<V>(from + i * from_stride);
  weave_halves<N / 2, N>(v);
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) std::memcpy(to + i * to_stride, &v[i], sizeof(V));
}

template <class T, int N>
[[gnu::always_inline]] inline void transpose_all(const char* from, int64_t from_stride, int64_t rows, int64_t columns, char* to,
                                                 int64_t to_stride) {
  constexpr int64_t bytes = sizeof(T);
  int64_t whole_rows = rows / N * N, whole_columns = columns / N * N;
  for (int64_t r = 0; r < whole_rows; r += N)
    for (int64_t c = 0; c < whole_columns; c += N)
      transpose_square<T, N>(from + r * from_stride + c * bytes, from_stride, to + c * to_stride + r * bytes, to_stride);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
      std::memcpy(to + c * to_stride + r * bytes, from + r * from_stride + c * bytes, bytes);
}
TENON_WIDE void transpose1(const char* from, int64_t from_stride, int64_t rows, int64_t columns, char* to, int64_t to_stride) {
  transpose_all<uint8_t, 16>(from, from_stride, rows, columns, to, to_stride);
}
TENON_WIDE void transpose2(const char* from, int64_t from_stride, int64_t rows, int64_t columns, char* to, int64_t to_stride) {
  transpose_all<uint16_t, 8>(from, from_stride, rows, columns, to, to_stride);
}
TENON_WIDE void transpose8(const char* from, int64_t from_stride, int64_t rows, int64_t columns, char* to, int64_t to_stride) {
  transpose_all<uint64_t, 4>(from, from_stride, rows, columns, to, to_stride);
}

} // namespace

void weave(const void* from, int64_t from_stride, int element_bytes, int group, int64_t depth, int64_t columns, int64_t width,
           void* to) noexcept {
  auto f = element_bytes == 2 ? weave2 : group == 2 ? weave_pairs : weave4;
  f(static_cast<const char*>(from), from_stride, depth, columns, width, static_cast<char*>(to));
}

void transpose_elements(const void* from, int64_t from_stride, int element_bytes, int64_t rows, int64_t columns, void* to,
                        int64_t to_stride) noexcept {
  auto f = element_bytes == 1 ? transpose1 : element_bytes == 2 ? transpose2 : transpose8;
  f(static_cast<const char*>(from), from_stride, rows, columns, static_cast<char*>(to), to_stride);
}

} // namespace tenon
