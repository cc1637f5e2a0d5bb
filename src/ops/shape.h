// Arithmetic on sizes and indices that the shape-like operators share: reshapes, slices, linear indices.
#pragma once
#include "ops/body.h"

namespace tenon::ops {

/// A type with the dtype of `self`.
std::vector<Type> self_with(const Call& c, std::vector<Expr> sizes);
/// The operand `name`, which the elements of `index` pick from or are put into, has as many dims as `self`, unless `index` is empty; a
/// number counts as a vector.
void expect_rank_of_self(const Call& c, std::string_view name);
/// An index that may be negative, counted from `size`. Sizes are taken as not negative even where their bounds do not say
/// so; only a symbol that may be negative itself (a number read from a tensor) is looked at when run.
Expr wrap_index(Expr index, Expr size);
/// An index read from a tensor: wrapped where negative, checked against `size`.
Expr data_index(Expr value, Expr size);
/// How many windows lie in a padded dim.
Expr windows(Expr size, int64_t kernel, int64_t dilation, int64_t pad, int64_t stride);
/// Whether two sizes are known and not the same.
inline bool differ(const Expr& a, const Expr& b) { return const_int(a) && const_int(b) && a != b; }
/// ceil(a / b) for b > 0.
Expr ceil_div(Expr a, Expr b);
/// a / b rounded down, where b > 0 holds although its bounds may not say so.
Expr divide_sizes(Expr a, Expr b);

/// What `slice` takes of a dim: indices start + i*step for i in [0, length).
struct Range {
  Expr start, length;
  int64_t step;
};
/// start:end:step as Python clamps it; missing ends are empty.
Range slice_range(ExprPool& pool, Expr size, Expr start, Expr end, int64_t step);

/// `want` with its -1 replaced by what is left of `sizes`.
std::vector<Expr> reshape_sizes(const Call& c, const std::vector<Expr>& sizes, std::vector<Expr> want);
/// Where in a tensor of sizes `in` the element at `axes` of its reshape to `out` lies. Dims are grouped by equal products,
/// so that floor_div and mod occur only where dims mix.
std::vector<Expr> reshape_index(ExprPool& pool, const std::vector<Expr>& in, const std::vector<Expr>& out, const std::vector<Expr>& axes);

/// What a view scatter replaces: the view `op` of self, by the arguments but src.
Type scattered_part(const Call& c, std::string_view op);

/// The axes, without or with extra ones: common shapes of index lists.
template <class T> std::vector<T> without(std::vector<T> list, int64_t at) {
  if (!list.empty()) list.erase(list.begin() + at);
  return list;
}
template <class T> std::vector<T> with(std::vector<T> list, int64_t at, T value) {
  list.insert(list.begin() + at, value);
  return list;
}
template <class T> std::vector<T> replaced(std::vector<T> list, int64_t at, T value) {
  if (!list.empty()) list[static_cast<size_t>(at)] = value;
  return list;
}
/// 0, 1, ... rank-1.
std::vector<int64_t> iota(size_t rank);
/// The tensors of a list argument.
std::vector<V> inputs(Builder& b, const Call& c, std::string_view name);

/// "[2, s0]".
std::string sizes_text(const std::vector<Expr>& sizes);
/// The type in C++, as torch's messages have it: "float", "long int".
std::string_view c_name(DType t);
/// A size that only the run knows.
inline Expr fresh_size(const Call& c) { return c.pool().symbol(c.pool().fresh_symbol("u_"), DType::I64, 0, INT64_MAX); }

} // namespace tenon::ops
