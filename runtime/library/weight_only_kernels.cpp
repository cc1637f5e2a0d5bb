#include "runtime/library/weight_only_kernels.h"

#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

namespace {

using V = Vector<float>;
constexpr int64_t width = lanes_of<float>;
constexpr int64_t parts = WeightOnlyLayout::columns / width; // vectors of a panel
constexpr int64_t ahead = 1024;                              // bytes: hardware prefetch stops at pages

#ifdef __AVX512F__
using Codes = __m512i;
TENON_INLINE Codes load_codes(const uint8_t* p) { return _mm512_loadu_si512(p); }
TENON_INLINE Codes next_code(Codes c) { return _mm512_srli_epi32(c, 4); }
TENON_INLINE V load_bytes(const uint8_t* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))); }
#else
using Codes = __m256i;
TENON_INLINE Codes load_codes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
TENON_INLINE Codes next_code(Codes c) { return _mm256_srli_epi32(c, 4); }
TENON_INLINE V value_of(Codes c) { return _mm256_cvtepi32_ps(_mm256_and_si256(c, _mm256_set1_epi32(15))); }
TENON_INLINE V load_bytes(const uint8_t* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))); }
#endif

/// The lowest four bits of each dword, plus `low`.
struct Decoder {
#ifdef __AVX512F__
  __m512 table; // of the 16 codes
  TENON_INLINE explicit Decoder(float low) : table(_mm512_add_ps(_mm512_set1_ps(low), _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))) {}
  TENON_INLINE V operator()(Codes c) const { return _mm512_permutexvar_ps(c, table); }
  static constexpr bool adds_low = true;
#else
  TENON_INLINE explicit Decoder(float) {}
  TENON_INLINE V operator()(Codes c) const { return value_of(c); }
  static constexpr bool adds_low = false;
#endif
};

struct Operands {
  const WeightOnlyLayout& layout;
  float low;
  const float* x;
  int64_t x_row;
  const float* sums;
  const uint8_t* packed; // the first vector's part of its panel
  float* y;
  int64_t y_row, width;
};

/// Vector v of a tile: part v % parts of panel v / parts.
template <int N> TENON_INLINE void load_vectors(const uint8_t* base, int64_t panel_bytes, const uint8_t** at) {
  unroll<N>([&](auto v) __attribute__((always_inline)) { at[v] = base + v / parts * panel_bytes; });
}

template <int Rows, int N>
TENON_INLINE void add_nibbles(const Decoder& decode, const float* x, int64_t x_row, int64_t group, const uint8_t* const* at, int64_t first, V (&sum)[Rows][N]) {
  for (int64_t k = 0; k < group; k += 8) {
    Codes codes[N];
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      const uint8_t* from = at[v] + k * 8 + (first + v) % parts * static_cast<int64_t>(vector_bytes);
      codes[v] = load_codes(from);
      __builtin_prefetch(from + ahead);
    });
    unroll<8>([&](auto j) __attribute__((always_inline)) {
      V w[N];
      unroll<N>([&](auto v) __attribute__((always_inline)) {
        w[v] = decode(codes[v]);
        if (j < 7) codes[v] = next_code(codes[v]);
      });
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        V a = splat(x[r * x_row + k + j]);
        unroll<N>([&](auto v) __attribute__((always_inline)) { sum[r][v] += a * w[v]; });
      });
    });
  }
}

template <int Rows, int N>
TENON_INLINE void add_bytes(const float* x, int64_t x_row, int64_t group, const uint8_t* const* at, int64_t first, V (&sum)[Rows][N]) {
  for (int64_t k = 0; k < group; k++) {
    V w[N];
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      const uint8_t* from = at[v] + k * WeightOnlyLayout::columns + (first + v) % parts * width;
      w[v] = load_bytes(from);
      if (k % 4 == 0) __builtin_prefetch(from + ahead);
    });
    unroll<Rows>([&](auto r) __attribute__((always_inline)) {
      V a = splat(x[r * x_row + k]);
      unroll<N>([&](auto v) __attribute__((always_inline)) { sum[r][v] += a * w[v]; });
    });
  }
}

/// Rows x N vectors, from vector `first` of the first panel on.
template <int Rows, int N> void tile(const Operands& o, int64_t first) {
  const WeightOnlyLayout& l = o.layout;
  V total[Rows][N] = {};
  const uint8_t* at[N];
  load_vectors<N>(o.packed, l.panel_bytes(), at);
  Decoder decode(o.low);
  bool nibbles = l.bits == 4;
  float low = nibbles && Decoder::adds_low ? 0 : o.low;
  const float* x = o.x;
  for (int64_t g = 0; g < l.groups; g++, x += l.group) {
    V sum[Rows][N] = {};
    const uint8_t* codes[N];
    unroll<N>([&](auto v) __attribute__((always_inline)) { codes[v] = at[v] + l.header(); });
    if (nibbles) add_nibbles<Rows, N>(decode, x, o.x_row, l.group, codes, first, sum);
    else add_bytes<Rows, N>(x, o.x_row, l.group, codes, first, sum);
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      const float* head = reinterpret_cast<const float*>(at[v]) + (first + v) % parts * width;
      V scale = load(head);
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        if (low != 0) sum[r][v] += splat(low * o.sums[r * l.groups + g]);
        total[r][v] += sum[r][v] * scale;
        if (l.shifted) total[r][v] += splat(o.sums[r * l.groups + g]) * load(head + WeightOnlyLayout::columns);
      });
      at[v] += l.group_bytes();
    });
  }
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      int64_t column = (first + v) * width, left = o.width - column;
      if (left >= width) store(o.y + r * o.y_row + column, total[r][v]);
      else if (left > 0) store_part(o.y + r * o.y_row + column, total[r][v], left);
    });
  });
}

#ifdef __AVX512F__
constexpr int64_t most_rows = 8;
constexpr int most_vectors(int rows) { return rows <= 2 ? 4 : rows <= 4 ? 2 : 1; } // sums of a group and totals take registers
#else
constexpr int64_t most_rows = 4;
constexpr int most_vectors(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
#endif

/// Panels at the same time where vectors are as wide, else parts of one panel after the other.
template <int Rows> void by_tiles(const Operands& all, int64_t panels) {
  constexpr int vectors = most_vectors(Rows), least = vectors < parts ? vectors : static_cast<int>(parts);
  Operands o = all;
  while (panels > 0) {
    int64_t taken = 1;
    if (vectors > parts && panels >= vectors / parts) {
      tile<Rows, vectors>(o, 0);
      taken = vectors / parts;
    } else
      for (int64_t first = 0; first < parts; first += least) tile<Rows, least>(o, first);
    panels -= taken;
    o.packed += taken * o.layout.panel_bytes(), o.y += taken * WeightOnlyLayout::columns, o.width -= taken * WeightOnlyLayout::columns;
  }
}

void product(const WeightOnlyLayout& layout, float low, const float* x, int64_t x_row, const float* sums, int64_t rows, const uint8_t* packed, int64_t panels,
             float* y, int64_t y_row, int64_t width) {
  Operands o{layout, low, x, x_row, sums, packed, y, y_row, width};
  unroll<most_rows>([&](auto r) __attribute__((always_inline)) {
    if (rows == r + 1) by_tiles<r + 1>(o, panels);
  });
}

} // namespace

const WeightOnlyKernels weight_only_kernels = {most_rows, 4, product};

} // namespace tenon::library::TENON_ISA
