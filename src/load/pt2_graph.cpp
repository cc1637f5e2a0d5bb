// GraphReader: nodes, arguments, types.
#include "load/pt2_graph.h"

#include <algorithm>

#include "ir/call.h"
#include "ir/op.h"
#include "ir/promote.h"

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

// "torch.ops.aten._print.default" as an argument.
Arg operator_word(std::string_view target) {
  require_input(target.starts_with("torch."), "model.json: '{}' is no operator", target);
  return Word{std::string(target.substr(6))};
}

} // namespace

std::shared_ptr<const Origin> read_origin(Element node) {
  auto metadata = json::find(node, "metadata");
  if (!metadata) return nullptr;
  Origin o;
  auto take = [&](std::string_view key, std::string& text) {
    if (auto s = json::find(*metadata, key)) text = json::text(*s);
  };
  take("stack_trace", o.stack_trace), take("nn_module_stack", o.module_stack);
  take("source_fn_stack", o.source_fn_stack), take("torch_fn", o.torch_fn);
  return std::make_shared<const Origin>(std::move(o));
}

GraphReader::GraphReader(std::shared_ptr<ExprPool> pool, Element scope, bool exact, std::unordered_set<std::string> tokens)
    : scope_(scope), tokens_(std::move(tokens)) {
  fx_.pool = std::move(pool), fx_.exact_types = exact;
  for (auto key : {"sym_int_values", "sym_float_values", "sym_bool_values"}) read_symbols(key);
}

FxGraph GraphReader::read() {
  for (Element input : json::array(json::get(scope_, "inputs"))) read_input(input);
  for (Element n : json::array(json::get(scope_, "nodes"))) read_node(n);
  ArgList returns{fx_tuple};
  for (Element e : json::array(json::get(scope_, "outputs")))
    returns.push_back(within_node("the output", nullptr, [&] { return read_argument(e); }));
  fx_.result = std::move(returns);
  return std::move(fx_);
}

void GraphReader::read_symbols(std::string_view key) {
  auto values = json::find(scope_, key);
  if (!values) return;
  for (auto [name, value] : json::object(*values)) symbols_[std::string(name)] = read_sym(value);
}

Expr GraphReader::read_sym(Element sym) const {
  auto [kind, value] = json::single(sym);
  if (kind == "as_int") return fx_.pool->integer(json::integer(value));
  if (kind == "as_float") return fx_.pool->number(read_float(value), DType::F64);
  if (kind == "as_bool") return fx_.pool->boolean(json::boolean(value));
  if (kind == "as_expr") {
    Expr e = parse_srepr(*fx_.pool, json::text(value, "expr_str"));
    auto hint = json::find(value, "hint");
    int64_t v;
    if (e->op == Op::Symbol && hint && hint->is_object() && (*hint)["as_int"].get(v) == simdjson::SUCCESS) hints_[e->name] = v;
    return e;
  }
  bad_input("model.json: a size of kind {}", kind);
}

Expr GraphReader::read_size(Element sym) const {
  Expr e = read_sym(sym);
  require_input(e->type == DType::I64, "model.json: {} is no size", to_string(e));
  return e;
}

Type GraphReader::read_type(Element meta) const {
  Type t;
  t.dtype = read_dtype(json::integer(json::get(meta, "dtype")));
  for (Element s : json::array(json::get(meta, "sizes"))) t.sizes.push_back(read_size(s));
  std::vector<Expr> strides;
  for (Element s : json::array(json::get(meta, "strides"))) strides.push_back(read_size(s));
  check_sizes(t.sizes, "model.json");
  for (Expr s : strides) check_sizes({s}, "model.json, a stride");
  require_input(strides.size() == t.sizes.size(), "model.json: {} strides for {} sizes", strides.size(), t.sizes.size());
  Expr expect = fx_.pool->integer(1); // strides are kept only where they are not row-major
  bool dense = true;
  for (size_t d = t.sizes.size(); d-- > 0;) {
    dense &= strides[d] == expect || is_const_int(t.sizes[d], 1) || (strides[d]->op == Op::Max || expect->op == Op::Max);
    expect = expect * t.sizes[d];
  }
  if (!dense) t.strides = std::move(strides);
  return t;
}

FxVal GraphReader::val_of_tensor(std::string_view name) const {
  if (tokens_.contains(std::string(name))) return FxVal::one(Type::scalar(TypeKind::None));
  Element recorded = json::get(json::get(scope_, "tensor_values"), name);
  FxVal val = FxVal::one(read_type(recorded));
  if (auto grad = json::find(recorded, "requires_grad")) val.meta.requires_grad = json::boolean(*grad);
  if (auto device = json::find(recorded, "device")) {
    auto index = json::find(*device, "index");
    std::string name_of_device = std::string(json::text(*device, "type")) + (index ? fmt::format(":{}", json::integer(*index)) : "");
    require_input(set_device(val.meta, name_of_device), "model.json: no such device: {}", name_of_device);
  }
  return val;
}

