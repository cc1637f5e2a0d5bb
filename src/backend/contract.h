// Contractions that micro-kernels compute: which nodes, and how their operands are addressed.
#pragma once
#include <optional>

#include "backend/region.h"

namespace tenon {

/// Whether the node is a matrix product or convolution that the micro-kernels take; others are ordinary loops.
bool is_contract(const Graph& graph, const Node& node);
/// Of how many slices of columns a contraction's result is read side by side (backend/column_slices.h); else 1.
int64_t slices_of(const Node& contraction);
/// What the micro-kernels sum a contraction in.
DType sum_type(const Graph& graph, const Node& node);

/// Why the micro-kernels do not take a matrix product or convolution; empty where they do, and for other nodes.
std::string contract_refusal(const Graph& graph, const Node& node);

/// How an operand of a matmul lies in memory: element (b0, b1, row, column) is at
/// offset + b0*batch[0] + b1*batch[1] + row*row_stride + column*column_stride of `value`'s buffer.
struct MatmulOperand {
  ValueId value;
  Expr offset, batch[2], row_stride, column_stride;
  Expr inner_batch; // extent of b1; the batch index is b0*inner_batch + b1
};
/// Empty where the operand is not such a view of something in memory.
std::optional<MatmulOperand> matmul_operand(const Graph& graph, Inliner& inliner, ValueId operand);
/// Whether elements of the matrix, `t`, lie apart along both its dims: they would be read one by one, where a transpose before moves
/// whole vectors. Constants are packed ahead anyway.
bool is_scattered(const Graph& graph, const MatmulOperand& operand, const Type& t);

} // namespace tenon
