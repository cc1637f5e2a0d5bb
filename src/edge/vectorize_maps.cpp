// vectorize_maps: a scan whose steps are each by themselves, as those of vmap are, becomes operators on the whole batch, by rules of rows:
// its dim comes first, and the dims that an operator names move up by one. An operator without a rule stays a scan of its own.
//   %y = prim::Scan([], [%x], each=True) with %1 = mm(%w, %0); return sum(%1, [0])   ->   %1 = matmul(%w, %x); %y = sum(%1, [1])
#include <algorithm>

#include "edge/match.h"
#include "edge/passes.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

constexpr std::string_view by_dims[] = {"edge::sum.dim_IntList", "edge::mean.dim",       "edge::amax.default",    "edge::amin.default",
                                        "edge::prod.dim_int",    "edge::any.dims",       "edge::all.dims",        "edge::argmax.default",
                                        "edge::argmin.default",  "edge::cumsum.default", "edge::permute.default", "edge::unsqueeze.default",
                                        "edge::squeeze.dims",    "edge::select.int",     "edge::slice.Tensor",    "edge::flip.default",
                                        "edge::narrow.default",  "edge::sort.stable",    "edge::topk.default",    "edge::_softmax.default"};
constexpr std::string_view by_size[] = {"edge::view.default", "edge::expand.default"};
constexpr std::string_view products[] = {"edge::mm.default", "edge::bmm.default"};

template <class List> bool among(std::string_view op, const List& names) {
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

int dims_argument(const Node& n) { return std::max(n.def->signature.find("dim"), n.def->signature.find("dims")); }

// Whether the node on a batch is one operator again.
bool has_rule(const Graph& g, const Node& n) {
  bool flat = std::none_of(n.args.begin(), n.args.end(), [](const Arg& a) {
    bool list = false;
    if (a.is<ArgList>()) for_each_value(a, [&](ValueId) { list = true; });
    return list;
  });
  if (!flat || n.outputs.empty()) return false;
  if (n.def->kind == Kind::Pointwise || among(n.op, by_size) || among(n.op, products)) return true;
  if (!among(n.op, by_dims) || (g.type(n.args[0].get<ValueId>()).rank() == 0 && n.op != "edge::unsqueeze.default")) return false;
  int k = dims_argument(n);
  return k >= 0 && (n.args[static_cast<size_t>(k)].is<int64_t>() || n.args[static_cast<size_t>(k)].is<ArgList>());
}

bool is_plain(const Graph& g, const Node& n) {
  if (n.op == "prim::Constant") return true;
  if (!n.def || !n.blocks.empty() || n.op.dialect() == "prim" || n.def->data_dependent) return false;
  if (n.def->library && library::is_random(n.def->library(Call(g, *n.def, n.args)).function)) return false;
  return std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return g.type(v).is_tensor(); });
}

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
      else if (has_rule(r_.from, n)) set(n, apply(n));
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

  std::vector<Expr> with_length(std::span<const Expr> sizes) const {
    std::vector<Expr> out{length_};
    out.insert(out.end(), sizes.begin(), sizes.end());
    return out;
  }

  // What all steps have, repeated.
  V whole(ValueId v) {
    if (auto known = batched_.find(v); known != batched_.end()) return known->second;
    V x = b_.wrap(r_[v]);
    return b_.expand(b_.unsqueeze(x, 0), with_length(x.sizes()));
  }

  // Beside operands of `rank` dims a step.
  Arg aligned(ValueId v, size_t rank) {
    auto known = batched_.find(v);
    if (known == batched_.end()) return r_[v];
    V x = known->second;
    std::vector<Expr> sizes{length_};
    sizes.resize(1 + rank - (x.rank() - 1), b_.integer(1));
    sizes.insert(sizes.end(), x.sizes().begin() + 1, x.sizes().end());
    return sizes.size() == x.rank() ? x : b_.reshape(x, sizes);
  }

  static int64_t moved(const Arg& dim, size_t rank) {
    int64_t d = dim.get<int64_t>();
    return 1 + (d < 0 ? d + static_cast<int64_t>(rank) : d);
  }

  std::vector<V> apply(const Node& n) {
    const Type& result = r_.from.type(n.outputs[0]);
    ArgList args = n.args;
    size_t rank = result.rank();
    if (among(n.op, products)) {
      auto operand = [&](size_t k) { return b_.wrap(aligned(args[k].get<ValueId>(), rank).get<ValueId>()); };
      V a = operand(0);
      return {b_.matmul(a, operand(1))};
    }
    if (among(n.op, by_dims) || n.op == "edge::view.default") rank = r_.from.type(args[0].get<ValueId>()).rank();
    for (Arg& a : args) a = map_values(a, [&](ValueId v) { return aligned(v, rank).get<ValueId>(); });
    if (among(n.op, by_size)) {
      std::vector<Expr> sizes = with_length(result.sizes);
      return {n.op == "edge::view.default" ? b_.reshape(b_.wrap(args[0].get<ValueId>()), sizes)
                                           : b_.expand(b_.wrap(args[0].get<ValueId>()), sizes)};
    }
    if (among(n.op, by_dims)) move_dims(n, args[static_cast<size_t>(dims_argument(n))], rank);
    std::vector<Type> types = infer_types(r_.to, *n.def, args);
    NodeId made =
        r_.to.append(b_.block(), Node{.op = n.op, .def = n.def, .args = args, .attributes = n.attributes, .origin = n.origin}, types);
    std::vector<V> out;
    for (ValueId v : r_.to.node(made).outputs) out.push_back(b_.wrap(v));
    return out;
  }

  void move_dims(const Node& n, Arg& dims, size_t rank) {
    if (n.op == "edge::unsqueeze.default") rank++;
    if (dims.is<int64_t>()) dims = moved(dims, rank);
    else {
      ArgList out;
      if (n.op == "edge::permute.default") out.push_back(0);
      for (const Arg& d : dims.get<ArgList>()) out.push_back(moved(d, rank));
      bool all =
          dims.get<ArgList>().empty() && n.op != "edge::permute.default" && n.op != "edge::squeeze.dims" && n.op != "edge::flip.default";
      for (size_t d = 0; all && d < rank; d++) out.push_back(static_cast<int64_t>(d) + 1);
      dims = out;
    }
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
bool concerns_scan(const Graph& g, const Node& n) {
  if (n.op != "prim::Scan" || !(n.args.size() > 3 && n.args[3] == Arg(true))) return false;
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
  while (rewrite_nodes(program, concerns_scan, replace)) changed = true; // inner ones first
  return changed;
}

} // namespace tenon
