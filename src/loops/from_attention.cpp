// Attention to kernels. The softmax is computed block by block of keys ("online"): each row keeps the maximum m and the
// sum s of its weights so far; a block with maximum m' makes the weights exp(x - max(m, m')), and corrects s, and the
// values summed so far, by exp(m - max(m, m')).
#include "loops/from_attention.h"

#include "backend/affine.h"
#include "backend/fuse_cost.h"
#include "loops/domain.h"

namespace tenon {

namespace {

class AttentionBuilder {
public:
  AttentionBuilder(const Graph& g, NodeId region, const Attention& a, int vector_bytes, int64_t stride)
      : g_(g), pool_(g.pool()), region_(region), a_(a), stride_(stride), width_(vector_bytes / 4) {
    for (size_t k = 0; k < std::size(tile_); k++) tile_[k] = pool_.symbol(tile_symbols[k], DType::I64, 0, INT64_MAX);
    row_ = pool_.axis(5004, tile_[2] - tile_[1]);
  }

  RegionKernel score() {
    int scores = own(), top = own(), sum = own(), correction = own();
    // The keys that a row sees: [first, end) of the tile's.
    Expr keys = tile_[4] - tile_[3], zero = pool_.integer(0), row = tile_[1] + row_;
    Expr first = a_.lower ? min(max(row + a_.lower - tile_[3], zero), keys) : zero;
    Expr end = a_.upper ? max(min(row + a_.upper + 1.0 - tile_[3], keys), first) : keys;
    Expr seen = pool_.axis(5006, end - first), start = row_ * static_cast<double>(stride_);
    column_ = first + seen;
    Expr at = start + column_, element = pool_.load(scores, DType::F32, {at});
    Expr x = in_tile(a_.visible, element);
    InlineCost cost = inline_cost(x);
    bool keep = is_worth_keeping(cost);
    int lanes = width_ * (cost.weight > 24 ? 1 : 2);
    // Three loops over the rows, so that rows overlap where the sums across a vector wait: maxima, corrections,
    // weights.
    Expr before = pool_.load(top, DType::F32, {row_}), now = pool_.reg(0, DType::F32);
    std::vector<Stmt> highest{{Accumulate{0, x}}}, maxima, sums, weights;
    if (keep) highest.push_back({Store{scores, at, x}});
    maxima.push_back(
        {ReduceRegion{{{0, Reduction::Max, DType::F32, true}}, {{Accumulate{0, before}}, {Loop{seen, lanes, std::move(highest)}}}}});
    maxima.push_back({Store{correction, row_, before}});
    maxima.push_back({Store{top, row_, now}});
    Expr factor = weight_of(pool_.load(correction, DType::F32, {row_}) - shift_of(before));
    weights.push_back({ReduceRegion{{{2, Reduction::Sum, DType::F32}}, {{Accumulate{2, shift_of(before)}}}}}); // read once a row
    Expr weight = weight_of((keep ? element : x) - pool_.reg(2, DType::F32));
    sums = {{Accumulate{1, weight}}, {Store{scores, at, weight}}}; // what is read comes before the store that replaces it
    weights.push_back({ReduceRegion{{{1, Reduction::Sum, DType::F32}}, {{Loop{seen, lanes, std::move(sums)}}}}});
    weights.push_back(
        {Store{sum, row_, pool_.load(sum, DType::F32, {row_}) * pool_.load(correction, DType::F32, {row_}) + pool_.reg(1, DType::F32)}});
    auto clear = [&](int64_t number, Expr from, Expr count) {
      Expr k = pool_.axis(number, count);
      weights.push_back({Loop{k, lanes, {{Store{scores, start + from + k, pool_.number(0, DType::F32)}}}}});
    };
    if (a_.lower) clear(5007, zero, first);
    if (a_.upper) clear(5008, end, keys - end);
    std::vector<Stmt> body{
        {Loop{row_, 1, std::move(maxima)}}, {Loop{row_, width_, {{Store{correction, row_, factor}}}}}, {Loop{row_, 1, std::move(weights)}}};
    return finish("attention_score", std::move(body), cost.weight + 10);
  }

