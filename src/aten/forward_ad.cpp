// Forward-mode derivatives: between aten::_make_dual and aten::_unpack_dual values have tangents, which each operator carries on
// by its rule. One without a rule is taken apart, and its parts are followed.
#include <cmath>
#include <map>

#include "aten/passes.h"

namespace tenon {

namespace {

using Unary = V (*)(Builder&, V x, V y, V t);

V power(Builder& b, V x, double e) { return b.call1("aten::pow.Tensor_Scalar", {x, e}); }
V call(Builder& b, std::string_view name, V x) { return b.call1(name, {x}); }
V one_minus(Builder& b, V x) { return b.call1("aten::rsub.Scalar", {x, 1}); }

// The tangent of y = f(x), of x's tangent t.
const std::map<std::string_view, Unary> unary_rules = {
    {"aten::sin.default", [](Builder& b, V x, V, V t) { return t * call(b, "aten::cos", x); }},
    {"aten::cos.default", [](Builder& b, V x, V, V t) { return -(t * call(b, "aten::sin", x)); }},
    {"aten::tan.default", [](Builder&, V, V y, V t) { return t * (y * y + Arg(1)); }},
    {"aten::sinh.default", [](Builder& b, V x, V, V t) { return t * call(b, "aten::cosh", x); }},
    {"aten::cosh.default", [](Builder& b, V x, V, V t) { return t * call(b, "aten::sinh", x); }},
    {"aten::tanh.default", [](Builder& b, V, V y, V t) { return t * one_minus(b, y * y); }},
    {"aten::atan.default", [](Builder&, V x, V, V t) { return t / (x * x + Arg(1)); }},
    {"aten::exp.default", [](Builder&, V, V y, V t) { return t * y; }},
    {"aten::expm1.default", [](Builder&, V, V y, V t) { return t * (y + Arg(1)); }},
    {"aten::log.default", [](Builder&, V x, V, V t) { return t / x; }},
    {"aten::log1p.default", [](Builder&, V x, V, V t) { return t / (x + Arg(1)); }},
    {"aten::sqrt.default", [](Builder&, V, V y, V t) { return t / (y * Arg(2)); }},
    {"aten::rsqrt.default", [](Builder&, V, V y, V t) { return t * y * y * y * Arg(-0.5); }},
    {"aten::reciprocal.default", [](Builder&, V, V y, V t) { return -(t * y * y); }},
    {"aten::square.default", [](Builder&, V x, V, V t) { return t * x * Arg(2); }},
    {"aten::abs.default", [](Builder& b, V x, V, V t) { return t * call(b, "aten::sign", x); }},
    {"aten::sigmoid.default", [](Builder& b, V, V y, V t) { return t * y * one_minus(b, y); }},
    {"aten::erf.default", [](Builder& b, V x, V, V t) { return t * call(b, "aten::exp", -(x * x)) * Arg(M_2_SQRTPI); }},
    {"aten::relu.default",
     [](Builder& b, V x, V, V t) { return b.where(b.call1("aten::gt.Scalar", {x, 0}), t, b.full({}, 0, t.dtype())); }},
};

// Linear in all their tensors together; those of the second kind in each factor alone.
constexpr std::string_view linear[] = {
    "aten::add.Tensor",           "aten::sub.Tensor",     "aten::neg.default",      "aten::sum.default",
    "aten::sum.dim_IntList",      "aten::mean.default",   "aten::mean.dim",         "aten::cat.default",
    "aten::stack.default",        "aten::to.dtype",       "aten::_to_copy.default", "aten::cumsum.default",
    "aten::clone.default",        "aten::flip.default",   "aten::roll.default",     "aten::constant_pad_nd.default",
    "aten::index_select.default", "aten::gather.default", "aten::where.self"};
constexpr std::string_view bilinear[] = {"aten::mul.Tensor", "aten::matmul.default", "aten::mm.default",     "aten::bmm.default",
                                         "aten::mv.default", "aten::dot.default",    "aten::linear.default", "aten::convolution.default"};

template <size_t N> bool is_one(const std::string_view (&names)[N], std::string_view op) {
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

class ForwardAd {
public:
  explicit ForwardAd(LoadedProgram& program) : program_(program), rewrite_(program.graph, false) {}

  bool run() {
    bool any = false;
    for (uint32_t i = 0; i < program_.graph.num_nodes(); i++) any |= program_.graph.node(NodeId{i}).op == "aten::_make_dual.default";
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
    if (n.op == "aten::_make_dual.default") {
      V dual = b().call1("aten::alias", {operand(0)});
      tangents_[dual] = operand(1);
      rewrite_.set(n.outputs[0], dual);
    } else if (n.op == "aten::_unpack_dual.default") {
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

  V by_rule(const Node& n) {
    if (auto rule = unary_rules.find(n.op); rule != unary_rules.end()) {
      ValueId x = n.args[0].get<ValueId>();
      return rule->second(b(), wrap(x), wrap(n.outputs[0]), wrap(tangents_.get(x)));
    }
    if (is_one(bilinear, n.op)) return of_factors(n);
    if (n.op == "aten::div.Tensor") return of_quotient(n);
    if (n.op == "aten::gelu.default" || n.op == "aten::silu.default") return by_backward(n);
    if (n.op == "aten::softmax.int" || n.op == "aten::_softmax.default" || n.op == "aten::log_softmax.int" ||
        n.op == "aten::_log_softmax.default")
      return of_softmax(n);
    if (n.op == "aten::pow.Tensor_Scalar") return of_power(n);
    bool view = n.def->kind == Kind::View || (n.def->signature.args[0].type == ArgType::Tensor && !n.def->signature.args[0].alias.empty());
    return (view && n.outputs.size() == 1) || is_one(linear, n.op) ? of_all(n) : V();
  }

  // Its tensors replaced by their tangents, and numbers that are added by 0.
  V of_all(const Node& n) {
    ArgList args = n.args;
    for (size_t i = 0; i < args.size(); i++) {
      auto& schema = n.def->signature.args[i];
      if (schema.type == ArgType::Scalar && schema.name == "other") args[i] = 0;
      args[i] = map_values(args[i], [&](ValueId v) { return is_float(rewrite_.to.type(v).dtype) ? tangent_or_zero(v).id : v; });
      if (schema.name == "other" && !args[i].is<ValueId>()) args[i] = 0;
      if (n.op == "aten::constant_pad_nd.default" && schema.name == "value") args[i] = 0;
    }
    return b().call_full(*n.def, std::move(args)).at(0);
  }

  V sum(V a, V c) { return a ? a + c : c; }

  V of_factors(const Node& n) {
    V out;
    int bias = n.def->signature.find("bias");
    for (size_t i = 0; i < 2; i++) {
      if (!has_tangent(n.args[i])) continue;
      ArgList args = n.args;
      args[i] = tangents_.get(args[i].get<ValueId>());
      if (bias >= 0) args[static_cast<size_t>(bias)] = {};
      out = sum(out, b().call_full(*n.def, std::move(args)).at(0));
    }
    if (bias >= 0 && has_tangent(n.args[static_cast<size_t>(bias)])) {
      V t = wrap(tangents_.get(n.args[static_cast<size_t>(bias)].get<ValueId>()));
      std::vector<Expr> sizes(wrap(n.outputs[0]).rank(), b().integer(1)); // conv: along dim 1; linear: the last
      sizes[n.op == "aten::linear.default" ? sizes.size() - 1 : 1] = t.size(0);
      out = sum(out, b().expand(b().reshape(t, sizes), wrap(n.outputs[0]).sizes()));
    }
    return out;
  }

  V of_quotient(const Node& n) {
    V out, y = wrap(n.outputs[0]);
    if (has_tangent(n.args[0])) out = b().call1("aten::div.Tensor", {tangents_.get(n.args[0].get<ValueId>()), n.args[1]});
    if (has_tangent(n.args[1])) out = sum(out, -(y * wrap(tangents_.get(n.args[1].get<ValueId>())) / wrap(n.args[1].get<ValueId>())));
    return out;
  }

  // Of an operator on each element alone, backward is forward.
  V by_backward(const Node& n) {
    ValueId x = n.args[0].get<ValueId>(), t = tangents_.get(x);
    if (n.op == "aten::silu.default") return b().call1("aten::silu_backward", {t, x});
    return b().call1("aten::gelu_backward", {t, x}, {{"approximate", n.args[1]}});
  }

  V of_softmax(const Node& n) {
    V t = wrap(tangents_.get(n.args[0].get<ValueId>())), y = wrap(n.outputs[0]);
    int64_t dim = Call(rewrite_.to, *n.def, n.args).integer("dim");
    bool log = n.op.base().find("log") != std::string_view::npos;
    V p = log ? call(b(), "aten::exp", y) : y;
    V rest = t - b().sum(p * t, {dim}, true);
    return log ? rest : y * rest;
  }

  V of_power(const Node& n) {
    ValueId x = n.args[0].get<ValueId>();
    double e = Call(rewrite_.to, *n.def, n.args).number("exponent");
    return wrap(tangents_.get(x)) * power(b(), wrap(x), e - 1) * Arg(e);
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
