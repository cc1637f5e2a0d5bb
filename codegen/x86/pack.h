// Movers of blocks for packing matrix operands: rows into a panel, transposes, conversions.
#pragma once
#include "codegen/x86/code_memory.h"
#include "runtime/micro_kernels.h"
#include "tenon/options.h"

namespace tenon {

/// Copies rows of at most `vectors` vectors, filling up with zeros. The result is a MoveFn.
void* emit_copy(CodeMemory& memory, Isa isa, int vectors);

/// Transposes a block of any size. The result is a MoveFn.
void* emit_transpose(CodeMemory& memory, Isa isa);

/// Converts rows of any length. The result is a MoveFn.
void* emit_convert(CodeMemory& memory, Isa isa, Conversion conversion);

} // namespace tenon
