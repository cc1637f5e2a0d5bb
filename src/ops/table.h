// The operator table: one array of rows per family, one file each. find_op and all_ops (ir/op.h) read them all.
#pragma once
#include <span>

#include "ir/op.h"

namespace tenon::ops {

std::span<const OpRow> arithmetic_rows();
std::span<const OpRow> compare_rows();
std::span<const OpRow> math_rows();
std::span<const OpRow> special_rows();
std::span<const OpRow> activation_rows();
std::span<const OpRow> convert_rows();
std::span<const OpRow> backward_rows();
std::span<const OpRow> loss_rows();
std::span<const OpRow> class_loss_rows();
std::span<const OpRow> distance_rows();
std::span<const OpRow> quantize_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> create_rows();
std::span<const OpRow> reduce_rows();
std::span<const OpRow> contract_rows();
std::span<const OpRow> prim_rows();

} // namespace tenon::ops
