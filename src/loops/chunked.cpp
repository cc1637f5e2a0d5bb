#include "loops/chunked.h"

#include <set>

#include "expr/eval.h"

namespace tenon {

namespace {

constexpr int64_t enough_work = 32; // iterations that keep all threads busy
constexpr int most_streams = 4;
constexpr int64_t least_chunk = 1 << 14; // elements that are worth an iteration of their own: some microseconds

// As far as anyone knows, a size without a bound may be large.
int64_t at_most(Expr extent) {
  bool unbounded = contains(extent, [](const ExprNode& n) { return n.op == Op::Symbol && n.hi > 4096; });
  int64_t v = eval_int(extent, [](const ExprNode& n) { return n.op == Op::Symbol ? std::clamp<int64_t>(n.hi, 1, 4096) : 1; });
  return unbounded ? std::max<int64_t>(v, 1 << 20) : v;
}

Expr points(const RegionDraft& r, const std::vector<Expr>& axes) {
  Expr n = r.pool.integer(1);
  for (Expr a : axes) n = n * a->args[0];
  return n;
}

bool finds_position(Reduction op) { return op == Reduction::ArgMax || op == Reduction::ArgMin; }

} // namespace

std::optional<Chunks> chunks_of(const RegionDraft& r) {
  std::vector<Expr> kept = kept_axes(r);
  bool columns = !reduces_last(r) && !kept.empty();
  int64_t lanes = columns ? std::min<int64_t>(column_lanes(r), at_most(kept.back()->args[0])) : 1;
  int64_t reduced = at_most(points(r, r.d.reduced)), iterations = 1;
  for (size_t k = 0; k < kept.size() && iterations < enough_work; k++) {
    int64_t extent = at_most(kept[k]->args[0]);
    iterations *= columns && k + 1 == kept.size() ? (extent + lanes - 1) / std::max<int64_t>(lanes, 1) : extent;
  }
  // A row that later passes read again should still be in the cache then.
  int64_t enough = r.last > 0 ? enough_work / 4 : enough_work;
  if (iterations < 1 || iterations >= enough || reduced * lanes < 2 * least_chunk) return std::nullopt;
  Expr longest =
      *std::max_element(r.d.reduced.begin(), r.d.reduced.end(), [](Expr a, Expr b) { return at_most(a->args[0]) < at_most(b->args[0]); });
  int64_t others = std::max<int64_t>(1, reduced / std::max<int64_t>(1, at_most(longest->args[0])));
  auto up_to = [&](Expr n, int64_t unit) { return floor_div(n + static_cast<double>(unit - 1), r.pool.integer(unit)); };
  Expr size = up_to(longest->args[0], (enough_work + iterations - 1) / iterations);
  size = max(size, r.pool.integer(std::max<int64_t>(1, least_chunk / (others * lanes))));
  return Chunks{longest, columns ? size : up_to(size, 64) * 64.0};
}

namespace {

class ChunkedBuilder {
public:
  explicit ChunkedBuilder(RegionDraft& r)
      : r_(r), kept_(kept_axes(r)), results_(points(r, kept_)), elements_(r.out.elements), weight_(r.out.weight) {}

  RegionKernels run(const Chunks& chunks) {
    r_.in_chunks = true;
    assign_levels(r_);
    columns_ = !reduces_last(r_) && !kept_.empty();
    if (columns_) r_.lanes_of_block = column_lanes(r_);
    Expr row = r_.pool.integer(0);
    for (Expr a : kept_) row = row * a->args[0] + a;
    r_.d.others = {row};
    const LoopDomain whole = r_.d;
    Expr chunk = block_axis(r_, chunks.axis, chunks.size);
    count_ = chunk->args[0];
    r_.d.others.push_back(chunk);
    const LoopDomain cut = r_.d;
    for (int level = 0; level <= r_.last; level++) {
      r_.d = cut;
      begin({chunk});
      if (std::vector<Stmt> body = level_body(level); !body.empty()) end(std::move(body), level); // else only results are computed further
    }
    r_.d = whole;
    begin({});
    std::vector<Stmt> stores;
    for (int level = 0; level <= r_.last + 1; level++) store_rows(r_, level, stores);
    if (!stores.empty()) end(std::move(stores), r_.last + 1, results_ * count_);
    return std::move(out_);
  }

private:
  // The parallel loop runs over the chunk, if any, and the kept axes, of which columns are lanes.
  void begin(std::vector<Expr> outer) {
    r_.out = {};
    r_.values.clear();
    r_.lane = {};
    r_.out.weight = weight_;
    r_.out.elements = elements_;
    outer.insert(outer.end(), kept_.begin(), kept_.end());
    if (columns_) {
      outer.pop_back();
      block_last(r_, r_.lanes_of_block, outer);
    }
    make_parallel(r_, outer);
    if (columns_) r_.lane = r_.d.axes.back();
  }

  // What the statements read of earlier levels is combined first.
  void end(std::vector<Stmt> body, int level, Expr elements = {}) {
    std::vector<Stmt> all = combine(body, level);
    for (Stmt& s : body) all.push_back(std::move(s));
    if (columns_) all = {{Loop{r_.lane, static_cast<int>(r_.lanes_of_block), std::move(all)}}};
    r_.kernel().body = std::move(all);
    if (elements) r_.out.elements = elements;
    out_.kernels.push_back(finish(r_));
  }