  RegionKernel finish() {
    column_ = pool_.axis(5005, tile_[4] - tile_[3]);
    NodeId product = contraction_of(g_, region_);
    ValueId result = g_.node(product).outputs[0];
    Inliner inliner = region_inliner();
    RegionDomain region(g_, inliner);
    LoopDomain d = domain(region, result);
    int out = own(), sum = own();
    Expr total = pool_.load(sum, DType::F32, {row_});
    if (a_.empty_is_zero) total = select(eq(total, constant_like(0, total)), constant_like(1, total), total);
    Expr value = pool_.load(out, DType::F32, {row_ * padded_columns(g_.type(result).sizes.back()) + column_}) * pool_.reg(0, DType::F32);
    values_[result] = cast(value, g_.type(result).dtype);
    std::vector<Stmt> body;
    int weight = 1;
    auto& returns = body_nodes().returns;
    auto store = [&](const DomainMember& m, Expr e) {
      for (size_t i = 0; i < returns.size(); i++)
        if (returns[i].get<ValueId>() == m.value)
          body.push_back({Store{external(g_.node(region_).outputs[i], BufferKind::Output), m.store, e}});
    };
    for (const DomainMember& m : d.members) {
      if (m.body) values_[m.value] = resolve(m.body), weight += inline_cost(m.body).weight;
      store(m, values_.at(m.value));
    }
    Stmt factor{ReduceRegion{{{0, Reduction::Sum, DType::F32}}, {{Accumulate{0, 1.0 / total}}}}}; // divided once a row
    Stmt columns{Loop{column_, width_ * (weight > 24 ? 1 : 2), std::move(body)}};
    return finish("attention_finish", {{Loop{row_, 1, {std::move(factor), std::move(columns)}}}}, weight);
  }

private:
  const Block& body_nodes() const { return g_.block(g_.node(region_).blocks.at(0)); }
  bool is_inline(NodeId n) const { return g_.node(n).attribute("inline") != nullptr; }
  Inliner region_inliner() const {
    Inliner inliner(g_);
    inliner.is_inline = [this](ValueId v) { return g_.value(v).node.valid() && is_inline(g_.value(v).node); };
    return inliner;
  }

  // What follows the product, over its rows and columns; the batch and the first row and column are the tile's.
  LoopDomain domain(RegionDomain& region, ValueId result) {
    region.start_with_value(result);
    bool first = true;
    for (NodeId n : body_nodes().nodes) {
      if (is_inline(n)) continue;
      if (std::exchange(first, false)) continue;
      auto member = region.candidate(n);
      if (!member) member = region.candidate(n, true);
      require(member.has_value(), "{} does not fit its region", g_.node(n).op);
      region.join(std::move(*member));
    }
    auto& returns = body_nodes().returns;
    LoopDomain d = make_domain(g_, region, [&](ValueId v) {
      return std::any_of(returns.begin(), returns.end(), [&](auto& r) { return r.template get<ValueId>() == v; });
    });
    std::vector<Expr> axes = d.axes;
    if (axes.size() == 3) substitute(d, {{axes[0], tile_[0]}});
    substitute(d, {{axes[axes.size() - 2], tile_[1] + row_}, {axes.back(), tile_[3] + column_}});
    return d;
  }

  Expr resolve(Expr body) {
    Substitution s;
    s.on_load = [&](int64_t v, const ExprNode& load, const std::vector<Expr>& index) {
      ValueId id{static_cast<uint32_t>(v)};
      return load.args.empty() ? values_.at(id) : pool_.load(external(id, BufferKind::Input), load.type, index);
    };
    return s.apply(body);
  }

