// Operators of shared libraries.
#pragma once
#include "tenon/operator.h"

namespace tenon {

/// Registers those that are not yet; the table stays where it is. Throws Error(BadInput).
void register_operators(const OperatorDef* table, size_t count);

} // namespace tenon
