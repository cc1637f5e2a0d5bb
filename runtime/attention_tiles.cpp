// Products on blocks, by the micro-kernels; dots of a few rows with keys as they lie in memory.
#include "runtime/attention_tiles.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace tenon {

int64_t packed_values_size(const KernelTable& kernels, int64_t keys, int64_t columns) {
  return choose_panels(columns, kernels).padded() * keys;
}

namespace {

#ifndef __SANITIZE_THREAD__
[[gnu::target_clones("arch=skylake-avx512", "arch=haswell", "default")]]
#endif
void widen_bf16(const uint16_t* from, int64_t n, float* to) {
  auto* bits = reinterpret_cast<uint32_t*>(to);
  for (int64_t k = 0; k < n; k++) bits[k] = static_cast<uint32_t>(from[k]) << 16;
}

// Every CPU that code is generated for has F16C.
[[gnu::target("avx,f16c")]] void widen_f16(const uint16_t* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + 8 <= n; k += 8)
    _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
  for (; k < n; k++) to[k] = _cvtsh_ss(from[k]);
}

} // namespace

void widen_rows(DType type, const void* data, int64_t row, int64_t column, int64_t rows, int64_t columns,
                float* to) noexcept {
  for (int64_t i = 0; i < rows; i++, to += columns) {
    if (type == DType::F32) {
      const float* from = static_cast<const float*>(data) + i * row;
      for (int64_t k = 0; k < columns; k++) to[k] = from[k * column];
      continue;
    }
    const uint16_t* from = static_cast<const uint16_t*>(data) + i * row;
    auto widen = type == DType::BF16 ? widen_bf16 : widen_f16;
    if (column == 1)
      widen(from, columns, to);
    else
      for (int64_t k = 0; k < columns; k++) widen(from + k * column, 1, to + k);
  }
}

void pack_keys(const KernelTable& kernels, const Panels& panels, const RowsSource& keys, int64_t depth,
               float* to) noexcept {
  pack_panels(kernels, panels, {keys.data, keys.column, keys.row}, 0, depth, 0, panels.count(), to);
}

void pack_values(const KernelTable& kernels, const RowsSource& values, int64_t count, int64_t columns,
                 float* to) noexcept {
  Panels panels = choose_panels(columns, kernels);
  pack_panels(kernels, panels, {values.data, values.row, values.column}, 0, count, 0, panels.count(), to);
}

void tile_product(const KernelTable& kernels, const float* const* q, int64_t rows, const Panels& panels,
                  const float* packed, int64_t n, int64_t depth, float* scores, int64_t stride) noexcept {
  RowTile cut[most_tile_rows];
  Tiles tiles(rows, kernels.gemm_rows(panels.vectors));
  for (int64_t t = 0, row = 0; t < tiles.count; t++) {
    cut[t] = {q + row, 0, tiles.rows(t)};
    row += tiles.rows(t);
  }
  multiply_block(kernels, {.panels = panels,
                           .p0 = 0,
                           .p1 = (n + panels.width() - 1) / panels.width(),
                           .b = packed,
                           .panel_depth = depth,
                           .first_depth = 0,
                           .tiles = cut,
                           .tile_count = tiles.count,
                           .positions = 1,
                           .depth = depth,
                           .zeros = nullptr,
                           .c = scores,
                           .c_stride = stride,
                           .init = nullptr,
                           .mode = GemmInit::Zero});
}

