#include "script/lint.h"

#include <algorithm>

#include "builtins/resolve.h"
#include "ir/verify.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/program.h"

namespace tenon::script {

namespace {

class Linter {
public:
  explicit Linter(const Graph& g) : g_(g) {}

  void block(BlockId id) {
    for (NodeId n : g_.block(id).nodes) node(n);
    for (const Arg& a : g_.block(id).returns)
      if (!a.is<ValueId>()) bad_input("a block returns what is no value: {}", to_string(g_, a));
  }

private:
  template <class... A> [[noreturn]] void fail(NodeId id, fmt::format_string<A...> f, A&&... a) const {
    std::string text = to_string(g_, id);
    throw Error(ErrorKind::BadInput, fmt::format("{} in `{}`", fmt::format(f, std::forward<A>(a)...), text.substr(0, text.find('\n'))));
  }
  const Type& type(const Arg& a) const { return g_.type(a.get<ValueId>()); }

  void node(NodeId id) {
    const Node& n = g_.node(id);
    for (const Arg& a : n.args)
      if (!a.is<ValueId>()) fail(id, "an argument is no value: {}", to_string(g_, a));
    if (n.op == prim::If) check_if(id);
    else if (n.op == prim::Loop) check_loop(id);
    else check_call(id);
    for (BlockId b : n.blocks) block(b);
  }

  // ---- control flow

  void check_count(NodeId id, std::string_view what, size_t got, size_t want) const {
    if (got != want) fail(id, "{} {} where {} are needed", got, what, want);
  }
  void check_value(NodeId id, std::string_view what, size_t i, const Type& got, const Type& want) const {
    if (!is_subtype(got, want)) fail(id, "{} {} is {} where {} is needed", what, i, to_string(got), to_string(want));
  }
  void check_condition(NodeId id, const Arg& a) const {
    const Type& t = type(a);
    if (!t.is(TypeKind::Bool) && !t.is_number() && !t.is_any_tensor()) fail(id, "the condition is {}", to_string(t));
  }

  void check_if(NodeId id) const {
    const Node& n = g_.node(id);
    check_count(id, "arguments", n.args.size(), 1);
    check_count(id, "blocks", n.blocks.size(), 2);
    check_condition(id, n.args[0]);
    for (BlockId b : n.blocks) {
      check_count(id, "parameters of a branch", g_.block(b).params.size(), 0);
      check_returns(id, b, 0);
    }
  }

  // What a block gives, from `first` on, is what the node gives.
  void check_returns(NodeId id, BlockId b, size_t first) const {
    const Node& n = g_.node(id);
    const ArgList& returns = g_.block(b).returns;
    check_count(id, "results of a block", returns.size(), n.outputs.size() + first);
    for (size_t i = 0; i < n.outputs.size(); i++)
      if (returns[first + i].is<ValueId>()) check_value(id, "a block's result", i, type(returns[first + i]), g_.type(n.outputs[i]));
  }

  void check_loop(NodeId id) const {
    const Node& n = g_.node(id);
    check_count(id, "blocks", n.blocks.size(), 1);
    const Block& body = g_.block(n.blocks[0]);
    check_count(id, "arguments", n.args.size(), n.outputs.size() + 2);
    check_count(id, "parameters of the body", body.params.size(), n.outputs.size() + 1);
    if (!type(n.args[0]).is(TypeKind::Int)) fail(id, "the trip count is {}", to_string(type(n.args[0])));
    check_condition(id, n.args[1]);
    if (!g_.type(body.params[0]).is(TypeKind::Int)) fail(id, "the counter is {}", to_string(g_.type(body.params[0])));
    check_returns(id, n.blocks[0], 1);
    if (body.returns[0].is<ValueId>()) check_condition(id, body.returns[0]);
    for (size_t i = 0; i < n.outputs.size(); i++) {
      const Type& carried = g_.type(body.params[i + 1]);
      check_value(id, "carried value", i, type(n.args[i + 2]), carried);
      if (body.returns[i + 1].is<ValueId>()) check_value(id, "the body's result", i, type(body.returns[i + 1]), carried);
    }
  }

  // ---- calls

