// Packing. Elements of four bytes, and groups that make up four bytes and lie together already, go through the generated
// movers; the rest through plain loops over rows.
#include "runtime/gemm_pack.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/numeric.h"
#include "runtime/gemm_shuffle.h"
#include "runtime/wide.h"

namespace tenon {

std::optional<Conversion> conversion_of(DType from, DType to) {
  if (from == DType::F16 && to == DType::F32) return Conversion::F16ToF32;
  if (from == DType::BF16 && to == DType::F32) return Conversion::BF16ToF32;
  if (from == DType::I8 && to == DType::F32) return Conversion::I8ToF32;
  if (from == DType::I8 && to == DType::I16) return Conversion::I8ToI16;
  if (from == DType::U8 && to == DType::I16) return Conversion::U8ToI16;
  return std::nullopt;
}

namespace {

const char* at(const PackSource& s, int64_t k, int64_t other) {
  return static_cast<const char*>(s.data) + (k * s.k_stride + other * s.other_stride) * static_cast<int64_t>(size_of(s.type));
}

/// One element, converted; to bf16 alone what it holds exactly.
void put(const char* from, DType type, char* to, DType as) {
  if (type == as) return void(std::memcpy(to, from, size_of(type)));
  dispatch(type, [&]<class T>(T v) {
    std::memcpy(&v, from, sizeof v);
    float wide = convert<float>(v);
    int16_t integer = convert<int16_t>(v);
    if (as == DType::F32) std::memcpy(to, &wide, 4);
    else if (as == DType::BF16) std::memcpy(to, reinterpret_cast<char*>(&wide) + 2, 2);
    else std::memcpy(to, &integer, 2);
  });
}

/// A panel in the making: element (k, j) lies at (k / group * width + j) * group + k % group.
struct Panel {
  const GemmFamily& family;
  int64_t width, columns, depth, padded_depth; // depth: valid k
  char* to;
  bool streamed;

