// Var: calls recorded as nodes.
#include <functional>

#include "base/check.h"
#include "ops/call_names.h"
#include "tenon/trace.h"

namespace tenon {

namespace {

// The graph of the first value among arguments.
ir::Graph* graph_of(const ir::Arg& a) {
  if (a.is<ir::Value>()) return &a.get<ir::Value>().owningGraph();
  if (auto* list = std::get_if<ir::Arg::List>(&a.v))
    for (const ir::Arg& e : *list)
      if (ir::Graph* g = graph_of(e)) return g;
  return nullptr;
}

std::string full_name(std::string_view op) { return op.find("::") == op.npos ? fmt::format("aten::{}", op) : std::string(op); }

bool is_number(const ir::Arg& a) {
  if (a.is<ir::Value>()) return !a.get<ir::Value>().type().isTensor();
  return a.is<bool>() || a.is<int64_t>() || a.is<double>() || a.is<std::complex<double>>();
}

} // namespace

std::vector<Var> Var::record_all(std::string_view op, Given given) {
  ir::Graph* graph = nullptr;
  for (const ir::Arg& a : given.args)
    if (!graph) graph = graph_of(a);
  for (const ir::NamedArg& k : given.kwargs)
    if (!graph) graph = graph_of(k.value);
  require_input(graph != nullptr, "{}: no argument is a Var; ir::Graph::insert takes such calls", op);
  std::vector<ir::Value> results = graph->insertValues(full_name(op), std::move(given.args), std::move(given.kwargs));
  return {results.begin(), results.end()};
}

Var Var::record(std::string_view op, Given given) {
  std::vector<Var> results = record_all(op, std::move(given));
  require_input(results.size() == 1, "{} gives {} results: Var::calls has them", op, results.size());
  return results[0];
}

// Operators on tensors take a tensor first: 1 - x is rsub(x, 1).
Var Var::binary(std::string_view op, ir::Arg a, ir::Arg b) {
  struct Mirrored {
    std::string_view op, turned;
  };
  static constexpr Mirrored mirrored[] = {{"add", "add"}, {"mul", "mul"}, {"sub", "rsub"}, {"eq", "eq"}, {"ne", "ne"},
                                          {"lt", "gt"},   {"gt", "lt"},   {"le", "ge"},    {"ge", "le"}};
  auto make = [](std::string_view name, ir::Arg x, ir::Arg y) { return record(name, {.args = {std::move(x), std::move(y)}}); };
  if (!is_number(a) || is_number(b)) return make(op, std::move(a), std::move(b));
  for (const Mirrored& m : mirrored)
    if (m.op == op) return make(m.turned, std::move(b), std::move(a));
  if (op == "div") return make("mul", call("reciprocal", Var(b.get<ir::Value>())).value(), std::move(a));
  return make(op, std::move(a), std::move(b));
}

Var Var::operator[](int64_t i) const {
  if (type().isTensor()) return call("select", *this, 0, i);
  if (type().kind == ir::Type::Kind::Tuple) return graph().insert(prim::TupleIndex.name(), {value_, i});
  return graph().insert(call::op_getitem.name(), {value_, i});
}
Var Var::operator[](const Var& i) const {
  if (type().isTensor()) return call("select", *this, 0, i);
  return graph().insert(call::op_getitem.name(), {value_, i.value()});
}

int64_t Var::known_size(int64_t dim) const {
  ir::Type t = type();
  auto rank = static_cast<int64_t>(t.sizes.size());
  bool known = t.kind == ir::Type::Kind::Tensor && -rank <= dim && dim < rank;
  std::optional<int64_t> size = known ? t.sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)].number : std::nullopt;
  require_input(size.has_value(), "the size of dim {} of {} is not known", dim, t.str());
  return *size;
}

std::vector<Var> Var::unpack(size_t count) const {
  ir::Type t = type();
  bool is_tuple = t.kind == ir::Type::Kind::Tuple;
  require_input(is_tuple || t.kind == ir::Type::Kind::List, "{} is neither a list nor a tuple", t.str());
  require_input(!is_tuple || t.elements.size() == count, "{} elements of {}", count, t.str());
  ir::Graph& g = graph();
  if (is_tuple) {
    std::vector<ir::Value> items = g.insertValues(prim::TupleUnpack.name(), {value_});
    return {items.begin(), items.end()};
  }
  ir::Node node = g.insertNode(prim::ListUnpack.name(), {value_});
  for (size_t i = 0; i < count; i++) node.addOutput(t.elements[0]);
  node.inferTypes();
  std::vector<ir::Value> items = node.outputs();
  return {items.begin(), items.end()};
}

std::vector<Var> Var::unbind(int64_t dim) const {
  auto count = static_cast<size_t>(known_size(dim));
  return call("unbind", *this, dim).unpack(count);
}

std::vector<Var> Var::chunk(int64_t chunks, int64_t dim) const {
  require_input(chunks > 0, "{} chunks", chunks);
  int64_t size = known_size(dim), step = std::max<int64_t>((size + chunks - 1) / chunks, 1);
  return call("chunk", *this, chunks, dim).unpack(static_cast<size_t>(std::max<int64_t>((size + step - 1) / step, 1)));
}

namespace detail {

ir::Arg returned_tuple(ir::Graph& graph, std::vector<ir::Arg> items) { return graph.insert(prim::TupleConstruct.name(), std::move(items)); }

ir::Graph inputs_graph(const std::vector<ir::Type>& types) {
  ir::Graph g("script");
  for (const ir::Type& t : types) g.addInput(t);
  return g;
}

void wrong_count(size_t takes, size_t types) { bad_input("the traced function takes {} Vars, {} types are given", takes, types); }

} // namespace detail

} // namespace tenon
