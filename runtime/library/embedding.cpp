// Sums, means and maxima over bags of table rows and over segments; limiting the norm of table rows.
#include <limits>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

struct Bags {
  const LibraryTensor &weight, &indices, &offsets;
  const LibraryTensor* scales; // null: all 1
  int64_t mode, padding, count, dim;

  int64_t begin(int64_t b) const { return integer_at(offsets, b); }
  int64_t end(int64_t b) const { return b + 1 < offsets.numel() ? begin(b + 1) : indices.numel(); }
};

const char* check_bags(const Bags& b, bool last_offset) {
  int64_t n = b.indices.numel(), rows = b.weight.size(0);
  for (int64_t i = 0; i < n; i++)
    if (int64_t v = integer_at(b.indices, i); v < 0 || v >= rows) return out_of_range(v, rows);
  if (b.scales && b.scales->numel() != n) return message("{} weights for {} indices", b.scales->numel(), n);
  int64_t before = 0;
  for (int64_t k = 0; k < b.offsets.numel(); k++) {
    int64_t at = integer_at(b.offsets, k);
    if ((k == 0 && at != 0) || at < before || at > n) return message("offset {} of bag {} is wrong: offsets start at 0, grow, and stay within the {} indices", at, k, n);
    before = at;
  }
  return last_offset && b.offsets.numel() == 0 ? "include_last_offset needs an offset" : nullptr;
}

// sum += scale * row. For f32, what most tables hold, compiled for wider vectors too; the loader picks, with a function that
// ThreadSanitizer would enter before it is ready.
#ifndef __SANITIZE_THREAD__
[[gnu::target_clones("arch=skylake-avx512", "arch=haswell", "default")]]
#endif
void add_row(float* sum, const float* row, float scale, int64_t n) {
  for (int64_t k = 0; k < n; k++) sum[k] += scale * row[k];
}
template <class T> void add_row(Wide<T>* sum, const T* row, Wide<T> scale, int64_t n) {
  for (int64_t k = 0; k < n; k++) sum[k] += scale * widen(row[k]);
}

// Rows lie far apart, so they are fetched this many ahead: enough to cover the latency of memory at a row of 256 bytes.
constexpr int64_t fetch_ahead = 16;

// One bag into `sum`, of the wide type.
template <class T> int64_t add_rows(const Bags& b, int64_t bag, Wide<T>* sum) {
  using W = Wide<T>;
  const T* table = b.weight.as<const T>();
  std::fill_n(sum, b.dim, W(0));
  int64_t used = 0, end = b.end(bag), known = b.indices.numel();
  for (int64_t i = b.begin(bag); i < end; i++) {
    int64_t row = integer_at(b.indices, i);
    if (i + fetch_ahead < known) {
      const char* ahead = reinterpret_cast<const char*>(table + integer_at(b.indices, i + fetch_ahead) * b.dim);
      for (size_t at = 0; at < std::min<size_t>(static_cast<size_t>(b.dim) * sizeof(T), 512); at += 64) __builtin_prefetch(ahead + at);
    }
    if (row == b.padding) continue;
    add_row(sum, table + row * b.dim, b.scales ? widen(b.scales->as<const T>()[i]) : W(1), b.dim);
    used++;
  }
  if (b.mode == 1 && used > 1)
    for (int64_t k = 0; k < b.dim; k++) sum[k] /= static_cast<W>(used);
  return used;
}

template <class T> int64_t max_rows(const Bags& b, int64_t bag, Wide<T>* best, int64_t* from) {
  std::fill_n(best, b.dim, Wide<T>(0));
  std::fill_n(from, b.dim, int64_t{0});
  int64_t used = 0;
  for (int64_t i = b.begin(bag); i < b.end(bag); i++) {
    int64_t row = integer_at(b.indices, i);
    if (row == b.padding) continue;
    const T* w = b.weight.as<const T>() + row * b.dim;
    for (int64_t k = 0; k < b.dim; k++)
      if (Wide<T> x = widen(w[k]); used == 0 || x > best[k]) best[k] = x, from[k] = row;
    used++;
  }
  return used;
}

void write_index(const LibraryTensor& t, int64_t i, int64_t value) {
  if (t.dtype == DType::I32) t.as<int32_t>()[i] = static_cast<int32_t>(value);
  else t.as<int64_t>()[i] = value;
}
// Which bag an index is of: what a gradient needs.
void write_owners(const LibraryTensor& owner, const Bags& b) {
  int64_t listed = owner.numel();
  for (int64_t bag = 0; bag < b.count && listed > 0; bag++)
    for (int64_t i = b.begin(bag); i < b.end(bag); i++) write_index(owner, i, bag);
}

