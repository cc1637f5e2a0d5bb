#include "runtime/library/weight_only_kernels.h"

#include "runtime/library/vector.h"

namespace tenon::library::TENON_ISA {

namespace {

using V = Vector<float>;
constexpr int64_t width = lanes_of<float>;
constexpr int64_t line = 64, ahead = 10240; // bytes: hardware prefetch stops at pages

#ifdef __AVX512F__
using I = __m512i;
TENON_INLINE I load_codes(const uint8_t* p) { return _mm512_loadu_si512(p); }
TENON_INLINE I all(int32_t x) { return _mm512_set1_epi32(x); }
TENON_INLINE I masked(I a, I b) { return _mm512_and_si512(a, b); }
template <int N> TENON_INLINE I right(I a) { return _mm512_srli_epi32(a, N); }
TENON_INLINE V to_float(I a) { return _mm512_cvtepi32_ps(a); }
#else
using I = __m256i;
TENON_INLINE I load_codes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const I*>(p)); }
TENON_INLINE I all(int32_t x) { return _mm256_set1_epi32(x); }
TENON_INLINE I masked(I a, I b) { return _mm256_and_si256(a, b); }
template <int N> TENON_INLINE I right(I a) { return _mm256_srli_epi32(a, N); }
TENON_INLINE V to_float(I a) { return _mm256_cvtepi32_ps(a); }
#endif

// A vector of weights has `deep` k of a column in a lane; `vectors` of them are 8 k. Digits are to the base
// 2^digit_bits, from -2^(digit_bits - 1) on.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr int vectors = 2, deep = 4, most_digits = 4, few_digits = 3, digit_bits = 8;
// GCC copies sums that it hands to the intrinsic.
TENON_INLINE I dot(I sum, I w, I x) {
#ifdef __AVX512VNNI__
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
#else
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
#endif
  return sum;
}
template <int J> TENON_INLINE I bytes_of(I a) { return a; }
#else
constexpr int vectors = 4, deep = 2, most_digits = 2, few_digits = 2, digit_bits = 16;
#ifdef __AVX512F__
TENON_INLINE I dot(I sum, I w, I x) { return _mm512_add_epi32(sum, _mm512_madd_epi16(w, x)); }
TENON_INLINE I odd_bytes(I a) { return _mm512_srli_epi16(a, 8); }
#else
TENON_INLINE I dot(I sum, I w, I x) { return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x)); }
TENON_INLINE I odd_bytes(I a) { return _mm256_srli_epi16(a, 8); }
#endif
template <int J> TENON_INLINE I bytes_of(I a) { return J ? odd_bytes(a) : masked(a, all(0x00ff00ff)); }
#endif

/// Part J of 8 k of one vector of columns; `row` is how far 8 dwords of them are apart.
template <int Bits, int J> TENON_INLINE I load_weights(const uint8_t* from, int64_t row) {
  if constexpr (Bits == 4) return masked(right<4 * J>(load_codes(from)), all(vectors == 2 ? 0x0f0f0f0f : 0x000f000f));
  constexpr int half = vectors / 2;
  return bytes_of<J % half>(load_codes(from + J / half * row));
}

// ---- rows of x

constexpr double power_of_two(int64_t e) { return __builtin_bit_cast(double, static_cast<uint64_t>(e + 1023) << 52); }
int64_t exponent_of(float x) { return static_cast<int64_t>(__builtin_bit_cast(uint64_t, static_cast<double>(x)) >> 52 & 2047) - 1023; }

/// Brings 8 k into the order in which they are multiplied, and digits of the same value of `deep` of them together.
TENON_INLINE __m256i in_order(__m256i v, int64_t bits) {
  constexpr bool pairs = deep == 2;
  __m256i order = bits == 8 ? pairs ? _mm256_setr_epi32(0, 2, 1, 3, 4, 6, 5, 7) : _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
                  : pairs ? _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)
                            : _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  __m128i turn = pairs ? _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)
                       : _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(v, order), _mm256_broadcastsi128_si256(turn));
}

TENON_INLINE __m256i sums_in_lanes(__m256i digits) {
  __m256i ones = _mm256_set1_epi16(1);
  return _mm256_madd_epi16(digit_bits == 8 ? _mm256_maddubs_epi16(_mm256_set1_epi8(1), digits) : digits, ones);
}

