#include "loops/cuts.h"

#include "backend/affine.h"
#include "backend/join.h"

namespace tenon {

namespace {

constexpr int64_t long_loop = 128;    // below that a masked vector costs less than another loop
constexpr int64_t gathered_loop = 24; // where the choice is of what is read: else it is gathered element by element
constexpr int most_parts = 4;
constexpr int most_weight = 24; // of a body: others are bound by what they compute

// Where an expression changes along the axis: it is `below` before `at`, and `above` from there on.
struct Cut {
  Expr changing, at, below, above;
};

// Of a condition.
std::optional<Cut> cut_of(Expr c, Expr axis) {
  ExprPool& pool = *c->pool;
  Expr yes = pool.boolean(true), no = pool.boolean(false);
  Expr extent = axis->args[0], zero = pool.integer(0);
  if (contains(c, [](const ExprNode& n) { return n.op == Op::Load || n.op == Op::Checked || n.op == Op::Reg; })) return std::nullopt;
  if (!depends_on(c, axis)) return Cut{c, select(c, extent, zero), yes, no};
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
  bool first = is_const_int(d->coefficients[0], -1);
  return Cut{c, max(min(at, extent), zero), first ? yes : no, first ? no : yes};
}

// Of a choice within the place that a load reads from.
std::optional<Cut> cut_of_index(Expr e, Expr axis) {
  if (!depends_on(e, axis)) return std::nullopt;
  if (e->op == Op::Select) return cut_of(e->args[0], axis);
  if ((e->op != Op::Min && e->op != Op::Max) || e->args.size() != 2) return std::nullopt;
  auto c = cut_of(e->op == Op::Min ? le(e->args[0], e->args[1]) : le(e->args[1], e->args[0]), axis);
  if (!c) return std::nullopt;
  bool first = is_const_int(c->below, 1);
  return Cut{e, c->at, e->args[first ? 0 : 1], e->args[first ? 1 : 0]};
}

// Of a value that is a choice between values with loads, as tensors joined or padded are.
std::optional<Cut> find_joint(Expr e, Expr axis) {
  while (e->op == Op::Cast) e = e->args[0];
  auto loads = [](Expr x) { return contains(x, [](const ExprNode& n) { return n.op == Op::Load; }); };
  return e->op == Op::Select && (loads(e->args[1]) || loads(e->args[2])) ? cut_of(e->args[0], axis) : std::nullopt;
}

// A choice between loads in a long loop, or of what to load in one that is not very short.
std::optional<Cut> find_cut(Expr e, Expr axis, int64_t extent) {
  std::optional<Cut> found;
  visit(e, [&](const ExprNode& n) {
    if (found || extent < gathered_loop) return;
    bool loads = n.op == Op::Select && (contains(n.args[1], [](auto& x) { return x.op == Op::Load; }) ||
                                        contains(n.args[2], [](auto& x) { return x.op == Op::Load; }));
    if (loads && extent >= long_loop) found = cut_of(n.args[0], axis);
    if (n.op != Op::Load) return;
    for (Expr index : n.args)
      visit(index, [&](const ExprNode& m) {
        if (!found && (m.op == Op::Select || m.op == Op::Min || m.op == Op::Max)) found = cut_of_index(Expr(&m), axis);
      });
  });
  return found;
}

void cut(RegionDraft& r, Loop loop, int64_t extent, int& parts, std::vector<Stmt>& out) {
  Expr axis = loop.axis;
  if (is_const_int(axis->args[0], 0)) return;
  std::optional<Cut> c;
  for (const Stmt& s : loop.body)
    if (auto* st = std::get_if<Store>(&s.v); st && !c) {
      if (parts < most_joined && extent >= long_loop) c = find_joint(st->value, axis);
      if (!c && parts < most_parts) c = find_cut(st->value, axis, extent);
    }
  if (!c) return out.push_back({std::move(loop)});
  parts++;
  Expr ends[] = {c->at, axis->args[0] - c->at};
  for (int k = 0; k < 2; k++) {
    Expr now = r.pool.axis(5100 + 2 * r.blocked + k, ends[k]);
    Substitution known, moved;
    known.set(c->changing, k == 0 ? c->below : c->above);
    moved.set(axis, k == 0 ? now : now + c->at);
    Loop part{now, loop.lanes, {}};
    for (const Stmt& s : loop.body) {
      auto& st = std::get<Store>(s.v);
      part.body.push_back({Store{st.buffer, moved.apply(st.offset), moved.apply(known.apply(st.value))}});
    }
    r.blocked++;
    cut(r, std::move(part), extent, parts, out);
  }
}

} // namespace

std::vector<Stmt> cut_at_conditions(RegionDraft& r, Loop loop) {
  std::vector<Stmt> out;
  auto extent = const_int(loop.axis->args[0]);
  int parts = r.out.weight <= most_weight ? 1 : most_parts;
  int64_t length = extent ? *extent : loop.axis->args[0]->hi;
  cut(r, std::move(loop), length, parts, out);
  return out;
}

} // namespace tenon
