// Rules of forward derivatives that rows of several files share.
#include "ops/jvp.h"

namespace tenon::ops {

V jvp_linear(Builder& b, const Tangents& d) {
  ArgList args = d.call.args;
  auto tangent = [&](ValueId v) {
    const Type& type = d.call.graph.type(v);
    if (!is_float(type.dtype)) return v; // an index, a condition
    V t = d.of(v);
    return t ? t.id : b.full(type.sizes, 0, type.dtype).id;
  };
  for (size_t i = 0; i < args.size(); i++) {
    const std::string& name = d.call.def.signature.args[i].name;
    args[i] = map_values(args[i], tangent);
    if ((name == "other" || name == "value") && !args[i].is<ValueId>()) args[i] = 0;
  }
  return b.call_full(d.call.def, std::move(args)).at(0);
}

V jvp_product(Builder& b, const Tangents& d, int64_t bias_dim) {
  V out;
  auto add = [&](V part) { out = out ? out + part : part; };
  int bias = d.call.def.signature.find("bias");
  for (size_t i = 0; i < 2; i++) {
    V t = d.of(d.call.args[i]);
    if (!t) continue;
    ArgList args = d.call.args;
    args[i] = t;
    if (bias >= 0) args[static_cast<size_t>(bias)] = {};
    add(b.call_full(d.call.def, std::move(args)).at(0));
  }
  if (V t = bias >= 0 ? d.of(d.call.args[static_cast<size_t>(bias)]) : V()) {
    std::vector<Expr> sizes(d.y.rank(), b.integer(1));
    sizes[static_cast<size_t>(wrap_dim(bias_dim, d.y.rank(), "bias"))] = t.size(0);
    add(b.expand(b.reshape(t, sizes), d.y.sizes()));
  }
  return out;
}

} // namespace tenon::ops
