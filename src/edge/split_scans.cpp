// split_scans: what the steps of a scan compute without looking at the step before is computed before the scan. Products for all steps at
// once, by the rules of vectorize_maps; what does not depend on the step once.
//   %h = prim::Scan([%h0], [%x]) with %1 = permute(%w, [1, 0]); %2 = mm(%x, %1); %3 = mm(%h, %u); return add(%2, %3)
//   ->   %1 = permute(%w, [1, 0]); %2 = prim::Scan([], [%x], each=True) of mm(%x, %1)
//        %h = prim::Scan([%h0], [%2]) with %3 = mm(%h, %u); return add(%2, %3)
#include <algorithm>
#include <unordered_set>

#include "edge/match.h"
#include "edge/passes.h"
#include "edge/scans.h"
#include "ops/names.h"

namespace tenon {

namespace {

// What a value inside of a scan's body depends on.
enum class Depends : uint8_t { OnNothing, OnSlices, OnSteps };

bool is_matrix_product(const Node& n) { return n.def && (n.def->kind == Kind::Matmul || n.def->kind == Kind::Conv); }

// Positions from a tensor are checked when run: where no step is run, nothing must fail.
bool may_fail(const Graph& g, const Node& n) {
  if (n.def && n.def->kind == Kind::Library) return true;
  return n.def && n.def->kind == Kind::View && std::any_of(n.args.begin(), n.args.end(), [&](const Arg& a) {
           bool integers = false;
           for_each_value(a, [&](ValueId v) { integers |= g.type(v).is_tensor() && is_int(g.type(v).dtype); });
           return integers;
         });
}

// Whether a node speaks of one of the numbers that the steps read.
bool mentions(const Graph& g, const Node& n, const std::unordered_set<const ExprNode*>& numbers) {
  auto in = [&](auto& self, Expr e) -> bool {
    return e && (numbers.contains(e.get()) || std::any_of(e->args.begin(), e->args.end(), [&](Expr a) { return self(self, a); }));
  };
  auto in_arg = [&](auto& self, const Arg& a) -> bool {
    if (a.is<Expr>()) return in(in, a.get<Expr>());
    return a.is<ArgList>() && std::any_of(a.get<ArgList>().begin(), a.get<ArgList>().end(), [&](const Arg& e) { return self(self, e); });
  };
  bool any = std::any_of(n.args.begin(), n.args.end(), [&](const Arg& a) { return in_arg(in_arg, a); });
  for (ValueId v : n.outputs) {
    const Type& t = g.type(v);
    any |= in(in, t.value) || std::any_of(t.sizes.begin(), t.sizes.end(), [&](Expr e) { return in(in, e); });
  }
  return any;
}

// Which nodes of a body go where. Views and constants that depend on nothing are free: each part has its own.
struct Split {
  std::vector<NodeId> once, each, rest;
  std::unordered_set<NodeId> free;
  bool has_once = false;

  Split(const Graph& g, const Node& scan) {
    const Block& body = g.block(scan.blocks[0]);
    size_t carried = scan.args[0].get<ArgList>().size();
    std::unordered_map<ValueId, Depends> known;
    for (size_t i = 0; i < body.params.size(); i++) known[body.params[i]] = i < carried ? Depends::OnSteps : Depends::OnSlices;
    std::unordered_set<NodeId> products;
    std::unordered_set<const ExprNode*> numbers;
    for (NodeId id : body.nodes) {
      const Node& n = g.node(id);
      Depends d = is_plain(g, n) && !mentions(g, n, numbers) ? Depends::OnNothing : Depends::OnSteps;
      if (binds_symbols(n))
        for (ValueId v : n.outputs) {
          if (g.type(v).value) numbers.insert(g.type(v).value.get());
          for (Expr e : g.type(v).sizes) numbers.insert(e.get());
        }
      for_each_use(g, id, [&](ValueId v) {
        if (auto it = known.find(v); it != known.end()) d = std::max(d, it->second);
      });
      if (d == Depends::OnNothing && may_fail(g, n)) d = Depends::OnSlices;
      for (ValueId v : n.outputs) known[v] = d;
      if (d == Depends::OnSlices && is_matrix_product(n)) products.insert(id);
    }
    // Products, and what they need of the slices.
    std::unordered_set<NodeId> wanted;
    for (auto it = body.nodes.rbegin(); it != body.nodes.rend(); ++it) {
      bool needed = products.contains(*it) || (wanted.contains(*it) && known.at(g.node(*it).outputs[0]) == Depends::OnSlices);
      if (!needed) continue;
      wanted.insert(*it);
      for_each_use(g, *it, [&](ValueId v) {
        if (g.value(v).node.valid() && known.contains(v) && known.at(v) == Depends::OnSlices) wanted.insert(g.value(v).node);
      });
    }
    for (NodeId id : body.nodes) {
      const Node& n = g.node(id);
      bool is_once = !n.outputs.empty() && known.at(n.outputs[0]) == Depends::OnNothing;
      if (is_once && (n.op == prim::Constant || n.def->kind == Kind::View)) {
        for (auto* part : {&once, &each, &rest}) part->push_back(id);
        free.insert(id);
        continue;
      }
      has_once |= is_once;
      (is_once ? once : wanted.contains(id) ? each : rest).push_back(id);
    }
    if (products.empty()) each.clear();
  }
};

bool is_scan_of_steps(const Node& n) { return n.op == prim::Scan && n.args.size() > 3 && n.args[3] != Arg(true); }

bool is_scan_to_split(const Graph& g, const Node& n) {
  if (!is_scan_of_steps(n)) return false;
  Split s(g, n);
  return !s.each.empty() || s.has_once;
}

class Splitter {
public:
  Splitter(Rewriter& r, const Node& scan) : r_(r), b_(r.builder), scan_(scan), body_(r.from.block(scan.blocks[0])), split_(r.from, scan) {}

