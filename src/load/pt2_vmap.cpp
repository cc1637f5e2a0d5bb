// GraphReader: torch.vmap as torch.export records it. Between _vmap_increment_nesting and _vmap_decrement_nesting the nodes
// compute one example; _add_batch_dim takes it out of a batch, _remove_batch_dim puts it into one:
//   increment(n); a = add_batch_dim(x, 1); y = sin(a); z = remove_batch_dim(y, n, 0); decrement()
// becomes a prim::Scan over the batch whose body is those nodes.
#include "ir/builder.h"
#include "load/pt2_graph.h"

namespace tenon {

using json::Element;

namespace {

constexpr std::string_view prefix = "torch._functorch.predispatch.";

bool is_call(Element node, std::string_view name) {
  std::string_view target = json::text(node, "target");
  return target.starts_with(prefix) && target.substr(prefix.size()) == name;
}

Element argument(Element node, size_t i) {
  auto inputs = json::array(json::get(node, "inputs"));
  require_input(i < inputs.size(), "model.json: {} has {} arguments", json::text(node, "target"), inputs.size());
  return json::get(inputs.at(i).value(), "arg");
}

std::string output_name(Element node) {
  return std::string(json::text(json::get(json::get(json::array(json::get(node, "outputs")).at(0).value(), "as_tensor"), "name")));
}

} // namespace

// The node that ends the region which nodes[begin] starts.
size_t GraphReader::end_of_vmap(std::span<const Element> nodes, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < nodes.size(); i++) {
    depth += is_call(nodes[i], "_vmap_increment_nesting");
    if (is_call(nodes[i], "_vmap_decrement_nesting") && --depth == 0) return i;
  }
  bad_input("model.json: a vmap without an end");
}

void GraphReader::read_range(BlockId block, std::span<const Element> nodes) {
  for (size_t i = 0; i < nodes.size(); i++) {
    if (!is_call(nodes[i], "_vmap_increment_nesting")) {
      read_node(block, nodes[i]);
      continue;
    }
    size_t end = end_of_vmap(nodes, i);
    read_vmap(block, nodes[i], nodes.subspan(i + 1, end - i - 1));
    i = end;
  }
}

void GraphReader::read_vmap(BlockId block, Element start, std::span<const Element> nodes) {
  Arg size = read_argument(argument(start, 0));
  std::vector<Element> batched, body, results;
  int depth = 0;
  for (Element n : nodes) {
    depth += is_call(n, "_vmap_increment_nesting");
    bool mine = depth == 0;
    (mine && is_call(n, "_add_batch_dim") ? batched : mine && is_call(n, "_remove_batch_dim") ? results : body).push_back(n);
    depth -= is_call(n, "_vmap_decrement_nesting");
  }
  Builder b(graph_, block, false);
  ArgList xs;
  for (Element n : batched) {
    Arg x = read_argument(argument(n, 0)), dim = read_argument(argument(n, 1));
    xs.push_back(dim == Arg(0) ? x : Arg(b.call1("aten::movedim.int", {x, dim, 0})));
  }
  std::vector<Type> types;
  for (Element n : results) {
    Element y = json::get(json::get(argument(n, 0), "as_tensor"), "name");
    Type t = read_type(json::get(json::get(scope_, "tensor_values"), json::text(y)));
    t.sizes.insert(t.sizes.begin(), to_expr(graph_.pool(), size));
    t.strides.clear();
    types.push_back(std::move(t));
  }
  NodeId scan = graph_.append(block, Node{.op = "prim::Scan", .def = find_op("prim::Scan"), .args = {ArgList{}, xs, Arg(false)}}, types);
  BlockId inner = graph_.add_block(scan);
  for (Element n : batched) add_tensor_param(inner, output_name(n));
  read_range(inner, body);
  for (Element n : results) graph_.block(inner).returns.push_back(read_argument(argument(n, 0)));
  for (size_t i = 0; i < results.size(); i++) {
    Arg y = graph_.node(scan).outputs[i], dim = read_argument(argument(results[i], 3));
    values_[output_name(results[i])] = dim == Arg(0) ? y : Arg(b.call1("aten::movedim.int", {y, 0, dim}));
  }
}

} // namespace tenon
