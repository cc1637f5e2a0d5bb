// Matrix products for those who build with them: like aten::matmul, with a result dtype of their choice.
#pragma once
#include "ir/builder.h"

namespace tenon::ops {

/// mm or bmm, by rank; `result` may be the wide dtype of the accumulator.
V product(Builder& b, V x, V y, DType result);
/// torch.matmul: vectors, broadcast batches; many rows against one matrix are one mm.
V matmul(Builder& b, V x, V y, DType result);

} // namespace tenon::ops