/// The largest magnitude goes to `unit`; false where that is no finite number.
bool measure(const float* x, int64_t count, WeightOnlyBlock& b) {
  __m256i most = {}, mask = _mm256_set1_epi32(0x7fffffff);
  __m256 sum = {};
  for (int64_t k = 0; k < count; k += 8) {
    __m256i magnitude = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k)), mask);
    most = _mm256_max_epi32(most, magnitude);
    sum += _mm256_castsi256_ps(magnitude);
  }
  alignas(32) int32_t mosts[8];
  alignas(32) float sums[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(mosts), most), _mm256_store_ps(sums, sum);
  for (int i = 1; i < 8; i++) {
    if (mosts[i] > mosts[0]) mosts[0] = mosts[i];
    sums[0] += sums[i];
  }
  b.unit = __builtin_bit_cast(float, mosts[0]);
  b.wide =
      digit_bits == 16 || b.unit * static_cast<float>(count) > 4 * sums[0]; // few large ones: three digits hold too little of the others
  return mosts[0] < 0x7f800000;
}

/// x = v * 2^-shift, v up to 2^30, or what three digits of 8 bits hold.
int64_t shift_of(const WeightOnlyBlock& b) {
  int64_t e = exponent_of(b.unit);
  if (b.wide) return 29 - e;
  return static_cast<double>(b.unit) * power_of_two(22 - e) <= 0x7f7f7f ? 22 - e : 21 - e;
}

void split_block(const WeightOnlyLayout& l, int32_t low, const float* x, int64_t count, int64_t back, int32_t* digits, WeightOnlyBlock& b) {
  constexpr int32_t half = digit_bits == 8 ? static_cast<int32_t>(0x80808080) : 0x8000;
  int64_t shift = b.unit == 0 ? 0 : shift_of(b), first = shift / 2; // one factor may be no f32
  __m256 by = _mm256_set1_ps(static_cast<float>(power_of_two(first))),
         then = _mm256_set1_ps(static_cast<float>(power_of_two(shift - first)));
  __m256i sums = {}, halves = _mm256_set1_epi32(half);
  for (int64_t k = 0; k < count; k += 8) {
    __m256i v = _mm256_cvtps_epi32(_mm256_loadu_ps(x + k) * by * then);
    v = in_order(_mm256_xor_si256(_mm256_add_epi32(v, halves), halves), l.bits);
    sums = _mm256_add_epi32(sums, sums_in_lanes(v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(digits + k), v);
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
  int64_t sum = 0;
  for (int d = most_digits - 1; d >= 0; d--) {
    int32_t digit_sum = 0;
    for (int i = d; i < 8; i += most_digits) digit_sum += lanes[i];
    b.start[d] = digit_sum * low;
    sum = sum * (int64_t{1} << digit_bits) + digit_sum;
  }
  double unit = power_of_two(-shift - back);
  b.unit = static_cast<float>(unit), b.sum = static_cast<float>(static_cast<double>(sum) * unit);
}

/// Calls f(first k, how many) for each block of a row.
template <class F> TENON_INLINE void each_block(const WeightOnlyLayout& l, const F& f) {
  for (int64_t g = 0; g < l.groups; g++)
    for (int64_t k = 0; k < l.group; k += WeightOnlyLayout::block)
      f(g * l.group + k, l.group - k < WeightOnlyLayout::block ? l.group - k : WeightOnlyLayout::block);
}

bool split(const WeightOnlyLayout& l, int32_t low, const float* x, const WeightOnlyRows& to) {
  WeightOnlyBlock* block = to.blocks;
  float most = 0;
  bool finite = true;
  each_block(l, [&](int64_t k, int64_t count) {
    finite &= measure(x + k, count, *block);
    if (block->unit > most) most = block->unit;
    block++;
  });
  if (!finite) return false;
  int64_t e = most == 0 ? 0 : exponent_of(most), back = e > 64 ? e - 64 : e < -64 ? e + 64 : 0; // sums are far from where f32 ends
  *to.back = static_cast<float>(power_of_two(back));
  block = to.blocks;
  each_block(l, [&](int64_t k, int64_t count) { split_block(l, low, x + k, count, back, to.digits + k, *block++); });
  return true;
}

// ---- products

struct Operands {
  const WeightOnlyLayout& layout;
  WeightOnlyRows x;
  int64_t x_row, x_blocks; // elements and blocks of a row
  const uint8_t* panel;
  int64_t row; // bytes of the panel that hold one dword of each column
  float* y;
  int64_t y_row, width;
};

/// The sums of `count` k, from the digits of each row and the codes of each vector.
template <int Rows, int N, int Bits, int Digits>
TENON_INLINE void add_block(const Operands& o, const int32_t* x, const WeightOnlyBlock* block, int64_t count, const uint8_t* codes,
                            V (&sum)[Rows][N]) {
  I exact[Rows][N][Digits];
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      unroll<Digits>([&](auto d) __attribute__((always_inline)) { exact[r][v][d] = all(block[r * o.x_blocks].start[d]); });
    });
  });
  constexpr int64_t bytes = N * static_cast<int64_t>(vector_bytes), lines = bytes < line ? 1 : bytes / line;
  int64_t row = o.row, step = row * Bits / 4, x_row = o.x_row;
  for (int64_t k = 0; k < count; k += 8, codes += step) {
    unroll<Bits / 4>([&](auto i) __attribute__((always_inline)) {
      unroll<lines>([&](auto at) __attribute__((always_inline)) { __builtin_prefetch(codes + ahead + i * row + at * line); });
    });
    unroll<vectors>([&](auto j) __attribute__((always_inline)) {
      I w[N];
      unroll<N>([&](auto v)
                    __attribute__((always_inline)) { w[v] = load_weights<Bits, j>(codes + v * static_cast<int64_t>(vector_bytes), row); });
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        unroll<Digits>([&](auto d) __attribute__((always_inline)) {
          I digit = all(x[r * x_row + k + j * most_digits + d]);
          unroll<N>([&](auto v) __attribute__((always_inline)) { exact[r][v][d] = dot(exact[r][v][d], w[v], digit); });
        });
      });
    });
  }
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      V whole = to_float(exact[r][v][Digits - 1]);
      unroll<Digits - 1>([&](auto d) __attribute__((always_inline)) {
        whole = whole * splat(static_cast<float>(1 << digit_bits)) + to_float(exact[r][v][Digits - 2 - d]);
      });
      sum[r][v] += whole * splat(block[r * o.x_blocks].unit);
    });
  });
}

