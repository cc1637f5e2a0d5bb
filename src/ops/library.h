// Helpers for the rows whose operators are library steps.
#pragma once
#include "ops/body.h"
#include "ops/shape.h"
#include "runtime/library_steps.h"

namespace tenon::ops {

inline Expr integer(const Call& c, int64_t v) { return c.pool().integer(v); }
/// The type of an operand, with another dtype or sizes.
inline Type typed(const Call& c, std::string_view name, DType dtype) { return Type::tensor(dtype, c.type(name).sizes); }
inline std::vector<Type> like_self(const Call& c) { return {typed(c, "self", c.type("self").dtype)}; }

/// The sizes without `dim`, or with 1 there.
inline std::vector<Expr> without(const Call& c, std::vector<Expr> sizes, int64_t dim, bool keepdim) {
  if (sizes.empty()) return sizes;
  if (keepdim) sizes[static_cast<size_t>(dim)] = integer(c, 1);
  else sizes.erase(sizes.begin() + dim);
  return sizes;
}

/// Known integers as parameters of a step.
inline std::vector<Expr> integers(const Call& c, std::initializer_list<int64_t> values) {
  std::vector<Expr> out;
  for (int64_t v : values) out.push_back(integer(c, v));
  return out;
}
inline int64_t self_dim(const Call& c) { return c.dim("dim", c.rank("self")); }
/// The floats of a list argument.
std::vector<double> numbers_of(const Call& c, std::string_view name);
/// A Scalar as a 0-d tensor of the dtype torch would promote it and `other` to.
V scalar_with(Builder& b, const Call& c, std::string_view name, DType other);
/// All sizes are known to be 1.
bool is_single(const Type& t);
V flatten(Builder& b, V x);

} // namespace tenon::ops
