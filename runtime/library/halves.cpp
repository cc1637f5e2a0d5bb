// Rows of f16 and bf16 as f32, and back: f16 by the instructions for it, which every machine with AVX2 has.
#include "runtime/library/halves.h"

#include <immintrin.h>

#include "runtime/library/common.h"
#include "runtime/wide.h"

namespace tenon::library {
namespace {

// These return how many elements they have done.
[[gnu::target("avx2,f16c")]] int64_t widen_eights(const F16* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  return i;
}
[[gnu::target("avx2,f16c")]] int64_t narrow_eights(const float* from, F16* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
[[gnu::target("avx2,f16c")]] int64_t add_eights(const F16* from, float scale, float* sum, int64_t n) {
  __m256 factor = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_mul_ps(factor, x)));
  }
  return i;
}

TENON_WIDE void widen_bf16(const BF16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = widen(from[i]);
}
TENON_WIDE void narrow_bf16(const float* from, BF16* to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = narrow<BF16>(from[i]);
}
TENON_WIDE void add_bf16(const BF16* from, float scale, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += scale * widen(from[i]);
}

} // namespace

bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

void widen_row(const F16* from, float* to, int64_t n) {
  for (int64_t i = has_f16c() ? widen_eights(from, to, n) : 0; i < n; i++) to[i] = widen(from[i]);
}
void narrow_row(const float* from, F16* to, int64_t n) {
  for (int64_t i = has_f16c() ? narrow_eights(from, to, n) : 0; i < n; i++) to[i] = narrow<F16>(from[i]);
}
void add_row(const F16* from, float scale, float* sum, int64_t n) {
  for (int64_t i = has_f16c() ? add_eights(from, scale, sum, n) : 0; i < n; i++) sum[i] += scale * widen(from[i]);
}
void widen_row(const BF16* from, float* to, int64_t n) { widen_bf16(from, to, n); }
void narrow_row(const float* from, BF16* to, int64_t n) { narrow_bf16(from, to, n); }
void add_row(const BF16* from, float scale, float* sum, int64_t n) { add_bf16(from, scale, sum, n); }

} // namespace tenon::library
