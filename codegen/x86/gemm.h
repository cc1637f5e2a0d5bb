// The f32 matrix micro-kernel: one register tile of C, A read in place through row pointers, B packed or in place.
#pragma once
#include "codegen/x86/code_memory.h"
#include "runtime/micro_kernels.h"
#include "tenon/options.h"

namespace tenon {

/// True if the tile's accumulators, operands and row pointers fit the registers.
bool gemm_fits(Isa isa, GemmShape shape);

/// Generates the kernel of this shape; the result is a GemmFn.
void* emit_gemm(CodeMemory& memory, Isa isa, GemmShape shape);

} // namespace tenon
