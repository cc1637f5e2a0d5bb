// strides_of.
#include "ir/strides.h"

namespace tenon {

std::vector<Expr> strides_of(ExprPool& pool, const Type& t) {
  if (!t.strides.empty()) return t.strides;
  std::vector<Expr> strides(t.rank());
  Expr s = pool.integer(1);
  for (size_t d = t.rank(); d-- > 0;) strides[d] = s, s = s * t.sizes[d];
  return strides;
}

} // namespace tenon
