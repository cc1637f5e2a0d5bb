// Region to kernel. A region with reductions becomes passes over its rows: pass L computes what needs the reductions of the
// passes before it. Values needed by a later pass are read back from where they were stored, kept in scratch memory, or
// computed again, whichever is cheapest.
#include "loops/from_region.h"

#include "backend/affine.h"
#include "backend/contract.h"
#include "backend/fuse_cost.h"
#include "loops/domain.h"

namespace tenon {

namespace {

constexpr int64_t block_elements = 4096; // of a flat loop that one parallel iteration covers

bool is_marked_inline(const Node& n) { return n.attribute("inline") != nullptr; }

class KernelBuilder {
public:
  KernelBuilder(const Graph& g, NodeId region, int vector_bytes)
      : g_(g), pool_(g.pool()), region_(region), vector_bytes_(vector_bytes), inliner_(g), domain_(g, inliner_) {
    inliner_.is_inline = [this](ValueId v) {
      NodeId n = g_.value(v).node;
      return n.valid() && inside_.get(n) && is_marked_inline(g_.node(n));
    };
    for (NodeId n : body().nodes) inside_[n] = true;
    auto& outputs = g_.node(region_).outputs;
    auto& returns = body().returns;
    for (size_t i = 0; i < returns.size(); i++) results_[returns[i].get<ValueId>()] = outputs[i];
  }

  RegionKernel loops() {
    start(false);
    split_axes(d_);
    order_axes(d_);
    merge_axes(d_);
    measure();
    assign_levels();
    bool reduces = std::any_of(d_.members.begin(), d_.members.end(), [](auto& m) { return m.reduction != Reduction::None; });
    if (!reduces) flat_nest();
    else if (!d_.axes.empty() && d_.is_reduced(d_.axes.back())) row_nest();
    else column_nest();
    return finish();
  }

  std::optional<RegionKernel> epilogue() {
    start(true);
    if (d_.members.size() == 1) return std::nullopt;
    tile_axes();
    measure();
    assign_levels();
    return finish();
  }

private:
  const Block& body() const { return g_.block(g_.node(region_).blocks.at(0)); }

  void start(bool contraction) {
    bool first = true;
    for (NodeId n : body().nodes) {
      if (is_marked_inline(g_.node(n))) continue;
      if (first && contraction) domain_.start_with_value(g_.node(n).outputs[0]);
      else if (first) domain_.start(n);
      else {
        auto member = domain_.candidate(n);
        if (!member) member = domain_.candidate(n, true);
        require(member.has_value(), "{} does not fit its region", g_.node(n).op);
        domain_.join(std::move(*member));
      }
      first = false;
    }
    d_ = make_domain(g_, domain_, [&](ValueId v) { return results_.contains(v) || (contraction && v == domain_.members()[0].value); });
  }

  const DomainMember* member(int64_t value) const {
    for (auto& m : d_.members)
      if (m.value.index == static_cast<uint32_t>(value)) return &m;
    return nullptr;
  }

  void measure() {
    for (auto& m : d_.members)
      if (m.body) result_.weight += inline_cost(m.body).weight + 1;
    result_.elements = pool_.integer(1);
    for (Expr a : d_.axes) result_.elements = result_.elements * a->args[0];
  }

  // ---- levels and what is kept between them

  int level_of(const DomainMember& m) {
    if (auto it = levels_.find(m.value); it != levels_.end()) return it->second;
    int level = 0;
    if (m.body)
      visit(m.body, [&](const ExprNode& n) {
        if (n.op != Op::Load || !n.args.empty()) return;
        const DomainMember* p = member(n.bits);
        int l = level_of(*p);
        level = std::max(level, p->reduction != Reduction::None ? l + 1 : l);
      });
    return levels_[m.value] = level;
  }

  void assign_levels() {
    for (auto& m : d_.members) last_ = std::max(last_, level_of(m));
    // Users come after what they use; what is not kept is computed again where its users are.
    for (size_t k = d_.members.size(); k-- > 0;) {
      const DomainMember& m = d_.members[k];
      if (!m.body) continue;
      int use = level_of(m);
      if (m.full && m.reduction == Reduction::None && !is_kept(m)) use = std::max(use, last_use_[m.value]);
      visit(m.body, [&](const ExprNode& n) {
        if (n.op != Op::Load || !n.args.empty()) return;
        int& last = last_use_[member(n.bits)->value];
        last = std::max(last, use);
      });
    }
  }

