// Products on blocks, by the micro-kernels; dots of a few rows with keys as they lie in memory.
#include "runtime/attention_tiles.h"

#include "runtime/matmul.h"
#include "runtime/wide.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon {

namespace {

int family_number(const KernelTable& kernels) { return choose_family(kernels, DType::F32, DType::F32, any_size, any_size, any_size); }
const GemmFamily& family_of(const KernelTable& kernels) { return kernels.family(family_number(kernels)); }

} // namespace

int attention_family(const KernelTable& kernels, DType type) {
  int best = type == DType::BF16 ? choose_family(kernels, type, type, any_size, any_size, any_size) : -1;
  return best >= 0 && kernels.family(best).a == type ? best : family_number(kernels);
}

Panels key_panels(const KernelTable& kernels, int family, int64_t block_keys, int64_t depth) {
  return choose_panels(kernels.family(family), block_keys, depth);
}

Panels value_panels(const KernelTable& kernels, int family, int64_t columns, int64_t keys) {
  return choose_panels(kernels.family(family), columns, keys);
}

namespace {

TENON_WIDE void widen_bf16(const uint16_t* from, int64_t n, float* to) {
  auto* bits = reinterpret_cast<uint32_t*>(to);
  for (int64_t k = 0; k < n; k++) bits[k] = static_cast<uint32_t>(from[k]) << 16;
}

// Every CPU that code is generated for has F16C.
[[gnu::target("avx,f16c")]] void widen_f16(const uint16_t* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
  for (; k < n; k++) to[k] = _cvtsh_ss(from[k]);
}

} // namespace

void widen_rows(DType type, const void* data, int64_t row, int64_t column, int64_t rows, int64_t columns, float* to) noexcept {
  for (int64_t i = 0; i < rows; i++, to += columns) {
    if (type == DType::F32) {
      const float* from = static_cast<const float*>(data) + i * row;
      for (int64_t k = 0; k < columns; k++) to[k] = from[k * column];
      continue;
    }
    const uint16_t* from = static_cast<const uint16_t*>(data) + i * row;
    auto widen = type == DType::BF16 ? widen_bf16 : widen_f16;
    if (column == 1) widen(from, columns, to);
    else
      for (int64_t k = 0; k < columns; k++) widen(from + k * column, 1, to + k);
  }
}

namespace {

TENON_WIDE void narrow_row(const float* from, int64_t n, uint16_t* to) {
  for (int64_t k = 0; k < n; k++) {
    uint32_t bits = std::bit_cast<uint32_t>(from[k]), rounded = bits + 0x7fff + (bits >> 16 & 1);
    to[k] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded >> 16);
  }
}

/// Rows cut into tiles, and the kernels for these.
struct CutRows {
  const GemmFamily& family;
  RowTile tiles[most_tile_rows];
  const void* pointers[GemmFamily::max_rows];
  int64_t count = 0;
  TileKernels kernels;

  CutRows(const KernelTable& table, int number, const Panels& panels, int64_t rows) : family(table.family(number)) {
    int most = family.rows[static_cast<size_t>(panels.vectors)];
    uint64_t heights = 0;
    auto add = [&](int height) { tiles[count++].count = height, heights |= uint64_t{1} << height; };
    Tiles cut(rows, most);
    for (int64_t t = 0; t < cut.count && !family.is_tiled(); t++) add(cut.rows(t));
    for (int64_t row = 0; row < rows && family.is_tiled(); row += most) add(rows - row > family.row_step ? most : family.row_step);
    kernels = tile_kernels(table, number, panels, GemmKind::Packed, heights, !family.is_tiled());
  }

  /// Rows `stride` bytes apart.
  void point(const void* first, int64_t stride) {
    for (int64_t i = 0; i < GemmFamily::max_rows; i++) pointers[i] = static_cast<const char*>(first) + i * family.row_step * stride;
    for (int64_t t = 0, row = 0; t < count; row += tiles[t++].count) tiles[t].rows = pointers, tiles[t].first = row * stride;
  }
  /// Rows anywhere.
  void point(const void* const* rows) {
    for (int64_t t = 0, row = 0; t < count; row += tiles[t++].count) tiles[t].rows = rows + row, tiles[t].first = 0;
  }

