// ir::Value and ir::Node.
#include <algorithm>
#include <cstdio>

#include "api/graph_impl.h"
#include "builtins/resolve.h"
#include "fx/graph.h"
#include "ir/dim_order.h"
#include "ir/op.h"
#include "ir/origin.h"
#include "ops/names.h"

namespace tenon::ir {

// ---- Value

static tenon::Value& value_at(GraphImpl* g, uint32_t id) {
  require_input(g != nullptr, "an empty Value");
  return g->graph.value(ValueId{id});
}

Type Value::type() const {
  const tenon::Value& v = value_at(impl_, id_);
  Type t = impl_->out(v.type);
  if (t.kind == Type::Kind::Tensor) t.requires_grad = v.meta.requires_grad, t.device = device_name(v.meta);
  return t;
}
void Value::setType(const Type& type) const { value_at(impl_, id_), impl_->set_type(ValueId{id_}, impl_->typed(type)); }
Node Value::node() const {
  return value_at(impl_, id_).node.valid() ? Access::node(impl_, value_at(impl_, id_).node) : Access::param(impl_, ValueId{id_});
}
size_t Value::offset() const { return value_at(impl_, id_).node.valid() ? value_at(impl_, id_).index : 0; }
bool Value::requiresGrad() const { return value_at(impl_, id_).meta.requires_grad; }
std::string Value::device() const { return device_name(value_at(impl_, id_).meta); }
std::vector<int> Value::dimOrder() const { return dim_order(value_at(impl_, id_).type); }
std::string Value::name() const { return value_at(impl_, id_).name; }
void Value::setName(std::string name) const {
  impl_->names.erase(value_at(impl_, id_).name);
  value_at(impl_, id_).name = impl_->unique_name(std::move(name));
}

std::vector<Value::Use> Value::uses() const {
  value_at(impl_, id_);
  std::vector<Use> list;
  for (const auto& [user, offset] : impl_->uses.get(ValueId{id_}))
    list.push_back({user.is_block ? Access::returns(impl_, BlockId{user.id}) : Access::node(impl_, NodeId{user.id}), offset});
  return list;
}
bool Value::hasUses() const { return value_at(impl_, id_), !impl_->uses.get(ValueId{id_}).empty(); }

// One may stand where the other does.
static void check_exchange(GraphImpl* g, Value was, Value now, std::string_view what) {
  require_input(static_cast<bool>(was) && Access::graph(now) == g, "{}: a value of another graph", what);
  const tenon::Type &a = g->graph.type(Access::id(was)), &b = g->graph.type(Access::id(now));
  bool fits = g->is_script() ? is_subtype(b, a) : a.kind == b.kind && (!a.is_tensor() || (a.dtype == b.dtype && a.rank() == b.rank()));
  require_input(fits, "{}: %{} is {}, %{} {}", what, was.name(), to_string(a), now.name(), to_string(b));
}

void Value::replaceAllUsesWith(Value other) const {
  value_at(impl_, id_);
  check_exchange(impl_, *this, other, "replaceAllUsesWith");
  impl_->replace_uses(ValueId{id_}, Access::id(other));
}
Graph& Value::owningGraph() const { return value_at(impl_, id_), *impl_->owner; }

// ---- Node: what it is

// The node of a call; BadInput for others, and for one that was destroyed.
static tenon::Node& call_of(Node n) {
  GraphImpl* g = Access::graph(n);
  require_input(g != nullptr && Access::is_call(n), "the node is no call");
  require_input(g->block_of.get(Access::id(n)).valid(), "the node was destroyed");
  return g->graph.node(Access::id(n));
}

std::string Node::kind() const {
  return (role_ == Role::Param ? prim::Param : role_ == Role::Return ? prim::Return : call_of(*this).op).name();
}
std::string Node::op() const {
  if (role_ != Role::Call) return role_ == Role::Param ? "placeholder" : "output";
  return call_of(*this).op == prim::Constant ? "get_attr" : "call_function";
}
std::string Node::name() const {
  if (role_ == Role::Return) return "output";
  if (role_ == Role::Param) return impl_->name(ValueId{id_});
  return call_of(*this), impl_->name_of_node(NodeId{id_});
}
std::string Node::target() const { return op() == "call_function" ? fx_target(call_of(*this).op) : name(); }
std::string Node::schema() const {
  const Schema* schema = role_ == Role::Call ? (call_of(*this), impl_->schema(NodeId{id_})) : nullptr;
  return schema ? to_string(*schema) : "";
}

// ---- arguments

std::vector<NamedArg> Node::arguments() const {
  if (role_ == Role::Param) return {};
  std::vector<NamedArg> list;
  if (role_ == Role::Return) {
    for (const tenon::Arg& a : impl_->graph.block(BlockId{id_}).returns) list.push_back({"", impl_->out(a)});
    return list;
  }
  tenon::Node& n = call_of(*this);
  const Schema* schema = impl_->schema(NodeId{id_});
  for (size_t i = 0; i < n.args.size(); i++)
    list.push_back({schema && i < schema->args.size() ? schema->args[i].name : "", impl_->out(n.args[i])});
  return list;
}

// Of an argument whose value is the schema's default: the constant's, in a script graph.
static bool is_default(const GraphImpl& g, const tenon::Arg& a, const SchemaArg* s) {
  const tenon::Arg* value = g.is_script() && a.is<ValueId>() ? g.constant(a.get<ValueId>()) : &a;
  return s && s->has_default && value && s->fallback == *value;
}
static const SchemaArg* schema_arg(const Schema* schema, size_t i) {
  return schema && i < schema->args.size() ? &schema->args[i] : nullptr;
}

std::vector<Arg> Node::args() const {
  std::vector<NamedArg> all = arguments();
  std::vector<Arg> list;
  size_t last = all.size();
  const Schema* schema = role_ == Role::Call ? impl_->schema(NodeId{id_}) : nullptr;
  auto is_keyword = [&](size_t i) { return schema_arg(schema, i) && schema_arg(schema, i)->keyword_only; };
  if (role_ == Role::Call)
    while (last > 0 && (is_keyword(last - 1) || is_default(*impl_, call_of(*this).args[last - 1], schema_arg(schema, last - 1)))) last--;
  for (size_t i = 0; i < last; i++)
    if (!is_keyword(i)) list.push_back(std::move(all[i].value));
  return list;
}

std::vector<NamedArg> Node::kwargs() const {
  if (role_ != Role::Call) return {};
  std::vector<NamedArg> all = arguments(), list;
  const Schema* schema = impl_->schema(NodeId{id_});
  for (size_t i = 0; i < all.size(); i++)
    if (const SchemaArg* s = schema_arg(schema, i); s && s->keyword_only && !is_default(*impl_, call_of(*this).args[i], s))
      list.push_back(std::move(all[i]));
  return list;
}

// The place of the argument of that name.
static size_t place(Node n, std::string_view name) {
  tenon::Node& call = call_of(n);
  const Schema* schema = Access::graph(n)->schema(Access::id(n));
  int i = schema ? schema->find(name) : -1;
  if (i < 0 || static_cast<size_t>(i) >= call.args.size()) Access::graph(n)->fail(Access::id(n), "no argument {}", name);
  return static_cast<size_t>(i);
}

Arg Node::arg(std::string_view name) const { return impl_->out(call_of(*this).args[place(*this, name)]); }

void Node::setArg(std::string_view name, Arg value) const {
  size_t i = place(*this, name);
  if (impl_->is_script()) {
    WithInsertPoint here(*this);
    Value to = value.is<Value>() ? value.get<Value>() : owningGraph().insertConstant(value);
    require_input(static_cast<bool>(to) && Access::graph(to) == impl_, "setArg: a value of another graph");
    ArgList was = call_of(*this).args, now = was;
    now[i] = Access::id(to);
    impl_->set_args(NodeId{id_}, std::move(now));
    if (impl_->schema(NodeId{id_})) return;
    impl_->set_args(NodeId{id_}, std::move(was));
    impl_->fail(NodeId{id_}, "setArg: {} : {} does not fit the schema {}", name, to.type().str(), this->schema());
  }
  ArgList now = call_of(*this).args;
  now[i] = impl_->in(value);
  const SchemaArg& schema = call_of(*this).def->signature.args[i];
  if (!fits(impl_->graph, schema, now[i])) impl_->fail(NodeId{id_}, "setArg: {} does not fit the schema {}", name, this->schema());
  impl_->set_args(NodeId{id_}, std::move(now));
}

std::vector<Value> Node::inputs() const {
  std::vector<Value> list;
  if (role_ == Role::Param) return list;
  if (role_ == Role::Call) call_of(*this);
  for (ValueId v : impl_->inputs(GraphImpl::User{role_ == Role::Return, id_})) list.push_back(Access::value(impl_, v));
  return list;
}
std::vector<Value> Node::outputs() const {
  if (role_ == Role::Param) return {Access::value(impl_, ValueId{id_})};
  std::vector<Value> list;
  if (role_ == Role::Call)
    for (ValueId v : call_of(*this).outputs) list.push_back(Access::value(impl_, v));
  return list;
}

Value Node::namedInput(std::string_view name) const {
  Arg a = arg(name);
  if (!a.is<Value>()) impl_->fail(NodeId{id_}, "namedInput: {} is no value", name);
  return a.get<Value>();
}
bool Node::is_constant(std::string_view name) const { return get(name).has_value(); }
std::optional<Arg> Node::get(std::string_view name) const {
  const tenon::Arg& a = call_of(*this).args[place(*this, name)];
  bool has_values = false;
  for_each_value(a, [&](ValueId) { has_values = true; });
  if (!has_values) return impl_->out(a);
  if (!a.is<ValueId>()) return std::nullopt;
  if (const tenon::Arg* constant = impl_->constant(a.get<ValueId>())) return impl_->out(*constant);
  return std::nullopt;
}

// ---- changing it

// The list argument that input number `offset` stands in or right behind; of several at the end, the last.
static void insert_in_list(Node n, size_t offset, ValueId value) {
  tenon::Node& call = call_of(n);
  GraphImpl& g = *Access::graph(n);
  ArgList now = call.args;
  size_t begin = 0;
  tenon::Arg* list = nullptr;
  size_t at = 0;
  for (tenon::Arg& a : now) {
    size_t end = begin;
    for_each_value(a, [&](ValueId) { end++; });
    if (a.is<ArgList>() && begin <= offset && offset <= end) list = &a, at = offset - begin;
    begin = end;
  }
  if (!list) g.fail(Access::id(n), "input {} is in no list", offset);
  ArgList elements = list->get<ArgList>();
  size_t k = 0; // elements that are no values are stepped over
  for (size_t values = 0; values < at; k++) values += elements[k].is<ValueId>();
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(k), tenon::Arg(value));
  *list = std::move(elements);
  g.set_args(Access::id(n), std::move(now));
}

