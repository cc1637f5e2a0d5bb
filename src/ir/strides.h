// Strides of values.
#pragma once
#include "ir/type.h"

namespace tenon {

/// Strides in elements of the buffer that holds a value: the type's own, or row-major.
std::vector<Expr> strides_of(ExprPool& pool, const Type& type);

} // namespace tenon
