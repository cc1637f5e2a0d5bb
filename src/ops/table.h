// The operator table: one array of rows per family, one file each. find_op and all_ops (ir/op.h) read them all.
#pragma once
#include <span>

#include "ir/op.h"

namespace tenon::ops {

std::span<const OpRow> pointwise_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> create_rows();
std::span<const OpRow> reduce_rows();
std::span<const OpRow> contract_rows();
std::span<const OpRow> prim_rows();
std::span<const OpRow> library_sort_rows();
std::span<const OpRow> library_scatter_rows();
std::span<const OpRow> library_select_rows();
std::span<const OpRow> library_random_rows();
std::span<const OpRow> library_nn_rows();

} // namespace tenon::ops