  int64_t element() const { return static_cast<int64_t>(size_of(family.b)); }
  char* at(int64_t k, int64_t j) const { return to + ((k / family.group * width + j) * family.group + k % family.group) * element(); }
};

void pack_any(const Panel& p, const PackSource& b) {
  std::memset(p.to, 0, static_cast<size_t>(p.padded_depth * p.width * p.element()));
  for (int64_t k = 0; k < p.depth; k++)
    for (int64_t j = 0; j < p.columns; j++) put(at(b, k, j), b.type, p.at(k, j), p.family.b);
}

/// Rows of B that lie together, without groups: copied, wide elements as several of four bytes.
void pack_plain_rows(const KernelTable& kernels, const Panel& p, const PackSource& b) {
  int64_t bytes = p.element(), row = p.width * bytes;
  if (bytes % 4 == 0 && row % (4 * kernels.lanes()) == 0) {
    MoveArgs args{b.data, p.to, b.k_stride * bytes, row, p.depth, p.columns * bytes / 4};
    return kernels.copy(static_cast<int>(row / (4 * kernels.lanes())))(&args);
  }
  for (int64_t k = 0; k < p.depth; k++) {
    char* to = p.to + k * row;
    std::memcpy(to, at(b, k, 0), static_cast<size_t>(p.columns * bytes));
    std::memset(to + p.columns * bytes, 0, static_cast<size_t>(row - p.columns * bytes));
  }
}

/// Rows of B that lie together, in groups of 2 x 2, 2 x 1 or 4 x 1 bytes: woven together.
void pack_groups(const Panel& p, const PackSource& b) {
  int64_t groups = p.width * p.family.group * p.element(), whole = (p.depth + p.family.group - 1) / p.family.group,
          all = p.padded_depth / p.family.group;
  weave(b.data, b.k_stride * p.element(), static_cast<int>(p.element()), p.family.group, p.depth, p.columns, p.width, p.to);
  std::memset(p.to + whole * groups, 0, static_cast<size_t>((all - whole) * groups));
}

/// -128 times the sums of N columns of `count` groups of four bytes, the groups `stride` bytes apart.
template <int N> [[gnu::always_inline]] inline void compensate(const char* groups, int64_t count, int64_t stride, int32_t* to) {
  typedef int16_t Pairs __attribute__((vector_size(N * 4)));
  constexpr int64_t most_groups = 127; // whose sums of two bytes each fit 16 bits
  int32_t sums[N] = {};
  for (int64_t g = 0; g < count; g += most_groups) {
    Pairs all{};
    for (int64_t end = std::min(g + most_groups, count), i = g; i < end; i++, groups += stride) {
      Pairs x;
      std::memcpy(&x, groups, sizeof x);
      all += (x >> 8) + ((x << 8) >> 8);
    }
    int16_t pairs[2 * N];
    std::memcpy(pairs, &all, sizeof all);
    for (int j = 0; j < N; j++) sums[j] += pairs[2 * j] + pairs[2 * j + 1];
  }
  for (int j = 0; j < N; j++) to[j] = sums[j] * -128;
}
/// The same of a panel of so many columns, a multiple of 8.
TENON_WIDE void compensation(const char* groups, int64_t count, int64_t width, int32_t* to) {
  int64_t j = 0;
  for (; j + 16 <= width; j += 16) compensate<16>(groups + j * 4, count, width * 4, to + j);
  for (; j < width; j += 8) compensate<8>(groups + j * 4, count, width * 4, to + j);
}

/// Columns of B that lie together, whole groups of them as units of `unit` bytes: transposed.
void transpose_columns(const KernelTable& kernels, const Panel& p, const PackSource& b) {
  int64_t group = p.family.group, unit = p.element() * group, whole = p.depth / group;
  int64_t row = p.width * unit, from_row = b.other_stride * p.element();
  if (unit == 4) {
    bool whole_lines = reinterpret_cast<uintptr_t>(p.to) % 64 == 0 && row % 64 == 0;
    MoveArgs args{b.data, p.to, from_row, row, p.columns, whole, p.streamed && whole_lines};
    kernels.transpose()(&args);
  } else {
    transpose_elements(b.data, from_row, static_cast<int>(unit), p.columns, whole, p.to, row);
  }
  if (p.columns < p.width)
    for (int64_t k = 0; k < whole; k++)
      std::memset(p.to + k * row + p.columns * unit, 0, static_cast<size_t>((p.width - p.columns) * unit));
  if (whole * group == p.padded_depth) return;
  std::memset(p.to + whole * row, 0, static_cast<size_t>(p.padded_depth / group - whole) * static_cast<size_t>(row));
  for (int64_t k = whole * group; k < p.depth; k++)
    for (int64_t j = 0; j < p.columns; j++) std::memcpy(p.at(k, j), at(b, k, j), size_of(b.type));
}

void pack_same(const KernelTable& kernels, const Panel& p, const PackSource& b) {
  int64_t unit = p.element() * p.family.group;
  if (b.other_stride == 1 && p.family.group == 1) pack_plain_rows(kernels, p, b);
  else if (b.other_stride == 1 && unit <= 4) pack_groups(p, b);
  else if (b.k_stride == 1) transpose_columns(kernels, p, b);
  else pack_any(p, b);
}

constexpr int64_t widened_at_once = 16;

/// So many bytes as 16-bit integers or as the upper half of floats, which holds them exactly.
template <class T> [[gnu::always_inline]] inline void widen_vector(const char* from, char* to, bool as_float) {
  typedef T Bytes __attribute__((vector_size(widened_at_once)));
  typedef uint16_t Words __attribute__((vector_size(widened_at_once * 2)));
  typedef float Floats __attribute__((vector_size(widened_at_once * 4)));
  typedef uint32_t Bits __attribute__((vector_size(widened_at_once * 4)));
  Bytes x;
  std::memcpy(&x, from, sizeof x);
  Words w;
  if (as_float) {
    Floats f = __builtin_convertvector(x, Floats);
    w = __builtin_convertvector(reinterpret_cast<Bits>(f) >> 16, Words);
  } else {
    w = __builtin_convertvector(x, Words);
  }
  std::memcpy(to, &w, sizeof w);
}

/// Lines of bytes, `stride` apart.
template <class T> TENON_WIDE void widen(const char* from, int64_t stride, int64_t lines, int64_t length, char* to, bool as_float) {
  int64_t whole = length / widened_at_once * widened_at_once;
  for (; lines > 0; lines--, from += stride, to += 2 * length) {
    for (int64_t j = 0; j < whole; j += widened_at_once) widen_vector<T>(from + j, to + 2 * j, as_float);
    if (whole == length) continue;
    char rest[widened_at_once] = {}, words[2 * widened_at_once];
    std::memcpy(rest, from + whole, static_cast<size_t>(length - whole));
    widen_vector<T>(rest, words, as_float);
    std::memcpy(to + 2 * whole, words, static_cast<size_t>(2 * (length - whole)));
  }
}

constexpr int64_t widened_depth = 32, most_lanes = 16; // of a panel, at once

/// Bytes for a family that reads 16 bits: a strip of what lies together at a time is widened, then packed.
void pack_bytes(const KernelTable& kernels, const Panel& p, const PackSource& b) {
  bool rows = b.other_stride == 1, as_float = p.family.b == DType::BF16;
  uint16_t strip[widened_depth * GemmFamily::max_vectors * most_lanes];
  int64_t lines = rows ? p.depth : p.columns, length = rows ? p.columns : p.depth;
  auto f = b.type == DType::I8 ? widen<int8_t> : widen<uint8_t>;
  f(at(b, 0, 0), rows ? b.k_stride : b.other_stride, lines, length, reinterpret_cast<char*>(strip), as_float);
  pack_same(kernels, p, {strip, p.family.b, rows ? length : 1, rows ? 1 : length});
}

void pack_panel(const KernelTable& kernels, const Panel& p, const PackSource& b) {
  if (b.type == p.family.b) pack_same(kernels, p, b);
  else if (b.other_stride == 1 || b.k_stride == 1) pack_bytes(kernels, p, b);
  else pack_any(p, b);
}

} // namespace

void pack_panels(const KernelTable& kernels, const GemmFamily& f, const Panels& panels, const PackSource& b, int64_t k0, int64_t k1,
                 int64_t p0, int64_t p1, void* to, bool streamed) noexcept {
  if (k1 <= k0 && panels.tail == 0) return;
  char* first = static_cast<char*>(to);
  int64_t depth = panels.depth(k1 - k0), panel_bytes = panels.width() * panels.column_bytes(depth);
  // Rows of B are passed through some at a time, so that few pages are in use, and lines that two panels share are read once.
  int64_t chunk = b.other_stride == 1 || b.type != f.b ? panels.depth(widened_depth) : std::max<int64_t>(depth, 1);
  for (int64_t k = 0; k < depth; k += chunk)
    for (int64_t p = p0; p < p1; p++) {
      PackSource from = b;
      from.data = at(b, k0 + k, p * panels.width());
      int64_t padded = std::min(chunk, depth - k), valid = std::min(padded, k1 - k0 - k);
      pack_panel(
          kernels,
          {f, panels.panel_width(p), panels.columns(p), valid, padded, first + (p - p0) * panel_bytes + panels.bytes(p, k), streamed},
          from);
    }
  if (panels.tail == 0) return;
  for (int64_t p = p0; p < p1; p++) {
    char* panel = first + (p - p0) * panel_bytes;
    compensation(panel, depth / panels.group, panels.panel_width(p), reinterpret_cast<int32_t*>(panel + panels.bytes(p, depth)));
  }
}

void pack_columns(int64_t n, const PackSource& b, int64_t k0, int64_t k1, void* to, int64_t to_stride) noexcept {
  dispatch(b.type, [&]<class T>(T) {
    const T* from = static_cast<const T*>(b.data);
    for (int64_t j = 0; j < n; j++) {
      T* column = reinterpret_cast<T*>(static_cast<char*>(to) + j * to_stride);
      for (int64_t k = k0; k < k1; k++) column[k - k0] = from[k * b.k_stride + j * b.other_stride];
    }
  });
}

void pack_rows(const KernelTable& kernels, const GemmFamily& f, const PackSource& a, int64_t m0, int64_t m1, int64_t k0, int64_t k1,
               void* to, int64_t to_stride) noexcept {
  char* rows = static_cast<char*>(to);
  int64_t count = m1 - m0, bytes = static_cast<int64_t>(size_of(f.a)), depth = (k1 - k0 + f.k_step - 1) / f.k_step * f.k_step;
  auto convert = conversion_of(a.type, f.a);
  if (a.k_stride == 1 && convert) {
    MoveArgs args{at(a, k0, m0), rows, a.other_stride * static_cast<int64_t>(size_of(a.type)), to_stride, count, k1 - k0};
    kernels.convert (*convert)(&args);
  } else if (a.k_stride == 1 && a.type == f.a) {
    for (int64_t i = 0; i < count; i++) std::memcpy(rows + i * to_stride, at(a, k0, m0 + i), static_cast<size_t>((k1 - k0) * bytes));
  } else if (a.other_stride == 1 && a.type == f.a && bytes == 4) {
    MoveArgs args{at(a, k0, m0), rows, a.k_stride * 4, to_stride, k1 - k0, count};
    kernels.transpose()(&args);
  } else if (a.other_stride == 1 && a.type == f.a) {
    transpose_elements(at(a, k0, m0), a.k_stride * bytes, static_cast<int>(bytes), k1 - k0, count, rows, to_stride);
  } else {
    for (int64_t i = 0; i < count; i++)
      for (int64_t k = 0; k < k1 - k0; k++) put(at(a, k0 + k, m0 + i), a.type, rows + i * to_stride + k * bytes, f.a);
  }
  if (depth > k1 - k0)
    for (int64_t i = 0; i < count; i++)
      std::memset(rows + i * to_stride + (k1 - k0) * bytes, 0, static_cast<size_t>((depth - (k1 - k0)) * bytes));
  int64_t padded = (count + f.row_step - 1) / f.row_step * f.row_step;
  for (int64_t i = count; i < padded; i++) std::memset(rows + i * to_stride, 0, static_cast<size_t>(depth * bytes));
}

void prepare_packing(const KernelTable& kernels, const GemmFamily& f, DType a) {
  kernels.transpose();
  if (auto c = conversion_of(a, f.a)) kernels.convert(*c);
}

bool can_pack(const GemmFamily& f, DType a, DType b) {
  if (is_byte(a) && is_byte(b) && f.sum != DType::I32) return false; // floats do not hold their sums
  bool widened = f.b == DType::I16 ? is_byte(b) : f.b == DType::BF16 && f.a == f.b && b == DType::I8;
  return (a == f.a || conversion_of(a, f.a)) && (b == f.b || widened);
}

} // namespace tenon
