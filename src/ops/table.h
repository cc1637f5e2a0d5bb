// The operator table: one array of rows per family, one file each. find_op and all_ops (ir/op.h) read them all.
#pragma once
#include <span>

#include "ir/op.h"

namespace tenon::ops {

std::span<const OpRow> pointwise_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> create_rows();
std::span<const OpRow> reduce_rows();
std::span<const OpRow> softmax_rows();
std::span<const OpRow> vector_norm_rows();
std::span<const OpRow> norm_rows();
std::span<const OpRow> matmul_rows();
std::span<const OpRow> einsum_rows();
std::span<const OpRow> grouped_mm_rows();
std::span<const OpRow> conv_rows();
std::span<const OpRow> pool_rows();
std::span<const OpRow> window_rows();
std::span<const OpRow> resample_rows();
std::span<const OpRow> grid_sample_rows();
std::span<const OpRow> attention_rows();
std::span<const OpRow> rnn_rows();
std::span<const OpRow> prim_rows();

} // namespace tenon::ops