Value Node::insertInput(size_t offset, Value value) const {
  require_input(static_cast<bool>(value) && Access::graph(value) == impl_, "insertInput: a value of another graph");
  if (impl_->is_script()) {
    ArgList now = call_of(*this).args;
    require_input(offset <= now.size(), "insertInput: there are {} inputs", now.size());
    now.insert(now.begin() + static_cast<std::ptrdiff_t>(offset), Access::id(value));
    impl_->set_args(NodeId{id_}, std::move(now));
  } else insert_in_list(*this, offset, Access::id(value));
  return value;
}
Value Node::addInput(Value value) const { return insertInput(inputs().size(), value); }

Value Node::replaceInput(size_t offset, Value value) const {
  std::vector<Value> was = inputs();
  require_input(offset < was.size(), "replaceInput: there are {} inputs", was.size());
  check_exchange(impl_, was[offset], value, "replaceInput");
  size_t i = 0;
  auto renamed = [&](ArgList list) {
    for (tenon::Arg& a : list) a = map_values(a, [&](ValueId v) { return i++ == offset ? Access::id(value) : v; });
    return list;
  };
  if (role_ == Role::Return) impl_->set_returns(BlockId{id_}, renamed(impl_->graph.block(BlockId{id_}).returns));
  else impl_->set_args(NodeId{id_}, renamed(call_of(*this).args));
  return was[offset];
}
void Node::replaceInputWith(Value from, Value to) const {
  std::vector<Value> all = inputs();
  for (size_t i = 0; i < all.size(); i++)
    if (all[i] == from) replaceInput(i, to);
}