template <class W> W join_segment(int64_t reduce, W a, W b) {
  if (reduce == 2) return nan(a) || a > b ? a : b;
  if (reduce == 3) return nan(a) || a < b ? a : b;
  return reduce == 4 ? a * b : a + b;
}
template <class W> W segment_start(int64_t reduce) {
  if (reduce == 2) return -std::numeric_limits<W>::infinity();
  if (reduce == 3) return std::numeric_limits<W>::infinity();
  return reduce == 4 ? W(1) : W(0);
}

} // namespace

const char* embedding_bag(const LibraryCall& c) {
  Bags b{c.inputs[0], c.inputs[1], c.inputs[2], c.inputs.size() > 3 ? &c.inputs[3] : nullptr, c.ints[0], c.ints[2], c.outputs[0].size(0), c.inputs[0].size(1)};
  if (const char* error = check_bags(b, c.ints[1] != 0)) return error;
  return for_float(b.weight.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    write_owners(c.outputs[1], b);
    const LibraryTensor &sizes = c.outputs[2], &positions = c.outputs[3];
    bool keep_positions = b.mode == 2 && positions.numel() == b.count * b.dim;
    std::memset(sizes.data, 0, static_cast<size_t>(sizes.numel()) * size_of(sizes.dtype));
    if (!keep_positions) std::memset(positions.data, 0, static_cast<size_t>(positions.numel()) * size_of(positions.dtype));
    int64_t work = std::max<int64_t>(1, b.indices.numel() * b.dim / std::max<int64_t>(1, b.count));
    parallel(c, b.count, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
      std::vector<Wide<T>> row(static_cast<size_t>(b.dim));
      std::vector<int64_t> from(b.mode == 2 ? row.size() : 0);
      for (int64_t bag = begin; bag < end; bag++) {
        int64_t used = b.mode == 2 ? max_rows<T>(b, bag, row.data(), from.data()) : add_rows<T>(b, bag, row.data());
        T* out = c.outputs[0].as<T>() + bag * b.dim;
        for (int64_t k = 0; k < b.dim; k++) out[k] = narrow<T>(row[static_cast<size_t>(k)]);
        if (bag < sizes.numel()) write_index(sizes, bag, used);
        for (int64_t k = 0; keep_positions && k < b.dim; k++) write_index(positions, bag * b.dim + k, from[static_cast<size_t>(k)]);
      }
    });
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
  const LibraryTensor &data = c.inputs[0], &bounds = c.inputs[1], &out = c.outputs[0];
  int64_t reduce = c.ints[0], axis = c.ints[1];
  bool offsets = c.ints[2] != 0, has_initial = c.ints[3] != 0, whole = !offsets && c.ints[4] == 0;
  Lanes l(data.sizes, axis);
  int64_t segments = out.size(axis), per_outer = segments + offsets;
  return for_float(data.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using W = Wide<T>;
    std::vector<W> sum(static_cast<size_t>(l.inner));
    for (int64_t o = 0; o < l.outer; o++) {
      int64_t at = 0;
      for (int64_t s = 0; s < segments; s++) {
        int64_t first = integer_at(bounds, o * per_outer + s), length = first;
        if (offsets) at = first, length = integer_at(bounds, o * per_outer + s + 1) - at;
        if (length < 0 || at < 0 || at + length > l.n) return message("segment {} of length {} does not fit into {} elements", s, length, l.n);
        std::fill(sum.begin(), sum.end(), has_initial ? static_cast<W>(c.numbers[0]) : segment_start<W>(reduce));
        for (int64_t i = 0; i < length; i++, at++)
          for (int64_t k = 0; k < l.inner; k++) sum[static_cast<size_t>(k)] = join_segment(reduce, sum[static_cast<size_t>(k)], widen(data.as<const T>()[(o * l.n + at) * l.inner + k]));
        T* to = out.as<T>() + (o * segments + s) * l.inner;
        for (int64_t k = 0; k < l.inner; k++) {
          W x = sum[static_cast<size_t>(k)];
          if (reduce == 1 && length == 0 && !has_initial) x = std::numeric_limits<W>::quiet_NaN();
          else if (reduce == 1 && length > 0) x /= static_cast<W>(length);
          to[k] = narrow<T>(x);
        }
      }
      if (whole && at != l.n) return message("the lengths add up to {}, but there are {} elements", at, l.n);
    }
    return nullptr;
  });
}

} // namespace tenon::library
