// ToGraph: higher-order operators become prim::If, prim::While, prim::Scan; wrappers are inlined.
#include <algorithm>
#include <utility>

#include "fx/to_graph.h"
#include "ir/call.h"
#include "ops/names.h"

namespace tenon {

const FxGraph& ToGraph::module_of(const FxNode& n, size_t i) const {
  require_input(i < n.args.size() && n.args[i].is<ValueId>(), "%{}: argument {} of {} must be a graph", n.name, i, n.target);
  const FxNode& read = node(n.args[i].get<ValueId>().index);
  if (read.kind == FxKind::GetAttr)
    for (const FxGraph& m : fx_.modules)
      if (m.name == read.target) return m;
  bad_input("%{}: argument {} of {} must be a graph", n.name, i, n.target);
}

// Everything from argument `first` on, lists flattened.
ArgList ToGraph::operands(const FxNode& n, size_t first) const {
  ArgList out;
  for (size_t i = first; i < n.args.size() + n.kwargs.size(); i++) {
    Arg a = argument(n, i);
    if (a.is<ArgList>()) out.insert(out.end(), a.get<ArgList>().begin(), a.get<ArgList>().end());
    else out.push_back(std::move(a));
  }
  return out;
}

// The type of what an operand gives to a body: sizes as they are; a number is a symbol, since it may be another the next time.
Type ToGraph::carried_type(const Arg& a) const {
  if (a.is<ValueId>() && graph_.type(a.get<ValueId>()).is_tensor())
    return Type::tensor(graph_.type(a.get<ValueId>()).dtype, graph_.type(a.get<ValueId>()).sizes);
  Expr number = to_expr(graph_.pool(), a.is<ValueId>() ? Arg(graph_.type(a.get<ValueId>()).value) : a);
  if (number->type == DType::Bool) return Type::scalar(TypeKind::Bool, ne(fresh(DType::I64), graph_.pool().integer(0)));
  return Type::scalar(is_float(number->type) ? TypeKind::Float : TypeKind::Int, fresh(number->type));
}
Expr ToGraph::fresh(DType type) const {
  return graph_.pool().symbol(graph_.pool().fresh_symbol(is_float(type) ? "zuf" : "u"), is_float(type) ? DType::F64 : DType::I64);
}

// What either of two branches gives: sizes that differ are symbols.
Type ToGraph::joined_type(const Arg& a, const Arg& b) const {
  if (a.is_none() && b.is_none()) return Type::scalar(TypeKind::None);
  Type type = carried_type(a), other = carried_type(b);
  require_input(type.kind == other.kind && type.dtype == other.dtype && type.rank() == other.rank(),
                "the branches of a cond give {} and {}", to_string(type), to_string(other));
  for (size_t d = 0; d < type.rank(); d++)
    if (type.sizes[d] != other.sizes[d]) type.sizes[d] = graph_.pool().symbol(graph_.pool().fresh_symbol("u"), DType::I64, 0);
  return type;
}

// Results of a node of which nothing is recorded.
void ToGraph::add_results(NodeId id, uint32_t at, const std::vector<Type>& types) {
  ArgList results;
  for (const Type& t : types) results.push_back(graph_.add_output(id, t));
  results_[at] = std::move(results);
}

// The body's first placeholders become parameters of the block, of the types given where none is recorded; the others are bound to
// `rest`.
void ToGraph::add_body(BlockId block, const FxGraph& body, const std::vector<Type>& params, const ArgList& rest) {
  ToGraph inner(*this, body);
  inner.autocast_ = autocast_;
  Nodes inputs = inner.placeholders();
  require_input(inputs.size() == params.size() + rest.size(), "a subgraph has {} inputs, {} are given", inputs.size(),
                params.size() + rest.size());
  for (size_t i = 0; i < params.size(); i++) inner.add_param(block, inputs[i], &params[i]);
  for (size_t i = 0; i < rest.size(); i++) inner.bind(inputs[params.size() + i], rest[i]);
  inner.add_nodes(block);
  graph_.block(block).returns = inner.results();
}

// A node with blocks: of recorded results, or, to begin with, without any.
NodeId ToGraph::append_control(BlockId block, OpId op, ArgList args, uint32_t at) {
  Node made{.op = op, .def = find_op(op), .args = std::move(args)};
  if (node(at).val) return append(block, std::move(made), at);
  made.origin = node(at).origin;
  return graph_.append(block, std::move(made), {});
}

void ToGraph::add_if(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  NodeId id = append_control(block, prim::If, {argument(n, 0)}, at);
  ArgList rest = operands(n, 3);
  for (size_t k : {1, 2}) add_body(graph_.add_block(id), module_of(n, k), {}, rest);
  const ArgList& returns = graph_.block(graph_.node(id).blocks[0]).returns;
  const ArgList& others = graph_.block(graph_.node(id).blocks[1]).returns;
  if (!n.val) {
    require_input(returns.size() == others.size(), "%{}: branches give {} and {} results", n.name, returns.size(), others.size());
    std::vector<Type> types;
    for (size_t i = 0; i < returns.size(); i++) types.push_back(joined_type(returns[i], others[i]));
    return add_results(id, at, types);
  }
  const std::vector<ValueId>& outputs = graph_.node(id).outputs;
  for (size_t i = 0; i < std::min(outputs.size(), returns.size()); i++)
    if (returns[i].is<ValueId>()) correct_type(graph_.value(outputs[i]).type, graph_.type(returns[i].get<ValueId>()));
}

std::vector<Type> ToGraph::carried_types(const ArgList& carried) const {
  std::vector<Type> types;
  for (const Arg& a : carried) types.push_back(carried_type(a));
  return types;
}

void ToGraph::add_while(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  Arg carried = argument(n, 2);
  require_input(carried.is<ArgList>(), "while_loop: carried inputs must be a list");
  ArgList rest = operands(n, 3);
  NodeId id = append_control(block, prim::While, {carried}, at);
  for (size_t k : {0, 1}) add_body(graph_.add_block(id), module_of(n, k), carried_types(carried.get<ArgList>()), rest);
  if (!n.val) add_results(id, at, carried_types(carried.get<ArgList>()));
}

// scan(combine, init, xs, extra) and map_impl(body, xs, extra).
void ToGraph::add_scan(BlockId block, uint32_t at, bool map) {
  const FxNode& n = node(at);
  Arg carried = map ? Arg(ArgList{}) : argument(n, 1);
  Arg xs = argument(n, map ? 1 : 2);
  require_input(carried.is<ArgList>() && xs.is<ArgList>(), "scan: inputs must be lists");
  require_input(!xs.get<ArgList>().empty(), "scan: there is nothing to run over");
  std::vector<Type> params = carried_types(carried.get<ArgList>()), results = params;
  Expr length;
  for (const Arg& x : xs.get<ArgList>()) {
    Type slice = carried_type(x);
    require_input(slice.is_tensor() && slice.rank() > 0, "scan: it runs over tensors of rank 1 and more");
    length = slice.sizes[0];
    slice.sizes.erase(slice.sizes.begin());
    params.push_back(std::move(slice));
  }
  ArgList rest = operands(n, map ? 2 : 3);
  NodeId id = append_control(block, prim::Scan, {carried, xs, false, false}, at);
  add_body(graph_.add_block(id), module_of(n, 0), params, rest);
  if (n.val) return;
  const ArgList& returns = graph_.block(graph_.node(id).blocks[0]).returns;
  for (size_t i = results.size(); i < returns.size(); i++) {
    results.push_back(carried_type(returns[i]));
    require_input(results.back().is_tensor(), "%{}: a scan stacks tensors only", n.name);
    results.back().sizes.insert(results.back().sizes.begin(), length);
  }
  add_results(id, at, results);
}

// The wrapped graph's nodes stand in place of the wrapper.
void ToGraph::add_wrapped(BlockId block, uint32_t at, size_t graph_at, std::optional<DType> autocast) {
  const FxNode& n = node(at);
  ToGraph inner(*this, module_of(n, graph_at));
  inner.autocast_ = autocast;
  ArgList args = operands(n, graph_at + 1);
  Nodes inputs = inner.placeholders();
  require_input(args.size() <= inputs.size(), "a subgraph has {} inputs, {} are given", inputs.size(), args.size());
  for (size_t i = 0; i < args.size(); i++) inner.bind(inputs[i], args[i]);
  inner.add_nodes(block);
  results_[at] = inner.results();
  require_input(!n.val || results_[at]->size() >= n.val->types.size(), "%{}: a wrapped graph returns too little", n.name);
}

// with_effects(token, operator, arguments...) -> (token, results...): nodes run in order anyway.
void ToGraph::add_effects(BlockId block, uint32_t at) {
  const FxNode& n = node(at);
  Arg op = argument(n, 1);
  require_input(op.is<Word>() || op.is<std::string>(), "%{}: with_effects of something that is no operator", n.name);
  // A text says "aten._print.default" or, of a higher-order one, "print".
  std::string given = op.is<Word>() ? op.get<Word>().text : op.get<std::string>();
  if (op.is<std::string>()) given = (given.find('.') == given.npos ? "ops.higher_order." : "ops.") + given;
  std::string name = operator_name("torch." + given);
  if (name == "higher_order::print") {
    add_print(block, at, 2);
    results_[at] = ArgList{Arg(), Arg()}; // the token, and None
  } else add_call(block, at, name, 2, 1);
}

// print(format, arguments...): Python's format string with {} and {name}, cut at its arguments.
void ToGraph::add_print(BlockId block, uint32_t at, size_t first) {
  const FxNode& n = node(at);
  size_t count = n.args.size() + n.kwargs.size();
  Arg given = first < count ? argument(n, first) : Arg();
  require_input(given.is<std::string>(), "%{}: print without a text", n.name);
  const std::string& format = given.get<std::string>();
  ArgList parts;
  std::string text;
  size_t next = first + 1;
  for (size_t i = 0; i < format.size(); i++) {
    char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) i++;
    else if (c == '{') {
      size_t end = format.find('}', i);
      require_input(end != format.npos, "print: '{{' without '}}' in {}", format);
      std::string name = format.substr(i + 1, format.find(':', i) < end ? format.find(':', i) - i - 1 : end - i - 1);
      auto named = std::find_if(n.kwargs.begin(), n.kwargs.end(), [&](auto& k) { return !name.empty() && k.name == name; });
      size_t from = named != n.kwargs.end() ? n.args.size() + static_cast<size_t>(named - n.kwargs.begin()) : next++;
      require_input(from < count, "print: too few arguments for {}", format);
      if (!text.empty()) parts.push_back(std::exchange(text, {}));
      parts.push_back(argument(n, from));
      i = end;
      continue;
    }
    text += c;
  }
  parts.push_back(text + "\n");
  graph_.append(block, Node{.op = prim::Print, .def = find_op(prim::Print), .args = {Arg(parts)}, .origin = n.origin}, {});
  results_[at] = ArgList{Arg()};
}

bool ToGraph::add_control_flow(BlockId block, uint32_t at, const std::string& op) {
  if (op == "higher_order::cond") return add_if(block, at), true;
  if (op == "higher_order::while_loop") return add_while(block, at), true;
  if (op == "higher_order::scan") return add_scan(block, at, false), true;
  if (op == "higher_order::map_impl") return add_scan(block, at, true), true;
  if (op == "higher_order::with_effects") return add_effects(block, at), true;
  if (op == "higher_order::print") return add_print(block, at, 0), true;
  if (op == "higher_order::wrap_with_set_grad_enabled") return add_wrapped(block, at, 1, autocast_), true;
  if (op == "higher_order::wrap_with_autocast") {
    const FxNode& n = node(at);
    Arg device = argument(n, 0), dtype = argument(n, 1);
    std::optional<DType> autocast = autocast_;
    if (device == Arg("cpu")) autocast = dtype.is<DType>() ? dtype.get<DType>() : DType::BF16;
    if (device == Arg("cpu") && argument(n, 2) == Arg(false)) autocast = std::nullopt;
    return add_wrapped(block, at, 4, autocast), true;
  }
  return false;
}

} // namespace tenon
