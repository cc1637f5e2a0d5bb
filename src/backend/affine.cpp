// Strides, flat offsets, affine forms.
#include "backend/affine.h"

namespace tenon {

Expr flat_offset(ExprPool& pool, const Type& t, std::span<const Expr> index) {
  std::vector<Expr> strides = strides_of(pool, t);
  Expr offset = pool.integer(0);
  for (size_t d = 0; d < index.size(); d++) offset = offset + index[d] * strides[d];
  return offset;
}

namespace {

bool uses_axis(Expr e, std::span<const Expr> axes) {
  return contains(e, [&](const ExprNode& n) {
    for (Expr a : axes)
      if (&n == a.get()) return true;
    return n.op == Op::Load;
  });
}

} // namespace

std::optional<Affine> as_affine(Expr e, std::span<const Expr> axes) {
  ExprPool& pool = *e->pool;
  Affine out{std::vector<Expr>(axes.size(), pool.integer(0)), pool.integer(0)};
  for (Expr term : e->op == Op::Add ? e->args : std::vector<Expr>{e}) {
    if (!uses_axis(term, axes)) {
      out.rest = out.rest + term;
      continue;
    }
    Expr factor = pool.integer(1);
    int at = -1;
    for (Expr f : term->op == Op::Mul ? term->args : std::vector<Expr>{term}) {
      auto it = std::find(axes.begin(), axes.end(), f);
      if (it != axes.end()) {
        if (at >= 0) return std::nullopt;
        at = static_cast<int>(it - axes.begin());
      } else if (uses_axis(f, axes)) return std::nullopt;
      else factor = factor * f;
    }
    if (at < 0) return std::nullopt;
    Expr& c = out.coefficients[static_cast<size_t>(at)];
    c = c + factor;
  }
  return out;
}

std::vector<Expr> channels_last_strides(ExprPool& pool, std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  strides[1] = pool.integer(1);
  Expr s = sizes[1];
  for (size_t d = sizes.size(); d-- > 2;) strides[d] = s, s = s * sizes[d];
  strides[0] = s;
  return strides;
}

bool is_channels_last(ExprPool& pool, const Type& t) {
  return t.rank() >= 3 && !t.strides.empty() && t.strides == channels_last_strides(pool, t.sizes);
}

Type without_gaps(ExprPool& pool, Type t) {
  if (is_row_major(t) || is_channels_last(pool, t)) return t;
  bool row_major = t.rank() < 3 || is_const_int(t.strides.back(), 1);
  t.strides = row_major ? std::vector<Expr>() : channels_last_strides(pool, t.sizes);
  return t;
}

} // namespace tenon
