// ToGraph: overloads that write their results to tensors they are given, `torch.add(a, b, out=c)`. Each is the functional
// overload, followed by a copy into its operand, which is resized first where it is of another size.
#include <algorithm>

#include "fx/to_graph.h"
#include "ir/builder.h"
#include "ops/names.h"

namespace tenon {

namespace {

bool fits(const SchemaArg& a, const Arg& v) {
  if (v.is_none()) return a.optional;
  bool list = v.is<ArgList>(), tensor = v.is<ValueId>();
  if (a.list) return list || a.fixed_length > 0;
  return list ? false : tensor == (a.type == ArgType::Tensor);
}

} // namespace

// The overload that has all arguments but those written to, the last keywords, which are as many as it has results. Null where
// there is none.
const OpDef* ToGraph::functional_overload(const FxNode& n, const std::string& op, size_t& written) const {
  std::string base = op.substr(0, op.find('.') + 1);
  const OpDef* best = nullptr;
  for (const OpDef* def : all_ops()) {
    const Schema& s = def->signature;
    if (!s.name.starts_with(base) || s.variadic_result || s.returns.empty() || s.returns.size() > n.kwargs.size()) continue;
    if (n.args.size() > s.args.size()) continue;
    auto keywords = std::span(n.kwargs).first(n.kwargs.size() - s.returns.size());
    bool fit = true;
    for (size_t i = 0; i < n.args.size(); i++) fit &= fits(s.args[i], resolve(n.args[i]));
    for (const Attribute& k : keywords) {
      int at = s.find(k.name);
      fit &= at >= 0 && fits(s.args[static_cast<size_t>(at)], resolve(k.value));
    }
    for (const Attribute& k : std::span(n.kwargs).subspan(keywords.size())) fit &= resolve(k.value).is<ValueId>() && s.find(k.name) < 0;
    for (size_t i = n.args.size(); i < s.args.size(); i++)
      fit &= s.args[i].has_default || std::any_of(keywords.begin(), keywords.end(), [&](auto& k) { return k.name == s.args[i].name; });
    if (fit && (!best || s.args.size() < best->signature.args.size())) best = def, written = s.returns.size();
  }
  return best;
}

bool ToGraph::add_out_overload(BlockId block, uint32_t at, const std::string& op) {
  const FxNode& n = node(at);
  size_t written = 0;
  const OpDef* def = functional_overload(n, op, written);
  if (!def || (n.val && n.val->types.size() != written)) return false;
  auto keywords = std::span(n.kwargs).first(n.kwargs.size() - written);
  ArgList operands = schema_args(n.name, *def, n.args, keywords);
  cast_operands(block, def, operands);
  Builder b(graph_, block, false);
  b.set_origin(n.origin);
  Values results = b.call_full(*def, std::move(operands), n.val ? &n.val->types : nullptr);
  ArgList made;
  for (size_t i = 0; i < written; i++) {
    ValueId target = resolve(n.kwargs[keywords.size() + i].value).get<ValueId>();
    Type type = Type::tensor(graph_.type(target).dtype, results.at(i).sizes());
    std::string result_name = written == 1 ? n.name : std::string();
    auto append_inplace = [&](OpId name, ArgList operands_now) {
      Node node{.op = name, .def = find_op(functional_name(name)), .args = std::move(operands_now), .origin = n.origin};
      return graph_.node(graph_.append(block, std::move(node), {type}, {result_name})).outputs[0];
    };
    if (graph_.type(target).sizes != type.sizes) target = append_inplace(aten::resize_, {target, type.sizes, {}});
    made.push_back(append_inplace(aten::copy_, {target, results[i], false}));
  }
  results_[at] = std::move(made);
  return true;
}

} // namespace tenon