  /// The product with the first `depth` of packed panels, all of them, to rows of `to`.
  GemmBlock times(const Panels& panels, const void* packed, int64_t depth, int64_t a_stride, float* to, int64_t stride) const {
    return {.panels = panels,
            .kernels = kernels,
            .p0 = 0,
            .p1 = panels.count(),
            .b = packed,
            .panel_depth = panels.depth(),
            .first_depth = 0,
            .tiles = tiles,
            .tile_count = count,
            .positions = 1,
            .depth = panels.depth(depth),
            .zeros = nullptr,
            .a_stride = a_stride,
            .c = reinterpret_cast<char*>(to),
            .c_stride = stride * 4,
            .sum_bytes = 4,
            .mode = GemmInit::Zero,
            .rows_first = false};
  }
};

} // namespace

void narrow_rows(const float* from, int64_t from_stride, int64_t rows, int64_t n, int64_t padded, uint16_t* to,
                 int64_t to_stride) noexcept {
  for (int64_t i = 0; i < rows; i++, from += from_stride, to += to_stride) {
    narrow_row(from, n, to);
    std::fill(to + n, to + padded, uint16_t{0});
  }
}

void tile_product(const KernelTable& kernels, int family, const void* const* q, int64_t q_stride, int64_t rows, const Panels& panels,
                  const void* packed, int64_t n, float* scores, int64_t stride) noexcept {
  CutRows cut(kernels, family, panels, rows);
  if (cut.family.is_tiled()) cut.point(q[0], q_stride);
  else cut.point(q);
  GemmBlock block = cut.times(panels, packed, panels.k, q_stride, scores, stride);
  block.p1 = (n + panels.width() - 1) / panels.width();
  multiply_block(block);
}

void accumulate_product(const KernelTable& kernels, int family, const void* weights, int64_t stride, int64_t rows, const Panels& panels,
                        const void* packed, int64_t n, bool fresh, float* out, int64_t out_stride) noexcept {
  CutRows cut(kernels, family, panels, rows);
  cut.point(weights, stride);
  GemmBlock block = cut.times(panels, packed, n, stride, out, out_stride);
  if (!fresh) block.mode = GemmInit::C;
  multiply_block(block);
}

namespace {

typedef float V16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float V4 __attribute__((vector_size(16), aligned(4), may_alias));

inline V4 fold(const V16& v) {
  V4 q[4];
  std::memcpy(q, &v, sizeof v);
  return (q[0] + q[1]) + (q[2] + q[3]);
}

// Four keys at once: their sums end in one vector, so that adding up across costs a quarter.
constexpr int64_t keys_at_once = 4;

TENON_WIDE void dots(const float* q, const float* keys, int64_t key_stride, int64_t count, int64_t depth, float* to) {
  int64_t whole = depth / 16 * 16;
  for (int64_t k = 0; k < count; k += keys_at_once) {
    const float* row[keys_at_once];
    for (int64_t i = 0; i < keys_at_once; i++) row[i] = keys + std::min(k + i, count - 1) * key_stride;
    V16 a = {}, b = {}, c = {}, d = {};
    for (int64_t e = 0; e < whole; e += 16) {
      V16 x = *reinterpret_cast<const V16*>(q + e);
      a += x * *reinterpret_cast<const V16*>(row[0] + e);
      b += x * *reinterpret_cast<const V16*>(row[1] + e);
      c += x * *reinterpret_cast<const V16*>(row[2] + e);
      d += x * *reinterpret_cast<const V16*>(row[3] + e);
    }
    V4 fa = fold(a), fb = fold(b), fc = fold(c), fd = fold(d);
    float sums[keys_at_once];
    for (int64_t i = 0; i < keys_at_once; i++) {
      const V4& f = i == 0 ? fa : i == 1 ? fb : i == 2 ? fc : fd;
      sums[i] = (f[0] + f[1]) + (f[2] + f[3]);
      for (int64_t e = whole; e < depth; e++) sums[i] += q[e] * row[i][e];
    }
    for (int64_t i = 0; i < std::min(keys_at_once, count - k); i++) to[k + i] = sums[i];
  }
}

/// The widest tile in place that still takes all rows at once.
Panels wide_panels(const KernelTable& kernels, int64_t rows, int64_t columns) {
  const GemmFamily& f = family_of(kernels);
  Panels panels = choose_panels(f, columns, 1);
  int most = static_cast<int>(std::clamp<int64_t>((columns + f.lanes - 1) / f.lanes, 1, GemmFamily::max_vectors));
  panels.vectors = 1;
  for (int v = 1; v <= most; v++)
    if (f.rows[static_cast<size_t>(v)] >= rows) panels.vectors = v;
  return panels;
}

} // namespace

