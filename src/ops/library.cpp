// Helpers of the library rows.
#include "ops/library.h"

namespace tenon::ops {

std::vector<double> numbers_of(const Call& c, std::string_view name) {
  std::vector<double> out;
  if (!c.has(name)) return out;
  for (const Arg& a : c[name].get<ArgList>()) {
    Expr e = to_expr(c.pool(), a);
    if (!e || !e->is_const()) unsupported("{}: argument {} must hold known numbers", c.def.signature.name, name);
    out.push_back(e->number());
  }
  return out;
}

V scalar_with(Builder& b, const Call& c, std::string_view name, DType other) {
  Expr e = c.scalar(name);
  DType type = is_float(e->type) && !is_float(other) ? DType::F32 : is_int(e->type) && other == DType::Bool ? DType::I64 : other;
  return b.scalar(c[name], type);
}

bool is_single(const Type& t) {
  return std::all_of(t.sizes.begin(), t.sizes.end(), [](Expr s) { return is_const_int(s, 1); });
}

V flatten(Builder& b, V x) { return x.rank() == 1 ? x : b.reshape(x, {product(b.pool(), x.sizes())}); }

} // namespace tenon::ops
