// Sums, means and maxima over bags of table rows and over segments; limiting the norm of table rows.
#include <immintrin.h>

#include <limits>

#include "runtime/library/counts.h"
#include "runtime/library/halves.h"

namespace tenon::library {

namespace {

struct Bags {
  const LibraryTensor &weight, &indices, &offsets;
  const LibraryTensor* scales; // null: all 1
  int64_t mode, padding, count, dim;
  bool last_offset;
  std::vector<int64_t> begins = {}; // of each bag, and the end of the last

  // torch's quick sums take bags as offsets delimit them, and only those that follow each other.
  bool delimited() const { return mode < 2 && padding < 0 && weight.dtype != DType::F64; }
  // How many indices a bag has by its own offset and the next, padding among them.
  int64_t listed(int64_t k) const { return (k + 1 < count ? integer_at(offsets, k + 1) : indices.numel()) - integer_at(offsets, k); }
};

// Where bags begin. Elsewhere than in its quick sums, torch gives an index to as many bags as there are offsets up to it, less one:
// bags then lie as their sorted offsets do, the last holds the rest, and a last offset that is included says nothing.
const char* find_begins(Bags& b) {
  int64_t n = b.indices.numel(), listed = b.offsets.numel();
  if (b.last_offset && listed == 0) return "include_last_offset needs an offset";
  b.begins.reserve(static_cast<size_t>(listed) + 1);
  for (int64_t k = 0; k < listed; k++) {
    int64_t at = integer_at(b.offsets, k);
    bool ends = k == listed - 1, used = b.delimited() || k < b.count;
    if (k == 0 && at != 0) return message("offset {} of bag 0 is wrong: offsets start at 0", at);
    if ((used && at < 0) || ((used || ends) && at > n)) return message("offset {} of bag {} is outside the {} indices", at, k, n);
    if (b.delimited() && k > 0 && at < b.begins.back()) return message("offset {} of bag {} is below the one before", at, k);
    if (used) b.begins.push_back(at);
  }
  if (!b.delimited()) std::sort(b.begins.begin(), b.begins.end());
  if (!b.delimited() || !b.last_offset) b.begins.push_back(n);
  return nullptr;
}

const char* check_bags(const LibraryCall& c, Bags& b) {
  int64_t n = b.indices.numel(), rows = b.weight.size(0);
  if (b.indices.dtype != b.offsets.dtype) return "indices and offsets differ in dtype";
  if (const char* error = check_indices(c, b.indices, rows)) return error;
  if (b.scales && b.scales->numel() != n) return message("{} weights for {} indices", b.scales->numel(), n);
  return find_begins(b);
}

// The indices [begin, end) of a bag, out of `known`, and their rows.
template <class T, class I> struct Bag {
  const T* table;
  const I* indices;
  const T* scales;
  int64_t begin, end, known, dim, padding;

  int64_t fetch_ahead = 0; // rows lie far apart: so many that their fetching covers the latency of memory
  [[gnu::always_inline]] void fetch(int64_t i, int64_t from, int64_t width) const {
    if (i + fetch_ahead >= known) return;
    const char* ahead = reinterpret_cast<const char*>(table + static_cast<int64_t>(indices[i + fetch_ahead]) * dim + from);
    for (int64_t at = 0; at < width * static_cast<int64_t>(sizeof(T)); at += 64) __builtin_prefetch(ahead + at);
  }
};

constexpr int64_t columns_at_once = 64; // columns

// Sums of `width` columns, of at most 64; where that is known, they stay in registers.
template <class T, class I>
[[gnu::always_inline]] inline void sum_columns(const Bag<T, I>& b, int64_t from, int64_t width, Wide<T> divisor, T* out) {
  Wide<T> sum[columns_at_once] = {};
  for (int64_t i = b.begin; i < b.end; i++) {
    b.fetch(i, from, width);
    auto row = static_cast<int64_t>(b.indices[i]);
    if (row == b.padding) continue;
    const T* w = b.table + row * b.dim + from;
    if (b.scales) {
      Wide<T> scale = widen(b.scales[i]);
      for (int64_t k = 0; k < width; k++) sum[k] += scale * widen(w[k]);
    } else
      for (int64_t k = 0; k < width; k++) sum[k] += widen(w[k]);
  }
  if (divisor != 1)
    for (int64_t k = 0; k < width; k++) sum[k] /= divisor;
  for (int64_t k = 0; k < width; k++) out[from + k] = narrow<T>(sum[k]);
}

#define TENON_HALVES gnu::target("avx2,f16c"), gnu::always_inline

// Sixteen halves as f32, in two registers: the lower and the upper eight of f16, those of even and of odd number of bf16.
struct Sixteen {
  __m256 first, second;
};
[[TENON_HALVES]] inline Sixteen widen_sixteen(const F16* from) {
  const auto* halves = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
[[TENON_HALVES]] inline Sixteen widen_sixteen(const BF16* from) {
  __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))))};
}
[[TENON_HALVES]] inline void narrow_sixteen(const Sixteen& x, F16* to) {
  auto* halves = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(x.first, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(x.second, _MM_FROUND_TO_NEAREST_INT));
}
// To nearest even, in the upper half.
[[TENON_HALVES]] inline __m256i round_to_bf16(__m256 x) {
  __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1)),
          rounded = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)),
          is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), is_nan);
}
[[TENON_HALVES]] inline void narrow_sixteen(const Sixteen& x, BF16* to) {
  __m256i pairs = _mm256_blend_epi16(_mm256_srli_epi32(round_to_bf16(x.first), 16), round_to_bf16(x.second), 0xaa);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), pairs);
}