  // A full value computed at its level and read in a later one.
  bool is_kept(const DomainMember& m) {
    if (!m.full || !m.body || m.reduction != Reduction::None || last_use_[m.value] <= level_of(m)) return false;
    InlineCost cost = inline_cost(m.body);
    return results_.contains(m.value) ? cost.weight + cost.loads > 1 : is_worth_keeping(cost);
  }

  // ---- buffers

  int buffer(ValueId v, BufferKind kind) {
    for (size_t i = 0; i < result_.buffers.size(); i++)
      if (result_.buffers[i] == v && kernel().buffers[i].kind == kind) return static_cast<int>(i);
    result_.buffers.push_back(kind == BufferKind::Scratch ? ValueId{} : v);
    kernel().buffers.push_back({kind, g_.type(v).dtype});
    return static_cast<int>(kernel().buffers.size() - 1);
  }
  int output(ValueId v) { return buffer(results_.at(v), BufferKind::Output); }

  int scratch(const DomainMember& m) {
    if (auto it = scratch_.find(m.value); it != scratch_.end()) return it->second;
    result_.buffers.push_back({});
    Expr at = kernel().scratch_bytes ? kernel().scratch_bytes : pool_.integer(0);
    kernel().buffers.push_back({BufferKind::Scratch, m.type, at});
    Expr bytes = scratch_elements() * static_cast<double>(size_of(m.type));
    kernel().scratch_bytes = at + floor_div(bytes + 127.0, pool_.integer(64)) * 64.0;
    return scratch_[m.value] = static_cast<int>(kernel().buffers.size() - 1);
  }
  // One row: the reduced axes, times the lanes of a column block.
  Expr scratch_elements() {
    Expr n = pool_.integer(lanes_of_block_);
    for (Expr a : d_.reduced) n = n * a->args[0];
    return n;
  }
  Expr scratch_offset() {
    Expr at = pool_.integer(0);
    for (Expr a : d_.axes)
      if (d_.is_reduced(a)) at = at * a->args[0] + a;
    return lane_ ? at * static_cast<double>(lanes_of_block_) + lane_ : at;
  }

  Kernel& kernel() { return result_.kernel; }

  // ---- values in terms of buffers, in a loop of level `level`

  Expr value(const DomainMember& m, int level) {
    auto key = std::pair(m.value.index, level);
    if (auto it = values_.find(key); it != values_.end()) return it->second;
    Expr e;
    if (!m.body) e = pool_.load(buffer(result_.home, BufferKind::Output), m.type, {m.store}); // the contraction's result, in place
    else if (m.reduction != Reduction::None) e = cast(pool_.reg(static_cast<int64_t>(m.value.index), reg_type(m)), m.type);
    else if (m.full && level > level_of(m) && is_kept(m))
      e = results_.contains(m.value) ? pool_.load(output(m.value), m.type, {m.store}) : pool_.load(scratch(m), m.type, {scratch_offset()});
    else e = resolve(m.body, level);
    return values_[key] = e;
  }

  static DType reg_type(const DomainMember& m) {
    return m.reduction == Reduction::ArgMax || m.reduction == Reduction::ArgMin ? DType::I64 : m.body->type;
  }

  Expr resolve(Expr body, int level) {
    Substitution s;
    s.on_load = [&](int64_t v, const ExprNode& load, const std::vector<Expr>& index) {
      if (load.args.empty()) return value(*member(v), level);
      return pool_.load(buffer(ValueId{static_cast<uint32_t>(v)}, BufferKind::Input), load.type, index);
    };
    return s.apply(body);
  }

  // ---- statements

  int lanes(int most) const {
    int width = vector_bytes_ / 4;
    return result_.weight > 24 ? width : std::min(most, 2) * width;
  }

