#include "autodiff/differentiate.h"

#include <algorithm>

#include "autodiff/copy.h"
#include "autodiff/passes.h"
#include "autodiff/reverse.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

namespace {

// Appends what makes one tensor of each part of a result.
void add_targets(Graph& g, ValueId v, std::vector<ValueId>& targets) {
  const Type t = g.type(v);
  auto total = [&](std::string_view function) {
    targets.push_back(script::emit_call(g, g.top(), library(), function, std::vector<ValueId>{v}));
  };
  if (t.is_any_tensor()) targets.push_back(v);
  else if (is_tensor(t)) total("total_of_optional");
  else if (t.is(TypeKind::List) && t.element().is_any_tensor()) total("total_of_list");
  else if (t.is(TypeKind::Dict) && t.element(1).is_any_tensor()) total("total_of_dict");
  else if (t.is(TypeKind::Tuple)) {
    for (size_t i = 0; i < t.elements().size(); i++) {
      ValueId index = append_constant(g, g.top(), static_cast<int64_t>(i), Type::simple(TypeKind::Int));
      add_targets(g, append_one(g, g.top(), prim::TupleIndex, {v, index}, t.element(i)), targets);
    }
  } else if (has_tensors(t)) unsupported("the gradient of a result of type {}", annotation(t));
}

/// The graph, with its backward pass in a block beside the top one that has a parameter for each target.
struct Draft {
  Graph graph;
  BlockId backward = {};
  size_t results = 0, targets = 0;
};

Draft write_backward(const Graph& graph, std::span<const size_t> wrt) {
  Graph with_targets = graph;
  const BlockId top = graph.top();
  std::vector<ValueId> found;
  for (const Arg& a : graph.block(top).returns) add_targets(with_targets, a.get<ValueId>(), found);
  Draft d{.graph = Graph(), .results = graph.block(top).returns.size(), .targets = found.size()};
  ArgList& all = with_targets.block(top).returns;
  all.insert(all.end(), found.begin(), found.end());

  d.graph = expand(with_targets, wrt);
  Graph& g = d.graph;
  ArgList& returns = g.block(top).returns;
  const ArgList targets(returns.begin() + static_cast<int64_t>(d.results), returns.end());
  returns.resize(d.results);
  std::vector<ValueId> inputs;
  for (size_t i : wrt) inputs.push_back(g.block(top).params[i]);
  auto first = static_cast<uint32_t>(g.num_nodes());
  Activity activity(g, inputs);
  d.backward = g.add_block(make_detached(g, prim::If));
  for (size_t i = 0; i < targets.size(); i++) g.add_param(d.backward, Type::simple(TypeKind::Dynamic));
  Reverse reverse(g, activity, d.backward);
  for (size_t i = 0; i < targets.size(); i++) reverse.seed(targets[i].get<ValueId>(), g.block(d.backward).params[i]);
  reverse.run();
  ArgList gradients;
  for (ValueId v : inputs) gradients.emplace_back(reverse.gradient_of_input(v));
  g.block(d.backward).returns = std::move(gradients);
  for (const Arg& target : targets) g.block(top).returns.push_back(target);
  prune(g, d.backward, first);
  return d;
}

Graph both_of(const Draft& d) {
  Graph g;
  Copier copy(d.graph, g);
  const Block& top = d.graph.block(d.graph.top());
  const Block& backward = d.graph.block(d.backward);
  copy.params(d.graph.top(), g.top());
  copy.nodes(d.graph.top(), g.top());
  for (size_t i = 0; i < d.targets; i++) {
    ValueId target = copy[top.returns[d.results + i].get<ValueId>()];
    copy.set(backward.params[i], script::emit_call(g, g.top(), library(), "ones", std::vector<ValueId>{target}));
  }
  copy.nodes(d.backward, g.top());
  ArgList returns = copy.mapped(top.returns), gradients = copy.mapped(backward.returns);
  returns.resize(d.results);
  returns.insert(returns.end(), gradients.begin(), gradients.end());
  g.block(g.top()).returns = std::move(returns);
  return g;
}

// Values of the forward pass that the backward pass reads, in order.
std::vector<ValueId> kept_values(const Draft& d) {
  const Graph& g = d.graph;
  SideTable<ValueId, bool> forward;
  for (ValueId p : g.block(g.top()).params) forward[p] = true;
  for (NodeId n : g.block(g.top()).nodes)
    for (ValueId o : g.node(n).outputs) forward[o] = true;
  std::vector<ValueId> kept;
  auto look = [&](ValueId v) {
    if (forward.get(v)) kept.push_back(v), forward[v] = false;
  };
  for (NodeId n : g.block(d.backward).nodes) for_each_use(g, n, look);
  for (const Arg& a : g.block(d.backward).returns) look(a.get<ValueId>());
  return kept;
}

void split(const Draft& d, Gradients& out) {
  const Block& top = d.graph.block(d.graph.top());
  std::vector<ValueId> kept = kept_values(d);
  Copier forward(d.graph, out.forward), backward(d.graph, out.backward);
  forward.params(d.graph.top(), out.forward.top());
  forward.nodes(d.graph.top(), out.forward.top());
  ArgList returns(top.returns.begin(), top.returns.begin() + static_cast<int64_t>(d.results));
  returns.insert(returns.end(), kept.begin(), kept.end());
  out.forward.block(out.forward.top()).returns = forward.mapped(returns);
  for (ValueId v : kept) backward.set(v, out.backward.add_param(out.backward.top(), d.graph.type(v), d.graph.value(v).name));
  backward.params(d.backward, out.backward.top());
  backward.nodes(d.backward, out.backward.top());
  out.backward.block(out.backward.top()).returns = backward.mapped(d.graph.block(d.backward).returns);
}

} // namespace

Gradients differentiate(const Graph& graph, std::span<const size_t> wrt) {
  const std::vector<ValueId>& inputs = graph.block(graph.top()).params;
  for (size_t i : wrt) {
    require_input(i < inputs.size(), "there is no input {}: the program has {}", i, inputs.size());
    if (!has_tensors(graph.type(inputs[i]))) bad_input("input {} is no tensor, but of type {}", i, annotation(graph.type(inputs[i])));
  }
  Draft d = write_backward(graph, wrt);
  Gradients out{.both = both_of(d), .forward = Graph(), .backward = Graph(), .results = d.results, .targets = d.targets};
  split(d, out);
  return out;
}

} // namespace tenon::autodiff
