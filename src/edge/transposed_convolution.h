// Transposed convolutions by regular ones.
#pragma once
#include "ir/builder.h"

namespace tenon {

/// The same as a transposed convolution (its operands and arguments, its result's type) with groups of one input channel each, or without
/// a stride: none where it is no such one, or sizes that matter are not known.
V without_transposition(Builder& b, V x, V w, const ArgList& args, const Type& result);

} // namespace tenon
