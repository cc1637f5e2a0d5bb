// Blocks as FX graphs.
#include "fx/from_graph.h"

#include <algorithm>

#include "fx/number_nodes.h"
#include "ir/op.h"
#include "ops/names.h"

namespace tenon {

namespace {

// What blocks take from outside: values, and the symbols of numbers.
struct Captures {
  std::vector<ValueId> values;
  std::vector<Expr> symbols;
};

class FindCaptures {
public:
  explicit FindCaptures(const Graph& g) : g_(g) {}

  Captures run(std::span<const BlockId> blocks) {
    for (BlockId b : blocks) walk(b, {}, false);
    for (BlockId b : blocks) walk(b, {}, true);
    return std::move(out_);
  }

private:
  struct Scope {
    std::set<ValueId> values;
    std::set<const ExprNode*> symbols; // told by a value's sizes, or numbers themselves
  };

  void define(Scope& scope, ValueId v) {
    scope.values.insert(v);
    const Type& t = g_.type(v);
    for (Expr s : t.sizes)
      if (s->op == Op::Symbol) scope.symbols.insert(s.get());
    if (t.value)
      visit(t.value, [&](const ExprNode& n) {
        if (n.op == Op::Symbol) scope.symbols.insert(&n);
      });
  }

  void use(const Scope& scope, const Arg& a, bool symbols) {
    if (a.is<ArgList>())
      for (const Arg& e : a.get<ArgList>()) use(scope, e, symbols);
    else if (a.is<ValueId>() && g_.type(a.get<ValueId>()).value) use(scope, g_.type(a.get<ValueId>()).value, symbols);
    else if (a.is<ValueId>() && !symbols && !scope.values.contains(a.get<ValueId>())) add(out_.values, a.get<ValueId>());
    else if (a.is<Expr>() && symbols)
      visit(a.get<Expr>(), [&](const ExprNode& n) {
        if (n.op == Op::Symbol && !scope.symbols.contains(&n)) add(out_.symbols, Expr(&n));
      });
  }
  template <class T> static void add(std::vector<T>& list, T x) {
    if (std::find(list.begin(), list.end(), x) == list.end()) list.push_back(x);
  }

  // Values in a first walk, symbols in a second, when it is known whose sizes can be asked.
  void walk(BlockId id, Scope scope, bool symbols) {
    if (symbols)
      for (ValueId v : out_.values) define(scope, v);
    for (ValueId p : g_.block(id).params) define(scope, p);
    for (NodeId n : g_.block(id).nodes) {
      for (const Arg& a : g_.node(n).args) use(scope, a, symbols);
      for (BlockId inner : g_.node(n).blocks) walk(inner, scope, symbols);
      for (ValueId v : g_.node(n).outputs) define(scope, v);
    }
    for (const Arg& a : g_.block(id).returns) use(scope, a, symbols);
  }

  const Graph& g_;
  Captures out_;
};

class BlockToFx {
public:
  explicit BlockToFx(const Graph& g) : g_(g), numbers_(fx_, names_) { fx_.pool = g.shared_pool(); }

  FxGraph graph(BlockId block) {
    for (ValueId p : g_.block(block).params) add_placeholder(p);
    add_nodes(block);
    fx_.result = tuple(g_.block(block).returns);
    return std::move(fx_);
  }
  FxGraph program(const LoadedProgram& p);

private:
  FxGraph body(BlockId block, const Captures& captures, std::string name, bool is_condition);

  uint32_t add(FxNode n) {
    if (n.target.empty()) n.target = n.name;
    fx_.nodes.push_back(std::move(n));
    return static_cast<uint32_t>(fx_.nodes.size() - 1);
  }
  uint32_t call(std::string_view base, std::string target, ArgList args, std::optional<FxVal> val = {}) {
    return add({.name = names_.fresh(std::string(base)), .val = std::move(val), .target = std::move(target), .args = std::move(args)});
  }

  // The node gives the value.
  void bind(ValueId v, uint32_t node) {
    nodes_[v] = node;
    const Type& t = g_.type(v);
    if (t.value) numbers_.know(t.value, node);
    else if (t.is_tensor()) numbers_.see(t, node);
  }

  std::string name_of(ValueId v, const std::string& otherwise) {
    return names_.fresh(g_.value(v).name.empty() ? otherwise : g_.value(v).name);
  }
  void add_placeholder(ValueId v) { bind(v, add({.name = name_of(v, "arg"), .val = val_of(v), .kind = FxKind::Placeholder})); }
  FxVal val_of(ValueId v) const { return FxVal::one(g_.type(v), g_.value(v).meta); }

