// The depthwise convolution micro-kernels: vectorised over channels, one for any window and one for square windows;
// and along the lines of row-major planes, of f32 alone.
#pragma once
#include "codegen/x86/code_memory.h"
#include "runtime/micro_kernels.h"
#include "tenon/options.h"

namespace tenon {

/// True if the tile's accumulators and weights fit the registers.
bool depthwise_fits(Isa isa, DepthwiseShape shape);

/// Generates the kernel of this shape; the result is a DepthwiseFn.
void* emit_depthwise(CodeMemory& memory, Isa isa, DepthwiseShape shape);

/// The kernel for a rectangle of output pixels under a square window (depthwise_plane.cpp); the result is a
/// DepthwiseFn.
void* emit_plane(CodeMemory& memory, Isa isa, PlaneShape shape);

/// The kernel for lines of row-major planes (conv_lines.cpp); the result is a LineFn.
void* emit_lines(CodeMemory& memory, Isa isa, const LineKey& key);

} // namespace tenon
