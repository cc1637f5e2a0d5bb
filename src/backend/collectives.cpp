// overlap_collectives: a wait for the result of a collective goes behind all that can be done before it; what others wait for, and with it
// the next collective, is done as early as it can. The collectives themselves stay in their order, and so does what has effects.
//   %1 = all_reduce(%a); %2 = wait_tensor(%1); %3 = f(%2); %4 = g(%b)   ->   %1 = all_reduce(%a); %4 = g(%b); %2 = wait_tensor(%1); %3 =
//   f(%2)
#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>

#include "backend/passes.h"
#include "ir/collective.h"
#include "ops/names.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

// Nothing moves past it: it binds sizes, checks them, prints, draws numbers in turn, or has blocks that may do so.
bool is_barrier(const Graph& g, const Node& n) {
  if (n.op == prim::Constant) return false;
  bool is_region = n.op.dialect() == "tenon" && !n.blocks.empty();
  if (is_region) return false;
  if (!n.blocks.empty() || n.op.dialect() == "prim" || n.outputs.empty() || binds_symbols(n)) return true;
  return n.def && n.def->library && library::is_random(n.def->library(Call(g, *n.def, n.args, n.attributes)).function);
}

class Overlap {
public:
  explicit Overlap(Graph& g) : g_(g) {}

  bool run(BlockId block) {
    bool changed = false;
    std::vector<NodeId> before = g_.block(block).nodes, after;
    for (NodeId id : before)
      for (BlockId inner : g_.node(id).blocks) changed |= run(inner);
    if (std::ranges::none_of(before, [&](NodeId id) { return is_wait(g_.node(id)); })) return changed;
    for (size_t begin = 0; begin < before.size();) {
      size_t end = begin;
      while (end < before.size() && !is_barrier(g_, g_.node(before[end]))) end++;
      schedule(std::span(before).subspan(begin, end - begin), after);
      if (end < before.size()) after.push_back(before[end++]);
      begin = end;
    }
    changed |= after != before;
    g_.block(block).nodes = std::move(after);
    return changed;
  }

private:
  // The first node in the program's order that can run, waits last; a collective only behind the one before it.
  void schedule(std::span<const NodeId> nodes, std::vector<NodeId>& out) {
    std::unordered_map<ValueId, size_t> made_by;
    std::vector<std::vector<size_t>> readers(nodes.size());
    std::vector<int> missing(nodes.size());
    std::vector<bool> waits(nodes.size());
    size_t last_collective = nodes.size();
    auto after = [&](size_t first, size_t i) { readers[first].push_back(i), missing[i]++; };
    for (size_t i = 0; i < nodes.size(); i++) {
      const Node& n = g_.node(nodes[i]);
      waits[i] = is_wait(n);
      for_each_use(g_, nodes[i], [&](ValueId v) {
        if (auto maker = made_by.find(v); maker != made_by.end() && maker->second != i) after(maker->second, i);
      });
      for (ValueId v : n.outputs) made_by[v] = i;
      if (!is_collective(n)) continue;
      if (last_collective < nodes.size()) after(last_collective, i);
      last_collective = i;
    }
    std::set<size_t> ready, ready_waits;
    auto add = [&](size_t i) { (waits[i] ? ready_waits : ready).insert(i); };
    for (size_t i = 0; i < nodes.size(); i++)
      if (missing[i] == 0) add(i);
    while (!ready.empty() || !ready_waits.empty()) {
      std::set<size_t>& from = ready.empty() ? ready_waits : ready;
      size_t i = *from.begin();
      from.erase(from.begin());
      out.push_back(nodes[i]);
      for (size_t r : readers[i])
        if (--missing[r] == 0) add(r);
    }
  }

  Graph& g_;
};

} // namespace

bool overlap_collectives(LoadedProgram& program) { return Overlap(program.graph).run(program.graph.top()); }

} // namespace tenon
