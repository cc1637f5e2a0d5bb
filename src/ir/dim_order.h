// The order of a tensor's dims in memory: what ExecuTorch calls its dim order, and torch's memory formats are cases of.
#pragma once
#include <vector>

#include "ir/type.h"

namespace tenon {

/// The dims in the order of memory, outermost first, of a tensor whose strides are those of a dense one; empty where that is row-major, and
/// where memory has gaps or overlaps. Dims of size 1 stand where their stride says, or outermost, and make no order of their own.
std::vector<int> dim_order(const Type& type);
/// Whether a type with strides lies in that order; where dims of size 1 stand does not count.
bool lies_in_order(const Type& type, const std::vector<int>& order);
/// Strides of dense memory in that order.
std::vector<Expr> strides_in_order(const std::vector<Expr>& sizes, const std::vector<int>& order);
/// The order that torch's name says: "channels_last", "channels_last_3d"; empty for others, and for tensors of another rank.
std::vector<int> order_of_format(std::string_view memory_format, size_t rank);

} // namespace tenon
