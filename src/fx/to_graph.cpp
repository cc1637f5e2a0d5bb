// ToGraph: values, arguments, types and plain operators.
#include "fx/to_graph.h"

#include <algorithm>

#include "base/lexer.h"
#include "expr/names.h"
#include "fx/check.h"
#include "fx/edge_target.h"
#include "fx/strides.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ops/names.h"

namespace tenon {

std::span<const Arg> fx_elements(const ArgList& list) {
  bool tuple = !list.empty() && list[0] == Arg(fx_tuple);
  return std::span(list).subspan(tuple ? 1 : 0);
}

std::optional<SubclassPart> subclass_part(const FxGraph& g, const FxNode& n) {
  bool reads = n.target == "torch.ops.export.access_subclass_inner_tensor.default" && n.args.size() == 2 && n.args[0].is<ValueId>() &&
               n.args[1].is<std::string>();
  if (!reads) return std::nullopt;
  uint32_t at = n.args[0].get<ValueId>().index;
  return g.nodes[at].kind == FxKind::Placeholder ? std::optional(SubclassPart{at, g.nodes[at].target + "." + n.args[1].get<std::string>()})
                                                 : std::nullopt;
}

bool is_subclass(const FxGraph& g, uint32_t at) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const FxNode& n) {
    auto part = subclass_part(g, n);
    return part && part->placeholder == at;
  });
}

std::string operator_name(std::string_view target) {
  constexpr std::string_view prefix = "torch.ops.";
  if (target == "torch._functorch.predispatch._make_dual") return aten::_make_dual.name();
  if (target == "torch._functorch.predispatch._unpack_dual") return aten::_unpack_dual.name();
  if (auto edge = edge_operator(target)) return *edge;
  if (!target.starts_with(prefix)) return std::string(target);
  target.remove_prefix(prefix.size());
  size_t dot = target.find('.');
  require_input(dot != target.npos, "a strange target: torch.ops.{}", target);
  return std::string(target.substr(0, dot)) + "::" + std::string(target.substr(dot + 1));
}

std::string fx_target(std::string_view op) {
  size_t colons = op.find("::");
  if (colons == op.npos) return std::string(op);
  return fmt::format("torch.ops.{}.{}", op.substr(0, colons), op.substr(colons + 2));
}

namespace {

// A strict export traces regions under autocast without it: what it records of them, and of all that follows, has other dtypes.
bool holds_autocast(const FxGraph& fx) {
  auto is_region = [](const FxNode& n) { return n.target == "torch.ops.higher_order.wrap_with_autocast"; };
  return std::any_of(fx.nodes.begin(), fx.nodes.end(), is_region) || std::any_of(fx.modules.begin(), fx.modules.end(), holds_autocast);
}

} // namespace

ToGraph::ToGraph(Graph& graph, const FxGraph& fx)
    : graph_(graph), fx_(fx), results_(fx.nodes.size()), exact_types_(fx.exact_types && !holds_autocast(fx)) {}
ToGraph::ToGraph(const ToGraph& outer, const FxGraph& fx)
    : graph_(outer.graph_), fx_(fx), results_(fx.nodes.size()), exact_types_(outer.exact_types_), vmaps_(outer.vmaps_),
      autocast_(outer.autocast_) {}

ValueId ToGraph::add_param(BlockId block, uint32_t at, const Type* otherwise) {
  const FxNode& n = node(at);
  bool known = n.val && n.val->types.size() == 1 && !n.val->is_list;
  require_input(known || otherwise, "%{} has no type: write `%{} : Float(2, 3) [num_users=...`, or give inputs", n.name, n.name);
  const Type& type = known ? n.val->types[0] : *otherwise;
  ValueId id = graph_.add_param(block, type, n.name);
  if (known) graph_.value(id).meta = n.val->meta;
  results_[at] = {type.value ? Arg(type.value) : Arg(id)};
  return id;
}

void ToGraph::bind(uint32_t at, const Arg& value) {
  const FxNode& n = node(at);
  bool number = n.val && n.val->types.size() == 1 && n.val->types[0].value;
  results_[at] = {number ? Arg(n.val->types[0].value) : value};
}

ArgList ToGraph::results() const {
  Arg all = resolve(fx_.result);
  return all.is<ArgList>() ? all.get<ArgList>() : ArgList{all};
}

