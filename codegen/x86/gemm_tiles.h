// The matrix micro-kernels on tile registers (AMX), and the right to use these.
#pragma once
#include "codegen/x86/code_memory.h"
#include "codegen/x86/micro_kernels.h"

namespace tenon {

/// Whether this process may use tile registers, and they keep what they hold. The first call asks the system for them
/// (Linux grants that for the whole process, children included, unless a thread has too small a signal stack) and tries
/// them out; later ones remember. Thread-safe.
bool tiles_permitted();

/// Generates `void f()`: all eight tile registers become 16 rows of 64 bytes, and are given back.
void* emit_begin_tiles(CodeMemory& memory);
void* emit_end_tiles(CodeMemory& memory);

bool tile_gemm_fits(int rows, int vectors);
void* emit_tile_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
