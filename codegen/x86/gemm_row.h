// The kernel of a row vector times a row-major matrix that is read row by row (GemmKind::Stream).
#pragma once
#include "codegen/x86/gemm.h"

namespace tenon {

/// Of families whose sums are of one k each and that read B in place.
void* emit_row_gemm(CodeMemory& memory, const GemmFamilyRow& row, const GemmKey& key);

} // namespace tenon
