// Functionalization: in-place operators become functions, with torch's aliasing. Each old value is the root of a storage
// or a view of another value. Writing a view writes its parent through the view's inverse, up to the root; reading a value
// whose storage has been written since takes the view of the root's present value anew.
#include "aten/passes.h"
#include "aten/views.h"
#include "ops/custom.h"
#include "ops/names.h"
#include "ops/view_inverse.h"

namespace tenon {

namespace {

struct Alias {
  uint32_t base = UINT32_MAX; // storage; none for numbers
  ValueId parent = {};        // the value it is a view of; invalid for a root
  NodeId node = {};           // the view's node
  uint32_t output = 0;
  uint32_t version = 0; // of the storage, when `now` was computed
  ValueId now = {};
};

// In-place operators that change nothing (detach_), and those that make their operand another view of its memory.
bool changes_nothing(const Node& n) { return is_inplace(n) && n.def->view_inverse == ops::all_elements; }
bool becomes_view(const Node& n) { return is_inplace(n) && n.def->view_inverse && !changes_nothing(n); }
// Those that give it other memory where it grows; no view of the old memory is followed any further.
bool becomes_root(const Node& n) { return n.op == aten::resize_ || n.op == aten::resize_as_; }

// Batch norm in training moves its running statistics, which its schema does not say.
bool moves_statistics(const Node& n) {
  static const OpId names[] = {aten::batch_norm, aten::native_batch_norm, aten::_native_batch_norm_legit, aten::_batch_norm_with_update};
  if (!n.def || std::find(std::begin(names), std::end(names), n.def->signature.name) == std::end(names)) return false;
  auto arg = [&](std::string_view name) { return n.args[static_cast<size_t>(n.def->signature.find(name))]; };
  int training = n.def->signature.find("training");
  if (training >= 0 && n.args[static_cast<size_t>(training)] != Arg(true)) return false;
  return arg("running_mean").is<ValueId>() && arg("running_var").is<ValueId>();
}

// Of a custom operator that writes arguments.
const OpDef* functional_form(const Node& n) { return n.def ? ops::functional_custom(*n.def) : nullptr; }

class Functionalize {
public:
  explicit Functionalize(LoadedProgram& program) : program_(program), rewrite_(program.graph, false) {}

  bool run() {
    if (!mutates()) return false;
    const Graph& g = from();
    for (uint32_t i = 0; i < g.num_tensors(); i++) rewrite_.to.add_tensor(g.tensor(TensorId{i}));
    add_params(g.top(), rewrite_.to.top());
    std::vector<ValueId> inputs = rewrite_.to.block(rewrite_.to.top()).params;
    for (NodeId id : g.block(g.top()).nodes) visit(id);
    ArgList returns = read(g.block(g.top()).returns);
    keep_layouts(g.block(g.top()).returns, returns);
    add_mutations(inputs, returns);
    rewrite_.to.block(rewrite_.to.top()).returns = std::move(returns);
    for (size_t i = 0, p = 0; i < program_.inputs.size(); i++)
      if (program_.inputs[i].value.valid()) program_.inputs[i].value = inputs[p++];
    program_.graph = std::move(rewrite_.to);
    return true;
  }

private:
  Builder& b() { return rewrite_.builder; }
  const Graph& from() { return program_.graph; }

  bool mutates() {
    for (uint32_t i = 0; i < from().num_nodes(); i++)
      if (auto& n = from().node(NodeId{i}); is_inplace(n) || moves_statistics(n) || functional_form(n)) return true;
    return false;
  }

  void add_params(BlockId old, BlockId now) {
    rewrite_.copy_params(old, now);
    for (ValueId p : from().block(old).params) add_root(p, rewrite_[p]);
  }

  void add_root(ValueId old, ValueId now) {
    alias_[old] = {.base = static_cast<uint32_t>(versions_.size()), .now = now};
    versions_.push_back(0);
  }

  // The result of an in-place operator is its operand; what became a view is that view from then on.
  ValueId canonical(ValueId v) {
    while (same_as_.get(v).valid()) v = same_as_.get(v);
    return v;
  }