  // What one iteration of the innermost loop of a level does.
  std::vector<Stmt> inner(int level) {
    std::vector<Stmt> out;
    for (auto& m : d_.members) {
      if (!m.body || level_of(m) != level) continue;
      if (m.reduction != Reduction::None) {
        Accumulate a{static_cast<int>(m.value.index), resolve(m.body, level)};
        if (m.position) a.position = m.position;
        out.push_back({a});
        continue;
      }
      if (!m.full) continue;
      if (results_.contains(m.value)) out.push_back({Store{output(m.value), m.store, value(m, level)}});
      else if (is_kept(m)) out.push_back({Store{scratch(m), scratch_offset(), value(m, level)}});
    }
    return out;
  }

  std::vector<Stmt> wrap(std::vector<Stmt> body, const std::vector<Expr>& axes, int innermost_lanes) {
    for (size_t k = axes.size(); k-- > 0;) {
      Loop loop{axes[k], k + 1 == axes.size() ? innermost_lanes : 1, std::move(body)};
      body.clear();
      body.push_back({std::move(loop)});
    }
    return body;
  }

  // Passes over the reduced axes, and the stores of per-row values after the reductions they need.
  std::vector<Stmt> passes(int innermost_lanes) {
    std::vector<Expr> reduced;
    for (Expr a : d_.axes)
      if (d_.is_reduced(a)) reduced.push_back(a);
    std::vector<Stmt> out;
    for (int level = 0; level <= last_ + 1; level++) {
      store_rows(level, out);
      std::vector<Stmt> body = inner(level);
      if (body.empty()) continue;
      ReduceRegion region;
      for (auto& m : d_.members)
        if (m.body && m.reduction != Reduction::None && level_of(m) == level)
          region.accumulators.push_back({static_cast<int>(m.value.index), m.reduction, m.body->type});
      std::vector<Stmt> loops = wrap(std::move(body), reduced, innermost_lanes);
      if (region.accumulators.empty()) {
        for (auto& s : loops) out.push_back(std::move(s));
        continue;
      }
      region.body = std::move(loops);
      out.push_back({std::move(region)});
    }
    return out;
  }

  // Results over the kept axes that are known once the reductions of level - 1 are.
  void store_rows(int level, std::vector<Stmt>& out) {
    for (auto& m : d_.members) {
      if (!results_.contains(m.value) || m.full) continue;
      int ready = level_of(m) + (m.reduction != Reduction::None);
      if (ready == level) out.push_back({Store{output(m.value), m.store, value(m, level)}});
    }
  }

  // The parallel loop runs over `axes` as one; each becomes a digit of it.
  void make_parallel(std::vector<Expr> axes) {
    Expr extent = pool_.integer(1);
    for (Expr a : axes) extent = extent * a->args[0];
    Expr p = pool_.axis(5000, extent);
    std::vector<std::pair<Expr, Expr>> digits;
    Expr radix = pool_.integer(1);
    for (size_t k = axes.size(); k-- > 0;) {
      Expr digit = floor_div(p, radix);
      if (k > 0) digit = mod(digit, axes[k]->args[0]);
      digits.emplace_back(axes[k], digit);
      radix = radix * axes[k]->args[0];
    }
    substitute(d_, digits);
    for (Expr a : axes) std::erase(d_.axes, a);
    kernel().parallel = p;
    result_.iterations = extent;
  }

  // The last axis in blocks: its outer part joins the parallel axes, the inner part is returned.
  Expr block_last(int64_t size, std::vector<Expr>& outer) {
    Expr last = d_.axes.back(), extent = last->args[0];
    auto known = const_int(extent);
    if (known && *known <= size) return last;
    Expr block = pool_.axis(5001, floor_div(extent + static_cast<double>(size - 1), pool_.integer(size)));
    Expr inner = pool_.axis(5002, min(pool_.integer(size), extent - block * static_cast<double>(size)));
    // The extent of the inner axis names `block`, which make_parallel replaces: so it is made by the substitution below.
    outer.push_back(block);
    d_.axes.back() = inner;
    substitute(d_, {{last, block * static_cast<double>(size) + inner}});
    return inner;
  }

  // `inner` with the present value of the axes in its extent, after make_parallel.
  Expr refresh(Expr inner, const std::vector<std::pair<Expr, Expr>>& digits) {
    Substitution s;
    for (auto& [from, to] : digits) s.set(from, to);
    return s.apply(inner);
  }

