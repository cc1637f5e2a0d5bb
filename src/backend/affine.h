// Physical addresses: strides of values, flat offsets, and their coefficients in loop axes.
#pragma once
#include <algorithm>
#include <optional>
#include <span>

#include "ir/graph.h"
#include "ir/strides.h"

namespace tenon {

inline bool depends_on(Expr e, Expr axis) {
  return contains(e, [&](const ExprNode& n) { return &n == axis.get(); });
}
Expr flat_offset(ExprPool& pool, const Type& type, std::span<const Expr> index);
/// coefficient[k] * axes[k] + ... + rest == e, where no coefficient and no rest depends on the axes.
struct Affine {
  std::vector<Expr> coefficients;
  Expr rest;
};
std::optional<Affine> as_affine(Expr e, std::span<const Expr> axes);
/// Strides of a channels-last layout for sizes (N, C, spatial...).
std::vector<Expr> channels_last_strides(ExprPool& pool, std::span<const Expr> sizes);
bool is_channels_last(ExprPool& pool, const Type& type);
/// The type with the strides of memory without gaps, row-major or channels-last: of one that is joined in place (backend/join.h).
Type without_gaps(ExprPool& pool, Type type);
inline bool is_row_major(const Type& type) { return type.strides.empty(); }

} // namespace tenon
