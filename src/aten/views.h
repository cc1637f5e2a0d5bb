// Views and in-place operators: what functionalization knows of single operators.
#pragma once
#include "ir/builder.h"

namespace tenon {

/// Whether the node is the in-place form of its row: "aten::add_.Tensor" with the row of aten::add.Tensor.
bool is_inplace(const Node& node);
/// The operand whose memory the node's results share; invalid where they are fresh. Whether operators
/// that may copy (reshape, contiguous, to) do follows the strides recorded in the types.
ValueId view_source(const Graph& graph, const Node& node);
/// `parent` with the part that view number `output` of it shows replaced by `now`.
V write_view(Builder& b, const Graph& graph, const Node& view, const ArgList& args, uint32_t output, V parent, V now);
/// What an in-place node writes to its first operand: the functional operator's result in the operand's dtype and sizes.
V inplace_result(Builder& b, const Node& node, ArgList args, V self);

} // namespace tenon
