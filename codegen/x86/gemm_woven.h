// Matrix micro-kernels that read a row-major B in place where an instruction sums groups of k (GemmKind::InPlace, and Packing).
#pragma once
#include "codegen/x86/gemm.h"

namespace tenon {

/// Whether the registers hold such a tile; the family may be any.
bool woven_gemm_fits(const GemmFamilyRow& row, int rows, int vectors, GemmKind kind = GemmKind::InPlace);

void* emit_woven_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