std::vector<uint32_t> ToGraph::placeholders() const {
  Nodes all;
  for (uint32_t i = 0; i < fx_.nodes.size(); i++)
    if (fx_.nodes[i].kind == FxKind::Placeholder) all.push_back(i);
  return all;
}

ToGraph::Nodes ToGraph::all_nodes() const {
  Nodes all;
  for (uint32_t i = 0; i < fx_.nodes.size(); i++)
    if (fx_.nodes[i].kind != FxKind::Placeholder) all.push_back(i);
  return all;
}

// The values that an argument names; tuples become lists.
Arg ToGraph::resolve(const Arg& a) const {
  if (a.is<ValueId>()) {
    uint32_t at = a.get<ValueId>().index;
    require_input(results_[at].has_value(), "%{} is used before it is defined, or is no value", node(at).name);
    require_input(results_[at]->size() == 1, "%{}: its {} results are used as one", node(at).name, results_[at]->size());
    return (*results_[at])[0];
  }
  if (!a.is<ArgList>()) return a;
  ArgList out;
  for (const Arg& e : fx_elements(a.get<ArgList>())) out.push_back(resolve(e));
  return out;
}

Arg ToGraph::argument(const FxNode& n, size_t i) const {
  require_input(i < n.args.size() + n.kwargs.size(), "%{}: {} has {} arguments", n.name, n.target, n.args.size() + n.kwargs.size());
  return resolve(i < n.args.size() ? n.args[i] : n.kwargs[i - n.args.size()].value);
}

// A weight; zeros, of one element in memory, for one that a text only names.
void ToGraph::add_constant(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  for (const FxGraph& m : fx_.modules)
    if (m.name == n.target) return; // read by the node that runs it
  if (auto given = fx_.tensors.find(n.target); given != fx_.tensors.end()) return append_constant(block, at, given->second);
  require_input(n.val && n.val->types.size() == 1, "%{} has no type: write `%{} : Float(2, 3) [num_users=...`", n.name, n.name);
  const Type& type = n.val->types[0];
  std::vector<int64_t> sizes;
  for (Expr s : type.sizes) {
    require_input(type.is_tensor() && const_int(s) && *const_int(s) >= 0, "%{}: a weight's sizes must be numbers", n.name);
    sizes.push_back(*const_int(s));
  }
  append_constant(block, at, zeros_of(type.dtype, sizes));
}

void ToGraph::add_subclass_part(BlockId block, uint32_t at) {
  auto part = subclass_part(fx_, node(at));
  auto given = part ? fx_.tensors.find(part->name) : fx_.tensors.end();
  require_input(given != fx_.tensors.end(), "%{}: no weight {} is given", node(at).name, part ? part->name : "of this tensor subclass");
  append_constant(block, at, given->second);
}

void ToGraph::append_constant(BlockId block, uint32_t at, const Tensor& value) {
  std::vector<Expr> sizes;
  for (int64_t s : value.sizes()) sizes.push_back(graph_.pool().integer(s));
  Node made{.op = prim::Constant, .def = find_op(prim::Constant), .args = {Arg(graph_.add_tensor(value))}};
  NodeId id = graph_.append(block, std::move(made), {Type::tensor(value.dtype(), std::move(sizes))}, {node(at).name});
  ValueId constant = graph_.node(id).outputs[0];
  if (auto& val = node(at).val; val && !val->is_list) graph_.value(constant).meta = val->meta;
  results_[at] = {Arg(constant)};
}

void ToGraph::add_node(BlockId block, uint32_t at) {
  within_node("%" + node(at).name, node(at).origin.get(), [&] { convert(block, at); });
}

void ToGraph::convert(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  if (n.kind == FxKind::GetAttr) return add_constant(block, at);
  if (n.kind != FxKind::CallFunction) unsupported("%{}: a call of a {}", n.name, n.kind == FxKind::CallMethod ? "method" : "module");
  if (n.target == "operator.getitem" || n.target == "_operator.getitem") return take_item(at);
  std::string op = operator_name(n.target);
  if (!n.val && op == "export::access_subclass_inner_tensor.default") return add_subclass_part(block, at);
  if (add_symbolic(block, at, op) || add_control_flow(block, at, op)) return;
  require_input(op.find("::") != op.npos, "no such function: {}", n.target);
  add_operator(block, at, op);
}

