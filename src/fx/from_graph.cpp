// SSA graphs as FX graphs: defaults left out, results of tuples by operator.getitem.
#include "fx/from_graph.h"

#include <unordered_map>

#include "ir/op.h"

namespace tenon {

namespace {

class FromGraph {
public:
  explicit FromGraph(const Graph& g) : g_(g) { fx_.pool = g.shared_pool(); }

  FxGraph run() {
    for (ValueId p : g_.block(g_.top()).params)
      bind(p, add({.name = name_of(p, "arg"), .val = FxVal::one(g_.type(p)), .kind = FxKind::Placeholder}));
    for (NodeId id : g_.block(g_.top()).nodes) convert(g_.node(id));
    ArgList returns{fx_tuple};
    for (const Arg& a : g_.block(g_.top()).returns) returns.push_back(arg(a));
    fx_.result = std::move(returns);
    return std::move(fx_);
  }

private:
  uint32_t add(FxNode n) {
    if (n.target.empty()) n.target = n.name;
    fx_.nodes.push_back(std::move(n));
    return static_cast<uint32_t>(fx_.nodes.size() - 1);
  }
  void bind(ValueId v, uint32_t node) { nodes_[v] = node; }

  // A Python name that nothing else has.
  std::string name_of(ValueId v, const std::string& otherwise) { return fresh(g_.value(v).name.empty() ? otherwise : g_.value(v).name); }
  std::string fresh(std::string name) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    std::string unique = name;
    for (int k = 1; !used_.emplace(unique, true).second; k++) unique = fmt::format("{}_{}", name, k);
    return unique;
  }

  Arg arg(const Arg& a) {
    if (a.is<ValueId>()) return ValueId{nodes_.at(a.get<ValueId>())};
    if (!a.is<ArgList>()) return a;
    ArgList out;
    for (const Arg& e : a.get<ArgList>()) out.push_back(arg(e));
    return out;
  }

  void convert(const Node& n) {
    if (!n.blocks.empty()) unsupported("{} has blocks, which FX text does not write", n.op);
    std::string base = n.op.substr(n.op.find("::") == n.op.npos ? 0 : n.op.find("::") + 2);
    base = base.substr(0, base.find('.'));
    bool single = n.outputs.size() == 1;
    if (n.op == "prim::Constant")
      return bind(n.outputs[0],
                  add({.name = name_of(n.outputs[0], "constant"), .val = FxVal::one(g_.type(n.outputs[0])), .kind = FxKind::GetAttr}));
    FxNode fx{.name = single ? name_of(n.outputs[0], base) : fresh(base), .target = fx_target(n.op)};
    for (size_t i = 0; i < n.args.size(); i++) {
      const SchemaArg* s = n.def && i < n.def->signature.args.size() ? &n.def->signature.args[i] : nullptr;
      if (s && s->keyword_only) {
        if (!s->has_default || n.args[i] != s->fallback) fx.kwargs.push_back({s->name, arg(n.args[i])});
      } else fx.args.push_back(arg(n.args[i]));
    }
    drop_defaults(n, fx);
    uint32_t made = add(std::move(fx));
    if (single) return bind(n.outputs[0], made);
    for (size_t k = 0; k < n.outputs.size(); k++)
      bind(n.outputs[k], add({.name = name_of(n.outputs[k], "getitem"),
                              .target = "operator.getitem",
                              .args = {Arg(ValueId{made}), Arg(static_cast<int64_t>(k))}}));
  }

  static void drop_defaults(const Node& n, FxNode& fx) {
    if (!n.def || n.def->signature.args.size() != n.args.size()) return;
    auto& schema = n.def->signature.args;
    while (!fx.args.empty() && schema[fx.args.size() - 1].has_default && schema[fx.args.size() - 1].fallback == n.args[fx.args.size() - 1])
      fx.args.pop_back();
  }

  const Graph& g_;
  FxGraph fx_;
  std::unordered_map<ValueId, uint32_t> nodes_;
  std::unordered_map<std::string, bool> used_;
};

} // namespace

FxGraph fx_of(const Graph& graph) { return FromGraph(graph).run(); }

} // namespace tenon
