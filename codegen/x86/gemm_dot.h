// Matrix micro-kernels of dot products: rows of A by columns of B that both lie together along k (GemmKind::Dot).
#pragma once
#include "codegen/x86/gemm.h"

namespace tenon {

/// Whether the registers hold such a tile.
bool dot_gemm_fits(const GemmFamilyRow& row, int rows, int columns);

void* emit_dot_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
