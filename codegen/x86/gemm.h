// The matrix micro-kernels on vector registers: one register tile of C, A read in place through row pointers, B packed or
// in place.
#pragma once
#include "codegen/x86/code_memory.h"
#include "codegen/x86/micro_kernels.h"

namespace tenon {

/// Steps of the sum in a round of a kernel's loop, if not more.
inline constexpr int least_unroll = 4;

/// Rows of a tile that leave registers for where a packed B goes and for what is asked for ahead (GemmKind::Packing).
inline constexpr int most_packing_rows = 11;

/// True if the tile's accumulators, operands and row pointers fit the registers of the family's machine. Rows of a product in place lie
/// evenly apart: its tiles of one vector may have more of them than there are pointers.
bool gemm_fits(const GemmFamilyRow& row, int rows, int vectors, GemmKind kind = GemmKind::Packed);

/// Generates the kernel of this shape of the family, on tile registers too (gemm_tiles.h); the result is a GemmFn.
void* emit_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
