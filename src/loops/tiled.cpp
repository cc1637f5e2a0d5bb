#include "loops/tiled.h"

#include <set>

#include "backend/affine.h"

namespace tenon {

namespace {

constexpr int64_t few = 8;                         // elements of an axis that is unrolled as a whole
constexpr int64_t block = 64, block_columns = 128; // of a transpose: whole cache lines of any type, and what the first cache holds

struct Access {
  std::vector<int64_t> step; // per axis; `unknown` where it is no constant
  size_t bytes;
  bool store;
};
constexpr int64_t unknown = INT64_MAX;

// Loads that are done for every element: not those under a condition on indices.
void find_loads(Expr e, const std::function<void(const ExprNode&)>& f, std::set<const ExprNode*>& seen) {
  if (!seen.insert(e.get()).second) return;
  if (e->op == Op::Load && !e->args.empty()) return f(*e);
  bool guards = e->op == Op::Select && contains(e->args[0], [](const ExprNode& n) { return n.op == Op::Axis || n.op == Op::Symbol; });
  for (size_t k = 0; k < (guards ? 1 : e->args.size()); k++) find_loads(e->args[k], f, seen);
}

std::vector<Access> accesses(const RegionDraft& r) {
  std::vector<Access> out;
  auto add = [&](Expr offset, DType type, bool store) {
    auto a = as_affine(offset, r.d.axes);
    if (!a) return;
    Access x{{}, size_of(type), store};
    for (Expr c : a->coefficients) x.step.push_back(const_int(c).value_or(unknown));
    out.push_back(std::move(x));
  };
  std::set<const ExprNode*> seen;
  for (auto& m : r.d.members) {
    find_loads(m.body, [&](const ExprNode& n) { add(n.args[0], n.type, false); }, seen);
    if (m.store && r.results.contains(m.value)) add(m.store, m.type, true);
  }
  return out;
}

int64_t known_extent(Expr axis) { return const_int(axis->args[0]).value_or(INT64_MAX); }

// Bytes of what an access touches in all, as far as sizes are known.
double touched(const Access& a, const std::vector<Expr>& axes) {
  constexpr double some = 256;
  double bytes = static_cast<double>(a.bytes);
  for (size_t k = 0; k < axes.size(); k++)
    if (auto extent = const_int(axes[k]->args[0]); a.step[k] != 0) bytes *= extent ? static_cast<double>(*extent) : some;
  return bytes;
}

// A short axis along which stores are contiguous, and a long one with which they still are: what is stored is interleaved.
std::optional<Tile> interleaving_tile(const std::vector<Expr>& axes, const std::vector<Access>& all, int lanes) {
  if (std::none_of(all.begin(), all.end(), [](auto& a) { return a.store; })) return std::nullopt;
  for (size_t s = 0; s < axes.size(); s++)
    for (size_t k = 0; k < axes.size(); k++) {
      int64_t count = known_extent(axes[s]);
      bool stored = std::all_of(all.begin(), all.end(), [&](auto& a) { return !a.store || (a.step[s] == 1 && a.step[k] == count); });
      if (stored && k != s && count <= few && known_extent(axes[k]) >= 2 * few)
        return Tile{axes[k], axes[s], lanes, static_cast<int>(count)};
    }
  return std::nullopt;
}

} // namespace

std::optional<Tile> tile_of(const RegionDraft& r) {
  const std::vector<Expr>& axes = r.d.axes;
  if (axes.size() < 2) return std::nullopt;
  std::vector<Access> all = accesses(r);
  size_t widest = 1, last = axes.size() - 1;
  for (auto& a : all) widest = std::max(widest, a.bytes);
  int lanes = std::clamp(r.vector_bytes / static_cast<int>(widest), 4, 16);
  if (auto tile = interleaving_tile(axes, all, lanes)) return tile;
  // Of the axes along which something is loaded that is not along the last, the one of the largest loads.
  std::optional<Tile> best;
  double most = 0;
  for (size_t k = 0; k < last; k++) {
    int64_t extent = known_extent(axes[k]);
    for (int64_t direction : {1, -1}) {
      double bytes = 0;
      for (auto& a : all) {
        bool turned = !a.store && a.step[k] == direction && a.step[last] != 0 && std::abs(a.step[last]) != 1;
        if (turned && (extent > few ? known_extent(axes[last]) > few : direction == 1 && a.step[last] == extent)) bytes += touched(a, axes);
      }
      if (bytes <= most) continue;
      most = bytes;
      best = Tile{axes[last], axes[k], lanes, extent <= few ? static_cast<int>(extent) : 0, direction < 0};
    }
  }
  return best;
}

namespace {

// Loops over the axis from its other end.
Expr reverse(RegionDraft& r, Expr axis) {
  Expr back = r.pool.axis(5020 + 2 * r.blocked++, axis->args[0]);
  substitute(r.d, {{axis, axis->args[0] - 1.0 - back}});
  std::replace(r.d.axes.begin(), r.d.axes.end(), axis, back);
  return back;
}

// In blocks of at least `size` elements, the last one up to twice as long: so that whole tiles fit into each.
Expr block_evenly(RegionDraft& r, Expr axis, int64_t size, std::vector<Expr>& outer) {
  Expr extent = axis->args[0], one = r.pool.integer(1);
  if (auto known = const_int(extent); known && *known < 2 * size) return axis;
  Expr count = max(floor_div(extent, r.pool.integer(size)), one);
  Expr at = r.pool.axis(5020 + 2 * r.blocked, count);
  Expr left = extent - at * static_cast<double>(size);
  if (const_int(mod(extent, r.pool.integer(size))) == 0) left = r.pool.integer(size);
  Expr inner = r.pool.axis(5021 + 2 * r.blocked, select(eq(at, count - one), left, r.pool.integer(size)));
  r.blocked++;
  substitute(r.d, {{axis, at * static_cast<double>(size) + inner}});
  std::replace(r.d.axes.begin(), r.d.axes.end(), axis, inner);
  outer.push_back(at);
  return inner;
}

// Loads along the outer axis of a block come from scratch memory, where a transpose has put them.
class Turner {
public:
  Turner(RegionDraft& r, Expr outer, Expr inner) : r_(r), axes_{outer, inner} {}