// The same of halves, sixteen columns in each of `pairs` pairs of registers.
template <int pairs, bool scaled, class T, class I>
[[gnu::target("avx2,f16c")]] void sum_half_columns(const Bag<T, I>& bag, int64_t from, float divisor, T* out) {
  const Bag<T, I> b = bag; // which nothing that is written may change
  Sixteen sum[pairs];
#pragma GCC unroll 4
  for (int k = 0; k < pairs; k++) sum[k] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = b.begin; i < b.end; i++) {
    b.fetch(i, from, 16 * pairs);
    auto row = static_cast<int64_t>(b.indices[i]);
    if (row == b.padding) continue;
    const T* w = b.table + row * b.dim + from;
    __m256 scale = _mm256_set1_ps(scaled ? widen(b.scales[i]) : 1);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; k++) {
      Sixteen x = widen_sixteen(w + 16 * k);
      if (scaled) x = {_mm256_mul_ps(scale, x.first), _mm256_mul_ps(scale, x.second)};
      sum[k] = {_mm256_add_ps(sum[k].first, x.first), _mm256_add_ps(sum[k].second, x.second)};
    }
  }
  __m256 over = _mm256_set1_ps(divisor);
#pragma GCC unroll 4
  for (int k = 0; k < pairs; k++) {
    if (divisor != 1) sum[k] = {_mm256_div_ps(sum[k].first, over), _mm256_div_ps(sum[k].second, over)};
    narrow_sixteen(sum[k], out + from + 16 * k);
  }
}
template <bool scaled, class T, class I> void sum_half_bag(const Bag<T, I>& b, float divisor, T* out) {
  int64_t from = 0;
  for (; from + 64 <= b.dim; from += 64) sum_half_columns<4, scaled>(b, from, divisor, out);
  if (from + 32 <= b.dim) sum_half_columns<2, scaled>(b, from, divisor, out), from += 32;
  if (from + 16 <= b.dim) sum_half_columns<1, scaled>(b, from, divisor, out), from += 16;
  if (from < b.dim) sum_columns(b, from, b.dim - from, divisor, out);
}

template <class T, class I> TENON_WIDE void sum_bag(const Bag<T, I>& b, int64_t over, T* out) {
  auto divisor = static_cast<Wide<T>>(over);
  int64_t from = 0;
  for (; from + columns_at_once <= b.dim; from += columns_at_once) sum_columns(b, from, columns_at_once, divisor, out);
  if (from + 32 <= b.dim) sum_columns(b, from, 32, divisor, out), from += 32;
  if (from + 16 <= b.dim) sum_columns(b, from, 16, divisor, out), from += 16;
  if (from < b.dim) sum_columns(b, from, b.dim - from, divisor, out);
}

template <class T, class I> void sum_up(const Bag<T, I>& b, int64_t over, T* out) {
  if constexpr (is_half_v<T>)
    if (has_f16c())
      return b.scales ? sum_half_bag<true>(b, static_cast<float>(over), out) : sum_half_bag<false>(b, static_cast<float>(over), out);
  sum_bag(b, over, out);
}

// The greatest of each column, the first of equals, and its row.
template <class T, class I> TENON_WIDE void max_bag(const Bag<T, I>& b, T* out, int64_t* rows) {
  std::fill_n(out, b.dim, narrow<T>(Wide<T>(0)));
  std::fill_n(rows, b.dim, int64_t{0});
  bool first = true;
  for (int64_t i = b.begin; i < b.end; i++) {
    b.fetch(i, 0, std::min<int64_t>(b.dim, 128));
    auto row = static_cast<int64_t>(b.indices[i]);
    if (row == b.padding) continue;
    const T* w = b.table + row * b.dim;
    for (int64_t k = 0; k < b.dim; k++) {
      bool greater = first | (widen(w[k]) > widen(out[k]));
      out[k] = greater ? w[k] : out[k];
      rows[k] = greater ? row : rows[k];
    }
    first = false;
  }
}

