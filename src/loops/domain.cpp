// Domain transformations.
#include "loops/domain.h"

#include "backend/affine.h"
#include "expr/eval.h"

namespace tenon {

LoopDomain make_domain(const Graph& graph, const RegionDomain& region, const std::function<bool(ValueId)>& is_stored) {
  ExprPool& pool = graph.pool();
  LoopDomain d;
  d.axes = region.axes();
  for (Expr a : d.axes)
    if (region.is_reduced(a)) d.reduced.push_back(a);
  for (auto& m : region.members()) {
    const Type& type = graph.type(m.value);
    DomainMember out{
        .value = m.value, .full = m.full, .reduction = m.compute.reduction, .type = type.dtype, .body = {}, .position = {}, .store = {}};
    if (m.compute.body) {
      Substitution s;
      s.on_load = [&](int64_t value, const ExprNode& load, const std::vector<Expr>& index) {
        ValueId v{static_cast<uint32_t>(value)};
        if (region.find(v)) return pool.load(member_operand(v, region.slice_of(v, index).slice), load.type, {});
        return pool.load(value, load.type, {flat_offset(pool, graph.type(v), index)});
      };
      out.body = s.apply(m.compute.body);
    }
    if (m.compute.reduction == Reduction::ArgMax || m.compute.reduction == Reduction::ArgMin) {
      out.position = pool.integer(0);
      for (Expr a : m.compute.reduce_axes) {
        Expr extent = a->op == Op::Axis ? a->args[0] : pool.integer(1);
        out.position = out.position * extent + a;
      }
    }
    if (is_stored(m.value)) out.store = flat_offset(pool, type, m.index);
    d.members.push_back(std::move(out));
  }
  return d;
}

void substitute(LoopDomain& d, const std::vector<std::pair<Expr, Expr>>& replacements) {
  Substitution s;
  for (auto& [from, to] : replacements) s.set(from, to);
  for (auto& m : d.members) {
    if (m.body) m.body = s.apply(m.body);
    if (m.position) m.position = s.apply(m.position);
    if (m.store) m.store = s.apply(m.store);
  }
  for (Expr& e : d.others) e = s.apply(e);
}

namespace {

void for_each_expr(const LoopDomain& d, const std::function<void(Expr)>& f) {
  for (auto& m : d.members) {
    if (m.body) f(m.body);
    if (m.position) f(m.position);
    if (m.store) f(m.store);
  }
}

int64_t next_number(const LoopDomain& d) {
  int64_t n = 0;
  for (Expr a : d.axes) n = std::max(n, a->bits + 1);
  return n;
}

// A divisor by which an axis is split somewhere; empty where there is none.
std::pair<Expr, Expr> find_split(const LoopDomain& d) {
  std::pair<Expr, Expr> found;
  for_each_expr(d, [&](Expr e) {
    visit(e, [&](const ExprNode& n) {
      if (found.first || (n.op != Op::FloorDiv && n.op != Op::Mod) || n.type != DType::I64) return;
      Expr axis = n.args[0], divisor = n.args[1];
      if (std::find(d.axes.begin(), d.axes.end(), axis) == d.axes.end() || divisor->lo <= 0) return;
      if (contains(divisor, [](const ExprNode& x) { return x.op == Op::Axis || x.op == Op::Load; })) return;
      if (floor_div(axis->args[0], divisor) * divisor != axis->args[0]) return;
      found = {axis, divisor};
    });
  });
  return found;
}

} // namespace

void split_axes(LoopDomain& d) {
  for (int round = 0; round < 16; round++) {
    auto [axis, divisor] = find_split(d);
    if (!axis) return;
    ExprPool& pool = *axis->pool;
    int64_t number = next_number(d);
    Expr hi = pool.axis(number, floor_div(axis->args[0], divisor)), lo = pool.axis(number + 1, divisor);
    substitute(d, {{axis, hi * divisor + lo}});
    auto replace = [&](std::vector<Expr>& list) {
      auto it = std::find(list.begin(), list.end(), axis);
      if (it == list.end()) return;
      *it = lo;
      list.insert(it, hi);
    };
    replace(d.axes);
    replace(d.reduced);
  }
}

namespace {

// Symbols count as 64: only the order matters.
int64_t rough_value(Expr e, const ExprNode* axis = nullptr, int64_t at = 1) {
  return eval_int(e, [&](const ExprNode& n) { return n.op == Op::Symbol ? 64 : &n == axis ? at : 1; });
}

// How far apart neighbours along an axis lie on average.
int64_t slope(Expr term, Expr axis) {
  int64_t n = std::max<int64_t>(rough_value(axis->args[0]), 2);
  return (rough_value(term, axis.get(), n - 1) - rough_value(term, axis.get(), 0)) / (n - 1);
}

// Offsets of a load that looks up where it reads: along the axes it looks up by, places lie anywhere, so far apart. Or that divides
// (windows of which some are longer by one): they lie apart by some average.
std::optional<Affine> lookup_access(Expr offset, std::span<const Expr> axes) {
  ExprPool& pool = *offset->pool;
  Expr direct = pool.integer(0), far = pool.integer(int64_t{1} << 40);
  std::vector<bool> looked_up(axes.size(), false);
  for (Expr term : offset->op == Op::Add ? offset->args : std::vector<Expr>{offset}) {
    bool looks_up = contains(term, [](const ExprNode& n) { return n.op == Op::Load || n.op == Op::Checked; }),
         divides = !looks_up && !as_affine(term, axes);
    if (!looks_up && !divides) direct = direct + term;
    for (size_t k = 0; (looks_up || divides) && k < axes.size(); k++)
      if (contains(term, [&](const ExprNode& n) { return &n == axes[k].get(); })) {
        if (looks_up) looked_up[k] = true;
        else direct = direct + axes[k] * static_cast<double>(slope(term, axes[k]));
      }
  }
  auto a = as_affine(direct, axes);
  if (!a || std::ranges::all_of(a->coefficients, [](Expr c) { return is_const_int(c, 0); })) return std::nullopt;
  for (size_t k = 0; k < axes.size(); k++)
    if (looked_up[k]) a->coefficients[k] = far;
  return a;
}

// The access that decides the order of loops: a store over all axes, else the widest load.
std::optional<Affine> main_access(const LoopDomain& d) {
  for (auto& m : d.members)
    if (m.store && m.full)
      if (auto a = as_affine(m.store, d.axes)) return a;
  std::optional<Affine> best;
  int most = -1;
  for (auto& m : d.members) {
    if (!m.body) continue;
    visit(m.body, [&](const ExprNode& n) {
      if (n.op != Op::Load || n.args.empty()) return;
      auto a = as_affine(n.args[0], d.axes);
      if (!a) a = lookup_access(n.args[0], d.axes);
      if (!a) return;
      int used = 0;
      for (Expr c : a->coefficients) used += !is_const_int(c, 0);
      if (used > most) most = used, best = a;
    });
  }
  return best;
}

// Windows that are reduced (a pooling's) are short, and their neighbours lie next to them: those make better vectors.
void avoid_vectors_of_windows(LoopDomain& d, const Affine& access) {
  constexpr int64_t few = 16, near = 4;
  auto extent = const_int(d.axes.back()->args[0]);
  if (!d.is_reduced(d.axes.back()) || !extent || *extent > few) return;
  if (std::any_of(d.members.begin(), d.members.end(), [](auto& m) { return m.full && m.store; })) return; // stored element by element
  auto at = d.axes.end();
  for (auto it = d.axes.begin(); it != d.axes.end(); ++it) {
    int64_t step = const_int(access.coefficients[static_cast<size_t>(it - d.axes.begin())]).value_or(0);
    if (!d.is_reduced(*it) && step >= 1 && step <= near && rough_value((*it)->args[0]) >= *extent) at = it;
  }
  if (at != d.axes.end()) std::rotate(at, at + 1, d.axes.end());
}

// Loads whose elements lie apart along an axis, and those whose elements are neighbours.
std::pair<int, int> apart_and_near(const LoopDomain& d, Expr axis) {
  int apart = 0, near = 0;
  for (auto& m : d.members)
    if (m.body)
      visit(m.body, [&](const ExprNode& n) {
        if (n.op != Op::Load || n.args.empty() || !contains(n.args[0], [&](const ExprNode& x) { return &x == axis.get(); })) return;
        Expr one[] = {axis};
        auto a = as_affine(n.args[0], one);
        bool neighbours = a && is_const_int(a->coefficients[0], 1);
        near += neighbours, apart += !neighbours;
      });
  return {apart, near};
}

// Sums of products read one operand across its rows along any but one axis: that one makes the vectors.
void avoid_gathers(LoopDomain& d) {
  constexpr int64_t least = 8;
  if (d.axes.size() < 2 || d.reduced.empty() || apart_and_near(d, d.axes.back()).first == 0) return;
  if (std::any_of(d.members.begin(), d.members.end(), [](auto& m) { return m.full && m.store; })) return; // stored along the last axis
  for (size_t k = d.axes.size() - 1; k-- > 0;) {
    auto [apart, near] = apart_and_near(d, d.axes[k]);
    auto at = d.axes.begin() + static_cast<std::ptrdiff_t>(k);
    if (apart == 0 && near > 0 && rough_value(d.axes[k]->args[0]) >= least) return void(std::rotate(at, at + 1, d.axes.end()));
  }
}

// A last axis of a few elements (three color channels, the parts of complex numbers) would leave vectors mostly empty: the next one
// that is long goes last. Along the one beside it elements lie near: a vector or two will do.
bool avoid_short_vectors(LoopDomain& d) {
  constexpr int64_t few = 8;
  if (d.axes.size() < 2 || !d.reduced.empty()) return false;
  auto last = const_int(d.axes.back()->args[0]);
  if (!last || *last >= few) return false;
  for (size_t k = d.axes.size() - 1, beside = k - 1; k-- > 0;) {
    if (rough_value(d.axes[k]->args[0]) < (k == beside ? 2 : 4) * few) continue;
    auto at = d.axes.begin() + static_cast<std::ptrdiff_t>(k);
    std::rotate(at, at + 1, d.axes.end());
    return true;
  }
  return false;
}

} // namespace

void order_axes(LoopDomain& d) {
  // Axes of extent 1 are index 0.
  std::vector<std::pair<Expr, Expr>> ones;
  for (Expr a : d.axes)
    if (is_const_int(a->args[0], 1)) ones.emplace_back(a, a->pool->integer(0));
  substitute(d, ones);
  for (auto& [a, zero] : ones) {
    std::erase(d.axes, a);
    std::erase(d.reduced, a);
  }
  auto access = main_access(d);
  if (!access) return;
  std::vector<std::pair<int64_t, Expr>> keyed;
  for (size_t k = 0; k < d.axes.size(); k++) {
    int64_t stride = std::abs(rough_value(access->coefficients[k]));
    keyed.emplace_back(stride == 0 ? INT64_MAX : stride, d.axes[k]);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (size_t k = 0; k < keyed.size(); k++) d.axes[k] = keyed[k].second;
  if (auto now = main_access(d); now && !d.axes.empty()) avoid_vectors_of_windows(d, *now);
  avoid_gathers(d);
}

namespace {

// What a comparison of the outer axis with a bound says of both as one: i < n as i * extent + j < n * extent.
Expr compared_as_one(Expr c, Expr outer, Expr inner, Expr merged) {
  if ((c->op != Op::Lt && c->op != Op::Le) || c->args[0]->type != DType::I64) return {};
  Expr pair[] = {outer, inner}, extent = inner->args[0];
  auto d = as_affine(c->args[1] - c->args[0], pair); // positive, or not negative, where the condition holds
  if (!d || !is_const_int(d->coefficients[1], 0) || contains(d->rest, [](const ExprNode& n) { return n.op == Op::Load; })) return {};
  double equal = c->op == Op::Le ? 1 : 0;
  if (is_const_int(d->coefficients[0], -1)) return lt(merged, (d->rest + equal) * extent);
  if (is_const_int(d->coefficients[0], 1)) return le((1 - equal - d->rest) * extent, merged);
  return {};
}

} // namespace

bool merge_pair(LoopDomain& d, Expr outer, Expr inner, bool cuts) {
  Expr pair[] = {outer, inner}, extent = inner->args[0], merged = inner->pool->axis(next_number(d), outer->args[0] * extent);
  bool ok = d.is_reduced(outer) == d.is_reduced(inner), cut = cuts && d.reduced.empty();
  std::vector<std::pair<Expr, Expr>> replaced{{outer, inner->pool->integer(0)}, {inner, merged}};
  auto walks = [&](Expr offset) {
    auto a = as_affine(offset, pair);
    if (!a || a->coefficients[0] != a->coefficients[1] * extent) ok = false;
  };
  for (auto& m : d.members) {
    if (m.store && (m.full || !d.is_reduced(outer))) walks(m.store);
    if (m.position) walks(m.position);
    if (!m.body || !ok) continue;
    // Axes may occur only inside offsets of loads, and there as one walk; the outer one in conditions too, if loops are cut there.
    std::function<void(Expr)> scan = [&](Expr e) {
      if (!ok) return;
      if (e == outer || e == inner) ok = false;
      else if (Expr c = cut ? compared_as_one(e, outer, inner, merged) : Expr()) replaced.emplace_back(e, c);
      else if (e->op == Op::Load && !e->args.empty()) walks(e->args[0]);
      else if (!is_leaf(e->op))
        for (Expr a : e->args) scan(a);
    };
    scan(m.body);
  }
  if (!ok) return false;
  substitute(d, replaced);
  for (auto* list : {&d.axes, &d.reduced}) {
    std::replace(list->begin(), list->end(), inner, merged);
    std::erase(*list, outer);
  }
  return true;
}

static void merge_neighbours(LoopDomain& d) {
  for (size_t k = d.axes.size(); k-- > 1;) merge_pair(d, d.axes[k - 1], d.axes[k], true);
}

void merge_axes(LoopDomain& d) {
  merge_neighbours(d);
  if (avoid_short_vectors(d)) merge_neighbours(d);
}

} // namespace tenon
