// FX graphs as ATen graphs, and back: arguments in schema order, types from the rows, results of tuples by operator.getitem.
#include <unordered_map>

#include "base/lexer.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "load/fx_text.h"

namespace tenon {

namespace {

constexpr std::string_view prefix = "torch.ops.";

class FromFx {
public:
  explicit FromFx(const FxGraph& fx) : fx_(fx), g_(fx.pool), values_(fx.nodes.size()) {}

  LoadedProgram run() {
    for (size_t i = 0; i < fx_.nodes.size(); i++) {
      const FxNode& n = fx_.nodes[i];
      if (n.kind == FxKind::Placeholder) values_[i] = {g_.add_param(g_.top(), type_of(n), n.name)};
      else if (n.kind == FxKind::GetAttr) values_[i] = {constant(n)};
      else if (n.kind == FxKind::CallFunction) values_[i] = call(n);
      else unsupported("%{}: a call of a {}", n.name, n.kind == FxKind::CallMethod ? "method" : "module");
    }
    Arg result = resolve(fx_.result);
    g_.block(g_.top()).returns = result.is<ArgList>() ? result.get<ArgList>() : ArgList{result};
    return program_of(std::move(g_));
  }

private:
  Type type_of(const FxNode& n) {
    require_input(n.type.has_value(), "%{} has no type: write `%{} : Float(2, 3) [num_users=...`", n.name, n.name);
    return *n.type;
  }

  // A weight that the text only names: zeros, of one element in memory.
  ValueId constant(const FxNode& n) {
    Type type = type_of(n);
    std::vector<int64_t> sizes;
    for (Expr s : type.sizes) {
      require_input(type.is_tensor() && const_int(s) && *const_int(s) >= 0, "%{}: a weight's sizes must be numbers", n.name);
      sizes.push_back(*const_int(s));
    }
    NodeId id = g_.append(
        g_.top(), Node{.op = "prim::Constant", .def = find_op("prim::Constant"), .args = {Arg(g_.add_tensor(zeros_of(type.dtype, sizes)))}},
        {type}, {n.name});
    return g_.node(id).outputs[0];
  }

  Arg resolve(const Arg& a) {
    if (a.is<ValueId>()) {
      auto& results = values_[a.get<ValueId>().index];
      require_input(results.size() == 1, "%{}: its {} results are used as one", fx_.nodes[a.get<ValueId>().index].name, results.size());
      return results[0];
    }
    if (!a.is<ArgList>()) return a;
    ArgList out;
    for (const Arg& e : a.get<ArgList>())
      if (e != Arg(fx_tuple)) out.push_back(resolve(e));
    return out;
  }

  // A bare word is a string, or an expression of sizes where the schema asks for a number.
  Arg convert(const SchemaArg& s, const Arg& a) {
    Arg r = resolve(a);
    bool number = s.type == ArgType::Int || s.type == ArgType::Scalar || s.type == ArgType::Float || s.type == ArgType::Bool;
    if (number && r.is<std::string>()) return parse_expr(g_.pool(), r.get<std::string>());
    if (number && r.is<ArgList>()) {
      ArgList out;
      for (const Arg& e : r.get<ArgList>()) out.push_back(e.is<std::string>() ? Arg(parse_expr(g_.pool(), e.get<std::string>())) : e);
      return out;
    }
    if (s.type == ArgType::Device && r.is<std::string>()) return Word{r.get<std::string>()};
    return r;
  }

  std::vector<ValueId> getitem(const FxNode& n) {
    require_input(n.args.size() == 2 && n.args[0].is<ValueId>() && n.args[1].is<int64_t>(), "%{}: getitem takes a node and a number",
                  n.name);
    auto& results = values_[n.args[0].get<ValueId>().index];
    int64_t k = n.args[1].get<int64_t>();
    require_input(k >= 0 && static_cast<size_t>(k) < results.size(), "%{}: there are {} results", n.name, results.size());
    g_.value(results[static_cast<size_t>(k)]).name = n.name;
    return {results[static_cast<size_t>(k)]};
  }

  std::vector<ValueId> call(const FxNode& n) {
    if (n.target == "operator.getitem" || n.target == "_operator.getitem") return getitem(n);
    require_input(n.target.starts_with(prefix), "%{}: {} is not an operator of torch.ops", n.name, n.target);
    std::string op = n.target.substr(prefix.size());
    size_t dot = op.find('.');
    require_input(dot != op.npos, "%{}: a strange target: {}", n.name, n.target);
    op.replace(dot, 1, "::");
    const OpDef* def = find_op(op);
    if (!def) def = find_op(functional_name(op));
    if (!def) unsupported("{}", op);
    ArgList args = arguments(n, *def);
    std::vector<Type> types = infer_types(g_, *def, args);
    std::vector<std::string> names(types.size());
    if (types.size() == 1) names[0] = n.name;
    NodeId id = g_.append(g_.top(), Node{.op = op, .def = def, .args = std::move(args)}, std::move(types), std::move(names));
    return g_.node(id).outputs;
  }

  ArgList arguments(const FxNode& n, const OpDef& def) {
    auto& schema = def.signature.args;
    require_input(n.args.size() <= schema.size(), "%{}: too many arguments", n.name);
    ArgList args(schema.size());
    std::vector<bool> given(schema.size(), false);
    auto set = [&](size_t i, const Arg& a) { args[i] = convert(schema[i], a), given[i] = true; };
    for (size_t i = 0; i < n.args.size(); i++) set(i, n.args[i]);
    for (const Attribute& k : n.kwargs) {
      int i = def.signature.find(k.name);
      require_input(i >= 0, "%{}: {} has no argument {}", n.name, n.target, k.name);
      set(static_cast<size_t>(i), k.value);
    }
    for (size_t i = 0; i < schema.size(); i++) {
      if (given[i]) continue;
      require_input(schema[i].has_default, "%{}: argument {} is missing", n.name, schema[i].name);
      args[i] = schema[i].fallback;
    }
    return args;
  }

  const FxGraph& fx_;
  Graph g_;
  std::vector<std::vector<ValueId>> values_;
};

class ToFx {
public:
  explicit ToFx(const Graph& g) : g_(g) { fx_.pool = g.shared_pool(); }

  FxGraph run() {
    for (ValueId p : g_.block(g_.top()).params) bind(p, add({.name = name_of(p, "arg"), .type = g_.type(p), .kind = FxKind::Placeholder}));
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
      return bind(n.outputs[0], add({.name = name_of(n.outputs[0], "constant"), .type = g_.type(n.outputs[0]), .kind = FxKind::GetAttr}));
    FxNode fx{.name = single ? name_of(n.outputs[0], base) : fresh(base), .target = std::string(prefix) + n.op};
    if (size_t at = fx.target.find("::"); at != fx.target.npos) fx.target.replace(at, 2, ".");
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

LoadedProgram program_of(const FxGraph& graph) { return FromFx(graph).run(); }
FxGraph fx_of(const Graph& graph) { return ToFx(graph).run(); }

} // namespace tenon
