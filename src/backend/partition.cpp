// The graph of a partition: a node with a body for each region.
#include "backend/partition.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "ir/op.h"
#include "ops/names.h"

namespace tenon {

namespace {

class Emitter {
public:
  Emitter(const Graph& g, const Partition& partition, Rewriter& rewrite) : g_(g), partition_(partition), rewrite_(rewrite) {}

  void run() {
    std::vector<size_t> ordered;
    std::vector<int> state(partition_.regions.size(), 0);
    for (size_t k = 0; k < partition_.regions.size(); k++) order(k, state, ordered);
    for (size_t k : ordered) {
      const Region& region = partition_.regions[k];
      if (region.is_step) rewrite_.node(region.nodes[0]);
      else emit(region);
    }
  }

private:
  void order(size_t region, std::vector<int>& state, std::vector<size_t>& out) const {
    if (state[region] == 2) return;
    require(state[region] == 0, "regions form a cycle");
    state[region] = 1;
    std::vector<int> needs = partition_.regions[region].needs;
    std::sort(needs.begin(), needs.end());
    for (int n : needs) order(static_cast<size_t>(n), state, out);
    state[region] = 2;
    out.push_back(region);
  }

  NodeId copy_into(NodeId id, BlockId body, bool is_inline) {
    const Node& n = g_.node(id);
    Node copy{.op = n.op, .def = n.def, .origin = n.origin};
    for (const Arg& a : n.args) copy.args.push_back(map_values(a, [&](ValueId v) { return local_.contains(v) ? local_[v] : rewrite_[v]; }));
    copy.attributes = n.attributes;
    if (is_inline) copy.attributes.push_back({"inline", true});
    NodeId now = rewrite_.to.append(body, std::move(copy), {g_.type(n.outputs[0])});
    local_[n.outputs[0]] = rewrite_.to.node(now).outputs[0];
    return now;
  }

  void emit_inline(NodeId id, BlockId body) {
    for_each_use(g_, id, [&](ValueId v) {
      if (!partition_.is_inline.get(v) || !done_.insert(g_.value(v).node).second) return;
      emit_inline(g_.value(v).node, body);
      copy_into(g_.value(v).node, body, true);
    });
  }

  OpId name_of(const Region& region) const {
    if (!region.contract.valid()) return own::loops;
    if (region.is_attention) return own::attention;
    return g_.node(region.contract).def->kind == Kind::Conv ? own::conv : own::matmul;
  }

  void emit(const Region& region) {
    local_.clear(), done_.clear();
    std::vector<Type> types;
    std::vector<std::string> names;
    for (ValueId v : region.results) types.push_back(g_.type(v)), names.push_back(g_.value(v).name);
    Node made{.op = name_of(region), .origin = g_.node(region.nodes.back()).origin};
    NodeId node = rewrite_.to.append(rewrite_.builder.block(), std::move(made), types, names);
    for (const std::string& why : region.refused) rewrite_.to.node(node).attributes.push_back({"refused", "no attention step: " + why});
    BlockId body = rewrite_.to.add_block(node);
    for (NodeId id : region.nodes) {
      emit_inline(id, body);
      if (NodeId now = copy_into(id, body, false); id == region.contract && region.slices > 1)
        rewrite_.to.node(now).attributes.push_back({"slices", region.slices});
    }
    ArgList returns;
    for (size_t i = 0; i < region.results.size(); i++) {
      returns.push_back(local_.at(region.results[i]));
      rewrite_.set(region.results[i], rewrite_.to.node(node).outputs[i]);
    }
    rewrite_.to.block(body).returns = std::move(returns);
  }

  const Graph& g_;
  const Partition& partition_;
  Rewriter& rewrite_;
  std::unordered_map<ValueId, ValueId> local_; // of the region's body
  std::unordered_set<NodeId> done_;            // inline nodes in the region's body
};

} // namespace

void emit_partition(const Graph& graph, BlockId from, const Partition& partition, Rewriter& rewrite, BlockId to) {
  BlockId outer = rewrite.builder.block();
  rewrite.builder.set_block(to);
  Emitter(graph, partition, rewrite).run();
  rewrite.to.block(to).returns = rewrite(graph.block(from).returns);
  rewrite.builder.set_block(outer);
}

} // namespace tenon
