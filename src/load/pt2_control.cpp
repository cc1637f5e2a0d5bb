// GraphReader: higher-order operators become prim::If, prim::While, prim::Scan; wrappers are inlined.
#include <algorithm>
#include <utility>

#include "load/pt2_graph.h"

#include "ir/op.h"

namespace tenon {

using json::Element;

namespace {

Element argument(Element node, size_t at) {
  auto inputs = json::array(json::get(node, "inputs"));
  require_input(at < inputs.size(), "model.json: {} has {} arguments", json::text(node, "target"), inputs.size());
  return json::get(inputs.at(at).value(), "arg");
}

} // namespace

Element GraphReader::graph_argument(Element node, size_t at) { return json::get(json::get(argument(node, at), "as_graph"), "graph"); }

// Everything from argument `first` on, lists flattened.
ArgList GraphReader::operands(Element node, size_t first) {
  ArgList out;
  size_t count = json::array(json::get(node, "inputs")).size();
  for (size_t i = first; i < count; i++) {
    Arg a = read_argument(argument(node, i));
    if (a.is<ArgList>()) out.insert(out.end(), a.get<ArgList>().begin(), a.get<ArgList>().end());
    else out.push_back(std::move(a));
  }
  return out;
}

// The subgraph's first `params` inputs become parameters of the block, the others are bound to `rest`.
void GraphReader::read_body(BlockId block, Element scope, size_t params, const ArgList& rest) {
  GraphReader body(graph_, scope, exact_);
  body.autocast_ = autocast_;
  auto inputs = json::array(json::get(scope, "inputs"));
  require_input(inputs.size() == params + rest.size(), "model.json: a subgraph has {} inputs, {} are given", inputs.size(),
                params + rest.size());
  for (size_t i = 0; i < params; i++) body.add_param(block, inputs.at(i).value());
  for (size_t i = 0; i < rest.size(); i++) body.bind_input(params + i, rest[i]);
  body.read_nodes(block);
  graph_.block(block).returns = body.read_outputs();
}

void GraphReader::read_if(BlockId block, Element node) {
  Arg condition = read_argument(argument(node, 0));
  NodeId id = append(block, Node{.op = "prim::If", .def = find_op("prim::If"), .args = {condition}}, node);
  ArgList rest = operands(node, 3);
  for (size_t k : {1, 2}) read_body(graph_.add_block(id), graph_argument(node, k), 0, rest);
  const ArgList& returns = graph_.block(graph_.node(id).blocks[0]).returns;
  const std::vector<ValueId>& outputs = graph_.node(id).outputs;
  for (size_t i = 0; i < std::min(outputs.size(), returns.size()); i++)
    if (returns[i].is<ValueId>()) correct_type(graph_.value(outputs[i]).type, graph_.type(returns[i].get<ValueId>()));
}

void GraphReader::read_while(BlockId block, Element node) {
  Arg carried = read_argument(argument(node, 2));
  require_input(carried.is<ArgList>(), "while_loop: carried inputs must be a list");
  size_t count = carried.get<ArgList>().size();
  ArgList rest = operands(node, 3);
  NodeId id = append(block, Node{.op = "prim::While", .def = find_op("prim::While"), .args = {carried}}, node);
  for (size_t k : {0, 1}) read_body(graph_.add_block(id), graph_argument(node, k), count, rest);
}

// scan(combine, init, xs, extra) and map_impl(body, xs, extra).
void GraphReader::read_scan(BlockId block, Element node, bool map) {
  Arg carried = map ? Arg(ArgList{}) : read_argument(argument(node, 1));
  Arg xs = read_argument(argument(node, map ? 1 : 2));
  require_input(carried.is<ArgList>() && xs.is<ArgList>(), "scan: inputs must be lists");
  require_input(!xs.get<ArgList>().empty(), "scan: there is nothing to run over");
  size_t count = carried.get<ArgList>().size() + xs.get<ArgList>().size();
  ArgList rest = operands(node, map ? 2 : 3);
  NodeId id = append(block, Node{.op = "prim::Scan", .def = find_op("prim::Scan"), .args = {carried, xs, Arg(false)}}, node);
  read_body(graph_.add_block(id), graph_argument(node, 0), count, rest);
}

// The wrapped graph's nodes stand in place of the wrapper.
void GraphReader::read_wrapped(BlockId block, Element node, size_t graph_at, std::optional<DType> autocast) {
  Element scope = graph_argument(node, graph_at);
  GraphReader body(graph_, scope, exact_);
  body.autocast_ = autocast;
  ArgList args = operands(node, graph_at + 1);
  for (size_t i = 0; i < args.size(); i++) body.bind_input(i, args[i]);
  body.read_nodes(block);
  ArgList results = body.read_outputs();
  size_t next = 0;
  auto bind = [&](std::string_view name) {
    require_input(next < results.size(), "model.json: a wrapped graph returns too little");
    values_[std::string(name)] = results[next++];
  };
  for (Element out : json::array(json::get(node, "outputs"))) {
    auto [kind, value] = json::single(out);
    if (kind == "as_tensor") bind(json::text(value, "name"));
    else if (kind == "as_tensors")
      for (Element t : json::array(value)) bind(json::text(t, "name"));
    else next++;
  }
}

// with_effects(token, operator, arguments...) -> (token, results...): nodes run in order anyway.
void GraphReader::read_effects(BlockId block, Element node) {
  Arg op = read_argument(argument(node, 1));
  require_input(op.is<std::string>(), "model.json: with_effects of something that is no operator");
  Element token = json::array(json::get(node, "outputs")).at(0).value();
  add_token(json::text(json::get(json::get(token, "as_tensor"), "name")));
  std::string name = operator_name(op.get<std::string>());
  if (name == "higher_order::print") return read_print(block, named_args(node, 2), node);
  append_call(block, name, named_args(node, 2), node, 1);
}

// print(format, arguments...): Python's format string with {} and {name}, cut at its arguments.
void GraphReader::read_print(BlockId block, const std::vector<NamedArg>& args, Element node) {
  require_input(!args.empty() && args[0].value.is<std::string>(), "model.json: print without a text");
  const std::string& format = args[0].value.get<std::string>();
  ArgList parts;
  std::string text;
  size_t next = 1;
  for (size_t i = 0; i < format.size(); i++) {
    char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) i++;
    else if (c == '{') {
      size_t end = format.find('}', i);
      require_input(end != format.npos, "print: '{{' without '}}' in {}", format);
      std::string name = format.substr(i + 1, format.find(':', i) < end ? format.find(':', i) - i - 1 : end - i - 1);
      auto named = std::find_if(args.begin() + 1, args.end(), [&](auto& a) { return !name.empty() && a.name == name; });
      size_t at = named != args.end() ? static_cast<size_t>(named - args.begin()) : next++;
      require_input(at < args.size(), "print: too few arguments for {}", format);
      if (!text.empty()) parts.push_back(std::exchange(text, {}));
      parts.push_back(args[at].value);
      i = end;
      continue;
    }
    text += c;
  }
  parts.push_back(text + "\n");
  graph_.append(block, Node{.op = "prim::Print", .def = find_op("prim::Print"), .args = {Arg(parts)}, .origin = read_origin(node)}, {});
}

bool GraphReader::read_control_flow(BlockId block, Element node, const std::string& op) {
  if (op == "higher_order::cond") return read_if(block, node), true;
  if (op == "higher_order::while_loop") return read_while(block, node), true;
  if (op == "higher_order::scan") return read_scan(block, node, false), true;
  if (op == "higher_order::map_impl") return read_scan(block, node, true), true;
  if (op == "higher_order::with_effects") return read_effects(block, node), true;
  if (op == "higher_order::print") return read_print(block, named_args(node, 0), node), true;
  if (op == "higher_order::wrap_with_set_grad_enabled") return read_wrapped(block, node, 1, autocast_), true;
  if (op == "higher_order::wrap_with_autocast") {
    Arg device = read_argument(argument(node, 0)), dtype = read_argument(argument(node, 1));
    std::optional<DType> autocast = autocast_;
    if (device == Arg("cpu")) autocast = dtype.is<DType>() ? dtype.get<DType>() : DType::BF16;
    if (device == Arg("cpu") && read_argument(argument(node, 2)) == Arg(false)) autocast = std::nullopt;
    return read_wrapped(block, node, 4, autocast), true;
  }
  return false;
}

} // namespace tenon
