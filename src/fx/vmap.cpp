// ToGraph: torch.vmap as torch.export records it. Between _vmap_increment_nesting and _vmap_decrement_nesting the nodes
// compute one example; _add_batch_dim takes it out of a batch, _remove_batch_dim puts it into one:
//   increment(n); a = add_batch_dim(x, 1); y = sin(a); z = remove_batch_dim(y, n, 0); decrement()
// becomes a prim::Scan over the batch whose body is those nodes.
#include "fx/to_graph.h"
#include "ir/builder.h"

namespace tenon {

bool ToGraph::is_vmap_call(uint32_t at, std::string_view name) const {
  constexpr std::string_view prefix = "torch._functorch.predispatch.";
  std::string_view target = node(at).target;
  return target.starts_with(prefix) && target.substr(prefix.size()) == name;
}

// The node that ends the region which nodes[begin] starts.
size_t ToGraph::end_of_vmap(std::span<const uint32_t> nodes, size_t begin) const {
  int depth = 0;
  for (size_t i = begin; i < nodes.size(); i++) {
    depth += is_vmap_call(nodes[i], "_vmap_increment_nesting");
    if (is_vmap_call(nodes[i], "_vmap_decrement_nesting") && --depth == 0) return i;
  }
  bad_input("%{}: a vmap without an end", node(nodes[begin]).name);
}

void ToGraph::add_range(BlockId block, std::span<const uint32_t> nodes) {
  for (size_t i = 0; i < nodes.size(); i++) {
    if (!is_vmap_call(nodes[i], "_vmap_increment_nesting")) {
      add_node(block, nodes[i]);
      continue;
    }
    size_t end = end_of_vmap(nodes, i);
    add_vmap(block, nodes[i], nodes.subspan(i + 1, end - i - 1));
    i = end;
  }
}

void ToGraph::add_vmap(BlockId block, uint32_t start, std::span<const uint32_t> nodes) {
  Arg size = argument(node(start), 0);
  Nodes batched, body, results;
  int depth = 0;
  for (uint32_t n : nodes) {
    depth += is_vmap_call(n, "_vmap_increment_nesting");
    bool mine = depth == 0;
    (mine && is_vmap_call(n, "_add_batch_dim") ? batched : mine && is_vmap_call(n, "_remove_batch_dim") ? results : body).push_back(n);
    depth -= is_vmap_call(n, "_vmap_decrement_nesting");
  }
  Builder b(graph_, block, false);
  ArgList xs;
  for (uint32_t n : batched) {
    Arg x = argument(node(n), 0), dim = argument(node(n), 1);
    xs.push_back(dim == Arg(0) ? x : Arg(b.call1("aten::movedim.int", {x, dim, 0})));
  }
  std::vector<Type> types;
  for (uint32_t n : results) {
    require_input(!node(n).args.empty() && node(n).args[0].is<ValueId>(), "%{}: no result of a vmap", node(n).name);
    const FxNode& y = node(node(n).args[0].get<ValueId>().index);
    require_input(y.val && y.val->types.size() == 1, "%{}: a result of a vmap needs a type", y.name);
    Type t = y.val->types[0];
    t.sizes.insert(t.sizes.begin(), to_expr(graph_.pool(), size));
    t.strides.clear();
    types.push_back(std::move(t));
  }
  NodeId scan = graph_.append(block, Node{.op = "prim::Scan", .def = find_op("prim::Scan"), .args = {ArgList{}, xs, Arg(false)}}, types);
  BlockId inner = graph_.add_block(scan);
  for (uint32_t n : batched) add_param(inner, n);
  add_range(inner, body);
  for (uint32_t n : results) graph_.block(inner).returns.push_back(argument(node(n), 0));
  for (size_t i = 0; i < results.size(); i++) {
    Arg y = graph_.node(scan).outputs[i], dim = argument(node(results[i]), 3);
    results_[results[i]] = {dim == Arg(0) ? y : Arg(b.call1("aten::movedim.int", {y, 0, dim}))};
  }
}

} // namespace tenon
