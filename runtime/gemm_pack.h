// Packing of the operands of products: B into panels, rows of A as the kernels read them.
#pragma once
#include <optional>

#include "runtime/gemm_block.h"

namespace tenon {

/// An operand in memory, strides in elements: B as (k, n), A as (k, row).
struct PackSource {
  const void* data;
  DType type;
  int64_t k_stride, other_stride;
};
/// Packs rows [k0, k1) of panels [p0, p1), k0 a multiple of the family's k_step; the panels land one after the other with
/// depth(k1 - k0) rows each. B's type is the family's, or one that converts to it. Streamed: they are not read soon.
void pack_panels(const KernelTable& kernels, const GemmFamily& family, const Panels& panels, const PackSource& b, int64_t k0, int64_t k1,
                 int64_t p0, int64_t p1, void* to, bool streamed = false) noexcept;

/// The first n columns of B, k [k0, k1), of the type they have, each together and `to_stride` bytes after the one before.
void pack_columns(int64_t n, const PackSource& b, int64_t k0, int64_t k1, void* to, int64_t to_stride) noexcept;

/// Rows [m0, m1), k [k0, k1) of A in the family's type, one after the other `to_stride` bytes apart, with zeros behind k up
/// to a whole k_step, and behind the last row up to a whole row_step.
void pack_rows(const KernelTable& kernels, const GemmFamily& family, const PackSource& a, int64_t m0, int64_t m1, int64_t k0, int64_t k1,
               void* to, int64_t to_stride) noexcept;

/// Generates the movers that packing operands of such types needs.
void prepare_packing(const KernelTable& kernels, const GemmFamily& family, DType a);

/// How elements of A are converted for a family; none where the types are equal, or cannot be.
std::optional<Conversion> conversion_of(DType from, DType to);

/// Whether operands of a product in memory can be what the family reads.
bool can_pack(const GemmFamily& family, DType a, DType b);

} // namespace tenon