void few_rows_product(const void* const* q, int64_t rows, const RowsSource& keys, int64_t count, int64_t depth, float* scores,
                      int64_t stride) noexcept {
  constexpr int64_t together = 16; // keys that stay in L1 for all rows
  for (int64_t k = 0; k < count; k += together)
    for (int64_t i = 0; i < rows; i++)
      dots(static_cast<const float*>(q[i]), keys.data + k * keys.row, keys.row, std::min(together, count - k), depth,
           scores + i * stride + k);
}

void few_rows_accumulate(const KernelTable& kernels, const float* weights, int64_t stride, int64_t rows, const RowsSource& values,
                         int64_t count, int64_t columns, bool fresh, float* out, int64_t out_stride) noexcept {
  Panels panels = wide_panels(kernels, rows, columns);
  const void* pointers[GemmFamily::max_rows];
  for (int64_t i = 0; i < rows; i++) pointers[i] = weights + i * stride;
  for (int64_t p = 0; p < panels.count(); p++) {
    int64_t n = p * panels.width(), some = panels.columns(p);
    int vectors = panels.panel_vectors(p);
    GemmArgs args{.rows = pointers,
                  .first = 0,
                  .zeros = nullptr,
                  .b = values.data + n,
                  .c = out + n,
                  .init = nullptr,
                  .c_stride = out_stride * 4,
                  .b_stride = values.row * 4,
                  .a_stride = 0,
                  .depth = count,
                  .positions = 1,
                  .columns = some,
                  .mode = fresh ? GemmInit::Zero : GemmInit::C};
    kernels.gemm({family_number(kernels), static_cast<int>(rows), vectors, some != int64_t{vectors} * panels.lanes, GemmKind::InPlace})(
        &args);
  }
}

namespace {

// Tiles of up to `rows` rows on panels of which any may be the last.
void prepare_widths(const KernelTable& kernels, int family, int vectors, uint64_t heights) {
  const GemmFamily& f = kernels.family(family);
  for (int v = 1; v <= vectors; v++)
    for (bool masked : {false, true})
      for (int r = 1; r <= f.rows[static_cast<size_t>(v)]; r++)
        if (heights >> r & 1 && !(masked && f.is_tiled())) kernels.gemm({family, r, v, masked, GemmKind::Packed});
}

uint64_t heights_of(const GemmFamily& f, int rows) {
  return f.is_tiled() ? uint64_t{1} << f.row_step | uint64_t{1} << rows : tile_heights(any_size, rows);
}

} // namespace

void prepare_attention(const KernelTable& kernels, int family, int64_t block_keys, int64_t columns) {
  const GemmFamily& f = kernels.family(family);
  Panels keys = key_panels(kernels, family, block_keys, 1);
  prepare_widths(kernels, family, keys.vectors, heights_of(f, f.rows[static_cast<size_t>(keys.vectors)]));
  for (int v = 1; v <= keys.vectors; v++) kernels.copy(v);
  if (columns == any_size) prepare_widths(kernels, family, 4, heights_of(f, f.rows[1]));
  if (columns > 0) {
    Panels panels = value_panels(kernels, family, columns, 1);
    int rows = f.rows[static_cast<size_t>(panels.vectors)];
    tile_kernels(kernels, family, panels, GemmKind::Packed, heights_of(f, rows), !f.is_tiled());
    kernels.copy(panels.panel_vectors(0)), kernels.copy(panels.panel_vectors(panels.count() - 1));
  }
  kernels.transpose();
}

void prepare_few_rows(const KernelTable& kernels, int64_t columns) {
  for (int rows = 1; rows <= few_attention_rows; rows++) {
    if (columns != any_size) {
      Panels panels = wide_panels(kernels, rows, columns);
      tile_kernels(kernels, family_number(kernels), panels, GemmKind::InPlace, uint64_t{1} << rows, true);
      continue;
    }
    int widest = wide_panels(kernels, rows, int64_t{GemmFamily::max_vectors} * kernels.lanes()).vectors;
    for (int v = 1; v <= widest; v++)
      for (bool masked : {false, true})
        if (family_of(kernels).rows[static_cast<size_t>(v)] >= rows)
          kernels.gemm({family_number(kernels), rows, v, masked, GemmKind::InPlace});
  }
}

} // namespace tenon