// Bags, and for gradients: which bag an index is of, how many a bag has, where a maximum comes from.
template <class T, class I> void fill_bags(const LibraryCall& c, const Bags& b) {
  const LibraryTensor &owners = c.outputs[1], &sizes = c.outputs[2], &positions = c.outputs[3];
  bool keep_positions = b.mode == 2 && positions.numel() == b.count * b.dim;
  std::memset(sizes.data, 0, static_cast<size_t>(sizes.numel()) * size_of(sizes.dtype));
  if (!keep_positions) std::memset(positions.data, 0, static_cast<size_t>(positions.numel()) * size_of(positions.dtype));
  T* out = c.outputs[0].as<T>();
  I *owner = owners.numel() > 0 ? owners.as<I>() : nullptr, *size_of_bag = sizes.as<I>();
  if (owner) std::fill(owner, owner + owners.numel(), I(0)); // of those that are in no bag
  int64_t sized = sizes.numel(), n = b.indices.numel();
  int64_t work = std::max<int64_t>(1, (n + b.count) * b.dim / std::max<int64_t>(1, b.count));
  parallel(c, b.count, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> rows(b.mode == 2 ? static_cast<size_t>(b.dim) : 0);
    int64_t ahead = std::clamp<int64_t>(4096 / std::max<int64_t>(1, b.dim * static_cast<int64_t>(sizeof(T))), 4, 16);
    Bag<T, I> bag{
        b.weight.as<const T>(), b.indices.as<const I>(), b.scales ? b.scales->as<const T>() : nullptr, 0, 0, n, b.dim, b.padding, ahead};
    for (int64_t k = begin; k < end; k++) {
      bag.begin = b.begins[static_cast<size_t>(k)], bag.end = b.begins[static_cast<size_t>(k) + 1];
      T* to = out + k * b.dim;
      int64_t size = b.delimited() && !b.last_offset ? bag.end - bag.begin : b.listed(k);
      if (b.padding >= 0) size -= std::count(bag.indices + bag.begin, bag.indices + bag.end, static_cast<I>(b.padding));
      if (b.mode == 2) max_bag(bag, to, rows.data());
      else sum_up(bag, b.mode == 1 ? std::max<int64_t>(1, size) : 1, to);
      if (k < sized) size_of_bag[k] = static_cast<I>(size);
      if (keep_positions)
        std::transform(rows.begin(), rows.end(), positions.as<I>() + k * b.dim, [](int64_t row) { return static_cast<I>(row); });
      if (owner) std::fill(owner + bag.begin, owner + bag.end, static_cast<I>(k));
    }
  });
}

enum class Segment : int64_t { Sum, Mean, Max, Min, Prod };

template <Segment R, class W> W join_segment(W a, W b) {
  if constexpr (R == Segment::Max) return nan(a) || a > b ? a : b;
  else if constexpr (R == Segment::Min) return nan(a) || a < b ? a : b;
  else if constexpr (R == Segment::Prod) return a * b;
  else return a + b;
}
template <class W> W segment_start(Segment r) {
  if (r == Segment::Max) return -std::numeric_limits<W>::infinity();
  if (r == Segment::Min) return std::numeric_limits<W>::infinity();
  return r == Segment::Prod ? W(1) : W(0);
}

// Joins `length` rows of `width` elements, `step` apart, to `sum`.
template <Segment R, class T> TENON_WIDE void join_rows(const T* from, int64_t length, int64_t step, int64_t width, Wide<T>* sum) {
  for (int64_t i = 0; i < length; i++, from += step)
    for (int64_t k = 0; k < width; k++) sum[k] = join_segment<R>(sum[k], widen(from[k]));
}
template <class T> auto join_rows_by(Segment r) {
  switch (r) {
  case Segment::Max: return join_rows<Segment::Max, T>;
  case Segment::Min: return join_rows<Segment::Min, T>;
  case Segment::Prod: return join_rows<Segment::Prod, T>;
  default: return join_rows<Segment::Sum, T>;
  }
}