/// Rows x N vectors, from vector `first` of the panel on.
template <int Rows, int N, int Bits> void tile(const Operands& o, int64_t first) {
  const WeightOnlyLayout& l = o.layout;
  V total[Rows][N] = {};
  const uint8_t* at = o.panel + first * static_cast<int64_t>(vector_bytes);
  const int32_t* x = o.x.digits;
  const WeightOnlyBlock* block = o.x.blocks;
  for (int64_t g = 0; g < l.groups; g++) {
    V sum[Rows][N] = {}, shift[Rows] = {};
    const auto *scales = reinterpret_cast<const float*>(at), *shifts = reinterpret_cast<const float*>(at + o.row);
    at += l.shifted ? 2 * o.row : o.row;
    for (int64_t left = l.group; left > 0; left -= WeightOnlyLayout::block, block++) {
      int64_t count = left < WeightOnlyLayout::block ? left : WeightOnlyLayout::block;
      int32_t wide = 0;
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        wide |= block[r * o.x_blocks].wide;
        shift[r] += splat(block[r * o.x_blocks].sum);
      });
      if (wide) add_block<Rows, N, Bits, most_digits>(o, x, block, count, at, sum);
      else add_block<Rows, N, Bits, few_digits>(o, x, block, count, at, sum);
      at += count * o.row * Bits / 32, x += count;
    }
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        total[r][v] += sum[r][v] * load(scales + v * width);
        if (l.shifted) total[r][v] += shift[r] * load(shifts + v * width);
      });
    });
  }
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<N>([&](auto v) __attribute__((always_inline)) {
      int64_t column = (first + v) * width, left = o.width - column;
      V y = total[r][v] * splat(o.x.back[r]);
      if (left >= width) store(o.y + r * o.y_row + column, y);
      else if (left > 0) store_part(o.y + r * o.y_row + column, y, left);
    });
  });
}

// Few sums: what a block adds to, and the totals, take registers too.
constexpr int64_t most_rows = 2;
constexpr int most_vectors(int rows) { return vector_bytes == 64 ? 2 : (digit_bits == 16 ? 4 : 2) / rows; }

template <int Rows, int Bits> void by_tiles(const Operands& o, int64_t count) {
  constexpr int together = most_vectors(Rows);
  int64_t first = 0;
  for (; first + together <= count; first += together) tile<Rows, together, Bits>(o, first);
  if constexpr (together > 2)
    for (; first + 2 <= count; first += 2) tile<Rows, 2, Bits>(o, first);
  for (; first < count; first++) tile<Rows, 1, Bits>(o, first);
}

void product(const WeightOnlyLayout& l, const WeightOnlyRows& x, int64_t rows, const uint8_t* panel, int64_t sixteens, float* y,
             int64_t y_row, int64_t width) {
  Operands o{l, x, l.groups * l.group, l.row_blocks(), panel, sixteens * line, y, y_row, width};
  int64_t count = sixteens * line / static_cast<int64_t>(vector_bytes);
  unroll<most_rows>([&](auto r) __attribute__((always_inline)) {
    if (rows == r + 1) l.bits == 4 ? by_tiles<r + 1, 4>(o, count) : by_tiles<r + 1, 8>(o, count);
  });
}

} // namespace

const WeightOnlyKernels weight_only_kernels = {most_rows, split, product};

} // namespace tenon::library::TENON_ISA
