// Program::parse: a program from FX text, with the types and weights that the text leaves out.
#include <algorithm>

#include "api/impl.h"
#include "base/lexer.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"

namespace tenon {

namespace {

// A number's value is a symbol.
Type type_of(ExprPool& pool, const ArgInfo& info) {
  if (!info.is_number) {
    std::vector<Expr> sizes;
    for (const std::string& s : info.sizes) {
      Lexer size(s);
      sizes.push_back(parse_size(pool, size));
      require_input(size.at_end() && is_int(sizes.back()->type), "input {}: a size of {}", info.name, s);
      require_input(!const_int(sizes.back()) || *const_int(sizes.back()) >= 0, "input {}: a size of {}", info.name, s);
    }
    return Type::tensor(info.dtype, std::move(sizes));
  }
  bool real = info.dtype == DType::F64;
  require_input(real || info.dtype == DType::I64, "input {}: a number is I64 or F64", info.name);
  Expr value = pool.symbol(pool.fresh_symbol(real ? "zuf" : "u"), info.dtype);
  return Type::scalar(real ? TypeKind::Float : TypeKind::Int, value);
}

void give_types(FxGraph& fx, std::span<const ArgInfo> inputs) {
  size_t count = 0;
  for (uint32_t at = 0; at < fx.nodes.size(); at++) {
    FxNode& n = fx.nodes[at];
    if (n.kind != FxKind::Placeholder || is_subclass(fx, at)) continue;
    if (count < inputs.size() && !n.val) n.val = FxVal::one(type_of(*fx.pool, inputs[count]));
    count++;
  }
  require_input(inputs.empty() || inputs.size() == count, "the text has {} placeholders, {} inputs are given", count, inputs.size());
}

bool has_module(const FxGraph& fx, const std::string& name) {
  return std::any_of(fx.modules.begin(), fx.modules.end(), [&](const FxGraph& m) { return m.name == name; });
}

// Graphs that nodes run read their weights by their own names: "true_graph_0.weight" is the weight that true_graph_0 reads.
void give_weights(FxGraph& fx, std::span<const NamedTensor> weights, const std::string& path) {
  for (const FxNode& n : fx.nodes) {
    auto part = subclass_part(fx, n);
    if (!part && (n.kind != FxKind::GetAttr || has_module(fx, n.target))) continue;
    const std::string& name = part ? part->name : n.target;
    auto given = std::find_if(weights.begin(), weights.end(), [&](const NamedTensor& w) { return w.name == path + name; });
    require_input(given != weights.end(), "%{} reads {}{}: no such weight is given", n.name, path, name);
    fx.tensors.emplace(name, given->tensor);
  }
  for (FxGraph& m : fx.modules) give_weights(m, weights, path + m.name + ".");
}

} // namespace

Result<Program> Program::parse(std::string_view fx, std::span<const ArgInfo> inputs, std::span<const NamedTensor> weights) {
  return guarded([&] {
    FxGraph graph = parse_fx(fx);
    give_types(graph, inputs);
    give_weights(graph, weights, "");
    return Program(describe(program_of(graph)));
  });
}

} // namespace tenon
