// Squares of one vector's width are turned round in registers: elements of pairs of rows are interleaved within 16 bytes, then
// pairs exchange 16 bytes; each step is one instruction. Compiled for each instruction level; the machine chooses.
#include "codegen/llvm/transpose.h"

#include <array>
#include <cstring>
#include <utility>

namespace tenon {

namespace {

template <class T, int N> struct Square {
  typedef T Row __attribute__((vector_size(N * sizeof(T))));
  static constexpr int lane = N < static_cast<int>(16 / sizeof(T)) ? N : static_cast<int>(16 / sizeof(T));

  // Where element k of the lower or upper result of a step comes from; `bit` is the distance of the rows.
  static constexpr int source(int k, int bit, int upper) {
    if (bit < lane) { // units of `bit` elements of both rows in turn, from one half of each 16 bytes
      int unit = k % lane / bit;
      return k / lane * lane + (upper * lane / (2 * bit) + unit / 2) * bit + k % bit + unit % 2 * N;
    }
    int l = k / lane, half = N / lane / 2; // even or odd lanes of the one row, then of the other
    return (l % half * 2 + upper) * lane + k % lane + l / half * N;
  }
  template <int Bit, int Upper, int... K> [[gnu::always_inline]] static Row mix(Row a, Row b, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(a, b, source(K, Bit, Upper)...);
  }
  template <int Bit> [[gnu::always_inline]] static void step(Row* rows) {
    if constexpr (Bit < N) {
#pragma GCC unroll 16
      for (int i = 0; i < N; i++) {
        if (i & Bit) continue;
        Row a = rows[i], b = rows[i | Bit];
        rows[i] = mix<Bit, 0>(a, b, std::make_integer_sequence<int, N>());
        rows[i | Bit] = mix<Bit, 1>(a, b, std::make_integer_sequence<int, N>());
      }
      step<Bit * 2>(rows);
    }
  }
  // A step on rows that differ in one bit of their number leaves a bit of the column there, within 16 bytes the uppermost first.
  static constexpr std::array<int, N> row_of = [] {
    std::array<int, N> rows{};
    for (int column = 0; column < N; column++) {
      int& from = rows[static_cast<size_t>(column)] = column / lane * lane;
      for (int i = 1, mirror = lane / 2; i < lane; i *= 2, mirror /= 2)
        if (column & i) from |= mirror;
    }
    return rows;
  }();

  [[gnu::always_inline]] static void turn(T* to, int64_t to_step, const T* from, int64_t from_step, bool streamed) {
    Row rows[N];
#pragma GCC unroll 16
    for (int j = 0; j < N; j++) std::memcpy(&rows[j], from + j * from_step, sizeof(Row));
    step<1>(rows);
    if constexpr (sizeof(Row) == 64)
      if (streamed) {
#pragma GCC unroll 16
#ifdef __clang__
        for (int i = 0; i < N; i++)
          __builtin_nontemporal_store(rows[row_of[static_cast<size_t>(i)]], reinterpret_cast<Row*>(to + i * to_step));
#else
        for (int i = 0; i < N; i++)
          asm volatile("vmovntdq %1, %0" : "=m"(*reinterpret_cast<Row*>(to + i * to_step)) : "v"(rows[row_of[static_cast<size_t>(i)]]));
#endif
        return;
      }
#pragma GCC unroll 16
    for (int i = 0; i < N; i++) std::memcpy(to + i * to_step, &rows[row_of[static_cast<size_t>(i)]], sizeof(Row));
  }
};

// The last squares overlap those before them; what is narrower than one goes element by element.
template <class T, int N>
[[gnu::always_inline]] inline void turn_block(void* to_bytes, int64_t to_step, const void* from_bytes, int64_t from_step, int64_t rows,
                                              int64_t columns, bool streamed) {
  T* to = static_cast<T*>(to_bytes);
  const T* from = static_cast<const T*>(from_bytes);
  if (rows < N || columns < N) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) to[i * to_step + j] = from[j * from_step + i];
    return;
  }
  bool lines = streamed && reinterpret_cast<uintptr_t>(to) % 64 == 0 && to_step * static_cast<int64_t>(sizeof(T)) % 64 == 0;
  for (int64_t i = 0; i < rows; i += N) {
    int64_t row = i < rows - N ? i : rows - N;
    for (int64_t j = 0; j < columns; j += N) {
      int64_t column = j < columns - N ? j : columns - N;
      // The rows of the next square lie on other pages, where the hardware does not look ahead; nor do stores.
      if (j + 2 * N <= columns)
        for (int k = 0; k < N; k++) {
          __builtin_prefetch(from + (j + N + k) * from_step + row);
          if (!lines) __builtin_prefetch(to + (row + k) * to_step + j + N, 1);
        }
      Square<T, N>::turn(to + row * to_step + column, to_step, from + column * from_step + row, from_step, lines && column == j);
    }
  }
}

template <class T> constexpr int at_most_16(int bytes) {
  return bytes / static_cast<int>(sizeof(T)) < 16 ? bytes / static_cast<int>(sizeof(T)) : 16;
}

template <class T>
[[gnu::target("avx2,avx512f,avx512bw,avx512vl,avx512dq")]] void turn_avx512(void* to, int64_t ts, const void* from, int64_t fs,
                                                                            int64_t rows, int64_t columns, bool streamed) {
  turn_block<T, at_most_16<T>(64)>(to, ts, from, fs, rows, columns, streamed);
}
template <class T>
[[gnu::target("avx2")]] void turn_avx2(void* to, int64_t ts, const void* from, int64_t fs, int64_t rows, int64_t columns, bool streamed) {
  turn_block<T, at_most_16<T>(32)>(to, ts, from, fs, rows, columns, streamed);
}

template <class T> TransposeRow row() {
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512dq");
  return {"tenon_transpose" + std::to_string(sizeof(T)), wide ? turn_avx512<T> : turn_avx2<T>};
}

} // namespace

std::span<const TransposeRow> transpose_functions() {
  static const TransposeRow rows[] = {row<uint8_t>(), row<uint16_t>(), row<uint32_t>(), row<uint64_t>()};
  return rows;
}

} // namespace tenon
