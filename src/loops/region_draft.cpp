#include "loops/region_draft.h"

#include "backend/contract.h"
#include "backend/fuse_cost.h"

namespace tenon {

namespace {

const Block& body_of(const RegionDraft& r) { return r.g.block(r.g.node(r.region).blocks.at(0)); }

} // namespace

bool is_marked_inline(const Node& n) { return n.attribute("inline") != nullptr; }

RegionDraft::RegionDraft(const Graph& graph, NodeId node, int bytes)
    : g(graph), pool(g.pool()), region(node), vector_bytes(bytes), inliner(g), members(g, inliner) {
  inliner.is_inline = [this](ValueId v) {
    NodeId n = g.value(v).node;
    return n.valid() && inside.get(n) && is_marked_inline(g.node(n));
  };
  for (NodeId n : body_of(*this).nodes) inside[n] = true;
  auto& outputs = g.node(region).outputs;
  auto& returns = body_of(*this).returns;
  for (size_t i = 0; i < returns.size(); i++) results[returns[i].get<ValueId>()] = outputs[i];
}

void start(RegionDraft& r, bool contraction) {
  bool first = true;
  for (NodeId n : body_of(r).nodes) {
    if (is_marked_inline(r.g.node(n))) continue;
    if (first && contraction) r.members.start_with_value(r.g.node(n).outputs[0], slices_of(r.g.node(n)));
    else if (first) r.members.start(n);
    else {
      auto member = r.members.candidate(n);
      if (!member) member = r.members.candidate(n, true);
      require(member.has_value(), "{} does not fit its region", r.g.node(n).op);
      r.members.join(std::move(*member));
    }
    first = false;
  }
  r.d = make_domain(r.g, r.members, [&](ValueId v) { return r.results.contains(v); });
}

void measure(RegionDraft& r) {
  for (auto& m : r.d.members)
    if (m.body) r.out.weight += inline_cost(m.body).weight + 1;
  r.out.elements = r.pool.integer(1);
  for (Expr a : r.d.axes) r.out.elements = r.out.elements * a->args[0];
}

// ---- levels and what is kept between them

namespace {

const DomainMember* member(const RegionDraft& r, int64_t value) {
  for (auto& m : r.d.members)
    if (m.value.index == static_cast<uint32_t>(value)) return &m;
  return nullptr;
}

// A full value computed at its level and read in a later one.
bool is_kept(RegionDraft& r, const DomainMember& m) {
  if (!m.full || !m.body || m.reduction != Reduction::None || r.last_use[m.value] <= level_of(r, m)) return false;
  InlineCost cost = inline_cost(m.body);
  return r.results.contains(m.value) ? cost.weight + cost.loads > 1 : !r.in_chunks && is_worth_keeping(cost);
}

} // namespace

int level_of(RegionDraft& r, const DomainMember& m) {
  if (auto it = r.levels.find(m.value); it != r.levels.end()) return it->second;
  int level = 0;
  if (m.body)
    visit(m.body, [&](const ExprNode& n) {
      if (n.op != Op::Load || !n.args.empty()) return;
      const DomainMember* p = member(r, n.bits);
      int l = level_of(r, *p);
      level = std::max(level, p->reduction != Reduction::None ? l + 1 : l);
    });
  return r.levels[m.value] = level;
}

void assign_levels(RegionDraft& r) {
  for (auto& m : r.d.members) r.last = std::max(r.last, level_of(r, m));
  // Users come after what they use; what is not kept is computed again where its users are.
  for (size_t k = r.d.members.size(); k-- > 0;) {
    const DomainMember& m = r.d.members[k];
    if (!m.body) continue;
    int use = level_of(r, m);
    if (m.full && m.reduction == Reduction::None && !is_kept(r, m)) use = std::max(use, r.last_use[m.value]);
    visit(m.body, [&](const ExprNode& n) {
      if (n.op != Op::Load || !n.args.empty()) return;
      int& last = r.last_use[member(r, n.bits)->value];
      last = std::max(last, use);
    });
  }
}

// ---- buffers

int buffer(RegionDraft& r, ValueId v, BufferKind kind) {
  for (size_t i = 0; i < r.out.buffers.size(); i++)
    if (r.out.buffers[i] == v && r.kernel().buffers[i].kind == kind) return static_cast<int>(i);
  r.out.buffers.push_back(kind == BufferKind::Scratch ? ValueId{} : v);
  r.kernel().buffers.push_back({kind, r.g.type(v).dtype});
  return static_cast<int>(r.kernel().buffers.size() - 1);
}

namespace {

int output(RegionDraft& r, ValueId v) { return buffer(r, r.results.at(v), BufferKind::Output); }

// One row: the reduced axes, times the lanes of a column block.
Expr scratch_elements(const RegionDraft& r) {
  Expr n = r.pool.integer(r.lanes_of_block);
  for (Expr a : r.d.reduced) n = n * a->args[0];
  return n;
}

Expr scratch_offset(const RegionDraft& r) {
  Expr at = r.pool.integer(0);
  for (Expr a : r.d.axes)
    if (r.d.is_reduced(a)) at = at * a->args[0] + a;
  return r.lane ? at * static_cast<double>(r.lanes_of_block) + r.lane : at;
}

int scratch(RegionDraft& r, const DomainMember& m) {
  if (auto it = r.scratch.find(m.value); it != r.scratch.end()) return it->second;
  return r.scratch[m.value] = add_scratch(r, m.type, scratch_elements(r));
}

} // namespace

int add_scratch(RegionDraft& r, DType type, Expr elements) {
  Kernel& k = r.kernel();
  r.out.buffers.push_back({});
  Expr at = k.scratch_bytes ? k.scratch_bytes : r.pool.integer(0);
  k.buffers.push_back({BufferKind::Scratch, type, at});
  Expr bytes = elements * static_cast<double>(size_of(type));
  k.scratch_bytes = at + floor_div(bytes + 127.0, r.pool.integer(64)) * 64.0;
  return static_cast<int>(k.buffers.size() - 1);
}

// ---- values in terms of buffers

namespace {

DType reg_type(const DomainMember& m) {
  return m.reduction == Reduction::ArgMax || m.reduction == Reduction::ArgMin ? DType::I64 : m.body->type;
}

Expr resolve(RegionDraft& r, Expr body, int level) {
  Substitution s;
  s.on_load = [&](int64_t v, const ExprNode& load, const std::vector<Expr>& index) {
    if (load.args.empty()) return value(r, *member(r, v), level, slice_of_operand(v));
    return r.pool.load(buffer(r, ValueId{static_cast<uint32_t>(v)}, BufferKind::Input), load.type, index);
  };
  return s.apply(body);
}

} // namespace

Expr value(RegionDraft& r, const DomainMember& m, int level, int64_t slice) {
  if (!m.body) return cast(r.sums.at(static_cast<size_t>(slice)), m.type);
  auto key = std::pair(m.value.index, level);
  if (auto it = r.values.find(key); it != r.values.end()) return it->second;
  Expr e;
  if (m.reduction != Reduction::None) e = cast(r.pool.reg(static_cast<int64_t>(m.value.index), reg_type(m)), m.type);
  else if (m.full && level > level_of(r, m) && is_kept(r, m))
    e = r.results.contains(m.value) ? r.pool.load(output(r, m.value), m.type, {m.store})
                                    : r.pool.load(scratch(r, m), m.type, {scratch_offset(r)});
  else e = resolve(r, m.body, level);
  return r.values[key] = e;
}

// ---- statements

int lanes(const RegionDraft& r, int most) {
  int width = r.vector_bytes / 4;
  return r.out.weight > 24 ? width : std::min(most, 2) * width;
}

int column_lanes(const RegionDraft& r) { return std::max(16, r.vector_bytes / 4 * (r.out.weight > 24 ? 1 : 4)); }

std::vector<Accumulator> accumulators(RegionDraft& r, int level) {
  std::vector<Accumulator> out;
  for (auto& m : r.d.members)
    if (m.body && m.reduction != Reduction::None && level_of(r, m) == level)
      out.push_back({static_cast<int>(m.value.index), m.reduction, m.body->type});
  return out;
}

std::vector<Stmt> over_reduced(const RegionDraft& r, std::vector<Stmt> body, int innermost_lanes) {
  int n = innermost_lanes;
  for (size_t k = r.d.axes.size(); k-- > 0;) {
    if (!r.d.is_reduced(r.d.axes[k])) continue;
    Loop loop{r.d.axes[k], std::exchange(n, 1), std::move(body)};
    body.clear();
    body.push_back({std::move(loop)});
  }
  return body;
}

std::vector<Stmt> inner(RegionDraft& r, int level) {
  std::vector<Stmt> out;
  for (auto& m : r.d.members) {
    if ((!m.body && r.sums.empty()) || level_of(r, m) != level) continue;
    if (m.reduction != Reduction::None) {
      Accumulate a{static_cast<int>(m.value.index), resolve(r, m.body, level)};
      if (m.position) a.position = m.position;
      out.push_back({a});
      continue;
    }
    if (!m.full) continue;
    if (r.results.contains(m.value)) out.push_back({Store{output(r, m.value), m.store, value(r, m, level)}});
    else if (is_kept(r, m)) out.push_back({Store{scratch(r, m), scratch_offset(r), value(r, m, level)}});
  }
  return out;
}

void store_rows(RegionDraft& r, int level, std::vector<Stmt>& to) {
  for (auto& m : r.d.members) {
    if (!r.results.contains(m.value) || m.full) continue;
    int ready = level_of(r, m) + (m.reduction != Reduction::None);
    if (ready == level) to.push_back({Store{output(r, m.value), m.store, value(r, m, level)}});
  }
}

// ---- axes

bool reduces_last(const RegionDraft& r) { return !r.d.axes.empty() && r.d.is_reduced(r.d.axes.back()); }

std::vector<Expr> kept_axes(const RegionDraft& r) {
  std::vector<Expr> kept;
  for (Expr a : r.d.axes)
    if (!r.d.is_reduced(a)) kept.push_back(a);
  return kept;
}

namespace {

void replace_axis(LoopDomain& d, Expr from, Expr to) {
  std::replace(d.axes.begin(), d.axes.end(), from, to);
  std::replace(d.reduced.begin(), d.reduced.end(), from, to);
}

} // namespace

void block_last(RegionDraft& r, int64_t size, std::vector<Expr>& outer) {
  auto known = const_int(r.d.axes.back()->args[0]);
  if (!known || *known > size) outer.push_back(block_axis(r, r.d.axes.back(), r.pool.integer(size)));
}

Expr block_axis(RegionDraft& r, Expr axis, Expr size) {
  constexpr int64_t first = 5010;
  Expr extent = axis->args[0];
  Expr block = r.pool.axis(first + 2 * r.blocked, floor_div(extent + size - 1.0, size));
  Expr inner = r.pool.axis(first + 2 * r.blocked + 1, min(size, extent - block * size));
  r.blocked++;
  substitute(r.d, {{axis, block * size + inner}});
  replace_axis(r.d, axis, inner);
  return block;
}

std::vector<std::pair<Expr, Expr>> make_parallel(RegionDraft& r, const std::vector<Expr>& axes) {
  Expr extent = r.pool.integer(1);
  for (Expr a : axes) extent = extent * a->args[0];
  Expr p = r.pool.axis(5000, extent);
  std::vector<std::pair<Expr, Expr>> digits;
  Expr radix = r.pool.integer(1);
  for (size_t k = axes.size(); k-- > 0;) {
    Expr digit = floor_div(p, radix);
    if (k > 0) digit = mod(digit, axes[k]->args[0]);
    digits.emplace_back(axes[k], digit);
    radix = radix * axes[k]->args[0];
  }
  substitute(r.d, digits);
  for (Expr a : axes) std::erase(r.d.axes, a);
  // The last block is shorter: extents may name the axis over blocks.
  Substitution s;
  for (auto& [from, to] : digits) s.set(from, to);
  for (Expr a : std::vector<Expr>(r.d.axes)) {
    Expr now = s.apply(a);
    if (now == a) continue;
    substitute(r.d, {{a, now}});
    replace_axis(r.d, a, now);
  }
  r.kernel().parallel = p;
  r.out.iterations = extent;
  return digits;
}

// ---- the end

void for_each_expr(const std::vector<Stmt>& body, const std::function<void(Expr)>& f) {
  for (auto& s : body) {
    if (auto* loop = std::get_if<Loop>(&s.v)) f(loop->axis), for_each_expr(loop->body, f);
    else if (auto* region = std::get_if<ReduceRegion>(&s.v)) for_each_expr(region->body, f);
    else if (auto* store = std::get_if<Store>(&s.v)) f(store->offset), f(store->value);
    else if (auto* a = std::get_if<Accumulate>(&s.v)) f(a->value), f(a->position);
    else
      for (Expr e : exprs_of(std::get<Turn>(s.v))) f(e);
  }
}

RegionKernel finish(RegionDraft& r) {
  std::vector<Expr> symbols;
  auto add = [&](Expr e) {
    if (e)
      visit(e, [&](const ExprNode& n) {
        if (n.op == Op::Symbol && std::find(symbols.begin(), symbols.end(), Expr(&n)) == symbols.end()) symbols.push_back(Expr(&n));
      });
  };
  for_each_expr(r.kernel().body, add);
  add(r.kernel().parallel);
  for (auto& b : r.kernel().buffers) add(b.scratch_offset);
  std::erase_if(symbols, [](Expr s) { return s->name.starts_with("tile_"); });
  std::sort(symbols.begin(), symbols.end(), [](Expr a, Expr b) { return a->name < b->name; });
  r.kernel().scalars = std::move(symbols);
  if (!r.sums.empty())
    for (auto name : tile_symbols) r.kernel().scalars.push_back(r.pool.symbol(name));
  r.kernel().name = r.g.node(r.region).op.base();
  return std::move(r.out);
}

} // namespace tenon