  // The score of a tile's element, by buffers.
  Expr in_tile(Expr score, Expr element) {
    Substitution s;
    if (a_.batch->op == Op::Axis) s.set(a_.batch, tile_[0]);
    if (a_.row->op == Op::Axis) s.set(a_.row, tile_[1] + row_);
    if (a_.key->op == Op::Axis) s.set(a_.key, tile_[3] + column_);
    s.on_load = [&](int64_t v, const ExprNode& load, const std::vector<Expr>& index) {
      ValueId id{static_cast<uint32_t>(v)};
      if (load.args.empty() && id == g_.node(a_.scores).outputs[0]) return element;
      return pool_.load(external(id, BufferKind::Input), load.type, {flat_offset(pool_, g_.type(id), index)});
    };
    return s.apply(score);
  }

  // What is taken off the scores of a row: its maximum, but of a row of -inf so far.
  static Expr shift_of(Expr top) { return select(eq(top, constant_like(-INFINITY, top)), constant_like(0, top), top); }

  // exp(d) for d <= 0, with 0 for what is no normal number: against a sum of at least 1 that is nothing, and such
  // numbers are slow.
  Expr weight_of(Expr d) {
    constexpr double least = -87; // exp(-87.3) is the smallest normal number
    Expr tiny = lt(d, constant_like(least, d)), zero = constant_like(0, d);
    return select(tiny, zero, unary(Op::Exp, select(tiny, zero, d)));
  }

  int own() {
    made_.buffers.push_back({});
    made_.kernel.buffers.push_back({BufferKind::Output, DType::F32});
    return static_cast<int>(made_.buffers.size() - 1);
  }
  int external(ValueId v, BufferKind kind) {
    for (size_t i = 0; i < made_.buffers.size(); i++)
      if (made_.buffers[i] == v && made_.kernel.buffers[i].kind == kind) return static_cast<int>(i);
    made_.buffers.push_back(v);
    made_.kernel.buffers.push_back({kind, g_.type(v).dtype});
    return static_cast<int>(made_.buffers.size() - 1);
  }

  void collect(const std::vector<Stmt>& body, std::vector<Expr>& symbols) {
    auto add = [&](Expr e) {
      visit(e, [&](const ExprNode& n) {
        if (n.op == Op::Symbol && !n.name.starts_with("tile_") && std::find(symbols.begin(), symbols.end(), Expr(&n)) == symbols.end())
          symbols.push_back(Expr(&n));
      });
    };
    for (const Stmt& s : body) {
      if (auto* l = std::get_if<Loop>(&s.v)) add(l->axis->args[0]), collect(l->body, symbols);
      else if (auto* r = std::get_if<ReduceRegion>(&s.v)) collect(r->body, symbols);
      else if (auto* a = std::get_if<Accumulate>(&s.v)) add(a->value);
      else if (auto* st = std::get_if<Store>(&s.v)) add(st->offset), add(st->value);
    }
  }

  RegionKernel finish(const char* name, std::vector<Stmt> body, int weight) {
    Kernel& k = made_.kernel;
    k.name = name;
    k.parallel = pool_.axis(5000, pool_.integer(1));
    made_.iterations = made_.elements = pool_.integer(1);
    made_.weight = weight;
    collect(body, k.scalars);
    std::sort(k.scalars.begin(), k.scalars.end(), [](Expr a, Expr b) { return a->name < b->name; });
    for (Expr t : tile_) k.scalars.push_back(t);
    k.body = std::move(body);
    return std::exchange(made_, {});
  }

  const Graph& g_;
  ExprPool& pool_;
  NodeId region_;
  const Attention& a_;
  int64_t stride_;
  int width_;
  Expr tile_[std::size(tile_symbols)], row_, column_;
  RegionKernel made_;
  std::unordered_map<ValueId, Expr> values_;
};

} // namespace

AttentionKernels kernels_of_attention(const Graph& graph, NodeId region, const Attention& attention, int vector_bytes,
                                      int64_t score_stride) {
  AttentionBuilder b(graph, region, attention, vector_bytes, score_stride);
  AttentionKernels out;
  out.score = b.score();
  out.finish = b.finish();
  return out;
}

} // namespace tenon