  std::vector<Stmt> run(std::vector<Stmt> body) {
    if (auto copy = plain_copy(body)) return {{std::move(*copy)}};
    std::vector<Stmt> out;
    Substitution s;
    std::set<const ExprNode*> seen;
    for (Stmt& st : body)
      find_loads(
          std::get<Store>(st.v).value,
          [&](const ExprNode& load) {
            auto from = turned(load);
            if (!from) return;
            Expr step = r_.pool.integer(block_columns);
            int to = add_scratch(r_, load.type, r_.pool.integer(block * block_columns));
            out.push_back({Turn{to, static_cast<int>(load.bits), r_.pool.integer(0), step, from->rest, from->coefficients[1],
                                axes_[0]->args[0], axes_[1]->args[0]}});
            s.set(Expr(&load), r_.pool.load(to, load.type, {axes_[0] * step + axes_[1]}));
          },
          seen);
    Loop inner{axes_[1], lanes(r_, 2), {}};
    for (Stmt& st : body) {
      auto& store = std::get<Store>(st.v);
      inner.body.push_back({Store{store.buffer, store.offset, s.apply(store.value)}});
    }
    out.push_back({Loop{axes_[0], 1, {{std::move(inner)}}}});
    return out;
  }

private:
  std::optional<Affine> turned(const ExprNode& load) const {
    auto a = as_affine(load.args[0], axes_);
    if (!a || !is_const_int(a->coefficients[0], 1) || is_const_int(a->coefficients[1], 0) || is_const_int(a->coefficients[1], 1))
      return std::nullopt;
    return a;
  }

  // Nothing but a transpose: from where it is to where it goes.
  std::optional<Turn> plain_copy(const std::vector<Stmt>& body) const {
    auto& store = std::get<Store>(body[0].v);
    if (body.size() != 1 || store.value->op != Op::Load) return std::nullopt;
    auto from = turned(*store.value), to = as_affine(store.offset, axes_);
    if (!from || !to || !is_const_int(to->coefficients[1], 1)) return std::nullopt;
    return Turn{store.buffer,      static_cast<int>(store.value->bits),
                to->rest,          to->coefficients[0],
                from->rest,        from->coefficients[1],
                axes_[0]->args[0], axes_[1]->args[0]};
  }

  RegionDraft& r_;
  Expr axes_[2];
};

} // namespace

void tiled_nest(RegionDraft& r, const Tile& given) {
  Tile tile = given;
  if (tile.reversed) tile.other = reverse(r, tile.other);
  std::vector<Expr> outer;
  for (Expr a : r.d.axes)
    if (a != tile.vector && a != tile.other) outer.push_back(a);
  // The two axes last, in this order; make_parallel keeps it.
  std::erase(r.d.axes, tile.vector);
  std::erase(r.d.axes, tile.other);
  r.d.axes.push_back(tile.other);
  r.d.axes.push_back(tile.vector);
  if (tile.count > 0) block_evenly(r, tile.vector, block_elements / tile.count / block * block, outer);
  else {
    outer.push_back(block_axis(r, tile.other, r.pool.integer(block)));
    outer.push_back(block_axis(r, tile.vector, r.pool.integer(block_columns)));
  }
  make_parallel(r, outer);
  Expr rows = r.d.axes[r.d.axes.size() - 2], columns = r.d.axes.back();
  if (tile.count > 0) r.kernel().body = {{Loop{rows, 1, {{Loop{columns, tile.lanes, inner(r, 0)}}}, tile.count}}};
  else r.kernel().body = Turner(r, rows, columns).run(inner(r, 0));
}

} // namespace tenon
