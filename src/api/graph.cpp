// ir::Graph and ir::Block.
#include <algorithm>
#include <cstdio>

#include "api/graph_impl.h"
#include "edge/constraints.h"
#include "ir/pass.h"
#include "script/lint.h"
#include "script/text.h"

namespace tenon::ir {

Dialect dialect_named(std::string_view name) {
  for (Dialect d : {Dialect::Aten, Dialect::Edge, Dialect::Backend, Dialect::Script})
    if (name_of(d) == name) return d;
  bad_input("no such dialect: {}; there are aten, edge, backend, script", name);
}

ir::Graph public_graph(tenon::Graph graph, Dialect dialect) { return ir::Graph(std::make_unique<GraphImpl>(std::move(graph), dialect)); }

// ---- Graph

Graph::Graph(std::string_view dialect) : Graph(std::make_unique<GraphImpl>(tenon::Graph(), dialect_named(dialect))) {}
Graph Graph::parse(std::string_view text) { return public_graph(script::parse_script(text).graph, Dialect::Script); }
Graph::Graph(std::unique_ptr<GraphImpl> impl) : impl_(std::move(impl)) { impl_->owner = this; }
Graph::Graph(const Graph& other) : Graph(std::make_unique<GraphImpl>(*other.impl_)) {}
Graph::Graph(Graph&& other) noexcept : impl_(std::move(other.impl_)) {
  if (impl_) impl_->owner = this;
}
Graph& Graph::operator=(Graph other) noexcept {
  impl_.swap(other.impl_);
  if (impl_) impl_->owner = this;
  return *this;
}
Graph::~Graph() = default;

std::string_view Graph::dialect() const { return name_of(impl_->dialect); }
Block Graph::block() const { return Access::block(impl_.get(), impl_->graph.top()); }

std::vector<Node> Graph::fxNodes() const {
  std::vector<Node> list;
  for (Value v : inputs()) list.push_back(v.node());
  for (Node n : nodes()) list.push_back(n);
  list.push_back(block().return_node());
  return list;
}

void Graph::setInsertPoint(Node before) {
  require_input(Access::graph(before) == impl_.get() && Access::is_call(before), "the insert point is no call of this graph");
  require_input(impl_->block_of.get(Access::id(before)).valid(), "the insert point was destroyed");
  impl_->set_insert_point({}, Access::id(before));
}

void Graph::setInsertPoint(Block at_end) {
  require_input(&at_end.owningGraph() == this, "the insert point is a block of another graph");
  impl_->set_insert_point(Access::id(at_end), {});
}

void Graph::setInsertPoint(InsertPoint point) { point.before ? setInsertPoint(point.before) : setInsertPoint(point.block); }

InsertPoint Graph::insertPoint() const {
  NodeId before = impl_->insert_before;
  return {Access::block(impl_.get(), impl_->insert_block), before.valid() ? Access::node(impl_.get(), before) : Node()};
}

WithInsertPoint::WithInsertPoint(Graph& graph, const InsertPoint& point) : impl_(graph.impl()), before_(graph.insertPoint()) {
  graph.setInsertPoint(point);
}
WithInsertPoint::~WithInsertPoint() {
  impl_.set_insert_point(Access::id(before_.block), before_.before ? Access::id(before_.before) : NodeId{});
}

namespace {

struct GivenCall {
  const OpDef& def;
  ArgList args;
};

GivenCall given_call(GraphImpl& g, std::string_view op, const std::vector<Arg>& args, const std::vector<NamedArg>& kwargs) {
  ArgList positional;
  for (const Arg& a : args) positional.push_back(g.in(a));
  std::vector<Attribute> keywords;
  for (const NamedArg& k : kwargs) keywords.push_back({k.name, g.in(k.value)});
  const OpDef& def = g.choose_op(op, positional, keywords);
  ArgList full = g.schema_args(def, std::move(positional), keywords);
  for (size_t i = 0; i < full.size() && !g.is_pattern; i++)
    require_input(fits(g.graph, def.signature.args[i], full[i]), "argument {} does not fit the schema {}", def.signature.args[i].name,
                  to_string(def.signature));
  return {def, std::move(full)};
}

std::string node_name(const GraphImpl& g, const OpDef& def) {
  bool edge = g.dialect != Dialect::Aten && def.signature.name.starts_with("aten::");
  if (def.kind == Kind::Prim) return def.signature.name.substr(0, def.signature.name.find('.')); // as the stages know it
  return edge ? "edge::" + def.signature.name.substr(6) : def.signature.name;
}

} // namespace

Node Graph::insertNode(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs) {
  GraphImpl& g = *impl_;
  if (g.is_script()) return Access::node(&g, g.insert_script(op, args, kwargs, true));
  GivenCall call = given_call(g, op, args, kwargs);
  std::vector<tenon::Type> types;
  if (g.is_pattern) require_input(!call.def.signature.variadic_result, "{} gives a list, which no pattern has", call.def.signature.name);
  if (g.is_pattern) types.resize(call.def.signature.returns.size());
  else if (call.def.kind != Kind::Prim) types = infer_types(g.graph, call.def, call.args);
  NodeId made;
  g.insert([&](BlockId b) {
    made = g.graph.append(b, {.op = node_name(g, call.def), .def = &call.def, .args = std::move(call.args), .origin = g.origin_here()},
                          std::move(types));
  });
  return Access::node(impl_.get(), made);
}

std::vector<Value> Graph::insertValues(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs) {
  GraphImpl& g = *impl_;
  if (g.is_script()) return Access::node(&g, g.insert_script(op, args, kwargs, false)).outputs();
  if (g.is_pattern) return insertNode(op, std::move(args), std::move(kwargs)).outputs();
  GivenCall call = given_call(g, op, args, kwargs);
  require_input(call.def.kind != Kind::Prim, "{} has no types of its own: insertNode takes it", call.def.signature.name);
  std::vector<Value> results;
  g.insert([&](BlockId b) {
    Builder builder(g.graph, b, g.dialect != Dialect::Aten);
    builder.set_origin(g.origin_here());
    for (V v : builder.call_full(call.def, std::move(call.args))) results.push_back(Access::value(impl_.get(), v.id));
  });
  return results;
}

Value Graph::insert(std::string_view op, std::vector<Arg> args, std::vector<NamedArg> kwargs) {
  std::vector<Value> results = insertValues(op, std::move(args), std::move(kwargs));
  require_input(results.size() == 1, "{} gives {} results: insertValues has them", op, results.size());
  return results[0];
}

Value Graph::insertConstant(const Arg& constant) { return Access::value(impl_.get(), impl_->insert_constant(constant)); }

Value Graph::insertConstant(Tensor tensor, std::string name) {
  require_input(tensor.defined(), "a constant without memory");
  if (impl_->is_script()) {
    Value made = insertConstant(Arg(std::move(tensor)));
    if (!name.empty()) made.setName(std::move(name));
    return made;
  }
  ValueId made;
  impl_->insert([&](BlockId b) {
    Builder builder(impl_->graph, b, false);
    builder.set_origin(impl_->origin_here());
    made = builder.constant(std::move(tensor), std::move(name)).id;
  });
  return Access::value(impl_.get(), made);
}

bool Graph::eliminateDeadCode() {
  bool any = false;
  std::function<void(Block)> clean = [&](Block b) {
    std::vector<Node> nodes = b.nodes();
    for (size_t i = nodes.size(); i-- > 0;) {
      std::vector<Value> results = nodes[i].outputs();
      const tenon::Node& n = impl_->graph.node(Access::id(nodes[i]));
      bool effect = impl_->is_script()
                        ? impl_->has_effect(Access::id(nodes[i]))
                        : results.empty() || binds_symbols(n) || !n.def || n.def->signature.mutates() || functional_name(n.op) != n.op;
      if (!effect && std::ranges::none_of(results, [](Value v) { return v.hasUses(); })) nodes[i].destroy(), any = true;
      else
        for (Block inner : nodes[i].blocks()) clean(inner);
    }
  };
  clean(block());
  return any;
}

void Graph::lint() const {
  if (impl_->is_script()) return script::lint(impl_->graph);
  try {
    verify(impl_->graph, impl_->dialect);
    if (impl_->dialect != Dialect::Aten) check_edge_types(impl_->graph);
  } catch (const Error& e) {
    throw Error(ErrorKind::BadInput, e.what(), e.where);
  }
}

std::string Graph::toString() const { return impl_->is_script() ? script::to_text(impl_->graph) : to_string(impl_->graph); }
std::string Graph::toString2018() const {
  require_input(impl_->is_script(), "the spelling of 2018 is for script graphs, this one is {}", dialect());
  return script::to_text(impl_->graph, script::Spelling::Of2018);
}
void Graph::dump() const { std::fputs(toString().c_str(), stdout); }

// ---- Block

static tenon::Block& block_at(GraphImpl* g, uint32_t id) {
  require_input(g != nullptr, "an empty Block");
  return g->graph.block(BlockId{id});
}

std::vector<Value> Block::inputs() const {
  std::vector<Value> list;
  for (ValueId v : block_at(impl_, id_).params) list.push_back(Access::value(impl_, v));
  return list;
}
std::vector<Value> Block::outputs() const {
  std::vector<Value> list;
  for (const tenon::Arg& a : block_at(impl_, id_).returns)
    list.push_back(a.is<ValueId>() ? Access::value(impl_, a.get<ValueId>()) : Value());
  return list;
}
std::vector<Arg> Block::returns() const {
  std::vector<Arg> list;
  for (const tenon::Arg& a : block_at(impl_, id_).returns) list.push_back(impl_->out(a));
  return list;
}
std::vector<Node> Block::nodes() const {
  std::vector<Node> list;
  for (NodeId n : block_at(impl_, id_).nodes) list.push_back(Access::node(impl_, n));
  return list;
}

Value Block::insertInput(size_t offset, const Type& type, std::string name) const {
  tenon::Block& b = block_at(impl_, id_);
  require_input(offset <= b.params.size(), "insertInput: there are {} inputs", b.params.size());
  GraphImpl::Typed typed = impl_->typed(type);
  ValueId v = impl_->graph.add_param(BlockId{id_}, {}, impl_->unique_name(std::move(name)));
  impl_->set_type(v, std::move(typed));
  std::rotate(b.params.begin() + static_cast<std::ptrdiff_t>(offset), b.params.end() - 1, b.params.end());
  impl_->number(b.params);
  impl_->block_of_param[v] = BlockId{id_};
  return Access::value(impl_, v);
}
Value Block::addInput(const Type& type, std::string name) const {
  return insertInput(block_at(impl_, id_).params.size(), type, std::move(name));
}

void Block::eraseInput(size_t offset) const {
  auto& params = block_at(impl_, id_).params;
  require_input(offset < params.size(), "eraseInput: there are {} inputs", params.size());
  require_input(impl_->uses.get(params[offset]).empty(), "eraseInput: %{} is used", impl_->name(params[offset]));
  impl_->names.erase(impl_->name(params[offset]));
  params.erase(params.begin() + static_cast<std::ptrdiff_t>(offset));
  impl_->number(params);
}

static size_t check_output(const ArgList& returns, size_t offset, std::string_view what) {
  require_input(offset < returns.size(), "{}: there are {} outputs", what, returns.size());
  return offset;
}

// In a script graph constants are nodes of the block.
static tenon::Arg returned(Block block, GraphImpl& g, const Arg& value) {
  if (!g.is_script() || value.is<Value>()) return g.in(value);
  WithInsertPoint here(block);
  return Access::id(block.owningGraph().insertConstant(value));
}

size_t Block::registerOutput(Arg value) const {
  ArgList now = block_at(impl_, id_).returns;
  now.push_back(returned(*this, *impl_, value));
  impl_->set_returns(BlockId{id_}, std::move(now));
  return block_at(impl_, id_).returns.size() - 1;
}
void Block::replaceOutput(size_t offset, Arg value) const {
  ArgList now = block_at(impl_, id_).returns;
  check_output(now, offset, "replaceOutput");
  now[offset] = returned(*this, *impl_, value);
  impl_->set_returns(BlockId{id_}, std::move(now));
}
void Block::eraseOutput(size_t offset) const {
  ArgList now = block_at(impl_, id_).returns;
  now.erase(now.begin() + static_cast<std::ptrdiff_t>(check_output(now, offset, "eraseOutput")));
  impl_->set_returns(BlockId{id_}, std::move(now));
}

Node Block::param_node(size_t i) const {
  require_input(i < block_at(impl_, id_).params.size(), "param_node: there are {} inputs", block_at(impl_, id_).params.size());
  return Access::param(impl_, block_at(impl_, id_).params[i]);
}
Node Block::return_node() const { return Access::returns(impl_, BlockId{id_}); }
Node Block::owningNode() const {
  NodeId owner = block_at(impl_, id_).owner;
  return owner.valid() ? Access::node(impl_, owner) : Node();
}
Graph& Block::owningGraph() const { return block_at(impl_, id_), *impl_->owner; }

} // namespace tenon::ir
