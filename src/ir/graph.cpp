// Graph: construction of blocks, parameters and nodes; uses.
#include "ir/graph.h"

#include <unordered_set>

#include "ir/op.h"
#include "ops/names.h"

namespace tenon {

void Arg::wrong_kind() { bad_input("an argument is of another kind than its operator takes"); }

Arg::Arg(Expr x) {
  if (auto c = const_int(x); c && x->type == DType::I64) v = *c;
  else if (x && x->is_const() && x->type == DType::Bool) v = x->bits != 0;
  else if (x && x->is_const()) v = x->number();
  else v = x;
}

Graph::Graph(std::shared_ptr<ExprPool> pool) : pool_(std::move(pool)) { blocks_.add(Block{}); }

namespace {

// What holds expressions, rebuilt in another pool.
struct Moved {
  Substitution map;
  const std::map<std::string, int64_t>& symbols;

  void move(Expr& e) {
    if (e) e = map.apply(e);
  }
  void move(Arg& a) {
    if (auto* e = std::get_if<Expr>(&a.v)) a = *e ? Arg(map.apply(*e)) : a;
    else if (auto* list = std::get_if<ArgList>(&a.v))
      for (Arg& x : *list) move(x);
    else if (auto* graph = std::get_if<GraphP>(&a.v)) *graph = std::make_shared<const Graph>(**graph, symbols);
  }
  void move(Type& t) {
    for (Expr& e : t.sizes) move(e);
    for (Expr& e : t.strides) move(e);
    move(t.value);
    if (t.elements().empty()) return;
    TypeParts parts = *t.parts;
    for (Type& e : parts.elements) move(e);
    t.parts = Parts(std::move(parts));
  }
};

} // namespace

Graph::Graph(const Graph& other, const std::map<std::string, int64_t>& symbols)
    : pool_(std::make_shared<ExprPool>()), nodes_(other.nodes_), values_(other.values_), blocks_(other.blocks_), tensors_(other.tensors_) {
  Moved moved{.map = {}, .symbols = symbols};
  moved.map.into = pool_.get();
  for (auto& [name, value] : symbols)
    if (Expr symbol = other.pool().find_symbol(name)) moved.map.set(symbol, pool_->integer(value, symbol->type));
  for (uint32_t i = 0; i < values_.size(); i++) moved.move(values_[ValueId{i}].type);
  for (uint32_t i = 0; i < nodes_.size(); i++) {
    for (Arg& a : nodes_[NodeId{i}].args) moved.move(a);
    for (Attribute& a : nodes_[NodeId{i}].attributes) moved.move(a.value);
  }
  for (uint32_t i = 0; i < blocks_.size(); i++)
    for (Arg& a : blocks_[BlockId{i}].returns) moved.move(a);
}

BlockId Graph::add_block(NodeId owner) {
  BlockId id = blocks_.add(Block{.owner = owner});
  nodes_[owner].blocks.push_back(id);
  return id;
}

ValueId Graph::add_param(BlockId block, Type type, std::string name) {
  Block& b = blocks_[block];
  ValueId id = values_.add(Value{std::move(type), NodeId{}, static_cast<uint32_t>(b.params.size()), std::move(name)});
  b.params.push_back(id);
  return id;
}

NodeId Graph::append(BlockId block, Node node, std::vector<Type> output_types, std::vector<std::string> output_names) {
  NodeId id = nodes_.add(std::move(node));
  Node& n = nodes_[id];
  output_names.resize(output_types.size());
  n.outputs.reserve(output_types.size());
  for (size_t i = 0; i < output_types.size(); i++)
    n.outputs.push_back(values_.add(Value{std::move(output_types[i]), id, static_cast<uint32_t>(i), std::move(output_names[i])}));
  blocks_[block].nodes.push_back(id);
  return id;
}

ValueId Graph::add_output(NodeId node, Type type, std::string name) {
  Node& n = nodes_[node];
  n.outputs.push_back(values_.add(Value{std::move(type), node, static_cast<uint32_t>(n.outputs.size()), std::move(name)}));
  return n.outputs.back();
}

const Tensor* Graph::constant(ValueId id) const {
  const Tensor* t = stored_constant(id);
  if (t) settle(*t);
  return t;
}

const Tensor* Graph::stored_constant(ValueId id) const {
  const Value& v = values_[id];
  if (!v.node.valid()) return nullptr;
  const Node& n = nodes_[v.node];
  if (n.op != prim::Constant || n.args.empty() || !n.args[0].is<TensorId>()) return nullptr;
  return &tensors_[n.args[0].get<TensorId>()];
}

void for_each_use(const Graph& graph, NodeId id, const std::function<void(ValueId)>& f) {
  const Node& n = graph.node(id);
  for (const Arg& a : n.args) for_each_value(a, f);
  for (const Attribute& a : n.attributes) for_each_value(a.value, f);
  for (BlockId b : n.blocks) {
    for (NodeId inner : graph.block(b).nodes) for_each_use(graph, inner, f);
    for (const Arg& a : graph.block(b).returns) for_each_value(a, f);
  }
}

std::vector<ValueId> tensor_operands(const ArgList& args, const Graph& graph) {
  std::vector<ValueId> out;
  for (const Arg& a : args)
    for_each_value(a, [&](ValueId v) {
      if (graph.type(v).is_tensor()) out.push_back(v);
    });
  return out;
}

} // namespace tenon