  std::vector<ValueId> run() {
    for (NodeId id : split_.once) r_.copy_node(id);
    ArgList carried = r_(scan_.args[0].get<ArgList>()), xs = r_(scan_.args[1].get<ArgList>());
    for (size_t i = 0; i < xs.size(); i++) {
      slices_.push_back(body_.params[carried.size() + i]);
      wholes_.push_back(b_.wrap(xs[i].get<ValueId>()));
    }
    if (!split_.each.empty()) add_each();
    std::vector<V> first;
    for (const Arg& a : carried) first.push_back(b_.wrap(a.get<ValueId>()));
    auto step = [&](const std::vector<V>& now, const std::vector<V>& slices) {
      for (size_t i = 0; i < now.size(); i++) r_.set(body_.params[i], now[i].id);
      set_slices(slices);
      for (NodeId id : split_.rest) r_.copy_node(id);
      std::vector<V> out;
      for (const Arg& a : body_.returns) out.push_back(b_.wrap(r_[a.get<ValueId>()]));
      return out;
    };
    std::vector<ValueId> out;
    for (V v : b_.scan(first, wholes_, scan_.args[2] == Arg(true), step)) out.push_back(v.id);
    return out;
  }

private:
  void set_slices(const std::vector<V>& slices) {
    for (size_t i = 0; i < slices.size(); i++) r_.set(slices_[i], slices[i].id);
  }

  // What the steps still need of it are further tensors to run over.
  void add_each() {
    std::unordered_set<ValueId> needed;
    for (NodeId id : split_.rest) for_each_use(r_.from, id, [&](ValueId v) { needed.insert(v); });
    for (const Arg& a : body_.returns) needed.insert(a.get<ValueId>());
    std::vector<ValueId> kept;
    std::vector<V> out = b_.scan({}, wholes_, false, [&](const std::vector<V>&, const std::vector<V>& slices) {
      set_slices(slices);
      std::vector<V> made;
      for (NodeId id : split_.each) {
        r_.copy_node(id);
        if (split_.free.contains(id)) continue;
        for (ValueId v : r_.from.node(id).outputs)
          if (needed.contains(v)) kept.push_back(v), made.push_back(b_.wrap(r_[v]));
      }
      return made;
    });
    if (out.empty()) return;
    r_.to.node(r_.to.value(out[0].id).node).args[3] = true;
    slices_.insert(slices_.end(), kept.begin(), kept.end());
    wholes_.insert(wholes_.end(), out.begin(), out.end());
  }

  Rewriter& r_;
  Builder& b_;
  const Node& scan_;
  const Block& body_;
  Split split_;
  std::vector<ValueId> slices_; // of the old body
  std::vector<V> wholes_;
};

} // namespace

bool split_scans(LoadedProgram& program) {
  return rewrite_nodes(program, is_scan_to_split, [](Rewriter& r, const Node& n) { return Splitter(r, n).run(); });
}

} // namespace tenon