void ToGraph::take_item(uint32_t at) {
  const FxNode& n = node(at);
  require_input(n.args.size() == 2 && n.args[0].is<ValueId>() && n.args[1].is<int64_t>(), "%{}: getitem takes a node and a number", n.name);
  uint32_t from = n.args[0].get<ValueId>().index;
  int64_t k = n.args[1].get<int64_t>();
  require_input(results_[from].has_value(), "%{} is used before it is defined, or is no value", node(from).name);
  const ArgList& all = *results_[from];
  require_input(k >= 0 && static_cast<size_t>(k) < all.size(), "%{}: there are {} results", n.name, all.size());
  const Arg& item = all[static_cast<size_t>(k)];
  if (item.is<ValueId>()) graph_.value(item.get<ValueId>()).name = n.name;
  if (item.is<ValueId>() && n.val) graph_.value(item.get<ValueId>()).meta = n.val->meta;
  bool number = item.is<ValueId>() && graph_.type(item.get<ValueId>()).value;
  results_[at] = {number ? Arg(graph_.type(item.get<ValueId>()).value) : item};
}

// An expression over sizes that the graph knows; what is none stays as it is.
Arg ToGraph::size_or_word(const Arg& a) const {
  if (!a.is<std::string>()) return a;
  try {
    Lexer lexer(a.get<std::string>());
    Expr e = parse_expr(graph_.pool(), lexer, {.value = [&](auto name) { return graph_.pool().find_symbol(std::string(name)); }});
    return lexer.at_end() ? Arg(e) : a;
  } catch (const Error&) {
    return a; // the schema says what was asked for
  }
}

// A bare word is a string, or an expression of sizes where the schema asks for a number.
Arg ToGraph::converted(const SchemaArg& s, const Arg& a) const {
  Arg r = resolve(a);
  bool number = s.type == ArgType::Int || s.type == ArgType::Scalar || s.type == ArgType::Float || s.type == ArgType::Bool;
  if (number && r.is<ArgList>()) {
    ArgList out;
    for (const Arg& e : r.get<ArgList>()) out.push_back(size_or_word(e));
    return out;
  }
  if (number) return size_or_word(r);
  if (s.type == ArgType::Device && r.is<std::string>()) return Word{r.get<std::string>()};
  return r;
}

ArgList ToGraph::schema_args(const std::string& name, const OpDef& def, std::span<const Arg> given_args,
                             std::span<const Attribute> kwargs) const {
  auto& schema = def.signature.args;
  require_input(given_args.size() <= schema.size(), "%{}: too many arguments for {}", name, def.signature.name);
  ArgList args(schema.size());
  std::vector<bool> given(schema.size(), false);
  auto set = [&](size_t i, const Arg& a) {
    require_input(!given[i], "%{}: argument {} is given twice", name, schema[i].name);
    args[i] = converted(schema[i], a), given[i] = true;
  };
  for (size_t i = 0; i < given_args.size(); i++) set(i, given_args[i]);
  for (const Attribute& k : kwargs) {
    int i = def.signature.find(k.name);
    require_input(i >= 0, "%{}: {} has no argument {}", name, def.signature.name, k.name);
    set(static_cast<size_t>(i), k.value);
  }
  for (size_t i = 0; i < schema.size(); i++) {
    if (given[i]) continue;
    require_input(schema[i].has_default, "%{}: argument {} of {} is missing", name, schema[i].name, def.signature.name);
    args[i] = schema[i].fallback;
  }
  return args;
}

std::vector<Type> ToGraph::output_types(const FxNode& n, const Node& made, size_t first) const {
  if (n.val) return {n.val->types.begin() + static_cast<std::ptrdiff_t>(std::min(first, n.val->types.size())), n.val->types.end()};
  if (!made.def) unsupported("no such operator: {}", made.op);
  return infer_types(graph_, *made.def, made.args);
}

// Older torches recorded some types that their own kernels do not give: the quotient of integers as integer, the states of
// an LSTM with a dimension too many. What the operator gives for its operands is right then, also for what follows.
void ToGraph::correct_types(const Node& made, std::vector<Type>& types) const {
  if (exact_types_ || !made.def || made.def->data_dependent || made.op.dialect() == "prim") return;
  bool in_place = functional_name(made.op) != made.op;
  if (in_place && (made.op == aten::resize_ || made.op == aten::resize_as_ || made.args.empty() || !made.args[0].is<ValueId>())) return;
  std::vector<Type> given;
  try {
    if (in_place && made.def->kind != Kind::View) given = {graph_.type(made.args[0].get<ValueId>())};
    else given = infer_types(graph_, *made.def, made.args);
  } catch (const Error&) {
    return; // told when the program is compiled
  }
  for (size_t i = 0; i < std::min(types.size(), given.size()); i++) correct_type(types[i], given[i]);
}