Value Node::insertOutput(size_t offset, const Type& type) const {
  auto& outputs = call_of(*this).outputs;
  require_input(offset <= outputs.size(), "insertOutput: there are {} outputs", outputs.size());
  GraphImpl::Typed typed = impl_->typed(type);
  std::string name = impl_->unique_name(impl_->is_script() ? "" : impl_->name_of_node(NodeId{id_}));
  ValueId v = impl_->graph.add_output(NodeId{id_}, {}, name);
  impl_->set_type(v, std::move(typed));
  std::rotate(outputs.begin() + static_cast<std::ptrdiff_t>(offset), outputs.end() - 1, outputs.end());
  impl_->number(outputs);
  return Access::value(impl_, v);
}
Value Node::addOutput(const Type& type) const { return insertOutput(call_of(*this).outputs.size(), type); }

void Node::eraseOutput(size_t offset) const {
  auto& outputs = call_of(*this).outputs;
  require_input(offset < outputs.size(), "eraseOutput: there are {} outputs", outputs.size());
  if (!impl_->uses.get(outputs[offset]).empty()) impl_->fail(NodeId{id_}, "eraseOutput: %{} is used", impl_->name(outputs[offset]));
  impl_->names.erase(impl_->name(outputs[offset]));
  outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(offset));
  impl_->number(outputs);
}