Type GraphReader::type_of_number(std::string_view kind, Element value) const {
  TypeKind t = kind.starts_with("as_sym_int") ? TypeKind::Int : kind.starts_with("as_sym_float") ? TypeKind::Float : TypeKind::Bool;
  auto name = json::find(value, "as_name");
  auto symbol = name ? symbols_.find(std::string(json::text(*name))) : symbols_.end();
  require_input(!name || symbol != symbols_.end(), "model.json: symbol {} is not defined", name ? json::text(*name) : "");
  return Type::scalar(t, name ? symbol->second : to_expr(*fx_.pool, symbol_named(value)));
}

Arg GraphReader::value_named(std::string_view name) const {
  auto it = nodes_.find(std::string(name));
  require_input(it != nodes_.end(), "model.json: value {} is used before it is defined", name);
  return ValueId{it->second};
}

// The node of that name; where there is none, what is recorded under it.
Arg GraphReader::symbol_named(Element value) const {
  auto [kind, v] = json::single(value);
  if (kind == "as_int") return json::integer(v);
  if (kind == "as_float") return read_float(v);
  if (kind == "as_bool") return json::boolean(v);
  require_input(kind == "as_name", "model.json: a symbolic argument of kind {}", kind);
  std::string name(json::text(v));
  if (auto n = nodes_.find(name); n != nodes_.end()) return ValueId{n->second};
  auto it = symbols_.find(name);
  require_input(it != symbols_.end(), "model.json: symbol {} is not defined", name);
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
  if (kind == "as_tensor") return value_named(json::text(value, "name"));
  if (kind == "as_int") return json::integer(value);
  if (kind == "as_float") return read_float(value);
  if (kind == "as_bool") return json::boolean(value);
  if (kind == "as_string") return std::string(json::text(value));
  if (kind == "as_operator") return operator_word(json::text(value));
  if (kind == "as_graph") return read_subgraph(value);
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
  if (kind == "as_custom_obj") return value_named(json::text(value, "name"));
  bad_input("model.json: an argument of kind {}", kind);
}

// A name that no node has.
std::string GraphReader::fresh(std::string name) const {
  std::string unique = name;
  for (int k = 1; nodes_.contains(unique); k++) unique = fmt::format("{}_{}", name, k);
  return unique;
}

// Names are unique; one that the file does not say makes room for one that it does.
uint32_t GraphReader::add(FxNode n, bool is_named) {
  uint32_t at = static_cast<uint32_t>(fx_.nodes.size());
  if (auto other = nodes_.find(n.name); other != nodes_.end()) {
    require_input(unnamed_.erase(other->second) > 0, "model.json: two nodes have this name");
    FxNode& older = fx_.nodes[other->second];
    older.name = fresh(n.name);
    unnamed_.insert(nodes_[older.name] = other->second);
  }
  nodes_[n.name] = at;
  if (!is_named) unnamed_.insert(at);
  fx_.nodes.push_back(std::move(n));
  return at;
}

// Where a file says no name, as of None and of numbers fixed at export, the signature does.
void GraphReader::read_input(Element argument) {
  auto [kind, value] = json::single(argument);
  FxNode n{.name = {}, .kind = FxKind::Placeholder};
  bool is_symbol = kind.starts_with("as_sym_"), is_value = kind == "as_tensor" || kind == "as_custom_obj";
  if (auto name = is_symbol || is_value ? json::find(value, is_value ? "name" : "as_name") : std::nullopt) n.name = json::text(*name);
  bool is_named = !n.name.empty();
  if (!is_named) n.name = fresh(fmt::format("arg{}", fx_.nodes.size()));
  within_node("%" + n.name, nullptr, [&, kind = kind, value = value] {
    if (kind == "as_tensor") n.val = val_of_tensor(n.name);
    else if (is_symbol) n.val = FxVal::one(type_of_number(kind, value));
    else n.val = FxVal::one({.kind = is_value ? TypeKind::Custom : TypeKind::None});
    n.target = n.name;
    add(std::move(n), is_named);
  });
}

Arg GraphReader::read_subgraph(Element value) {
  auto name = json::find(value, "name");
  FxNode n{.name = fresh(name ? std::string(json::text(*name)) : "graph"), .kind = FxKind::GetAttr};
  n.target = n.name, n.val = FxVal{};
  fx_.modules.push_back(GraphReader(fx_.pool, json::get(value, "graph"), fx_.exact_types).read());
  fx_.modules.back().name = n.name;
  return ValueId{add(std::move(n), false)};
}

