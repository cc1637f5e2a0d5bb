// The products of attention on blocks in cache: the only place where attention meets the matrix micro-kernels.
#pragma once
#include <cstdint>

#include "runtime/gemm_pack.h"
#include "tenon/tensor.h"

namespace tenon {

/// `to` = rows of f32, f16 or bf16 (strides in elements) as f32, side by side.
void widen_rows(DType type, const void* data, int64_t row, int64_t column, int64_t rows, int64_t columns, float* to) noexcept;

/// Rows of f32 in memory, strides in elements.
struct RowsSource {
  const float* data;
  int64_t row, column;
};

/// The kernels for blocks of queries, keys and values of such a type: of bf16 where it multiplies that, else of f32.
int attention_family(const KernelTable& kernels, DType type);

/// Up to so many rows a product goes without packed keys and values: it reads each of them once.
inline constexpr int64_t few_attention_rows = 8;
/// The most rows of a tile_product or accumulate_product.
inline constexpr int64_t most_tile_rows = 72;

/// How blocks of up to so many keys are packed; n of the result is the keys of a block, which may be fewer.
Panels key_panels(const KernelTable& kernels, int family, int64_t block_keys, int64_t depth);
/// How a block of so many values is packed.
Panels value_panels(const KernelTable& kernels, int family, int64_t columns, int64_t keys);

/// scores[rows][n] = q . packed keys, for the first n keys of the block at least: whole panels are computed, and with tile
/// registers whole ones. q: a pointer to each row in the family's type, zero behind the depth up to a whole k_step; with tile
/// registers rows are `q_stride` bytes apart.
void tile_product(const KernelTable& kernels, int family, const void* const* q, int64_t q_stride, int64_t rows, const Panels& keys,
                  const void* packed, int64_t n, float* scores, int64_t stride) noexcept;
/// out[rows][columns] = (fresh ? 0 : out) + weights[rows][n] * packed values, the first n of them. Weights in the family's type, `stride`
/// bytes from row to row, zero behind n up to a whole k_step.
void accumulate_product(const KernelTable& kernels, int family, const void* weights, int64_t stride, int64_t rows, const Panels& values,
                        const void* packed, int64_t n, bool fresh, float* out, int64_t out_stride) noexcept;
/// Rows of f32 as bf16, with zeros from n to `padded`.
void narrow_rows(const float* from, int64_t from_stride, int64_t rows, int64_t n, int64_t padded, uint16_t* to, int64_t to_stride) noexcept;
/// The same for few rows of f32, of keys and values in place whose elements lie side by side.
void few_rows_product(const void* const* q, int64_t rows, const RowsSource& keys, int64_t count, int64_t depth, float* scores,
                      int64_t stride) noexcept;
void few_rows_accumulate(const KernelTable& kernels, const float* weights, int64_t stride, int64_t rows, const RowsSource& values,
                         int64_t count, int64_t columns, bool fresh, float* out, int64_t out_stride) noexcept;
/// Generates the micro-kernels that blocks of up to so many keys may call; `columns` may be any_size.
void prepare_attention(const KernelTable& kernels, int family, int64_t block_keys, int64_t columns);
/// The same for few rows.
void prepare_few_rows(const KernelTable& kernels, int64_t columns);

} // namespace tenon
