// The f32 depthwise convolution micro-kernel: a tile of output pixels, vectorised over channels.
#pragma once
#include "codegen/x86/code_memory.h"
#include "runtime/micro_kernels.h"
#include "tenon/options.h"

namespace tenon {

/// True if the tile's accumulators and weights fit the registers.
bool depthwise_fits(Isa isa, GemmShape shape);

/// Generates the kernel of this shape (in_place has no meaning); the result is a DepthwiseFn.
void* emit_depthwise(CodeMemory& memory, Isa isa, GemmShape shape);

} // namespace tenon
