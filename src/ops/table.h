// The operator table: one array of rows per family, one file each. find_op and all_ops (ir/op.h) read them all.
#pragma once
#include <span>

#include "ir/op.h"

namespace tenon::ops {

/// The row with its reverse derivatives, where a function made it.
constexpr OpRow with_vjp(OpRow row, std::string_view vjp) {
  row.vjp = vjp;
  return row;
}

std::span<const OpRow> arithmetic_rows();
std::span<const OpRow> compare_rows();
std::span<const OpRow> math_rows();
std::span<const OpRow> special_rows();
std::span<const OpRow> activation_rows();
std::span<const OpRow> convert_rows();
std::span<const OpRow> backward_rows();
std::span<const OpRow> backward_linear_rows();
std::span<const OpRow> backward_sample_rows();
std::span<const OpRow> backward_layer_rows();
std::span<const OpRow> loss_rows();
std::span<const OpRow> class_loss_rows();
std::span<const OpRow> distance_rows();
std::span<const OpRow> quantize_rows();
std::span<const OpRow> quantize_blocks_rows();
std::span<const OpRow> float8_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> view_alias_rows();
std::span<const OpRow> slice_rows();
std::span<const OpRow> create_rows();
std::span<const OpRow> create_range_rows();
std::span<const OpRow> create_matrix_rows();
std::span<const OpRow> combine_rows();
std::span<const OpRow> pad_rows();
std::span<const OpRow> rearrange_rows();
std::span<const OpRow> index_rows();
std::span<const OpRow> difference_rows();
std::span<const OpRow> reduce_rows();
std::span<const OpRow> softmax_rows();
std::span<const OpRow> vector_norm_rows();
std::span<const OpRow> norm_rows();
std::span<const OpRow> matmul_rows();
std::span<const OpRow> einsum_rows();
std::span<const OpRow> grouped_mm_rows();
std::span<const OpRow> weight_only_rows();
std::span<const OpRow> conv_rows();
std::span<const OpRow> pool_rows();
std::span<const OpRow> window_rows();
std::span<const OpRow> resample_rows();
std::span<const OpRow> grid_sample_rows();
std::span<const OpRow> attention_rows();
std::span<const OpRow> rnn_rows();
std::span<const OpRow> library_sort_rows();
std::span<const OpRow> library_scatter_rows();
std::span<const OpRow> library_select_rows();
std::span<const OpRow> library_random_rows();
std::span<const OpRow> library_nn_rows();
std::span<const OpRow> complex_rows();
std::span<const OpRow> fft_rows();
std::span<const OpRow> linalg_rows();
std::span<const OpRow> linalg_solve_rows();
std::span<const OpRow> prim_rows();

/// What operators of other files are on complex tensors, by full name.
struct ComplexRule {
  std::string_view name;
  Decompose decompose;
};
std::span<const ComplexRule> complex_rules();

} // namespace tenon::ops
