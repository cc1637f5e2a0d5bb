// Forward-mode derivatives: between aten::_make_dual and aten::_unpack_dual values have tangents, which each operator carries on
// by its rule. One without a rule is taken apart, and its parts are followed.
#include "aten/passes.h"
#include "ops/jvp.h"
#include "ops/names.h"

namespace tenon {

namespace {

class ForwardAd {
public:
  explicit ForwardAd(LoadedProgram& program) : program_(program), rewrite_(program.graph, false) {}

  bool run() {
    bool any = false;
    for (uint32_t i = 0; i < program_.graph.num_nodes(); i++) any |= program_.graph.node(NodeId{i}).op == aten::_make_dual;
    if (!any) return false;
    rewrite_.node = [this](NodeId id) { visit(id); };
    return rewrite_program(program_, rewrite_, any);
  }

private:
  Builder& b() { return rewrite_.builder; }
  V wrap(ValueId v) { return b().wrap(v); }

  void visit(NodeId id) {
    const Node& n = program_.graph.node(id);
    auto operand = [&](size_t i) { return rewrite_[n.args[i].get<ValueId>()]; };
    if (n.op == aten::_make_dual) {
      V dual = b().call1(aten::alias, {operand(0)});
      tangents_[dual] = operand(1);
      rewrite_.set(n.outputs[0], dual);
    } else if (n.op == aten::_unpack_dual) {
      ValueId dual = operand(0);
      rewrite_.set(n.outputs[0], dual);
      rewrite_.set(n.outputs[1], tangent_or_zero(dual));
    } else {
      rewrite_.copy_node(id);
      if (!n.outputs.empty()) derive(rewrite_.to.block(b().block()).nodes.back());
    }
  }

  bool has_tangent(const Arg& a) {
    bool any = false;
    for_each_value(a, [&](ValueId v) { any |= tangents_.get(v).valid(); });
    return any;
  }
  V tangent_or_zero(ValueId v) {
    if (ValueId t = tangents_.get(v); t.valid()) return wrap(t);
    return b().full(rewrite_.to.type(v).sizes, 0, rewrite_.to.type(v).dtype);
  }

  void derive(NodeId id) {
    const Node& n = rewrite_.to.node(id);
    if (std::none_of(n.args.begin(), n.args.end(), [&](const Arg& a) { return has_tangent(a); })) return;
    if (!n.blocks.empty() || !n.def) unsupported("the derivative of {}", n.op);
    if (!is_float(rewrite_.to.type(n.outputs[0]).dtype)) return; // indices and truth values have none
    if (V t = by_rule(n)) tangents_[n.outputs[0]] = t;
    else if (n.def->is_composite()) by_parts(n);
    else unsupported("the derivative of {}", n.op);
  }

  // A view's is the same view of the tangent.
  V by_rule(const Node& n) {
    bool view = n.def->kind == Kind::View || (n.def->signature.args[0].type == ArgType::Tensor && !n.def->signature.args[0].alias.empty());
    Jvp rule = n.def->jvp ? n.def->jvp : view && n.outputs.size() == 1 ? ops::jvp_linear : nullptr;
    if (!rule) return {};
    auto find = [this](ValueId v) { return tangents_.get(v); };
    return rule(b(), Tangents(Call(rewrite_.to, *n.def, n.args), wrap(n.outputs[0]), find));
  }

  void by_parts(const Node& n) {
    size_t before = rewrite_.to.block(b().block()).nodes.size();
    Values parts = n.def->decompose(b(), Call(rewrite_.to, *n.def, n.args));
    std::vector<NodeId> nodes(rewrite_.to.block(b().block()).nodes.begin() + static_cast<std::ptrdiff_t>(before),
                              rewrite_.to.block(b().block()).nodes.end());
    for (NodeId id : nodes) derive(id);
    for (size_t i = 0; i < n.outputs.size() && i < parts.size(); i++) tangents_[n.outputs[i]] = tangents_.get(parts[i]);
  }

  LoadedProgram& program_;
  Rewriter rewrite_;
  SideTable<ValueId, ValueId> tangents_; // of values of the new graph
};

} // namespace

bool forward_ad(LoadedProgram& program) { return ForwardAd(program).run(); }

} // namespace tenon