void accumulate_product(const KernelTable& kernels, const float* weights, int64_t stride, int64_t rows,
                        const float* packed, int64_t keys, int64_t n, int64_t columns, bool fresh, float* out,
                        int64_t out_stride) noexcept {
  Panels panels = choose_panels(columns, kernels);
  const float* pointers[KernelTable::max_rows];
  for (int64_t i = 0; i < KernelTable::max_rows; i++) pointers[i] = weights + i * stride;
  RowTile cut[most_tile_rows];
  Tiles tiles(rows, kernels.gemm_rows(panels.vectors));
  for (int64_t t = 0, row = 0; t < tiles.count; t++) {
    cut[t] = {pointers, row * stride, tiles.rows(t)};
    row += tiles.rows(t);
  }
  multiply_block(kernels, {.panels = panels,
                           .p0 = 0,
                           .p1 = panels.count(),
                           .b = packed,
                           .panel_depth = keys,
                           .first_depth = 0,
                           .tiles = cut,
                           .tile_count = tiles.count,
                           .positions = 1,
                           .depth = n,
                           .zeros = nullptr,
                           .c = out,
                           .c_stride = out_stride,
                           .init = nullptr,
                           .mode = fresh ? GemmInit::Zero : GemmInit::C});
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

#ifndef __SANITIZE_THREAD__
[[gnu::target_clones("arch=skylake-avx512", "arch=haswell", "default")]]
#endif
void dots(const float* q, const float* keys, int64_t key_stride, int64_t count, int64_t depth, float* to) {
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
  int lanes = kernels.lanes(), best = 1;
  int most = static_cast<int>(std::clamp<int64_t>((columns + lanes - 1) / lanes, 1, KernelTable::max_vectors));
  for (int v = 1; v <= most; v++)
    if (kernels.gemm_rows(v) >= rows) best = v;
  return {columns, lanes, best};
}

} // namespace

void few_rows_product(const float* const* q, int64_t rows, const RowsSource& keys, int64_t count, int64_t depth,
                      float* scores, int64_t stride) noexcept {
  constexpr int64_t together = 16; // keys that stay in L1 for all rows
  for (int64_t k = 0; k < count; k += together)
    for (int64_t i = 0; i < rows; i++)
      dots(q[i], keys.data + k * keys.row, keys.row, std::min(together, count - k), depth, scores + i * stride + k);
}

void few_rows_accumulate(const KernelTable& kernels, const float* weights, int64_t stride, int64_t rows,
                         const RowsSource& values, int64_t count, int64_t columns, bool fresh, float* out,
                         int64_t out_stride) noexcept {
  Panels panels = wide_panels(kernels, rows, columns);
  const float* pointers[KernelTable::max_rows];
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
                  .depth = count,
                  .positions = 1,
                  .columns = some,
                  .mode = fresh ? GemmInit::Zero : GemmInit::C};
    kernels.gemm({static_cast<int>(rows), vectors, some != int64_t{vectors} * panels.lanes, GemmKind::InPlace})(&args);
  }
}

namespace {

// Tiles of up to `rows` rows on panels of which any may be the last.
void prepare_widths(const KernelTable& kernels, int vectors, int rows, GemmKind kind) {
  for (int v = 1; v <= vectors; v++)
    for (bool masked : {false, true})
      for (int r = 1; r <= rows; r++) kernels.gemm({r, v, masked, kind});
}

} // namespace

void prepare_attention(const KernelTable& kernels, int64_t block_keys, int64_t columns) {
  Panels keys = key_panels(kernels, block_keys);
  prepare_widths(kernels, keys.vectors, kernels.gemm_rows(keys.vectors), GemmKind::Packed);
  for (int v = 1; v <= keys.vectors; v++) kernels.copy(v);
  for (int v = 1; columns == any_size && v <= 4; v++)
    if (kernels.gemm_rows(v) > 0) prepare_widths(kernels, v, kernels.gemm_rows(v), GemmKind::Packed);
  if (columns > 0) {
    Panels panels = choose_panels(columns, kernels);
    prepare_tiles(kernels, panels, GemmKind::Packed, tile_heights(any_size, kernels.gemm_rows(panels.vectors)));
    kernels.copy(panels.panel_vectors(0)), kernels.copy(panels.panel_vectors(panels.count() - 1));
  }
  kernels.transpose();
}

void prepare_few_rows(const KernelTable& kernels, int64_t columns) {
  for (int rows = 1; rows <= few_attention_rows; rows++) {
    if (columns != any_size) {
      prepare_tiles(kernels, wide_panels(kernels, rows, columns), GemmKind::InPlace, uint32_t{1} << rows);
      continue;
    }
    int widest = wide_panels(kernels, rows, int64_t{KernelTable::max_vectors} * kernels.lanes()).vectors;
    for (int v = 1; v <= widest; v++)
      for (bool masked : {false, true}) kernels.gemm({rows, v, masked, GemmKind::InPlace});
  }
}

} // namespace tenon
