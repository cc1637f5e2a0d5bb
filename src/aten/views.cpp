// Writes to views, and functional forms of in-place operators.
#include "aten/views.h"

#include "ops/names.h"
#include "ops/view_inverse.h"

namespace tenon {

bool is_inplace(const Node& n) {
  bool has_forms = n.op.dialect() == "aten" || n.op.dialect() == "_c10d_functional";
  return n.def && n.op != n.def->signature.name && has_forms && functional_name(n.op) == n.def->signature.name;
}

ValueId view_source(const Graph& g, const Node& n) {
  if (n.def == nullptr || n.def->signature.returns.empty() || n.outputs.empty()) return {};
  const std::string& alias = n.def->signature.returns[0].alias;
  if (alias.empty()) return {};
  for (size_t i = 0; i < n.args.size(); i++) {
    if (n.def->signature.args[i].alias.empty() || n.def->signature.args[i].alias[0] != alias[0] || !n.args[i].is<ValueId>()) continue;
    ValueId source = n.args[i].get<ValueId>();
    return n.def->shares && !n.def->shares(g.type(source), g.type(n.outputs[0])) ? ValueId() : source;
  }
  return {};
}

V write_view(Builder& b, const Graph& g, const Node& view, const ArgList& args, uint32_t output, V parent, V now) {
  std::vector<Type> results;
  for (ValueId v : view.outputs) results.push_back(g.type(v));
  Call call(b.graph(), *view.def, args);
  V written = view.def->view_inverse ? view.def->view_inverse(b, {call, results, output, parent, now}) : V();
  if (!written) unsupported("an in-place operator on the result of {}", view.def->signature.name);
  return written;
}

V inplace_result(Builder& b, const Node& n, ArgList args, V self) {
  V now;
  OpId op = n.def->signature.name; // without the underscore
  if (op == aten::copy) now = b.wrap(args.at(1).get<ValueId>());
  else if (op == aten::zero) now = b.full(self.sizes(), 0, self.dtype());
  else if (op == aten::fill_Scalar) now = b.full(self.sizes(), args.at(1), self.dtype());
  else if (op == aten::fill_Tensor) now = b.wrap(args.at(1).get<ValueId>());
  else now = b.call_full(*n.def, std::move(args)).at(0);
  return b.expand(b.to(now, self.dtype()), self.sizes());
}

} // namespace tenon
