// GraphReader: overloads that write their results to tensors they are given, `torch.add(a, b, out=c)`. Each is the functional
// overload, followed by a copy into its operand, which is resized first where it is of another size.
#include <algorithm>

#include "load/pt2_graph.h"

#include "ir/builder.h"

namespace tenon {

using json::Element;

namespace {

bool fits(const SchemaArg& a, const Arg& v) {
  if (v.is_none()) return a.optional;
  bool list = v.is<ArgList>(), tensor = v.is<ValueId>();
  if (a.list) return list || a.fixed_length > 0;
  return list ? false : tensor == (a.type == ArgType::Tensor);
}

} // namespace

// The overload that has all arguments but those written to, which are as many as it has results. Null where there is none.
const OpDef* GraphReader::functional_overload(const std::string& op, const std::vector<NamedArg>& args, size_t& written) {
  std::string base = op.substr(0, op.find('.') + 1);
  const OpDef* best = nullptr;
  for (const OpDef* def : all_ops()) {
    const Schema& s = def->signature;
    if (!s.name.starts_with(base) || s.variadic_result || s.returns.empty() || s.returns.size() >= args.size() + 1) continue;
    size_t given = args.size() - s.returns.size();
    bool fit = std::all_of(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(given), [&](const NamedArg& a) {
      int at = s.find(a.name);
      return at >= 0 && fits(s.args[static_cast<size_t>(at)], a.value);
    });
    for (size_t i = given; i < args.size(); i++) fit &= args[i].value.is<ValueId>() && s.find(args[i].name) < 0;
    for (const SchemaArg& a : s.args)
      fit &= a.has_default || std::any_of(args.begin(), args.end(), [&](const NamedArg& g) { return g.name == a.name; });
    if (fit && (!best || s.args.size() < best->signature.args.size())) best = def, written = s.returns.size();
  }
  return best;
}

bool GraphReader::read_out(BlockId block, const std::string& op, std::vector<NamedArg> args, Element node) {
  size_t written = 0;
  const OpDef* def = functional_overload(op, args, written);
  if (!def) return false;
  std::vector<Type> types;
  std::vector<std::string> names;
  output_types(node, 0, types, names);
  if (types.size() != written) return false;
  std::vector<NamedArg> targets(args.end() - static_cast<std::ptrdiff_t>(written), args.end());
  args.resize(args.size() - written);
  ArgList operands = schema_args(def, args, op);
  cast_operands(block, def->signature.name, operands);
  Builder b(graph_, block, false);
  b.set_origin(read_origin(node));
  Values results = b.call_full(*def, std::move(operands), &types);
  for (size_t i = 0; i < written; i++) {
    ValueId target = targets[i].value.get<ValueId>();
    Type type = Type::tensor(graph_.type(target).dtype, results.at(i).sizes());
    auto append_inplace = [&](std::string_view name, ArgList operands_now) {
      Node n{.op = std::string(name), .def = find_op(functional_name(name)), .args = std::move(operands_now), .origin = read_origin(node)};
      return graph_.node(graph_.append(block, std::move(n), {type}, {names[i]})).outputs[0];
    };
    if (graph_.type(target).sizes != type.sizes) target = append_inplace("aten::resize_.default", {target, type.sizes, {}});
    values_[names[i]] = append_inplace("aten::copy_.default", {target, results[i], false});
  }
  return true;
}

} // namespace tenon