std::vector<Block> Node::blocks() const {
  std::vector<Block> list;
  if (role_ == Role::Call)
    for (BlockId b : call_of(*this).blocks) list.push_back(Access::block(impl_, b));
  return list;
}
Block Node::addBlock() const { return call_of(*this), Access::block(impl_, impl_->graph.add_block(NodeId{id_})); }
void Node::eraseBlock(size_t offset) const {
  auto& blocks = call_of(*this).blocks;
  require_input(offset < blocks.size(), "eraseBlock: there are {} blocks", blocks.size());
  impl_->set_returns(blocks[offset], {});
  while (!impl_->graph.block(blocks[offset]).nodes.empty()) impl_->destroy(impl_->graph.block(blocks[offset]).nodes.back());
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(offset));
}

void Node::destroy() const { call_of(*this), impl_->destroy(NodeId{id_}); }
void Node::moveBefore(Node other) const {
  call_of(*this), call_of(other);
  require_input(Access::graph(other) == impl_, "moveBefore: a node of another graph");
  impl_->move(NodeId{id_}, impl_->block_of[Access::id(other)], impl_->position(Access::id(other)));
}
void Node::moveAfter(Node other) const {
  call_of(*this), call_of(other);
  require_input(Access::graph(other) == impl_, "moveAfter: a node of another graph");
  impl_->move(NodeId{id_}, impl_->block_of[Access::id(other)], impl_->position(Access::id(other)) + 1);
}
Block Node::owningBlock() const {
  if (role_ == Role::Return) return Access::block(impl_, BlockId{id_});
  if (role_ == Role::Param) return Access::block(impl_, impl_->block_of_param.get(ValueId{id_}));
  return call_of(*this), Access::block(impl_, impl_->block_of.get(NodeId{id_}));
}
Graph& Node::owningGraph() const {
  require_input(impl_ != nullptr, "an empty Node");
  return *impl_->owner;
}

// ---- what the export says of it

std::vector<std::pair<std::string, std::string>> Node::meta() const {
  if (role_ != Role::Call || !call_of(*this).origin) return {};
  return metadata_of(*call_of(*this).origin);
}
std::string Node::meta(std::string_view key) const {
  for (auto& [name, text] : meta())
    if (name == key) return text;
  return "";
}

std::string Node::sourceFrame() const {
  if (role_ != Role::Call || !call_of(*this).origin) return "";
  return std::string(user_frame(*call_of(*this).origin));
}

std::string Node::toString() const {
  if (role_ == Role::Call) return call_of(*this), to_string(impl_->graph, NodeId{id_});
  std::string list;
  if (role_ == Role::Param) return fmt::format("%{} : {} = prim::Param()\n", name(), to_string(impl_->graph.type(ValueId{id_})));
  for (const tenon::Arg& a : impl_->graph.block(BlockId{id_}).returns) list += (list.empty() ? "" : ", ") + to_string(impl_->graph, a);
  return fmt::format("{}({})\n", prim::Return, list);
}
void Node::dump() const { std::fputs(toString().c_str(), stdout); }

} // namespace tenon::ir
