// What the files of linear algebra share: sizes of matrices with batch dims, and checks of factorisations.
#pragma once
#include "ops/body.h"

namespace tenon::ops {

/// All dims but the last two.
std::vector<Expr> batch_of(const std::vector<Expr>& sizes);
std::vector<Expr> joined(std::vector<Expr> batch, std::initializer_list<Expr> tail);
Expr smaller(const std::vector<Expr>& sizes);
V transposed(V x);
V identity_matrix(Builder& b, Expr n, DType dtype);
/// With `batch` before its last `dims` dims.
V expand_batch(V x, const std::vector<Expr>& batch, size_t dims);
/// Throws where the operand is no f32 or f64 matrix, or not a square one.
void check_matrix(const Call& c, std::string_view name, bool square);
/// The run fails where a factorisation left an info other than 0; `api` is named in the message.
void check_linalg(Builder& b, V info, const char* api);

} // namespace tenon::ops
