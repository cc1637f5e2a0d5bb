// vectorize_maps: a scan whose steps are each by themselves, as those of vmap are, becomes operators on the whole batch, by rules of rows:
// its dim comes first, and the dims that an operator names move up by one. An operator without a rule stays a scan of its own.
//   %y = prim::Scan([], [%x], each=True) with %1 = mm(%w, %0); return sum(%1, [0])   ->   %1 = matmul(%w, %x); %y = sum(%1, [1])
#include <algorithm>

#include "edge/match.h"
#include "edge/passes.h"
#include "edge/scans.h"
#include "ir/collective.h"
#include "ops/names.h"
#include "ops/vectorize.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

// Whether the node has no list of values, which no rule takes.
bool is_flat(const Node& n) {
  return std::none_of(n.args.begin(), n.args.end(), [](const Arg& a) {
    bool list = false;
    if (a.is<ArgList>()) for_each_value(a, [&](ValueId) { list = true; });
    return list;
  });
}

} // namespace

bool is_plain(const Graph& g, const Node& n) {
  if (n.op == prim::Constant) return true;
  if (!n.def || !n.blocks.empty() || n.op.dialect() == "prim" || n.def->data_dependent) return false;
  if (n.def->library && library::is_random(n.def->library(Call(g, *n.def, n.args)).function)) return false;
  if (is_collective(n)) return false;
  return std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return g.type(v).is_tensor(); });
}

namespace {

bool reads_any(const Node& n, const std::unordered_map<ValueId, V>& values) {
  bool any = false;
  for (const Arg& a : n.args) for_each_value(a, [&](ValueId v) { any |= values.contains(v); });
  return any;
}

class Batch {
public:
  Batch(Rewriter& r, const Node& scan) : r_(r), b_(r.builder), body_(r.from.block(scan.blocks[0])) {
    ArgList xs = r(scan.args[1].get<ArgList>());
    for (size_t i = 0; i < xs.size(); i++) batched_.emplace(body_.params[i], b_.wrap(xs[i].get<ValueId>()));
    length_ = batched_.at(body_.params[0]).size(0);
  }

  std::vector<ValueId> run() {
    for (NodeId id : body_.nodes) {
      const Node& n = r_.from.node(id);
      if (!reads_any(n, batched_)) r_.copy_node(id);
      else if (Values now = by_rule(n); !now.empty()) set(n, now);
      else set(n, alone(id));
    }
    std::vector<ValueId> out;
    for (const Arg& a : body_.returns) out.push_back(whole(a.get<ValueId>()).id);
    return out;
  }

private:
  void set(const Node& n, const std::vector<V>& values) {
    for (size_t i = 0; i < n.outputs.size(); i++) {
      require(values[i].rank() == r_.from.type(n.outputs[i]).rank() + 1, "a batch of another rank");
      batched_[n.outputs[i]] = values[i];
    }
  }

  // What all steps have, repeated.
  V whole(ValueId v) {
    if (auto known = batched_.find(v); known != batched_.end()) return known->second;
    V x = b_.wrap(r_[v]);
    std::vector<Expr> sizes = x.sizes();
    sizes.insert(sizes.begin(), length_);
    return b_.expand(b_.unsqueeze(x, 0), sizes);
  }

  // Beside operands of `rank` dims a step.
  V aligned(ValueId v, size_t rank) {
    auto known = batched_.find(v);
    if (known == batched_.end()) return b_.wrap(r_[v]);
    V x = known->second;
    std::vector<Expr> sizes{length_};
    sizes.resize(1 + rank - (x.rank() - 1), b_.integer(1));
    sizes.insert(sizes.end(), x.sizes().begin() + 1, x.sizes().end());
    return sizes.size() == x.rank() ? x : b_.reshape(x, sizes);
  }

  // The node on the batch, where that is one operator again.
  Values by_rule(const Node& n) {
    if (!is_flat(n) || n.outputs.empty()) return {};
    BatchedCall::Operand operand = [this](ValueId v, size_t rank) { return aligned(v, rank); };
    Call call(r_.from, *n.def, n.args);
    BatchedCall batched{n, call, r_.from.type(n.outputs[0]), length_, operand};
    if (n.def->kind == Kind::Pointwise) return batched.again(b_, batched.operands(batched.result.rank()));
    return n.def->vectorize ? n.def->vectorize(b_, batched) : Values();
  }

  std::vector<V> alone(NodeId id) {
    const Node& n = r_.from.node(id);
    std::vector<V> xs;
    std::vector<ValueId> from;
    for (const Arg& a : n.args)
      for_each_value(a, [&](ValueId v) {
        if (auto known = batched_.find(v); known != batched_.end() && std::find(from.begin(), from.end(), v) == from.end())
          from.push_back(v), xs.push_back(known->second);
      });
    return b_.scan({}, xs, false, [&](const std::vector<V>&, const std::vector<V>& slices) {
      for (size_t i = 0; i < from.size(); i++) r_.set(from[i], slices[i].id);
      r_.copy_node(id);
      std::vector<V> out;
      for (ValueId v : n.outputs) out.push_back(b_.wrap(r_[v]));
      return out;
    });
  }

  Rewriter& r_;
  Builder& b_;
  const Block& body_;
  Expr length_;
  std::unordered_map<ValueId, V> batched_;
};

// Of a scan whose steps are each by themselves, and of which some operator has a rule.
bool is_map_to_vectorize(const Graph& g, const Node& n) {
  if (n.op != prim::Scan || !(n.args.size() > 3 && n.args[3] == Arg(true))) return false;
  const Block& body = g.block(n.blocks[0]);
  if (body.params.empty() || !n.args[0].get<ArgList>().empty()) return false;
  auto is_value = [](const Arg& a) { return a.is<ValueId>(); };
  return std::all_of(body.nodes.begin(), body.nodes.end(), [&](NodeId id) { return is_plain(g, g.node(id)); }) &&
         std::all_of(body.returns.begin(), body.returns.end(), is_value);
}

} // namespace

bool vectorize_maps(LoadedProgram& program) {
  auto replace = [](Rewriter& r, const Node& n) { return Batch(r, n).run(); };
  bool changed = false;
  while (rewrite_nodes(program, is_map_to_vectorize, replace)) changed = true; // inner ones first
  return changed;
}

} // namespace tenon