  void check_call(NodeId id) const {
    const Node& n = g_.node(id);
    if (n.op == prim::Constant) return check_count(id, "results", n.outputs.size(), 1);
    if (n.op == prim::unchecked_cast) {
      check_count(id, "arguments", n.args.size(), 1);
      return check_count(id, "results", n.outputs.size(), 1);
    }
    if (n.op == prim::ListConstruct || n.op == prim::DictConstruct) return check_elements(id);
    std::vector<Type> results;
    try {
      results = container_results(g_, n.op, n.args);
    } catch (const Error& e) {
      fail(id, "{}", e.what());
    }
    if (results.empty()) {
      if (!is_operator(n.op)) return;
      std::vector<Given> given;
      for (const Arg& a : n.args) given.push_back({type(a)});
      std::string why;
      auto r = resolve_node(n.op, given, &why);
      if (!r) fail(id, "{}", why);
      if (r->signature->any_returns || (n.outputs.empty() && n.blocks.empty())) return;
      results = r->results;
    }
    check_count(id, "results", n.outputs.size(), results.size());
    for (size_t i = 0; i < results.size(); i++)
      if (const Type& t = g_.type(n.outputs[i]); !is_subtype(t, results[i]) && !is_subtype(results[i], t))
        fail(id, "result {} is {}, the operator gives {}", i, to_string(t), to_string(results[i]));
  }

  // Of a list, or in turns keys and values of a dict.
  void check_elements(NodeId id) const {
    const Node& n = g_.node(id);
    check_count(id, "results", n.outputs.size(), 1);
    const Type& made = g_.type(n.outputs[0]);
    bool is_list = n.op == prim::ListConstruct;
    if (!made.is(is_list ? TypeKind::List : TypeKind::Dict)) fail(id, "the result is {}", to_string(made));
    if (!is_list && n.args.size() % 2 != 0) fail(id, "a key without a value");
    for (size_t i = 0; i < n.args.size(); i++) check_value(id, "element", i, type(n.args[i]), made.element(is_list ? 0 : i % 2));
  }

  const Graph& g_;
};

Type common(const std::vector<Type>& types, size_t first, size_t step) {
  Type all = types[first];
  for (size_t i = first; i < types.size(); i += step) {
    auto both = unify(all, types[i]);
    require_input(both.has_value(), "elements of different types: {}, {}", to_string(all), to_string(types[i]));
    all = std::move(*both);
  }
  return all;
}
Type without_sizes(const Type& t) { return t.is_tensor() ? Type::simple(TypeKind::Dynamic) : t; }

} // namespace

std::vector<Type> container_results(const Graph& graph, OpId op, const ArgList& args) {
  std::vector<Type> types;
  for (const Arg& a : args)
    if (a.is<ValueId>()) types.push_back(graph.type(a.get<ValueId>()));
  auto operand = [&](TypeKind kind) -> const Type& {
    require_input(!types.empty() && types[0].is(kind), "{} of what is no {}", op.name(), kind == TypeKind::Tuple ? "tuple" : "list");
    return types[0];
  };
  if (op == prim::TupleConstruct) return {Type::tuple(std::move(types))};
  if (op == prim::ListConstruct && !types.empty()) return {Type::list(without_sizes(common(types, 0, 1)))};
  if (op == prim::DictConstruct && types.size() > 1) return {Type::dict(common(types, 0, 2), without_sizes(common(types, 1, 2)))};
  if (op == prim::TupleUnpack) return operand(TypeKind::Tuple).elements();
  if (op == prim::ListUnpack) operand(TypeKind::List);
  if (op != prim::TupleIndex) return {};
  const std::vector<Type>& elements = operand(TypeKind::Tuple).elements();
  if (types[0].name() == "Tuple") return {}; // of the IR of 2018
  require_input(args.size() == 2, "{} takes a tuple and an index", op.name());
  const Node* index = graph.value(args[1].get<ValueId>()).node.valid() ? &graph.node(graph.value(args[1].get<ValueId>()).node) : nullptr;
  const Arg* number = index && index->op == prim::Constant ? index->attribute("value") : nullptr;
  require_input(number && number->is<int64_t>(), "the index of a tuple is no constant");
  int64_t i = number->get<int64_t>(), n = static_cast<int64_t>(elements.size());
  require_input(-n <= i && i < n, "index {} of a tuple of {}", i, n);
  return {elements[static_cast<size_t>(i < 0 ? i + n : i)]};
}

void lint(const Graph& graph) {
  verify_given(graph, Dialect::Script);
  Graph today = graph;
  modernize(today);
  Linter(today).block(today.top());
}

} // namespace tenon::script