  // The present value of an old one.
  ValueId read(ValueId old) { return read_alias(canonical(old)); }
  ValueId read_alias(ValueId old) {
    Alias a = alias_.get(old);
    require(a.base != UINT32_MAX, "functionalize lost value %{}", old.index);
    if (a.version == versions_[a.base]) return a.now;
    require(a.parent.valid(), "the root of a storage is out of date");
    emit(a.node, a.parent);
    return alias_.get(old).now;
  }
  Arg read(const Arg& arg) {
    return map_values(arg, [&](ValueId v) { return read(v); });
  }
  ArgList read(const ArgList& args) {
    ArgList out;
    for (const Arg& a : args) out.push_back(read(a));
    return out;
  }

  // The value, and all that shares its storage, has changed: it is `now`.
  void write(ValueId old, V now) {
    Alias a = alias_.get(old);
    if (a.base < first_inner_base_) unsupported("an in-place operator on a value of an outer block");
    if (!a.parent.valid()) versions_[a.base]++;
    else {
      const Node& view = from().node(a.node);
      V parent = b().wrap(read_alias(a.parent));
      ArgList args = operands(view, a.parent);
      write(a.parent, write_view(b(), from(), view, args, a.output, parent, now));
    }
    alias_[old].now = now;
    alias_[old].version = versions_[a.base];
  }

  // Present operands of a node; of a view those of what it was a view of when it was made.
  ArgList operands(const Node& n, ValueId parent) {
    ArgList args = n.args;
    ValueId source = parent.valid() ? view_source(from(), n) : ValueId{};
    for (Arg& a : args) a = map_values(a, [&](ValueId v) { return v == source ? read_alias(parent) : read(v); });
    return args;
  }

  // Emits the node with present operands; its outputs are current after it. `parent`: of a view, what it is a view of.
  void emit(NodeId id, ValueId parent = {}) {
    const Node& n = from().node(id);
    std::vector<Type> types;
    std::vector<std::string> names;
    for (ValueId v : n.outputs) types.push_back(from().type(v)), names.push_back(from().value(v).name);
    Node copy{.op = becomes_view(n) ? OpId(n.def->signature.name) : n.op,
              .def = n.def,
              .args = operands(n, parent),
              .attributes = n.attributes,
              .origin = n.origin};
    NodeId now = rewrite_.to.append(b().block(), std::move(copy), std::move(types), std::move(names));
    for (size_t i = 0; i < n.outputs.size(); i++) {
      Alias& a = alias_[n.outputs[i]];
      a.now = rewrite_.to.node(now).outputs[i];
      rewrite_.to.value(a.now).meta = from().value(n.outputs[i]).meta;
      if (a.base != UINT32_MAX) a.version = versions_[a.base];
    }
    for (BlockId inner : n.blocks) visit_block(inner, rewrite_.to.add_block(now));
  }

  // What an inner block computes is not valid after it, so the state of aliases is put back.
  void visit_block(BlockId old, BlockId now) {
    auto saved = alias_;
    BlockId outer = b().block();
    uint32_t outer_bases = std::exchange(first_inner_base_, static_cast<uint32_t>(versions_.size()));
    b().set_block(now);
    add_params(old, now);
    for (NodeId id : from().block(old).nodes) visit(id);
    rewrite_.to.block(now).returns = read(from().block(old).returns);
    b().set_block(outer);
    first_inner_base_ = outer_bases;
    alias_ = std::move(saved);
  }

  void visit(NodeId id) {
    const Node& n = from().node(id);
    b().set_origin(n.origin);
    if (moves_statistics(n)) return visit_batch_norm(n);
    if (const OpDef* functional = functional_form(n)) return visit_custom(n, *functional);
    bool in_place = is_inplace(n);
    if (in_place && !becomes_view(n)) return visit_inplace(n);
    if (in_place) require_outer(canonical(n.args.at(0).get<ValueId>()));
    emit(id);
    ValueId source = view_source(from(), n);
    if (source.valid()) source = canonical(source);
    for (uint32_t i = 0; i < n.outputs.size(); i++) {
      ValueId v = n.outputs[i], now = alias_.get(v).now;
      if (!source.valid()) {
        add_root(v, now);
        continue;
      }
      uint32_t base = alias_.get(source).base;
      alias_[v] = {.base = base, .parent = source, .node = id, .output = i, .version = versions_[base], .now = now};
    }
    if (in_place) same_as_[source] = n.outputs.at(0);
  }

