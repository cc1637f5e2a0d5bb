// What graphs of TorchScript do otherwise: constants are nodes, overloads are found by the types of arguments.
#include <algorithm>

#include "api/graph_impl.h"
#include "builtins/elements.h"
#include "builtins/resolve.h"
#include "executor/propagate_types.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/call_writer.h"
#include "script/lint.h"
#include "script/values.h"

namespace tenon::ir {

namespace {

using tenon::TypeKind;
tenon::Type simple(TypeKind kind) { return tenon::Type::simple(kind); }

/// Nodes at the end of a block.
class Appender {
public:
  Appender(GraphImpl& g, BlockId block)
      : g_(g), block_(block), writer(g.graph, [this](OpId op, ArgList args, std::vector<tenon::Type> types, std::optional<size_t>) {
          return g_.graph.node(append(op, std::move(args), std::move(types))).outputs;
        }) {}

  NodeId append(OpId op, ArgList args, std::vector<tenon::Type> types) {
    return g_.graph.append(block_, {.op = op, .args = std::move(args), .origin = g_.origin_here()}, std::move(types));
  }

  // The value of an argument: that of a constant is made.
  ValueId value(const ir::Arg& a) { return std::visit(Visit{*this}, a.v); }

private:
  struct Visit {
    Appender& to;
    ValueId operator()(std::monostate) const { return to.writer.constant({}, simple(TypeKind::None)); }
    ValueId operator()(Value v) const {
      require_input(static_cast<bool>(v), "an argument is an empty Value");
      require_input(Access::graph(v) == &to.g_, "%{} is a value of another graph", v.name());
      return Access::id(v);
    }
    ValueId operator()(bool v) const { return to.writer.constant(v, simple(TypeKind::Bool)); }
    ValueId operator()(int64_t v) const { return to.writer.constant(v, simple(TypeKind::Int)); }
    ValueId operator()(double v) const { return to.writer.constant(v, simple(TypeKind::Float)); }
    ValueId operator()(std::complex<double> v) const { return to.writer.constant(v, simple(TypeKind::Complex)); }
    ValueId operator()(const std::string& v) const { return to.writer.constant(v, simple(TypeKind::String)); }
    ValueId operator()(DType v) const { return (*this)(builtins::code_of_dtype(v)); }
    // torch.channels_last is a number, "cpu" a device.
    ValueId operator()(const ir::Word& w) const {
      auto c = script::constant_of_path("torch." + w.text);
      return c && c->as<int64_t>() ? (*this)(*c->as<int64_t>()) : to.writer.constant(w.text, simple(TypeKind::Device));
    }
    ValueId operator()(const Size& s) const {
      require_input(s.number.has_value(), "the size {} is no number", s.text);
      return (*this)(*s.number);
    }
    ValueId operator()(const Tensor& t) const {
      require_input(t.defined(), "a constant without memory");
      std::vector<Expr> sizes;
      for (int64_t s : t.sizes()) sizes.push_back(to.g_.graph.pool().integer(s));
      return to.writer.constant(to.g_.graph.add_tensor(t), tenon::Type::tensor(t.dtype(), std::move(sizes)));
    }
    ValueId operator()(const ir::Arg::List& list) const {
      ArgList items;
      for (const ir::Arg& e : list) items.emplace_back(to.value(e));
      std::vector<tenon::Type> types = script::container_results(to.g_.graph, prim::ListConstruct, items);
      if (types.empty()) types = {tenon::Type::list(simple(TypeKind::Dynamic))};
      return to.g_.graph.node(to.append(prim::ListConstruct, std::move(items), std::move(types))).outputs[0];
    }
    ValueId operator()(const std::shared_ptr<const ir::Graph>&) const { bad_input("a graph is an attribute, no argument"); }
  };

