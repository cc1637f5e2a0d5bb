// GraphReader: values, types, arguments and plain operators. Control flow is in pt2_control.cpp.
#include "load/pt2_graph.h"

#include "ir/builder.h"
#include "ir/call.h"
#include "ir/promote.h"
#include "load/autocast.h"

namespace tenon {

using json::Element;

DType read_dtype(int64_t t) {
  switch (t) {
  case 1: return DType::U8;
  case 2: return DType::I8;
  case 3: return DType::I16;
  case 4: return DType::I32;
  case 5: return DType::I64;
  case 6: return DType::F16;
  case 7: return DType::F32;
  case 8: return DType::F64;
  case 10: return DType::C64;
  case 11: return DType::C128;
  case 12: return DType::Bool;
  case 13: return DType::BF16;
  case 35: return DType::U64;
  case 29: return DType::F8E4M3FN;
  case 30: return DType::F8E5M2;
  case 31: return DType::F8E4M3FNUZ;
  case 32: return DType::F8E5M2FNUZ;
  case 9: unsupported("dtype complex32");
  case 28: unsupported("dtype uint16");
  case 33: unsupported("dtype float8_e8m0fnu");
  case 34: unsupported("dtype uint32");
  default: bad_input("model.json: no such dtype: {}", t);
  }
}

namespace {

double read_float(Element e) {
  double d;
  if (e.get(d) == simdjson::SUCCESS) return d;
  int64_t i;
  if (e.get(i) == simdjson::SUCCESS) return static_cast<double>(i);
  auto s = json::text(e); // non-finite numbers are strings
  if (s == "Infinity") return INFINITY;
  if (s == "-Infinity") return -INFINITY;
  if (s == "NaN") return NAN;
  bad_input("model.json: '{}' is not a number", s);
}

Word word_of(std::string_view kind, Element value) {
  static constexpr std::string_view formats[] = {"unknown", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  static constexpr std::string_view layouts[] = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                 "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};
  if (kind == "as_device") return Word{std::string(json::text(value, "type"))};
  int64_t i = json::integer(value);
  auto names = kind == "as_memory_format" ? std::span<const std::string_view>(formats) : std::span<const std::string_view>(layouts);
  require_input(i >= 0 && i < static_cast<int64_t>(names.size()), "model.json: no such {}: {}", kind, i);
  return Word{std::string(names[static_cast<size_t>(i)])};
}

// Operators that give no tensor and no number: what torch computed from them is in the graph already.
bool is_pure_of_constants(std::string_view op) {
  static constexpr std::string_view names[] = {"aten::promote_types.default",
                                               "aten::result_type.Tensor",
                                               "aten::result_type.Scalar",
                                               "aten::result_type.Scalar_Tensor",
                                               "aten::result_type.Scalar_Scalar",
                                               "aten::can_cast.default",
                                               "torch._functorch.predispatch.lazy_load_decompositions",
                                               "torch._functorch.predispatch._jvp_increment_nesting",
                                               "torch._functorch.predispatch._jvp_decrement_nesting",
                                               "torch._functorch.predispatch._enter_dual_level",
                                               "torch._functorch.predispatch._exit_dual_level"};
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

} // namespace

// "torch.ops.aten.add.Tensor" -> "aten::add.Tensor"; other targets stay as they are.
std::string operator_name(std::string_view target) {
  constexpr std::string_view prefix = "torch.ops.";
  if (target == "torch._functorch.predispatch._make_dual") return "aten::_make_dual.default";
  if (target == "torch._functorch.predispatch._unpack_dual") return "aten::_unpack_dual.default";
  if (!target.starts_with(prefix)) return std::string(target);
  target.remove_prefix(prefix.size());
  size_t dot = target.find('.');
  require_input(dot != target.npos, "model.json: a strange target: {}", target);
  return std::string(target.substr(0, dot)) + "::" + std::string(target.substr(dot + 1));
}

std::shared_ptr<const Origin> read_origin(Element node) {
  auto metadata = json::find(node, "metadata");
  if (!metadata) return nullptr;
  Origin o;
  if (auto s = json::find(*metadata, "stack_trace")) o.stack_trace = json::text(*s);
  if (auto s = json::find(*metadata, "nn_module_stack")) o.module_stack = json::text(*s);
  return std::make_shared<const Origin>(std::move(o));
}

GraphReader::GraphReader(Graph& graph, Element scope, bool exact) : graph_(graph), scope_(scope), exact_(exact) {
  for (auto key : {"sym_int_values", "sym_float_values", "sym_bool_values"}) read_symbols(key);
}

void GraphReader::read_symbols(std::string_view key) {
  auto values = json::find(scope_, key);
  if (!values) return;
  for (auto [name, value] : json::object(*values)) symbols_[std::string(name)] = read_sym(value);
}

Expr GraphReader::read_sym(Element sym) {
  auto [kind, value] = json::single(sym);
  if (kind == "as_int") return graph_.pool().integer(json::integer(value));
  if (kind == "as_float") return graph_.pool().number(read_float(value), DType::F64);
  if (kind == "as_bool") return graph_.pool().boolean(json::boolean(value));
  if (kind == "as_expr") return parse_srepr(graph_.pool(), json::text(value, "expr_str"));
  bad_input("model.json: a size of kind {}", kind);
}

Expr GraphReader::read_size(Element sym) {
  Expr e = read_sym(sym);
  require_input(e->type == DType::I64, "model.json: {} is no size", to_string(e));
  return e;
}

Type GraphReader::read_type(Element meta) {
  Type t;
  t.dtype = read_dtype(json::integer(json::get(meta, "dtype")));
  for (Element s : json::array(json::get(meta, "sizes"))) t.sizes.push_back(read_size(s));
  std::vector<Expr> strides;
  for (Element s : json::array(json::get(meta, "strides"))) strides.push_back(read_size(s));
  check_sizes(t.sizes, "model.json");
  for (Expr s : strides) check_sizes({s}, "model.json, a stride");
  require_input(strides.size() == t.sizes.size(), "model.json: {} strides for {} sizes", strides.size(), t.sizes.size());
  Expr expect = graph_.pool().integer(1); // strides are kept only where they are not row-major
  bool dense = true;
  for (size_t d = t.sizes.size(); d-- > 0;) {
    dense &= strides[d] == expect || is_const_int(t.sizes[d], 1) || (strides[d]->op == Op::Max || expect->op == Op::Max);
    expect = expect * t.sizes[d];
  }
  if (!dense) t.strides = std::move(strides);
  return t;
}

Arg GraphReader::tensor_named(std::string_view name) {
  auto it = values_.find(std::string(name));
  require_input(it != values_.end(), "model.json: value {} is used before it is defined", name);
  return it->second;
}

Arg GraphReader::symbol_named(Element value) {
  auto [kind, v] = json::single(value);
  if (kind == "as_int") return json::integer(v);
  if (kind == "as_float") return read_float(v);
  if (kind == "as_bool") return json::boolean(v);
  require_input(kind == "as_name", "model.json: a symbolic argument of kind {}", kind);
  auto it = symbols_.find(std::string(json::text(v)));
  require_input(it != symbols_.end(), "model.json: symbol {} is not defined", json::text(v));
  return it->second;
}

Arg GraphReader::read_list(Element list, std::string_view element_kind) {
  ArgList out;
  for (Element e : json::array(list)) out.push_back(element_kind.empty() ? read_argument(e) : read_union(element_kind, e));
  return out;
}

Arg GraphReader::read_argument(Element argument) {
  auto [kind, value] = json::single(argument);
  return read_union(kind, value);
}

Arg GraphReader::read_union(std::string_view kind, Element value) {
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return tensor_named(json::text(value, "name"));
  if (kind == "as_int") return json::integer(value);
  if (kind == "as_float") return read_float(value);
  if (kind == "as_bool") return json::boolean(value);
  if (kind == "as_string" || kind == "as_operator") return std::string(json::text(value));
  if (kind == "as_scalar_type") return read_dtype(json::integer(value));
  if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") return symbol_named(value);
  if (kind == "as_memory_format" || kind == "as_layout" || kind == "as_device") return word_of(kind, value);
  if (kind == "as_complex") return std::complex<double>(read_float(json::get(value, "real")), read_float(json::get(value, "imag")));
  if (kind == "as_optional_tensor") return read_argument(value);
  struct ListKind {
    std::string_view list, element;
  };
  static constexpr ListKind lists[] = {{"as_tensors", "as_tensor"},     {"as_ints", "as_int"},
                                       {"as_floats", "as_float"},       {"as_bools", "as_bool"},
                                       {"as_strings", "as_string"},     {"as_sym_ints", "as_sym_int"},
                                       {"as_sym_bools", "as_sym_bool"}, {"as_sym_floats", "as_sym_float"},
                                       {"as_optional_tensors", ""},     {"as_nested_tensors", "as_tensors"},
                                       {"as_int_lists", "as_ints"},     {"as_float_lists", "as_floats"}};
  for (auto& l : lists)
    if (l.list == kind) return read_list(value, l.element);
  if (kind == "as_custom_obj") unsupported("a TorchBind object as an argument");
  bad_input("model.json: an argument of kind {}", kind);
}

ValueId GraphReader::add_tensor_param(BlockId block, std::string_view name) {
  ValueId id = graph_.add_param(block, read_type(json::get(json::get(scope_, "tensor_values"), name)), std::string(name));
  values_[std::string(name)] = id;
  return id;
}

ValueId GraphReader::add_param(BlockId block, Element argument) {
  auto [kind, value] = json::single(argument);
  if (kind == "as_tensor") return add_tensor_param(block, json::text(value, "name"));
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
    Arg symbol = symbol_named(value);
    TypeKind t = kind == "as_sym_int" ? TypeKind::Int : kind == "as_sym_float" ? TypeKind::Float : TypeKind::Bool;
    std::string name = json::find(value, "as_name") ? std::string(json::text(value, "as_name")) : "number";
    return graph_.add_param(block, Type::scalar(t, to_expr(graph_.pool(), symbol)), name);
  }
  unsupported("an input of kind {}", kind);
}

void GraphReader::bind_input(size_t i, const Arg& bound) {
  auto inputs = json::array(json::get(scope_, "inputs"));
  require_input(i < inputs.size(), "model.json: a subgraph has {} inputs, more are given", inputs.size());
  auto [kind, value] = json::single(inputs.at(i).value());
  if (kind == "as_tensor") values_[std::string(json::text(value, "name"))] = bound;
}

void GraphReader::read_nodes(BlockId block) {
  std::vector<Element> nodes;
  for (Element node : json::array(json::get(scope_, "nodes"))) nodes.push_back(node);
  read_range(block, nodes);
}

ArgList GraphReader::read_outputs() {
  ArgList out;
  for (Element e : json::array(json::get(scope_, "outputs"))) out.push_back(read_argument(e));
  return out;
}

void GraphReader::read_node(BlockId block, Element node) {
  std::string op = operator_name(json::text(node, "target"));
  if (read_symbolic(block, node, op) || read_control_flow(block, node, op)) return;
  read_operator(block, node, op);
}

// Nodes that only compute sizes are dropped: every name's expression is known. Checks become prim::Assert, reads of a
// tensor's value prim::Item.
bool GraphReader::read_symbolic(BlockId block, Element node, const std::string& op) {
  auto inputs = json::array(json::get(node, "inputs"));
  auto arg = [&](size_t i) { return read_argument(json::get(inputs.at(i).value(), "arg")); };
  if (op == "aten::_assert_tensor_metadata.default" || op.starts_with("aten::sym_constrain_range") || is_pure_of_constants(op)) return true;
  if (op == "aten::_assert_scalar.default") {
    Arg condition = arg(0);
    if (condition.is<Expr>() && is_const_int(condition.get<Expr>(), 1)) condition = true;
    if (condition == Arg(true)) condition = unproved(block, json::get(inputs.at(0).value(), "arg"));
    if (condition == Arg(true)) return true;
    graph_.append(block,
                  Node{.op = "prim::Assert", .def = find_op("prim::Assert"), .args = {condition, arg(1)}, .origin = read_origin(node)}, {});
    return true;
  }
  if (op == "aten::_assert_async.default" || op == "aten::_assert_async.msg") {
    Arg tensor = arg(0);
    require_input(tensor.is<ValueId>() && graph_.type(tensor.get<ValueId>()).is_tensor(), "{} of something that is no tensor", op);
    bool real = is_float(graph_.type(tensor.get<ValueId>()).dtype);
    Expr value = graph_.pool().symbol(graph_.pool().fresh_symbol("asserted"), real ? DType::F64 : DType::I64);
    graph_.append(block, Node{.op = "prim::Item", .def = find_op("prim::Item"), .args = {tensor}, .origin = read_origin(node)},
                  {Type::scalar(real ? TypeKind::Float : TypeKind::Int, value)});
    Arg message = op == "aten::_assert_async.msg" ? arg(1) : Arg("the asserted tensor is zero");
    graph_.append(block,
                  Node{.op = "prim::Assert",
                       .def = find_op("prim::Assert"),
                       .args = {ne(value, constant_like(0, value)), message},
                       .origin = read_origin(node)},
                  {});
    return true;
  }
  auto outputs = json::array(json::get(node, "outputs"));
  if (op == "torch._functorch.predispatch._unwrap_for_grad") {
    values_[std::string(json::text(json::get(json::get(outputs.at(0).value(), "as_tensor"), "name")))] = arg(0);
    return true;
  }
  if (outputs.size() != 1) return false;
  auto [kind, value] = json::single(outputs.at(0).value());
  if (!kind.starts_with("as_sym_")) return false;
  if (op != "aten::item.default" && op != "aten::_local_scalar_dense.default") return true;
  Arg symbol = symbol_named(value);
  if (!symbol.is<Expr>()) return true;
  // A boolean is recorded as u0 == 1.
  if (Expr e = symbol.get<Expr>(); e->op == Op::Eq && (e->args[0]->op == Op::Symbol || e->args[1]->op == Op::Symbol))
    symbol = e->args[e->args[0]->op == Op::Symbol ? 0 : 1], kind = "as_sym_int";
  TypeKind t = kind == "as_sym_int" ? TypeKind::Int : kind == "as_sym_float" ? TypeKind::Float : TypeKind::Bool;
  graph_.append(block, Node{.op = "prim::Item", .def = find_op("prim::Item"), .args = {arg(0)}, .origin = read_origin(node)},
                {Type::scalar(t, symbol.get<Expr>())});
  if (symbol.get<Expr>()->op == Op::Symbol && !is_float(symbol.get<Expr>()->type)) items_[symbol.get<Expr>()->name] = arg(0);
  return true;
}

// The ranges of numbers read from data are what the program's asserts ensure, so these seem to hold always. Here their condition
// is over the number as it is, read once more, without a range.
Arg GraphReader::unproved(BlockId block, Element condition) {
  auto [kind, value] = json::single(condition);
  auto name = kind == "as_sym_bool" ? json::find(value, "as_name") : std::nullopt;
  auto bools = json::find(scope_, "sym_bool_values");
  auto entry = name && bools ? json::find(*bools, json::text(*name)) : std::nullopt;
  auto expr = entry ? json::find(*entry, "as_expr") : std::nullopt;
  if (!expr) return true;
  std::string text(json::text(*expr, "expr_str"));
  bool any = false;
  for (auto& [symbol, tensor] : items_) {
    const std::string quoted_name = "Symbol('" + symbol + "'";
    if (text.find(quoted_name) == text.npos) continue;
    Expr read = graph_.pool().symbol(graph_.pool().fresh_symbol(symbol + "_read"));
    graph_.append(block, Node{.op = "prim::Item", .def = find_op("prim::Item"), .args = {tensor}}, {Type::scalar(TypeKind::Int, read)});
    for (size_t at; (at = text.find(quoted_name)) != text.npos;) text.replace(at, quoted_name.size(), "Symbol('" + read->name + "'");
    any = true;
  }
  if (!any) return true;
  return parse_srepr(graph_.pool(), text);
}

void GraphReader::output_types(Element node, size_t first, std::vector<Type>& types, std::vector<std::string>& names) {
  auto add = [&](std::string_view name) {
    types.push_back(read_type(json::get(json::get(scope_, "tensor_values"), name)));
    names.emplace_back(name);
  };
  for (Element out : json::array(json::get(node, "outputs"))) {
    if (first > 0) {
      first--;
      continue;
    }
    auto [kind, value] = json::single(out);
    if (kind == "as_tensor") add(json::text(value, "name"));
    else if (kind == "as_tensors")
      for (Element t : json::array(value)) add(json::text(t, "name"));
    else if (kind == "as_none") types.push_back(Type::scalar(TypeKind::None)), names.emplace_back();
    else if (kind == "as_sym_int")
      types.push_back(Type::scalar(TypeKind::Int, to_expr(graph_.pool(), symbol_named(value)))), names.emplace_back();
    else if (kind == "as_sym_float")
      types.push_back(Type::scalar(TypeKind::Float, to_expr(graph_.pool(), symbol_named(value)))), names.emplace_back();
    else unsupported("a node's output of kind {}", kind);
  }
}

// Older torches recorded some types that their own kernels do not give: the quotient of integers as integer, the states of
// an LSTM with a dimension too many. What the operator gives for its operands is right then, also for what follows.
void GraphReader::correct_types(const Node& node, std::vector<Type>& types) const {
  if (exact_ || !node.def || node.def->data_dependent || node.op.starts_with("prim::")) return;
  bool in_place = functional_name(node.op) != node.op;
  if (in_place && (node.op.starts_with("aten::resize_") || node.args.empty() || !node.args[0].is<ValueId>())) return;
  std::vector<Type> given;
  try {
    if (in_place && node.def->kind != Kind::View) given = {graph_.type(node.args[0].get<ValueId>())};
    else given = infer_types(graph_, *node.def, node.args);
  } catch (const Error&) {
    return; // told when the program is compiled
  }
  for (size_t i = 0; i < std::min(types.size(), given.size()); i++) correct_type(types[i], given[i]);
}

void GraphReader::correct_type(Type& now, const Type& right) const {
  if (exact_ || !now.is_tensor() || !right.is_tensor()) return;
  bool same = now.dtype == right.dtype && now.rank() == right.rank();
  for (size_t d = 0; same && d < now.rank(); d++)
    same = !(const_int(now.sizes[d]) && const_int(right.sizes[d])) || now.sizes[d] == right.sizes[d];
  if (!same) now = right;
}

NodeId GraphReader::append(BlockId block, Node node, Element source, size_t first_output) {
  std::vector<Type> types;
  std::vector<std::string> names;
  output_types(source, first_output, types, names);
  correct_types(node, types);
  node.origin = read_origin(source);
  NodeId id = graph_.append(block, std::move(node), std::move(types), names);
  for (size_t i = 0; i < names.size(); i++)
    if (!names[i].empty()) values_[names[i]] = graph_.node(id).outputs[i];
  return id;
}

std::vector<GraphReader::NamedArg> GraphReader::named_args(Element node, size_t first) {
  std::vector<NamedArg> out;
  for (Element in : json::array(json::get(node, "inputs"))) {
    if (first > 0) {
      first--;
      continue;
    }
    auto [kind, value] = json::single(json::get(in, "arg"));
    if (kind != "as_graph") out.push_back({std::string(json::text(in, "name")), read_union(kind, value)});
  }
  return out;
}

ArgList GraphReader::schema_args(const OpDef* def, const std::vector<NamedArg>& inputs, const std::string& op) {
  auto& schema = def->signature.args;
  ArgList args(schema.size());
  std::vector<bool> given(schema.size(), false);
  for (size_t position = 0; position < inputs.size(); position++) {
    int at = def->signature.find(inputs[position].name);
    if (at < 0) at = static_cast<int>(position); // older writers, in-place forms with another name
    require_input(static_cast<size_t>(at) < schema.size(), "{}: too many arguments", op);
    args[static_cast<size_t>(at)] = inputs[position].value;
    given[static_cast<size_t>(at)] = true;
  }
  for (size_t i = 0; i < schema.size(); i++) {
    if (given[i]) continue;
    require_input(schema[i].has_default, "{}: argument {} is missing", op, schema[i].name);
    args[i] = schema[i].fallback;
  }
  return args;
}

// Under autocast: the operands in the dtype that the operator takes there.
void GraphReader::cast_operands(BlockId block, const std::string& op, ArgList& args) {
  auto type = autocast_ ? autocast_type(op, *autocast_, graph_, args) : std::nullopt;
  if (!type) return;
  Builder b(graph_, block, false);
  for (Arg& a : args)
    a = map_values(a, [&](ValueId v) {
      const Type& t = graph_.type(v);
      return t.is_tensor() && is_autocast(t.dtype) && t.dtype != *type ? b.call1("aten::to.dtype", {v, *type}).id : v;
    });
}

NodeId GraphReader::append_call(BlockId block, const std::string& op, std::vector<NamedArg> args, Element node, size_t first_output) {
  const OpDef* def = find_op(op);
  if (!def) def = find_op(functional_name(op));
  Node n{.op = op, .def = def};
  if (def) n.args = schema_args(def, args, op);
  else
    for (NamedArg& a : args) n.args.push_back(std::move(a.value));
  cast_operands(block, op, n.args);
  return append(block, std::move(n), node, first_output);
}

void GraphReader::read_operator(BlockId block, Element node, const std::string& op) {
  std::vector<NamedArg> args = named_args(node, 0);
  if (!find_op(op) && !find_op(functional_name(op)) && read_out(block, op, args, node)) return;
  append_call(block, op, std::move(args), node, 0);
}

} // namespace tenon
