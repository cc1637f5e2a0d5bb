// ir::Node: attributes.
#include <algorithm>

#include "api/graph_impl.h"

namespace tenon::ir {

// The node of a call; BadInput for others.
static tenon::Node& call_with_attributes(Node n) {
  require_input(Access::graph(n) != nullptr && Access::is_call(n), "only calls have attributes");
  require_input(Access::graph(n)->block_of.get(Access::id(n)).valid(), "the node was destroyed");
  return Access::graph(n)->graph.node(Access::id(n));
}

std::vector<NamedArg> Node::attributes() const {
  std::vector<NamedArg> list;
  if (role_ == Role::Call)
    for (const Attribute& a : call_with_attributes(*this).attributes) list.push_back({a.name, impl_->out(a.value)});
  return list;
}

// The elements are numbers, or all of them texts; in TorchScript also tensors or graphs.
static bool is_attribute(const Arg& value, bool is_script) {
  const Arg::List* list = std::get_if<Arg::List>(&value.v);
  auto is_number = [](const Arg& a) { return a.is<bool>() || a.is<int64_t>() || a.is<double>() || a.is<DType>(); };
  auto is_text = [](const Arg& a) { return a.is<std::string>() || a.is<Word>(); };
  auto is_tensor = [&](const Arg& a) { return is_script && a.is<Tensor>(); };
  auto is_graph = [&](const Arg& a) { return is_script && a.is<std::shared_ptr<const Graph>>(); };
  if (!list)
    return value.isNone() || is_number(value) || is_text(value) || is_tensor(value) || is_graph(value) ||
           (is_script && value.is<std::complex<double>>());
  auto all = [&](auto test) { return std::ranges::all_of(*list, test); };
  return all(is_number) || all(is_text) || all(is_tensor) || all(is_graph);
}

void Node::setAttribute(std::string_view name, Arg value) const {
  std::vector<Attribute> now = call_with_attributes(*this).attributes;
  if (!is_attribute(value, impl_->is_script())) impl_->fail(NodeId{id_}, "setAttribute: {} is no number, text or list of these", name);
  tenon::Arg inner = impl_->in(value);
  auto at = std::ranges::find(now, name, &Attribute::name);
  if (at == now.end()) now.push_back({std::string(name), std::move(inner)});
  else at->value = std::move(inner);
  impl_->set_attributes(NodeId{id_}, std::move(now));
}

bool Node::hasAttribute(std::string_view name) const { return call_with_attributes(*this).attribute(name) != nullptr; }

void Node::removeAttribute(std::string_view name) const {
  std::vector<Attribute> now = call_with_attributes(*this).attributes;
  if (std::erase_if(now, [&](const Attribute& a) { return a.name == name; }) == 0) impl_->fail(NodeId{id_}, "no attribute {}", name);
  impl_->set_attributes(NodeId{id_}, std::move(now));
}

namespace {

ir::Arg attribute(Node n, std::string_view name) {
  const tenon::Arg* a = call_with_attributes(n).attribute(name);
  if (!a) Access::graph(n)->fail(Access::id(n), "no attribute {}", name);
  return Access::graph(n)->out(*a);
}

template <class T> bool take(const ir::Arg& a, T& to) {
  if (auto* v = std::get_if<T>(&a.v)) return to = *v, true;
  return false;
}
bool take(const ir::Arg& a, int64_t& to) {
  if (a.is<bool>()) return to = a.get<bool>(), true;
  return take<int64_t>(a, to);
}
template <class T> bool take(const ir::Arg& a, std::vector<T>& to) {
  auto* list = std::get_if<ir::Arg::List>(&a.v);
  if (!list) return false;
  to.resize(list->size());
  for (size_t i = 0; i < to.size(); i++)
    if (!take((*list)[i], to[i])) return false;
  return true;
}

template <class T> T attribute_as(Node n, std::string_view name, std::string_view kind) {
  T value = {};
  if (!take(attribute(n, name), value)) Access::graph(n)->fail(Access::id(n), "attribute {} is no {}", name, kind);
  return value;
}

} // namespace

int64_t Node::i(std::string_view name) const { return attribute_as<int64_t>(*this, name, "int"); }
double Node::f(std::string_view name) const { return attribute_as<double>(*this, name, "float"); }
std::string Node::s(std::string_view name) const { return attribute_as<std::string>(*this, name, "text"); }
Tensor Node::t(std::string_view name) const { return attribute_as<Tensor>(*this, name, "tensor"); }
std::shared_ptr<const Graph> Node::g(std::string_view name) const {
  return attribute_as<std::shared_ptr<const Graph>>(*this, name, "graph");
}
std::vector<int64_t> Node::is(std::string_view name) const { return attribute_as<std::vector<int64_t>>(*this, name, "list of ints"); }
std::vector<double> Node::fs(std::string_view name) const { return attribute_as<std::vector<double>>(*this, name, "list of floats"); }
std::vector<std::string> Node::ss(std::string_view name) const {
  return attribute_as<std::vector<std::string>>(*this, name, "list of texts");
}
std::vector<Tensor> Node::ts(std::string_view name) const { return attribute_as<std::vector<Tensor>>(*this, name, "list of tensors"); }
std::vector<std::shared_ptr<const Graph>> Node::gs(std::string_view name) const {
  return attribute_as<std::vector<std::shared_ptr<const Graph>>>(*this, name, "list of graphs");
}

} // namespace tenon::ir
