// The kernel of a B that stays in registers, of few k, while rows of A stream past it (GemmKind::Held).
#pragma once
#include "codegen/x86/gemm.h"

namespace tenon {

/// The most vectors of B that leave registers for enough sums; 0 for families that do not multiply f32 or f64 as they lie.
int held_vectors(const GemmFamilyRow& row);

/// key.rows: k, which times key.vectors is at most held_vectors.
void* emit_held_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