  void flat_nest() {
    if (d_.axes.empty()) d_.axes.push_back(pool_.axis(5003, pool_.integer(1)));
    std::vector<Expr> outer(d_.axes.begin(), d_.axes.end() - 1);
    Expr inner_axis = block_last(block_elements, outer);
    nest(outer, inner_axis, [&](Expr axis) {
      Loop loop{axis, lanes(2), inner(0)};
      return std::vector<Stmt>{{std::move(loop)}};
    });
  }

  void row_nest() {
    std::vector<Expr> kept;
    for (Expr a : d_.axes)
      if (!d_.is_reduced(a)) kept.push_back(a);
    make_parallel(kept);
    kernel().body = passes(lanes(4));
  }

  void column_nest() {
    lanes_of_block_ = std::max(16, vector_bytes_ / 4 * (result_.weight > 24 ? 1 : 4));
    std::vector<Expr> outer;
    for (Expr a : d_.axes)
      if (!d_.is_reduced(a) && a != d_.axes.back()) outer.push_back(a);
    Expr inner_axis = d_.axes.empty() ? Expr() : block_last(lanes_of_block_, outer);
    nest(outer, inner_axis, [&](Expr axis) {
      lane_ = axis;
      Loop loop{axis, static_cast<int>(lanes_of_block_), passes(1)};
      return std::vector<Stmt>{{std::move(loop)}};
    });
  }

  // Parallel over `outer`; inside, `make` with the inner axis.
  template <class F> void nest(const std::vector<Expr>& outer, Expr inner_axis, F make) {
    std::erase(d_.axes, inner_axis);
    std::vector<Expr> reduced = d_.axes;
    make_parallel(outer);
    // The inner axis' extent may name axes that are digits of the parallel one now.
    Expr extent = pool_.integer(1);
    std::vector<std::pair<Expr, Expr>> digits;
    Expr radix = extent;
    for (size_t k = outer.size(); k-- > 0;) {
      Expr digit = floor_div(kernel().parallel, radix);
      if (k > 0) digit = mod(digit, outer[k]->args[0]);
      digits.emplace_back(outer[k], digit);
      radix = radix * outer[k]->args[0];
    }
    if (!inner_axis) inner_axis = pool_.axis(5003, pool_.integer(1));
    Expr now = refresh(inner_axis, digits);
    if (now != inner_axis) substitute(d_, {{inner_axis, now}});
    kernel().body = make(now);
  }

  // Epilogue: rows m and columns n of the tile that is ready, from the axes of the contraction's result.
  void tile_axes() {
    Expr tile[5];
    for (int k = 0; k < 5; k++) tile[k] = pool_.symbol(tile_symbols[k], DType::I64, 0, INT64_MAX);
    bool conv = g_.node(contraction_of(g_, region_)).def->kind == Kind::Conv;
    std::vector<Expr> axes = d_.axes; // batch?, m, n of a matmul; n, c, spatial... of a convolution
    Expr i = pool_.axis(5004, tile[2] - tile[1]), j = pool_.axis(5005, tile[4] - tile[3]);
    Expr m = tile[1] + i, n = tile[3] + j;
    if (!conv) {
      if (axes.size() == 3) substitute(d_, {{axes[0], tile[0]}});
      substitute(d_, {{axes[axes.size() - 2], m}, {axes.back(), n}});
    } else {
      Expr channels = axes[1];
      std::vector<Expr> pixels(axes.begin() + 2, axes.end());
      substitute(d_, {{axes[0], tile[0]}});
      std::erase(d_.axes, axes[0]);
      order_axes(d_); // drops axes of extent 1
      while (pixels.size() > 1) {
        size_t k = pixels.size() - 1;
        bool gone_inner = is_const_int(pixels[k]->args[0], 1), gone_outer = is_const_int(pixels[k - 1]->args[0], 1);
        if (gone_inner) pixels.pop_back();
        else if (gone_outer) pixels.erase(pixels.begin() + static_cast<ptrdiff_t>(k) - 1);
        else if (merge_pair(d_, pixels[k - 1], pixels[k])) {
          pixels.pop_back();
          pixels.back() = *std::max_element(d_.axes.begin(), d_.axes.end(), [](Expr a, Expr b) { return a->bits < b->bits; });
        } else break;
      }
      Expr radix = pool_.integer(1);
      std::vector<std::pair<Expr, Expr>> digits{{channels, n}};
      for (size_t k = pixels.size(); k-- > 0;) {
        Expr digit = floor_div(m, radix);
        if (k > 0) digit = mod(digit, pixels[k]->args[0]);
        digits.emplace_back(pixels[k], digit);
        radix = radix * pixels[k]->args[0];
      }
      substitute(d_, digits);
    }
    kernel().parallel = pool_.axis(5000, pool_.integer(1));
    result_.iterations = pool_.integer(1);
    d_.axes.clear();
    find_home();
    Loop columns{j, lanes(2), {}};
    assign_levels();
    columns.body = inner(0);
    kernel().body = {{Loop{i, 1, {{std::move(columns)}}}}};
  }