  // `schema`: of the operand that the argument is.
  Arg arg(const Arg& a, const SchemaArg* schema = nullptr) {
    if (a.is<Expr>()) return numbers_.arg(a.get<Expr>());
    if (a.is<Word>() && schema && schema->type == ArgType::Device) return a.get<Word>().text;
    if (a.is<ValueId>()) {
      const Type& t = g_.type(a.get<ValueId>());
      return t.value ? numbers_.arg(t.value) : Arg(ValueId{nodes_.at(a.get<ValueId>())});
    }
    if (!a.is<ArgList>()) return a;
    ArgList out;
    for (const Arg& e : a.get<ArgList>()) out.push_back(arg(e, schema));
    return out;
  }
  ArgList tuple(const ArgList& list) {
    ArgList out{fx_tuple};
    for (const Arg& a : list) out.push_back(arg(a));
    return out;
  }

  void add_nodes(BlockId block) {
    for (NodeId id : g_.block(block).nodes) {
      size_t first = fx_.nodes.size();
      add_node(g_.node(id));
      for (size_t i = first; i < fx_.nodes.size(); i++) fx_.nodes[i].origin = g_.node(id).origin;
    }
  }
  void add_node(const Node& n);
  void add_constant(const Node& n);
  void add_item(const Node& n);
  void add_print(const Node& n);
  void add_call(const Node& n);
  void add_results(const Node& n, uint32_t made);
  void add_control(const Node& n, std::string_view op, std::initializer_list<std::string_view> graphs);
  void add_vmap(const Node& n);
  ArgList flipped(const ArgList& list);

