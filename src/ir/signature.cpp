#include "ir/signature.h"

#include "ir/dim_order.h"

namespace tenon {

namespace {

// `order`: that an Edge graph returns the value in.
ArgInfo info_of(const std::string& name, const Value& v, const std::vector<int>& order = {}) {
  const Type& t = v.type;
  ArgInfo info{.name = name, .requires_grad = v.meta.requires_grad, .device = device_name(v.meta)};
  if (t.is_tensor()) {
    info.dtype = t.dtype;
    info.dim_order = order.empty() ? dim_order(t) : order;
    for (Expr s : t.sizes) info.sizes.push_back(to_string(s));
    for (size_t k = 0; k < order.size(); k++) info.sizes[static_cast<size_t>(order[k])] = to_string(t.sizes[k]);
  } else {
    info.is_number = true;
    info.dtype = t.kind == TypeKind::Float ? DType::F64 : t.kind == TypeKind::Bool ? DType::Bool : DType::I64;
  }
  return info;
}

ArgInfo info_of(const std::string& name, Expr number) {
  return {.name = name, .dtype = is_float(number->type) ? DType::F64 : number->type, .is_number = true};
}

// Numbers that are fixed are passed.
std::optional<ArgInfo> info_of_fixed(const std::string& name, const Arg& a) {
  if (a.is<bool>()) return ArgInfo{.name = name, .dtype = DType::Bool, .is_number = true};
  if (a.is<int64_t>()) return ArgInfo{.name = name, .dtype = DType::I64, .is_number = true};
  if (a.is<double>()) return ArgInfo{.name = name, .dtype = DType::F64, .is_number = true};
  return std::nullopt;
}

struct ToTree {
  Tree operator()(std::monostate) const { return {}; }
  Tree operator()(const Word& w) const { return Tree::Word{w.text}; }
  template <class T> Tree operator()(const T& v) const {
    if constexpr (std::is_constructible_v<Tree, T>) return v;
    else unsupported("an input or output of the program that is neither a tensor nor a constant");
  }
};

Tree fixed_tree(const Arg& a) { return std::visit(ToTree(), a.v); }

// The leaves of the tree, which stand for these in order.
class Filler {
public:
  Filler(std::vector<Tree> leaves, std::string_view what) : leaves_(std::move(leaves)), what_(what) {}

  Tree fill(const Tree& shape) {
    Tree filled = walk(shape);
    require_input(next_ == leaves_.size(), "model.json: {} has {} leaves, the graph {}", what_, next_, leaves_.size());
    return filled;
  }

private:
  Tree next() {
    require_input(next_ < leaves_.size(), "model.json: {} has more leaves than the graph, which has {}", what_, leaves_.size());
    return std::move(leaves_[next_++]);
  }
  // A None is a field that was left out.
  Tree walk(const Tree& t) {
    if (t.is_leaf()) return t.is_none() ? t : next();
    std::vector<Tree> children;
    for (const Tree& c : t.children()) children.push_back(walk(c));
    return Tree::branch(t.kind(), t.type(), t.keys(), std::move(children), t.context());
  }

  std::vector<Tree> leaves_;
  std::string_view what_;
  size_t next_ = 0;
};

bool is_call(const Tree& spec) {
  return spec.kind() == Tree::Kind::Tuple && spec.size() == 2 && spec[0].kind() == Tree::Kind::Tuple && spec[1].kind() == Tree::Kind::Dict;
}

void add_inputs(const LoadedProgram& p, Signature& s) {
  std::vector<Tree> leaves;
  for (auto& in : p.inputs) {
    if (in.kind == InputKind::User) {
      s.inputs.push_back(info_of(in.name, p.graph.value(in.value)));
      leaves.push_back(s.inputs.back());
    } else if (in.kind == InputKind::Fixed && in.target.empty()) { // with a target: a weight in parts
      if (auto info = info_of_fixed(in.name, in.fixed)) s.inputs.push_back(*info);
      leaves.push_back(fixed_tree(in.fixed));
    }
  }
  s.in_spec = is_call(p.in_spec) ? Filler(std::move(leaves), "in_spec").fill(p.in_spec)
                                 : Tree::tuple({Tree::tuple(std::move(leaves)), Tree::dict({})});
}

void add_outputs(const LoadedProgram& p, Signature& s) {
  std::vector<Tree> leaves;
  auto& returns = p.graph.block(p.graph.top()).returns;
  for (size_t i = 0; i < returns.size(); i++) {
    if (!p.outputs[i].is_returned()) continue;
    std::string name = fmt::format("out{}", s.outputs.size());
    std::optional<ArgInfo> info;
    if (returns[i].is<ValueId>()) info = info_of(name, p.graph.value(returns[i].get<ValueId>()), p.outputs[i].order);
    else if (returns[i].is<Expr>()) info = info_of(name, returns[i].get<Expr>());
    bool gradient = p.outputs[i].kind == OutputKind::GradientToParameter || p.outputs[i].kind == OutputKind::GradientToInput;
    if (!gradient) leaves.push_back(info ? Tree(*info) : fixed_tree(returns[i])); // what the module gives; gradients come beside it
    if (!info) info = info_of_fixed(name, returns[i]);
    if (info) s.outputs.push_back(*info);
  }
  s.out_spec = p.out_spec.is_none() ? Tree::tuple(std::move(leaves)) : Filler(std::move(leaves), "out_spec").fill(p.out_spec);
}

} // namespace

Signature signature_of(const LoadedProgram& program) {
  Signature s;
  add_inputs(program, s);
  add_outputs(program, s);
  s.arg_names = program.forward_arg_names;
  return s;
}

} // namespace tenon