  GraphImpl& g_;
  BlockId block_;

public:
  script::CallWriter writer;
};

} // namespace

ValueId GraphImpl::insert_constant(const ir::Arg& constant) {
  require_input(is_script(), "a constant of an exported program is a Tensor; others are arguments as they are");
  ValueId made;
  insert([&](BlockId b) { made = Appender(*this, b).value(constant); });
  return made;
}

NodeId GraphImpl::insert_script(std::string_view op, const std::vector<ir::Arg>& args, const std::vector<NamedArg>& kwargs, bool raw) {
  NodeId made;
  insert([&](BlockId b) {
    Appender to(*this, b);
    std::vector<ValueId> values;
    std::vector<Given> given;
    auto give = [&](const std::string& name, const ir::Arg& a) {
      values.push_back(to.value(a));
      given.push_back({graph.type(values.back()), name, a.is<ir::Arg::List>() && a.get<ir::Arg::List>().empty()});
    };
    for (const ir::Arg& a : args) give("", a);
    for (const NamedArg& k : kwargs) give(k.name, k.value);
    ArgList plain(values.begin(), values.end());
    std::vector<tenon::Type> results = script::container_results(graph, op, plain);
    std::string why;
    auto r = results.empty() ? try_resolve(op, given, &why) : std::nullopt;
    if (r) {
      ArgList full = to.writer.arguments(*r, values);
      made = to.append(op, std::move(full), r->signature->any_returns ? std::vector<tenon::Type>() : r->results);
      return;
    }
    if (results.empty() && is_operator(op)) bad_input("{}", why);
    if (results.empty() && !raw) unsupported("{}", op);
    require_input(kwargs.empty(), "{} has no schema, and so no keyword arguments", op);
    made = to.append(op, std::move(plain), std::move(results));
  });
  if (!graph.node(made).outputs.empty()) executor::infer_types(graph, made);
  return made;
}

const Schema* GraphImpl::schema(NodeId id) const {
  const tenon::Node& n = graph.node(id);
  if (!is_script()) return n.def ? &n.def->signature : nullptr;
  std::vector<Given> given;
  for (const tenon::Arg& a : n.args) given.push_back({graph.type(a.get<ValueId>())});
  auto r = resolve_node(n.op, given);
  return r ? r->signature : nullptr;
}

const tenon::Arg* GraphImpl::constant(ValueId id) const {
  static const tenon::Arg none;
  if (!graph.value(id).node.valid()) return nullptr;
  const tenon::Node& n = graph.node(graph.value(id).node);
  if (n.op != prim::Constant) return nullptr;
  if (!is_script()) return n.args.empty() ? nullptr : &n.args[0];
  const tenon::Arg* value = n.attribute("value");
  return value ? value : &none;
}

// Of a script graph: what it does besides giving results.
bool GraphImpl::has_effect(NodeId id) const {
  const tenon::Node& n = graph.node(id);
  if (!n.blocks.empty())
    return n.outputs.empty() || std::ranges::any_of(n.blocks, [&](BlockId b) {
             return std::ranges::any_of(graph.block(b).nodes, [&](NodeId inner) { return has_effect(inner); });
           });
  if (n.outputs.empty()) return true;
  if (n.op == prim::Constant || n.op == prim::unchecked_cast || n.op == prim::Uninitialized || n.op == prim::ListUnpack) return false;
  if (!script::container_results(graph, n.op, n.args).empty() || n.op == prim::ListConstruct || n.op == prim::DictConstruct) return false;
  const Schema* s = schema(id);
  return !s || s->mutates() || s->returns.empty();
}

void Node::inferTypes() const {
  require_input(impl_ && impl_->is_script() && Access::is_call(*this), "types are inferred of calls in script graphs");
  std::string op = kind(); // throws where it was destroyed
  require_input(OpId(op) != prim::If && OpId(op) != prim::Loop, "{} has blocks: Graph::propagateTypes looks into them", op);
  executor::infer_types(impl_->graph, NodeId{id_});
}

bool Graph::propagateTypes() {
  require_input(impl_->is_script(), "types are propagated in script graphs, this one is {}", dialect());
  lint();
  return executor::propagate_types(impl_->graph);
}

} // namespace tenon::ir
