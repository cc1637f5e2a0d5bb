// ToGraph: torch.vmap as torch.export records it. Between _vmap_increment_nesting and _vmap_decrement_nesting the nodes
// compute one example; _add_batch_dim takes it out of a batch, _remove_batch_dim puts it into one:
//   increment(n); a = add_batch_dim(x, 1); y = sin(a); z = remove_batch_dim(y, n, 0); decrement()
// becomes a prim::Scan over the batch, each step by itself, whose body is those nodes.
#include "fx/to_graph.h"
#include "ir/builder.h"
#include "ir/call.h"
#include "ops/names.h"

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
    require_input(x.is<ValueId>() && graph_.type(x.get<ValueId>()).rank() > 0, "%{}: a vmap over something that has no dims", node(n).name);
    xs.push_back(dim == Arg(0) ? x : Arg(b.call1(aten::movedim_int, {x, dim, 0})));
  }
  Node made{.op = prim::Scan, .def = find_op(prim::Scan), .args = {ArgList{}, xs, false, true}, .origin = node(start).origin};
  NodeId scan = graph_.append(block, std::move(made), {});
  BlockId inner = graph_.add_block(scan);
  for (size_t i = 0; i < batched.size(); i++) {
    Type example = carried_type(xs[i]);
    example.sizes.erase(example.sizes.begin());
    add_param(inner, batched[i], &example);
  }
  vmaps_++;
  add_range(inner, body);
  vmaps_--;
  for (uint32_t n : results) {
    Arg y = argument(node(n), 0);
    Type whole = carried_type(y);
    require_input(whole.is_tensor(), "%{}: a result of a vmap that is no tensor", node(n).name);
    whole.sizes.insert(whole.sizes.begin(), to_expr(graph_.pool(), size));
    graph_.block(inner).returns.push_back(y);
    graph_.add_output(scan, whole);
  }
  for (size_t i = 0; i < results.size(); i++) {
    Arg y = graph_.node(scan).outputs[i], dim = argument(node(results[i]), 3);
    results_[results[i]] = {dim == Arg(0) ? y : Arg(b.call1(aten::movedim_int, {y, 0, dim}))};
  }
}

} // namespace tenon