  std::vector<Stmt> level_body(int level) {
    std::vector<Stmt> body = inner(r_, level), out;
    if (body.empty()) return {};
    ReduceRegion region{accumulators(r_, level), {}};
    // A position is worth nothing without the extreme that was found there.
    for (size_t k = 0, n = region.accumulators.size(); k < n; k++) {
      Accumulator a = region.accumulators[k];
      if (!finds_position(a.op)) continue;
      a.op = a.op == Reduction::ArgMax ? Reduction::Max : Reduction::Min;
      for (size_t i = 0, all = body.size(); i < all; i++)
        if (auto* s = std::get_if<Accumulate>(&body[i].v); s && s->reg == a.reg) body.push_back({Accumulate{extreme(a.reg), s->value}});
      a.reg = extreme(a.reg);
      region.accumulators.push_back(a);
    }
    std::vector<Accumulator> accumulators = region.accumulators;
    int streams = streams_of(body);
    r_.kernel().reads_streams = streams == most_streams;
    if (streams > 1) region.body = in_streams(std::move(body), streams);
    else region.body = over_reduced(r_, std::move(body), columns_ ? 1 : lanes(r_, 4));
    if (accumulators.empty()) return std::move(region.body);
    out.push_back({std::move(region)});
    for (const Accumulator& a : accumulators) {
      DType type = finds_position(a.op) ? DType::I64 : a.type;
      out.push_back(
          {Store{partial(a.reg, type, BufferKind::Output), r_.d.others[1] * results_ + r_.d.others[0], r_.pool.reg(a.reg, type)}});
    }
    return out;
  }

  // Long chunks of which nothing but sums and the like is wanted, in any order, are read in several places at once, from which memory
  // gives more than from one.
  int streams_of(const std::vector<Stmt>& body) const {
    constexpr int64_t least = 1 << 15;
    constexpr int light = 3, most_weight = 8; // what more than memory bounds is made larger for nothing
    auto any_order = [&](const Stmt& s) { return std::holds_alternative<Accumulate>(s.v) && !std::get<Accumulate>(s.v).position; };
    if (columns_ || r_.d.reduced.size() != 1 || r_.out.weight > most_weight || !std::all_of(body.begin(), body.end(), any_order)) return 1;
    if (r_.d.reduced[0]->args[0]->hi < least) return 1;
    return r_.out.weight <= light ? most_streams : 2;
  }

  // As many parts of a chunk at once; what is left comes after.
  std::vector<Stmt> in_streams(std::vector<Stmt> body, int parts) {
    constexpr int step = 64; // elements of each part
    Expr i = r_.d.reduced[0], size = floor_div(i->args[0], r_.pool.integer(parts * step)) * static_cast<double>(step);
    Expr all = r_.pool.axis(5006, size), rest = r_.pool.axis(5007, i->args[0] - size * static_cast<double>(parts));
    Loop together{all, lanes(r_, 4), {}}, left{rest, lanes(r_, 4), {}};
    auto add = [&](Loop& to, Expr at) {
      Substitution s;
      s.set(i, at);
      for (const Stmt& st : body) {
        auto& a = std::get<Accumulate>(st.v);
        to.body.push_back({Accumulate{a.reg, s.apply(a.value)}});
      }
    };
    for (int part = 0; part < parts; part++) add(together, all + size * static_cast<double>(part));
    add(left, rest + size * static_cast<double>(parts));
    return {{std::move(together)}, {std::move(left)}};
  }

  std::vector<Stmt> combine(const std::vector<Stmt>& body, int level) {
    std::set<int64_t> read;
    for_each_expr(body, [&](Expr e) {
      if (e)
        visit(e, [&](const ExprNode& n) {
          if (n.op == Op::Reg) read.insert(n.bits);
        });
    });
    Expr j = r_.pool.axis(5004, count_), at = j * results_ + r_.d.others[0];
    ReduceRegion region;
    Loop loop{j, !columns_ && is_const_int(results_, 1) ? lanes(r_, 1) : 1, {}};
    for (auto& m : r_.d.members) {
      int reg = static_cast<int>(m.value.index);
      if (!read.contains(reg) || level_of(r_, m) >= level) continue;
      bool position = finds_position(m.reduction);
      auto load = [&](int number, DType type) { return r_.pool.load(partial(number, type, BufferKind::Input), type, {at}); };
      bool widened = m.reduction == Reduction::Sum && m.body->type == DType::F32;
      region.accumulators.push_back({.reg = reg, .op = m.reduction, .type = m.body->type, .widened = widened});
      Accumulate a{reg, load(position ? extreme(reg) : reg, m.body->type)};
      if (position) a.position = load(reg, DType::I64);
      loop.body.push_back({a});
    }
    if (region.accumulators.empty()) return {};
    region.body.push_back({std::move(loop)});
    return {{std::move(region)}};
  }

  // The number of the register that holds the extreme value whose position is in another.
  static int extreme(int reg) { return reg + (1 << 24); }

  // The kernel's buffer of partial results of a register.
  int partial(int reg, DType type, BufferKind kind) {
    auto [it, fresh] = temporaries_.try_emplace(reg, static_cast<int>(out_.temporaries.size()));
    if (fresh) out_.temporaries.push_back({type, results_ * count_});
    for (auto& [buffer, temporary] : r_.out.temporaries)
      if (temporary == it->second) return buffer;
    r_.out.buffers.push_back({});
    r_.kernel().buffers.push_back({kind, type});
    r_.out.temporaries.emplace_back(static_cast<int>(r_.out.buffers.size()) - 1, it->second);
    return r_.out.temporaries.back().first;
  }

  RegionDraft& r_;
  std::vector<Expr> kept_;
  Expr results_, elements_, count_ = {}; // results of a reduction; chunks
  int weight_;
  bool columns_ = false;
  std::map<int, int> temporaries_; // by register
  RegionKernels out_;
};

} // namespace

RegionKernels chunked_kernels(RegionDraft& r, const Chunks& chunks) { return ChunkedBuilder(r).run(chunks); }

} // namespace tenon
