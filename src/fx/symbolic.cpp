// ToGraph: nodes that compute sizes are expressions; checks become prim::Assert, reads of a tensor's value prim::Item.
#include <algorithm>
#include <set>

#include "fx/sympy.h"
#include "fx/to_graph.h"
#include "ir/call.h"
#include "ops/names.h"

namespace tenon {

namespace {

// Operators that give no tensor and no number: what torch computed from them is in the graph already.
bool is_pure_of_constants(std::string_view op) {
  static const std::string_view names[] = {aten::promote_types,
                                           aten::result_type_Tensor,
                                           aten::result_type_Scalar,
                                           aten::result_type_Scalar_Tensor,
                                           aten::result_type_Scalar_Scalar,
                                           aten::can_cast,
                                           "torch._functorch.predispatch.lazy_load_decompositions",
                                           "torch._functorch.predispatch._jvp_increment_nesting",
                                           "torch._functorch.predispatch._jvp_decrement_nesting",
                                           "torch._functorch.predispatch._enter_dual_level",
                                           "torch._functorch.predispatch._exit_dual_level"};
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

bool is_item(std::string_view op) { return op == aten::item || op == aten::_local_scalar_dense; }

bool is_size(std::string_view op) {
  return op == aten::sym_size_int || op == aten::sym_stride_int || op == aten::sym_numel || op == aten::sym_storage_offset;
}

// What torch recorded of the number that the node gives is taken; which function it is says nothing else.
bool gives_number(std::string_view op) { return is_item(op) || is_python_function(op) || is_size(op); }

Node prim_node(OpId name, ArgList args, std::shared_ptr<const Origin> origin = {}) {
  return Node{.op = name, .def = find_op(name), .args = std::move(args), .origin = std::move(origin)};
}

// Of a boolean read from a tensor, which is recorded as u0 == 1, the symbol u0; other expressions as they are.
Expr item_symbol(Expr e) {
  if (e->op != Op::Eq) return e;
  if (e->args[0]->op == Op::Symbol) return e->args[0];
  return e->args[1]->op == Op::Symbol ? e->args[1] : e;
}

} // namespace

// Recorded where the program converts: of a dtype that it has not, the conversion was left out of what follows.
void ToGraph::check_dtype(uint32_t at) const {
  const FxNode& n = node(at);
  Arg x = n.args.empty() ? Arg() : argument(n, 0);
  for (const Attribute& k : n.kwargs) {
    if (k.name != "dtype" || !k.value.is<DType>() || !x.is<ValueId>()) continue;
    DType is = graph_.type(x.get<ValueId>()).dtype;
    require_input(is == k.value.get<DType>(), "%{}: the program was exported for {}, autocast makes it {}: export it with strict=False",
                  node(n.args[0].get<ValueId>().index).name, name_of(k.value.get<DType>()), name_of(is));
  }
}

bool ToGraph::add_symbolic(BlockId block, uint32_t at, const std::string& op) {
  const FxNode& n = node(at);
  if (op == aten::_assert_tensor_metadata) return check_dtype(at), true;
  if (op == aten::sym_constrain_range || op == aten::sym_constrain_range_for_size || is_pure_of_constants(op)) return true;
  if (add_check(block, at, op)) return true;
  if (op == "torch._functorch.predispatch._unwrap_for_grad") return results_[at] = {argument(n, 0)}, true;
  if (n.val) {
    bool number = !n.val->is_list && n.val->types.size() == 1 && n.val->types[0].value;
    if (!number) return false;
    if (const OpDef* def = find_op(op); def && def->data_dependent) return add_call(block, at, op, 0, 0), bind(at, {}), true; // of the user
    if (!gives_number(op)) unsupported("no such function of numbers: {}", n.target);
    results_[at] = {Arg(n.val->types[0].value)};
    if (is_item(op)) add_item(block, at);
    return true;
  }
  if (is_item(op)) return read_item(block, at), true;
  std::optional<Expr> value = size_of(n, op);
  if (!value) value = computed(n, {});
  if (!value) return false;
  results_[at] = {Arg(*value)};
  return true;
}

// What a text does not say: the number that a node reads from a tensor is a symbol of its own.
void ToGraph::read_item(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  Arg tensor = argument(n, 0);
  require_input(tensor.is<ValueId>() && graph_.type(tensor.get<ValueId>()).is_tensor(), "%{} reads something that is no tensor", n.name);
  DType dtype = graph_.type(tensor.get<ValueId>()).dtype;
  bool real = is_float(dtype);
  Expr symbol = graph_.pool().symbol(graph_.pool().fresh_symbol(real ? "zuf" : "u"), real ? DType::F64 : DType::I64);
  graph_.append(block, prim_node(prim::Item, {tensor}, n.origin), {Type::scalar(real ? TypeKind::Float : TypeKind::Int, symbol)});
  if (!real) items_[symbol->name] = at;
  results_[at] = {Arg(dtype == DType::Bool ? eq(symbol, graph_.pool().integer(1)) : symbol)};
}

// Sizes and strides of tensors, where they are not recorded.
std::optional<Expr> ToGraph::size_of(const FxNode& n, const std::string& op) const {
  if (!is_size(op)) return std::nullopt;
  Arg tensor = argument(n, 0);
  require_input(tensor.is<ValueId>() && graph_.type(tensor.get<ValueId>()).is_tensor(), "%{}: {} of something that is no tensor", n.name,
                op);
  const Type& type = graph_.type(tensor.get<ValueId>());
  if (op == aten::sym_numel) return product(graph_.pool(), type.sizes);
  if (op == aten::sym_storage_offset) return graph_.pool().integer(0);
  Arg dim = argument(n, 1);
  require_input(dim.is<int64_t>(), "%{}: {} of a dim that is no number", n.name, op);
  size_t d = static_cast<size_t>(wrap_dim(dim.get<int64_t>(), type.rank(), op));
  if (op == aten::sym_size_int) return type.sizes[d];
  return type.strides.empty() ? product(graph_.pool(), std::span(type.sizes).subspan(d + 1)) : type.strides[d];
}

bool ToGraph::add_check(BlockId block, uint32_t at, const std::string& op) {
  const FxNode& n = node(at);
  if (op == aten::_assert_scalar) {
    Arg condition = argument(n, 0);
    if (condition.is<Expr>() && is_const_int(condition.get<Expr>(), 1)) condition = true;
    if (condition == Arg(true)) condition = unproved(block, n.args.empty() ? Arg() : n.args[0]);
    if (condition != Arg(true)) graph_.append(block, prim_node(prim::Assert, {condition, argument(n, 1)}, n.origin), {});
    return true;
  }
  if (op != aten::_assert_async && op != aten::_assert_async_msg) return false;
  Arg tensor = argument(n, 0);
  require_input(tensor.is<ValueId>() && graph_.type(tensor.get<ValueId>()).is_tensor(), "{} of something that is no tensor", op);
  bool real = is_float(graph_.type(tensor.get<ValueId>()).dtype);
  Expr value = graph_.pool().symbol(graph_.pool().fresh_symbol("asserted"), real ? DType::F64 : DType::I64);
  graph_.append(block, prim_node(prim::Item, {tensor}, n.origin), {Type::scalar(real ? TypeKind::Float : TypeKind::Int, value)});
  Arg message = op == aten::_assert_async_msg ? argument(n, 1) : Arg("the asserted tensor is zero");
  graph_.append(block, prim_node(prim::Assert, {ne(value, constant_like(0, value)), message}, n.origin), {});
  return true;
}

void ToGraph::add_item(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  const Type& type = n.val->types[0];
  Expr symbol = item_symbol(type.value);
  if (symbol->is_const()) return;
  TypeKind kind = symbol == type.value ? type.kind : TypeKind::Int;
  graph_.append(block, prim_node(prim::Item, {argument(n, 0)}, n.origin), {Type::scalar(kind, symbol)});
  if (symbol->op == Op::Symbol && !is_float(symbol->type)) items_[symbol->name] = at;
}

// What a node computes from sizes; `items`: numbers in the place of nodes that read them from tensors. None where it is no such node.
std::optional<Expr> ToGraph::computed(const FxNode& n, const std::map<uint32_t, Expr>& items) const {
  std::vector<Expr> args;
  auto number = [&](const Arg& a) -> std::optional<Expr> {
    if (a.is<int64_t>() || a.is<bool>() || a.is<double>() || a.is<Expr>()) return to_expr(graph_.pool(), a);
    if (!a.is<ValueId>()) return std::nullopt;
    uint32_t from = a.get<ValueId>().index;
    if (auto item = items.find(from); item != items.end()) return item->second;
    if (!results_[from] || results_[from]->size() != 1) return std::nullopt;
    const Arg& known = (*results_[from])[0];
    bool is_number = known.is<int64_t>() || known.is<bool>() || known.is<double>() || known.is<Expr>();
    return is_number ? std::optional(to_expr(graph_.pool(), known)) : std::nullopt;
  };
  if (n.kind != FxKind::CallFunction) return std::nullopt;
  bool sum = n.target == "torch.sym_sum" && n.args.size() == 1 && n.args[0].is<ArgList>();
  for (const Arg& a : sum ? fx_elements(n.args[0].get<ArgList>()) : std::span<const Arg>(n.args)) {
    auto e = number(a);
    if (!e) return std::nullopt;
    args.push_back(*e);
  }
  for (const Attribute& k : n.kwargs) {
    auto e = number(k.value);
    if (!e) return std::nullopt;
    args.push_back(*e);
  }
  return python_function(n.target, std::move(args));
}

// The symbol that the node reads from a tensor; null where it does not.
const std::string* ToGraph::reads_item(uint32_t at) const {
  for (auto& [symbol, by] : items_)
    if (by == at) return &symbol;
  return nullptr;
}

// The ranges of numbers read from data are what the program's asserts ensure, so these seem to hold always. Here their condition
// is over the numbers as they are, read once more, without a range. `condition` is an argument as the FX graph has it.
Arg ToGraph::unproved(BlockId block, const Arg& condition) {
  if (!condition.is<ValueId>()) return true;
  std::set<uint32_t> sources; // the numbers that the condition is computed from
  std::vector<uint32_t> open{condition.get<ValueId>().index};
  while (!open.empty()) {
    uint32_t at = open.back();
    open.pop_back();
    bool is_number = results_[at] && results_[at]->size() == 1 && !(*results_[at])[0].is<ValueId>();
    if (!is_number || !sources.insert(at).second || reads_item(at)) continue;
    for (const Arg& a : node(at).args) for_each_value(a, [&](ValueId v) { open.push_back(v.index); });
  }
  std::map<uint32_t, Expr> again;
  for (uint32_t at : sources) {
    const FxNode& n = node(at);
    if (const std::string* symbol = reads_item(at)) {
      Expr read = graph_.pool().symbol(graph_.pool().fresh_symbol(*symbol + "_read"));
      graph_.append(block, prim_node(prim::Item, {argument(n, 0)}, n.origin), {Type::scalar(TypeKind::Int, read)});
      const Expr& was = (*results_[at])[0].get<Expr>();
      bool is_bool = was->op == Op::Eq;
      again[at] = is_bool ? eq(read, graph_.pool().integer(1)) : read;
    } else if (!again.empty()) {
      if (auto value = computed(n, again)) again[at] = *value;
    }
  }
  auto value = again.find(condition.get<ValueId>().index);
  return value != again.end() ? Arg(value->second) : Arg(true);
}

} // namespace tenon
