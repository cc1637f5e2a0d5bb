// Between the passes of Edge and of Backend: what depends on weights alone.
#pragma once
#include "ir/program.h"
#include "tenon/options.h"

namespace tenon {

/// What an Edge graph computes from its weights alone is computed once, by code of its own, where it takes no more memory than the
/// weights it is made of, or is of moderate size and a contraction's operand, elements picked by stored indices (a table of
/// relative positions, say), or made with sums (a softmax of positions). fold_constants did the small ones.
///   %n = norm(%v); %w = mul(%v, div(%g, %n)); %y = convolution(%x, %w)   ->   %y = convolution(%x, prim::Constant(tensor<...>))
/// Of the options, those of threads count.
bool fold_weights(LoadedProgram& program, const Options& options);

} // namespace tenon