  // The contraction writes to its own result, or, where nobody else reads that, to that of a later member of the same layout.
  void find_home() {
    const DomainMember& c = d_.members[0];
    if (auto it = results_.find(c.value); it != results_.end()) result_.home = it->second;
    else
      for (auto& m : d_.members)
        if (results_.contains(m.value) && m.type == c.type && m.store == c.store) result_.home = results_.at(m.value);
    require(result_.home.valid(), "the results of a contraction's region have another layout than the contraction");
  }

  RegionKernel finish() {
    std::vector<Expr> symbols;
    auto add = [&](Expr e) {
      if (e)
        visit(e, [&](const ExprNode& n) {
          if (n.op == Op::Symbol && std::find(symbols.begin(), symbols.end(), Expr(&n)) == symbols.end()) symbols.push_back(Expr(&n));
        });
    };
    collect(kernel().body, add);
    add(kernel().parallel);
    for (auto& b : kernel().buffers) add(b.scratch_offset);
    std::erase_if(symbols, [](Expr s) { return s->name.starts_with("tile_"); });
    std::sort(symbols.begin(), symbols.end(), [](Expr a, Expr b) { return a->name < b->name; });
    kernel().scalars = std::move(symbols);
    if (result_.home.valid())
      for (auto name : tile_symbols) kernel().scalars.push_back(pool_.symbol(name));
    kernel().name = g_.node(region_).op.substr(7);
    return std::move(result_);
  }

  template <class F> void collect(const std::vector<Stmt>& body, F& add) {
    for (auto& s : body) {
      if (auto* loop = std::get_if<Loop>(&s.v)) add(loop->axis), collect(loop->body, add);
      else if (auto* region = std::get_if<ReduceRegion>(&s.v)) collect(region->body, add);
      else if (auto* store = std::get_if<Store>(&s.v)) add(store->offset), add(store->value);
      else add(std::get<Accumulate>(s.v).value), add(std::get<Accumulate>(s.v).position);
    }
  }

  const Graph& g_;
  ExprPool& pool_;
  NodeId region_;
  int vector_bytes_;
  SideTable<NodeId, bool> inside_{false};
  Inliner inliner_;
  RegionDomain domain_;
  LoopDomain d_;
  std::unordered_map<ValueId, ValueId> results_; // member -> the region's output
  std::unordered_map<ValueId, int> levels_, last_use_, scratch_;
  std::map<std::pair<uint32_t, int>, Expr> values_;
  int last_ = 0;
  int64_t lanes_of_block_ = 1;
  Expr lane_;
  RegionKernel result_;
};

} // namespace

NodeId contraction_of(const Graph& g, NodeId region) {
  for (NodeId n : g.block(g.node(region).blocks.at(0)).nodes)
    if (!is_marked_inline(g.node(n))) return n;
  internal_error("a region without members");
}

RegionKernel kernel_of_loops(const Graph& graph, NodeId region, int vector_bytes) { return KernelBuilder(graph, region, vector_bytes).loops(); }
std::optional<RegionKernel> kernel_of_epilogue(const Graph& graph, NodeId region, int vector_bytes) {
  return KernelBuilder(graph, region, vector_bytes).epilogue();
}

} // namespace tenon