// Where each segment of each outer index begins, and how many elements it has.
const char* find_segments(const LibraryTensor& bounds, const Lanes& l, int64_t segments, bool offsets, bool whole,
                          std::vector<std::pair<int64_t, int64_t>>& found) {
  int64_t per_outer = segments + offsets;
  for (int64_t o = 0; o < l.outer; o++) {
    int64_t at = 0;
    for (int64_t s = 0; s < segments; s++) {
      int64_t length = integer_at(bounds, o * per_outer + s);
      if (offsets) at = length, length = integer_at(bounds, o * per_outer + s + 1) - at;
      if (length < 0 || at < 0 || length > l.n - at)
        return message("segment {} of length {} does not fit into {} elements", s, length, l.n);
      found.emplace_back(at, length);
      at += length;
    }
    if (whole && at != l.n) return message("the lengths add up to {}, but there are {} elements", at, l.n);
  }
  return nullptr;
}

} // namespace

const char* embedding_bag(const LibraryCall& c) {
  Bags b{c.inputs[0],          c.inputs[1],         c.inputs[2],   c.inputs.size() > 3 ? &c.inputs[3] : nullptr, c.ints[0], c.ints[2],
         c.outputs[0].size(0), c.inputs[0].size(1), c.ints[1] != 0};
  if (const char* error = check_bags(c, b)) return error;
  return for_float(b.weight.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if (b.indices.dtype == DType::I64) fill_bags<T, int64_t>(c, b);
    else if (b.indices.dtype == DType::I32) fill_bags<T, int32_t>(c, b);
    else return "indices of another dtype than i32 or i64";
    return nullptr;
  });
}

const char* embedding_renorm(const LibraryCall& c) {
  const LibraryTensor &weight = c.inputs[0], &indices = c.inputs[1];
  double max_norm = c.numbers[0], p = c.numbers[1];
  int64_t rows = weight.size(0), dim = weight.size(1);
  copy_input(c, 0, 0);
  return for_float(weight.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    std::vector<uint8_t> done(static_cast<size_t>(rows), 0);
    for (int64_t i = 0; i < indices.numel(); i++) {
      int64_t row = integer_at(indices, i);
      if (row < 0 || row >= rows) return out_of_range(row, rows);
      if (std::exchange(done[static_cast<size_t>(row)], uint8_t{1})) continue;
      T* w = c.outputs[0].as<T>() + row * dim;
      double norm = 0;
      for (int64_t k = 0; k < dim; k++) {
        double x = std::fabs(static_cast<double>(widen(w[k])));
        norm = std::isinf(p) ? std::max(norm, x) : norm + (p == 2 ? x * x : p == 0 ? x != 0 : std::pow(x, p));
      }
      if (!std::isinf(p) && p != 0) norm = std::pow(norm, 1 / p);
      if (!(norm > max_norm)) continue;
      auto scale = static_cast<Wide<T>>(max_norm / (norm + 1e-7));
      for (int64_t k = 0; k < dim; k++) w[k] = narrow<T>(widen(w[k]) * scale);
    }
    return nullptr;
  });
}

const char* segment_reduce(const LibraryCall& c) {
  const LibraryTensor &data = c.inputs[0], &out = c.outputs[0];
  auto reduce = static_cast<Segment>(c.ints[0]);
  int64_t axis = c.ints[1], segments = out.size(axis);
  bool offsets = c.ints[2] != 0, has_initial = c.ints[3] != 0;
  Lanes l(data.sizes, axis);
  return for_float(data.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    std::vector<std::pair<int64_t, int64_t>> found;
    if (const char* error = find_segments(c.inputs[1], l, segments, offsets, !offsets && c.ints[4] == 0, found)) return error;
    auto join = join_rows_by<T>(reduce);
    int64_t work = l.n * l.inner / std::max<int64_t>(1, segments) + 1;
    parallel(c, std::ssize(found), std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
      std::vector<W> sum(static_cast<size_t>(l.inner));
      for (int64_t s = begin; s < end; s++) {
        auto [at, length] = found[static_cast<size_t>(s)];
        std::fill(sum.begin(), sum.end(), has_initial ? static_cast<W>(c.numbers[0]) : segment_start<W>(reduce));
        join(data.as<const T>() + (s / segments * l.n + at) * l.inner, length, l.inner, l.inner, sum.data());
        T* to = out.as<T>() + s * l.inner;
        for (int64_t k = 0; k < l.inner; k++) {
          W x = sum[static_cast<size_t>(k)];
          if (reduce == Segment::Mean && length == 0 && !has_initial) x = std::numeric_limits<W>::quiet_NaN();
          else if (reduce == Segment::Mean && length > 0) x /= static_cast<W>(length);
          to[k] = narrow<T>(x);
        }
      }
    });
    return nullptr;
  });
}

} // namespace tenon::library