void ToGraph::correct_type(Type& now, const Type& right) const {
  if (exact_types_ || !now.is_tensor() || !right.is_tensor()) return;
  bool same = now.dtype == right.dtype && now.rank() == right.rank();
  for (size_t d = 0; same && d < now.rank(); d++)
    same = !(const_int(now.sizes[d]) && const_int(right.sizes[d])) || now.sizes[d] == right.sizes[d];
  if (!same) now = right;
}

NodeId ToGraph::append(BlockId block, Node made, uint32_t at, size_t first_output) {
  const FxNode& n = node(at);
  std::vector<Type> types = output_types(n, made, first_output);
  correct_types(made, types);
  if (!n.val) add_strides(graph_, made, types);
  std::vector<std::string> names(types.size());
  if (types.size() == 1 && first_output == 0 && !(n.val && n.val->is_list)) names[0] = n.name;
  made.origin = n.origin;
  NodeId id = graph_.append(block, std::move(made), std::move(types), std::move(names));
  ArgList results(first_output);
  for (ValueId v : graph_.node(id).outputs) {
    if (n.val && !n.val->is_list) graph_.value(v).meta = n.val->meta;
    results.push_back(v);
  }
  results_[at] = std::move(results);
  return id;
}

// Under autocast: the operands in the dtype that the operator takes there.
void ToGraph::cast_operands(BlockId block, const OpDef* op, ArgList& args) {
  auto type = autocast_ && op && op->autocast ? op->autocast(*autocast_, graph_, args) : std::nullopt;
  if (!type) return;
  if (vmaps_ > 0) unsupported("{} under autocast within vmap: torch converts the operators that it batches by", op->signature.name);
  auto converts = [](DType t) { return t == DType::F32 || t == DType::F16 || t == DType::BF16; };
  Builder b(graph_, block, false);
  for (Arg& a : args)
    a = map_values(a, [&](ValueId v) {
      const Type& t = graph_.type(v);
      return t.is_tensor() && converts(t.dtype) && t.dtype != *type ? b.call1(aten::to_dtype, {v, *type}).id : v;
    });
}

// A call whose types depend on values, as those of a mask do, where none are recorded: taken apart, its parts say what they give.
bool ToGraph::take_apart(BlockId block, uint32_t at, const OpDef& def, const ArgList& args) {
  try {
    infer_types(graph_, def, args);
    return false;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::Unsupported || !def.decompose) throw;
  }
  Builder b(graph_, block, false);
  b.set_origin(node(at).origin);
  Values parts = def.decompose(b, Call(graph_, def, args));
  if (parts.empty()) return false;
  results_[at] = ArgList(parts.size());
  for (size_t i = 0; i < parts.size(); i++) (*results_[at])[i] = parts[i].id;
  return true;
}

void ToGraph::add_call(BlockId block, uint32_t at, const std::string& op, size_t first_arg, size_t first_output) {
  const FxNode& n = node(at);
  const OpDef *row = find_op(op), *def = row ? row : find_op(functional_name(op));
  Node made{.op = op, .def = def};
  auto positional = std::span(n.args).subspan(std::min(first_arg, n.args.size()));
  if (def) made.args = schema_args(n.name, *def, positional, n.kwargs);
  else {
    for (const Arg& a : positional) made.args.push_back(resolve(a));
    for (const Attribute& k : n.kwargs) made.args.push_back(resolve(k.value));
  }
  cast_operands(block, row, made.args); // torch converts no in-place operator's
  if (def && !n.val && take_apart(block, at, *def, made.args)) return;
  append(block, std::move(made), at, first_output);
}

void ToGraph::add_operator(BlockId block, uint32_t at, const std::string& op) {
  if (!find_op(op) && !find_op(functional_name(op)) && add_out_overload(block, at, op)) return;
  add_call(block, at, op, 0, 0);
}

LoadedProgram program_of(const FxGraph& fx) {
  Graph g(fx.pool);
  ToGraph to(g, fx);
  for (uint32_t p : to.placeholders())
    if (!is_subclass(fx, p)) to.add_param(g.top(), p);
  to.add_nodes(g.top());
  g.block(g.top()).returns = to.results();
  check_graph(g);
  return program_of(std::move(g));
}

} // namespace tenon
