// register_operator: functions on a stack as rows of the table of TorchScript's operators.
#include "api/operator.h"

#include <mutex>
#include <set>

#include "api/graph_impl.h"
#include "api/impl.h"
#include "builtins/builtin.h"
#include "script/arguments.h"

namespace tenon {

namespace {

/// What a node's call is given.
struct Bound {
  Schema signature;
  Operation operation;
};

// The node by itself, in a graph of its own.
ir::Graph graph_of_node(const Graph& g, const Node& n) {
  Graph one;
  Node copy{.op = n.op};
  for (const Arg& a : n.args) copy.args.push_back(one.add_param(one.top(), g.type(a.get<ValueId>())));
  std::function<Arg(const Arg&)> moved = [&](const Arg& a) -> Arg {
    if (a.is<TensorId>()) return one.add_tensor(g.tensor(a.get<TensorId>()));
    if (!a.is<ArgList>()) return a;
    ArgList list;
    for (const Arg& e : a.get<ArgList>()) list.push_back(moved(e));
    return list;
  };
  for (const Attribute& a : n.attributes) copy.attributes.push_back({a.name, moved(a.value)});
  std::vector<Type> types;
  for (ValueId v : n.outputs) types.push_back(g.type(v));
  one.append(one.top(), std::move(copy), std::move(types));
  return ir::public_graph(Graph(one), Dialect::Script);
}

void run_bound(BuiltinCall& call) {
  const Bound& bound = *static_cast<const Bound*>(call.state);
  const std::string& name = bound.signature.name;
  Stack stack(call.args.begin(), call.args.end());
  try {
    bound.operation(stack);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    bad_input("{}: {}", name, e.what());
  }
  require_input(stack.size() == call.results.size(), "{} leaves {} values on the stack, its schema gives {}", name, stack.size(),
                call.results.size());
  for (size_t i = 0; i < stack.size(); i++)
    call.results[i] = script::convert(std::move(stack[i]), type_of(bound.signature.returns[i]), fmt::format("result {} of {}", i, name));
}

void add(std::string_view schema, MakeOperation make) {
  require_input(make != nullptr, "{}: an operator without a function", schema);
  auto signature = std::make_shared<const Schema>(parse_schema(schema));
  BuiltinOp op{{std::string(schema), run_bound}, {}};
  op.bind = [make = std::move(make), signature](const Graph& g, const Node& n) -> std::shared_ptr<const void> {
    ir::Graph one = graph_of_node(g, n);
    Bound bound{*signature, make(one.nodes()[0])};
    require_input(bound.operation != nullptr, "{}: no operation is made for the node", signature->name);
    return std::make_shared<const Bound>(std::move(bound));
  };
  register_builtin(std::move(op));
}

} // namespace

Status register_operator(std::string_view schema, MakeOperation make) {
  auto done = guarded([&] { return add(schema, std::move(make)), true; });
  return done ? Status() : Status(done.error());
}

Status register_operator(std::string_view schema, Operation operation) {
  if (!operation) return register_operator(schema, MakeOperation());
  return register_operator(schema, [operation = std::move(operation)](const ir::Node&) { return operation; });
}

Status detail::register_typed(std::string_view schema, size_t args, size_t results, Operation operation) {
  auto counted = guarded([&] {
    Schema s = parse_schema(schema);
    require_input(s.args.size() == args, "{}: the schema has {} arguments, the function takes {}", schema, s.args.size(), args);
    require_input(s.returns.size() == results, "{}: the schema has {} results, the function gives {}", schema, s.returns.size(), results);
    return true;
  });
  return counted ? register_operator(schema, std::move(operation)) : Status(counted.error());
}

void register_operators(const OperatorDef* table, size_t count) {
  static std::mutex mutex;
  static std::set<const OperatorDef*> known; // a library may be loaded twice
  std::scoped_lock lock(mutex);
  for (const OperatorDef* def = table; def != table + count; def++) {
    require_input(def->schema && def->make, "an operator of a library has no schema, or no function");
    if (known.contains(def)) continue;
    add(def->schema, def->make);
    known.insert(def);
  }
}

} // namespace tenon