  void visit_inplace(const Node& n) {
    require_input(!n.args.empty() && n.args[0].is<ValueId>(), "{} has no operand", n.op);
    ValueId self = canonical(n.args[0].get<ValueId>());
    if (becomes_root(n)) {
      require_outer(self);
      V now = b().call_full(*n.def, read(n.args)).at(0);
      add_root(n.outputs.at(0), now);
      same_as_[self] = n.outputs[0];
      return;
    }
    if (!changes_nothing(n)) {
      V old = b().wrap(read(self));
      write(self, inplace_result(b(), n, read(n.args), old));
    }
    for (ValueId out : n.outputs) same_as_[out] = self;
  }

  void require_outer(ValueId v) {
    if (alias_.get(v).base < first_inner_base_) unsupported("an in-place operator on a value of an outer block");
  }

  // Through the functional operator, whose last results are the statistics to be.
  void visit_batch_norm(const Node& n) {
    auto at = [&](std::string_view name) { return n.args[static_cast<size_t>(n.def->signature.find(name))]; };
    Values now = b().call(aten::_native_batch_norm_legit_functional,
                          {read(at("input")), read(at("weight")), read(at("bias")), read(at("running_mean")), read(at("running_var")), true,
                           at("momentum"), at("eps")});
    for (size_t i = 0; i < n.outputs.size(); i++) {
      if (!from().type(n.outputs[i]).is_tensor()) continue;
      // The reserve of _batch_norm_with_update serves its backward alone.
      add_root(n.outputs[i], i < 3 ? now.at(i) : b().full({b().integer(0)}, 0, from().type(n.outputs[i]).dtype));
    }
    write(canonical(at("running_mean").get<ValueId>()), now.at(3));
    write(canonical(at("running_var").get<ValueId>()), now.at(4));
  }

  // The functional form returns the written arguments after the results.
  void visit_custom(const Node& n, const OpDef& functional) {
    size_t first = rewrite_.to.num_nodes();
    Values now = b().call_full(functional, read(n.args));
    ops::keep_attributes(rewrite_.to, first, n.attributes);
    size_t next = 0;
    for (ValueId v : n.outputs) {
      if (const Type& recorded = from().type(v); !recorded.is_tensor()) rewrite_.to.value(now.at(next)).type = recorded; // its symbol
      add_root(v, now.at(next++));
    }
    for (size_t i = 0; i < n.args.size(); i++)
      if (n.def->signature.args[i].written && n.args[i].is<ValueId>()) write(canonical(n.args[i].get<ValueId>()), now.at(next++));
  }

  // What an in-place operator has made lies in memory as its operand did.
  void keep_layouts(const ArgList& recorded, const ArgList& returns) {
    for (size_t i = 0; i < returns.size(); i++) {
      if (!returns[i].is<ValueId>() || !rewrite_.to.value(returns[i].get<ValueId>()).node.valid()) continue;
      Type& now = rewrite_.to.value(returns[i].get<ValueId>()).type;
      if (const Type& was = from().type(recorded[i].get<ValueId>()); was.is_tensor() && was.rank() == now.rank()) now.strides = was.strides;
    }
  }

  // Written parameters, buffers and inputs are further outputs of the program.
  void add_mutations(const std::vector<ValueId>& inputs, ArgList& returns) {
    auto& old = from().block(from().top()).params;
    for (auto& in : program_.inputs) {
      if (!in.value.valid()) continue;
      size_t p = static_cast<size_t>(std::find(old.begin(), old.end(), in.value) - old.begin());
      ValueId now = read_alias(old[p]);
      if (now == inputs[p]) continue;
      bool user = in.kind == InputKind::User;
      returns.push_back(now);
      OutputKind kind = user                              ? OutputKind::InputMutation
                        : in.kind == InputKind::Parameter ? OutputKind::ParameterMutation
                                                          : OutputKind::BufferMutation;
      program_.outputs.push_back({kind, user ? in.name : in.target});
    }
  }

  LoadedProgram& program_;
  Rewriter rewrite_;
  SideTable<ValueId, Alias> alias_;
  SideTable<ValueId, ValueId> same_as_;
  std::vector<uint32_t> versions_;
  uint32_t first_inner_base_ = 0;
};

} // namespace

bool functionalize(LoadedProgram& program) { return Functionalize(program).run(); }

} // namespace tenon
