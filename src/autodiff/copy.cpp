#include "autodiff/copy.h"

namespace tenon::autodiff {

ValueId Copier::operator[](ValueId old) const {
  ValueId now = values_.get(old);
  require(now.valid(), "a value is read before it is copied");
  return now;
}

ArgList Copier::mapped(const ArgList& args) const {
  ArgList out;
  for (const Arg& a : args) out.push_back(map_values(a, [&](ValueId v) { return (*this)[v]; }));
  return out;
}

void Copier::params(BlockId old, BlockId now) {
  for (ValueId p : from_.block(old).params) set(p, to_.add_param(now, from_.type(p), from_.value(p).name));
}

void Copier::nodes(BlockId old, BlockId now) {
  for (NodeId n : from_.block(old).nodes) node(n, now);
}

void Copier::copy_node(NodeId id, BlockId now) {
  const Node& n = from_.node(id);
  Node copy{.op = n.op, .def = n.def, .args = mapped(n.args), .attributes = n.attributes, .origin = n.origin};
  for (Attribute& a : copy.attributes)
    if (a.value.is<TensorId>()) a.value = to_.add_tensor(from_.tensor(a.value.get<TensorId>()));
  std::vector<Type> types;
  std::vector<std::string> names;
  for (ValueId o : n.outputs) types.push_back(from_.type(o)), names.push_back(from_.value(o).name);
  NodeId made = to_.append(now, std::move(copy), std::move(types), std::move(names));
  for (BlockId b : n.blocks) {
    BlockId inner = to_.add_block(made);
    params(b, inner);
    nodes(b, inner);
    to_.block(inner).returns = mapped(from_.block(b).returns);
  }
  for (size_t i = 0; i < n.outputs.size(); i++) set(n.outputs[i], to_.node(made).outputs[i]);
}

} // namespace tenon::autodiff
