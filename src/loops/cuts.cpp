#include "loops/cuts.h"

#include "backend/affine.h"

namespace tenon {

namespace {

constexpr int64_t long_loop = 128; // below that a masked vector costs less than another loop
constexpr int most_parts = 4;
constexpr int most_weight = 24;    // of a body: others are bound by what they compute

bool depends_on(Expr e, Expr axis) {
  return contains(e, [&](const ExprNode& n) { return &n == axis.get(); });
}

// Where a condition changes along the axis: it is `first` below `at`, and the contrary from there on.
struct Cut {
  Expr condition, at;
  bool first = true;
};

std::optional<Cut> cut_of(Expr c, Expr axis) {
  ExprPool& pool = *c->pool;
  Expr extent = axis->args[0], zero = pool.integer(0);
  if (contains(c, [](const ExprNode& n) { return n.op == Op::Load || n.op == Op::Checked || n.op == Op::Reg; })) return std::nullopt;
  if (!depends_on(c, axis)) return Cut{c, select(c, extent, zero), true};
  if (c->op == Op::And) {
    for (Expr part : c->args)
      if (auto cut = cut_of(part, axis)) return cut;
    return std::nullopt;
  }
  if ((c->op != Op::Lt && c->op != Op::Le) || c->args[0]->type != DType::I64) return std::nullopt;
  Expr axes[] = {axis};
  auto d = as_affine(c->args[1] - c->args[0], axes); // positive, or not negative, where the condition holds
  if (!d) return std::nullopt;
  double equal = c->op == Op::Le ? 1 : 0;
  Expr at;
  if (is_const_int(d->coefficients[0], -1)) at = d->rest + equal;
  else if (is_const_int(d->coefficients[0], 1)) at = zero - d->rest + (1 - equal);
  else return std::nullopt;
  return Cut{c, max(min(at, extent), zero), is_const_int(d->coefficients[0], -1)};
}

// The condition of a choice between loads.
std::optional<Cut> find_cut(Expr e, Expr axis) {
  std::optional<Cut> found;
  visit(e, [&](const ExprNode& n) {
    bool loads = n.op == Op::Select && (contains(n.args[1], [](auto& x) { return x.op == Op::Load; }) || contains(n.args[2], [](auto& x) { return x.op == Op::Load; }));
    if (!found && loads) found = cut_of(n.args[0], axis);
  });
  return found;
}

void cut(RegionDraft& r, Loop loop, int& parts, std::vector<Stmt>& out) {
  Expr axis = loop.axis;
  if (is_const_int(axis->args[0], 0)) return;
  std::optional<Cut> c;
  for (const Stmt& s : loop.body)
    if (auto* st = std::get_if<Store>(&s.v); st && !c) c = find_cut(st->value, axis);
  if (!c || parts == most_parts) return out.push_back({std::move(loop)});
  parts++;
  Expr ends[] = {c->at, axis->args[0] - c->at};
  for (int k = 0; k < 2; k++) {
    Expr now = r.pool.axis(5100 + 2 * r.blocked + k, ends[k]);
    Substitution known, moved;
    known.set(c->condition, r.pool.boolean((k == 0) == c->first));
    moved.set(axis, k == 0 ? now : now + c->at);
    Loop part{now, loop.lanes, {}};
    for (const Stmt& s : loop.body) {
      auto& st = std::get<Store>(s.v);
      part.body.push_back({Store{st.buffer, moved.apply(st.offset), moved.apply(known.apply(st.value))}});
    }
    r.blocked++;
    cut(r, std::move(part), parts, out);
  }
}

} // namespace

std::vector<Stmt> cut_at_conditions(RegionDraft& r, Loop loop) {
  std::vector<Stmt> out;
  auto extent = const_int(loop.axis->args[0]);
  bool is_long = extent ? *extent >= long_loop : loop.axis->args[0]->hi >= long_loop;
  int parts = is_long && r.out.weight <= most_weight ? 1 : most_parts;
  cut(r, std::move(loop), parts, out);
  return out;
}

} // namespace tenon