// What to call a node in an error: by its result, where it has a single one, as graphs do; else by its own name.
std::string GraphReader::name_of(Element node, const FxNode& call) {
  if (auto outputs = json::find(node, "outputs"); outputs && json::array(*outputs).size() == 1) {
    auto [kind, value] = json::single(json::array(*outputs).at(0).value());
    if (kind == "as_tensor") return "%" + std::string(json::text(value, "name"));
  }
  return call.name.empty() ? call.target : "%" + call.name;
}

void GraphReader::read_node(Element node) {
  FxNode call;
  call.target = json::text(node, "target"), call.origin = read_origin(node);
  if (auto name = json::find(node, "name")) call.name = json::text(*name);
  std::shared_ptr<const Origin> origin = call.origin;
  within_node(name_of(node, call), origin.get(), [&] {
    read_call(node, call);
    read_outputs(node, std::move(call));
  });
}

// Older files do not say which arguments are keywords; then those are that the schema makes so or that stand out of order.
bool GraphReader::is_positional(const OpDef* def, const FxNode& call, Element input) const {
  if (!call.kwargs.empty()) return false;
  if (auto kind = json::find(input, "kind")) return json::integer(*kind) != 2;
  if (!def) return !call.target.starts_with("torch.ops.") || call.target.starts_with("torch.ops.higher_order.");
  auto& schema = def->signature.args;
  size_t i = call.args.size();
  if (i >= schema.size() || schema[i].keyword_only) return false;
  int at = def->signature.find(json::text(input, "name"));
  return at < 0 || static_cast<size_t>(at) == i; // in-place forms may have other names
}

void GraphReader::read_call(Element node, FxNode& call) {
  std::string op = operator_name(call.target);
  const OpDef* def = find_op(op);
  if (!def) def = find_op(functional_name(op));
  for (Element input : json::array(json::get(node, "inputs"))) {
    Arg value = read_argument(json::get(input, "arg"));
    if (is_positional(def, call, input)) call.args.push_back(std::move(value));
    else call.kwargs.push_back({std::string(json::text(input, "name")), std::move(value)});
  }
}

// What a result is, and its name where it has one.
std::pair<FxVal, std::string> GraphReader::read_output(const FxNode& call, size_t index, Element output) const {
  auto [kind, value] = json::single(output);
  if (kind == "as_tensor") {
    std::string name(json::text(value, "name"));
    bool token = index == 0 && call.target == "torch.ops.higher_order.with_effects";
    return {token ? FxVal::one(Type::scalar(TypeKind::None)) : val_of_tensor(name), name};
  }
  if (kind == "as_none") return {FxVal::one(Type::scalar(TypeKind::None)), ""};
  if (kind == "as_custom_obj") return {FxVal::one({.kind = TypeKind::Custom}), std::string(json::text(value, "name"))};
  if (!kind.starts_with("as_sym_")) unsupported("a node's output of kind {}", kind);
  auto name = json::find(value, "as_name");
  return {FxVal::one(type_of_number(kind, value)), name ? std::string(json::text(*name)) : ""};
}

// A single result is the node's own; of several, each is taken out by a node of its name, as torch.export.load does it.
void GraphReader::read_outputs(Element node, FxNode call) {
  std::vector<std::pair<FxVal, std::string>> results;
  auto outputs = json::array(json::get(node, "outputs"));
  bool is_list = outputs.size() > 1;
  for (Element out : outputs) {
    auto [kind, value] = json::single(out);
    if (kind == "as_tensors") {
      is_list = true;
      for (Element t : json::array(value)) results.emplace_back(val_of_tensor(json::text(t, "name")), json::text(t, "name"));
    } else results.push_back(read_output(call, results.size(), out));
  }
  auto single = json::find(node, "is_hop_single_tensor_return");
  if (call.target.starts_with("torch.ops.higher_order.") && !(single && json::boolean(*single)) && !results.empty()) is_list = true;
  call.val = FxVal{.is_list = is_list};
  for (auto& [val, name] : results) call.val->types.push_back(val.types[0]);
  bool is_named = !is_list && results.size() == 1 && !results[0].second.empty();
  if (is_named) call.name = results[0].second, call.val->meta = results[0].first.meta;
  else call.name = fresh(call.name.empty() ? call.target.substr(call.target.rfind('.') + 1) : call.name);
  std::shared_ptr<const Origin> origin = call.origin;
  ValueId made{add(std::move(call), is_named)};
  if (!is_list) return;
  for (size_t k = 0; k < results.size(); k++) {
    auto& [val, name] = results[k];
    if (name.empty()) continue;
    FxNode item{.name = name, .val = std::move(val), .target = "operator.getitem"};
    item.args = {Arg(made), Arg(static_cast<int64_t>(k))}, item.origin = origin;
    within_node("%" + name, origin.get(), [&] { add(std::move(item), true); });
  }
}

} // namespace tenon