  const Graph& g_;
  FxGraph fx_;
  FxNames names_;
  NumberNodes numbers_;
  std::map<ValueId, uint32_t> nodes_;
  int64_t vmaps_ = 0; // around the nodes
};

void BlockToFx::add_node(const Node& n) {
  if (!n.attributes.empty()) unsupported("{} has attributes, which FX text does not write", n.op);
  if (n.op == prim::Constant) return add_constant(n);
  if (n.op == prim::Item) return add_item(n);
  if (n.op == prim::Print) return add_print(n);
  if (n.op == prim::Assert) return void(call("_assert_scalar", "torch.ops.aten._assert_scalar.default", {arg(n.args[0]), n.args[1]}));
  if (n.op == prim::If) return add_control(n, "cond", {"true_graph", "false_graph"});
  if (n.op == prim::While) return add_control(n, "while_loop", {"while_loop_cond_graph", "while_loop_body_graph"});
  if (n.op == prim::Scan && n.args[3] == Arg(true)) return add_vmap(n);
  if (n.op == prim::Scan) return add_control(n, "scan", {"scan_combine_graph"});
  if (!n.blocks.empty()) unsupported("{} has blocks, which FX text does not write", n.op);
  add_call(n);
}

void BlockToFx::add_constant(const Node& n) {
  ValueId v = n.outputs[0];
  uint32_t made = add({.name = name_of(v, "constant"), .val = val_of(v), .kind = FxKind::GetAttr});
  fx_.tensors[fx_.nodes[made].target] = *g_.constant(v);
  bind(v, made);
}

// What is read of booleans is True or False, where the graph has a symbol that is 1 or 0.
void BlockToFx::add_item(const Node& n) {
  ValueId v = n.outputs[0];
  Type type = g_.type(v);
  Expr read = type.value;
  if (n.args[0].is<ValueId>() && g_.type(n.args[0].get<ValueId>()).dtype == DType::Bool && read && read->type != DType::Bool)
    type = NumberNodes::type_of(eq(read, g_.pool().integer(1)));
  uint32_t made = call("item", "torch.ops.aten.item.default", {arg(n.args[0])}, FxVal::one(type));
  nodes_[v] = made;
  if (type.value) numbers_.know(type.value, made);
}

// A text behind a text is an argument that is a string; the last one ends the format.
void BlockToFx::add_print(const Node& n) {
  std::string format;
  ArgList args{Arg()};
  const ArgList& parts = n.args[0].get<ArgList>();
  bool behind_text = false;
  for (size_t i = 0; i < parts.size(); i++) {
    const Arg& part = parts[i];
    bool is_text = part.is<std::string>() && (!behind_text || i + 1 == parts.size());
    behind_text = is_text;
    if (!is_text) {
      format += "{}";
      args.push_back(arg(part));
      continue;
    }
    for (char c : part.get<std::string>()) format += c == '{' ? "{{" : c == '}' ? "}}" : std::string(1, c);
  }
  if (format.ends_with('\n')) format.pop_back(); // printing ends the line
  args[0] = std::move(format);
  call("print", "torch.ops.higher_order.print", std::move(args));
}

void BlockToFx::add_call(const Node& n) {
  FxNode fx{.name = std::string(n.op.base()), .target = fx_target(n.op)};
  for (size_t i = 0; i < n.args.size(); i++) {
    const SchemaArg* s = n.def && i < n.def->signature.args.size() ? &n.def->signature.args[i] : nullptr;
    if (!s || !s->keyword_only) fx.args.push_back(arg(n.args[i], s));
    else if (!s->has_default || n.args[i] != s->fallback) fx.kwargs.push_back({s->name, arg(n.args[i], s)});
  }
  if (n.def && n.def->signature.args.size() == n.args.size()) {
    auto& schema = n.def->signature.args;
    for (size_t i; (i = fx.args.size()) > 0 && schema[i - 1].has_default && schema[i - 1].fallback == n.args[i - 1];) fx.args.pop_back();
  }
  bool single = n.outputs.size() == 1 && !(n.def && n.def->signature.variadic_result);
  fx.name = single ? name_of(n.outputs[0], fx.name) : names_.fresh(fx.name);
  if (single) fx.val = val_of(n.outputs[0]);
  uint32_t made = add(std::move(fx));
  if (single) bind(n.outputs[0], made);
  else if (!n.outputs.empty()) add_results(n, made);
}

// The node's results as a list, and what takes each out of it.
void BlockToFx::add_results(const Node& n, uint32_t made) {
  FxVal val{.is_list = true};
  for (ValueId v : n.outputs) val.types.push_back(g_.type(v));
  fx_.nodes[made].val = val;
  for (size_t k = 0; k < n.outputs.size(); k++)
    bind(n.outputs[k], add({.name = name_of(n.outputs[k], "getitem"),
                            .val = val_of(n.outputs[k]),
                            .target = "operator.getitem",
                            .args = {ValueId{made}, static_cast<int64_t>(k)}}));
}

ArgList BlockToFx::flipped(const ArgList& list) {
  ArgList out;
  for (const Arg& a : list) out.push_back(ValueId{call("flip", "torch.ops.aten.flip.default", {a, ArgList{0}})});
  return out;
}

// Carried values become the first placeholders of the graphs, what these take from outside the others.
void BlockToFx::add_control(const Node& n, std::string_view op, std::initializer_list<std::string_view> graphs) {
  Captures captures = FindCaptures(g_).run(n.blocks);
  ArgList args, operands{fx_tuple};
  for (ValueId v : captures.values) operands.push_back(ValueId{nodes_.at(v)});
  for (Expr s : captures.symbols) operands.push_back(numbers_.arg(s));
  for (size_t k = 0; k < n.blocks.size(); k++) {
    std::string name = names_.fresh(fmt::format("{}_{}", std::data(graphs)[k], fx_.modules.size() / graphs.size()));
    fx_.modules.push_back(BlockToFx(g_).body(n.blocks[k], captures, name, op == "while_loop" && k == 0));
    args.push_back(ValueId{add({.name = name, .kind = FxKind::GetAttr, .target = name})});
  }
  bool reverse = op == "scan" && n.args[2] == Arg(true);
  if (op == "cond") args.insert(args.begin(), arg(n.args[0]));
  else args.push_back(op == "scan" ? arg(n.args[0]) : Arg(tuple(n.args[0].get<ArgList>())));
  if (op == "scan") args.push_back(reverse ? Arg(flipped(arg(n.args[1]).get<ArgList>())) : arg(n.args[1]));
  args.push_back(std::move(operands));
  uint32_t made = call(op, fmt::format("torch.ops.higher_order.{}", op), std::move(args));
  add_results(n, made);
  if (!reverse) return;
  for (size_t k = n.args[0].get<ArgList>().size(); k < n.outputs.size(); k++) {
    ValueId v = n.outputs[k];
    bind(v, flipped({ValueId{nodes_.at(v)}})[0].get<ValueId>().index);
  }
}

// A scan whose steps are each by themselves: its nodes stand in place, between those of torch.vmap.
void BlockToFx::add_vmap(const Node& n) {
  auto part = [&](std::string_view name, ArgList args, std::optional<FxVal> val = {}) {
    return call(name, fmt::format("torch._functorch.predispatch.{}", name), std::move(args), std::move(val));
  };
  const ArgList& xs = n.args[1].get<ArgList>();
  const Block& body = g_.block(n.blocks[0]);
  Arg size = numbers_.arg(g_.type(xs.at(0).get<ValueId>()).sizes[0]);
  part("_vmap_increment_nesting", {size, "error"});
  vmaps_++;
  for (size_t i = 0; i < xs.size(); i++)
    bind(body.params[i], part("_add_batch_dim", {arg(xs[i]), 0, vmaps_}, FxVal::one(g_.type(body.params[i]))));
  add_nodes(n.blocks[0]);
  for (size_t i = 0; i < n.outputs.size(); i++)
    bind(n.outputs[i], part("_remove_batch_dim", {arg(body.returns[i]), vmaps_, size, 0}, FxVal::one(g_.type(n.outputs[i]))));
  vmaps_--;
  part("_vmap_decrement_nesting", {});
}

FxGraph BlockToFx::body(BlockId block, const Captures& captures, std::string name, bool is_condition) {
  fx_.name = std::move(name);
  for (ValueId p : g_.block(block).params) add_placeholder(p);
  for (ValueId v : captures.values) add_placeholder(v);
  for (Expr s : captures.symbols)
    numbers_.know(s, add({.name = names_.fresh(s->name), .val = FxVal::one(NumberNodes::type_of(s)), .kind = FxKind::Placeholder}));
  add_nodes(block);
  const ArgList& returns = g_.block(block).returns;
  fx_.result = is_condition ? arg(returns.at(0)) : Arg(tuple(returns));
  return std::move(fx_);
}

FxGraph BlockToFx::program(const LoadedProgram& p) {
  std::map<std::string, uint32_t> changed; // by what outputs call it: a weight's qualified name, an input's name
  for (const ProgramInput& in : p.inputs) {
    bool is_number = in.kind == InputKind::Fixed && !in.fixed.is_none() && !in.fixed.is<std::string>();
    if (is_number) add({.name = names_.fresh(in.name), .kind = FxKind::Placeholder});
    if (in.kind != InputKind::User) continue;
    add_placeholder(in.value);
    changed[in.name] = nodes_.at(in.value);
  }
  for (const ProgramInput& in : p.inputs) {
    if (!in.value.valid() || in.kind == InputKind::User) continue;
    auto weight = p.weights.find(in.target);
    if (weight == p.weights.end()) unsupported("input {} is neither the user's nor a weight", in.name);
    uint32_t read = add({.name = names_.fresh(in.name), .val = val_of(in.value), .kind = FxKind::GetAttr, .target = in.target});
    fx_.tensors.insert(*weight);
    bind(in.value, read);
    changed[in.target] = read;
  }
  add_nodes(g_.top());
  const ArgList& returns = g_.block(g_.top()).returns;
  ArgList results{fx_tuple};
  for (size_t i = 0; i < returns.size(); i++)
    if (p.outputs[i].is_returned()) {
      Arg a = arg(returns[i]);
      bool is_input = a.is<ValueId>() && fx_.nodes[a.get<ValueId>().index].kind != FxKind::CallFunction;
      results.push_back(is_input ? Arg(ValueId{call("clone", "torch.ops.aten.clone.default", {a})}) : a); // it may change yet
    }
  for (size_t i = 0; i < returns.size(); i++) {
    if (!p.outputs[i].is_mutation()) continue;
    auto to = changed.find(p.outputs[i].target);
    require_input(to != changed.end(), "result {} changes {}, which is no input", i, p.outputs[i].target);
    call("copy_", "torch.ops.aten.copy_.default", {ValueId{to->second}, arg(returns[i])});
  }
  fx_.result = std::move(results);
  return std::move(fx_);
}

} // namespace

// Of a copy: nodes that compute sizes need expressions of their own.
FxGraph fx_of(const Graph& graph) {
  Graph copy(graph);
  return BlockToFx(copy).graph(copy.top());
}

FxGraph fx_of(const LoadedProgram& program) {
  Graph copy(program.graph);
  return BlockToFx(copy).program(program);
}

} // namespace tenon
