// Inliner and RegionDomain.
#include "backend/region.h"

#include <algorithm>

#include "backend/affine.h"

namespace tenon {

const Compute& Inliner::own(NodeId node) {
  auto it = own_.find(node);
  if (it == own_.end()) it = own_.emplace(node, definition_of(graph_, graph_.node(node))).first;
  return it->second;
}

Expr Inliner::at(ValueId value, const std::vector<Expr>& index) {
  const Value& v = graph_.value(value);
  if (!is_inline(value)) return graph_.pool().load(value.index, v.type.dtype, index);
  const Compute& c = definition(v.node);
  require(c.reduction == Reduction::None && c.axes.size() == index.size(), "%{} cannot be inlined", value.index);
  Substitution s;
  for (size_t k = 0; k < index.size(); k++) s.set(c.axes[k], index[k]);
  return with_checks(s.apply(c.body), index); // what is the same at all places is read whatever the index
}

const Compute& Inliner::definition(NodeId node) {
  if (auto it = definitions_.find(node); it != definitions_.end()) return it->second;
  Compute c = own(node);
  std::vector<ValueId> operands = tensor_operands(graph_.node(node).args, graph_);
  Substitution s;
  s.on_load = [&](int64_t operand, const ExprNode&, const std::vector<Expr>& index) {
    return at(operands.at(static_cast<size_t>(operand)), index);
  };
  c.body = s.apply(c.body);
  DType type = graph_.type(graph_.node(node).outputs[0]).dtype;
  if (c.reduction == Reduction::None && c.body->type != type) c.body = cast(c.body, type);
  return definitions_[node] = c;
}

const RegionMember* RegionDomain::find(ValueId value) const {
  for (auto& m : members_)
    if (m.value == value) return &m;
  return nullptr;
}

namespace {

constexpr int64_t first_region_axis = 1000; // rows number their axes from 0

bool is_axis(Expr e) { return e->op == Op::Axis; }

// Parts of an axis: a // K and a % K, or (a // K) % E, each given a value: the axis is their weighted sum.
bool part_of_axis(Expr e, Expr& axis, Expr& weight) {
  if (e->op == Op::Mod) e = e->args[0];
  weight = e->pool->integer(1);
  if (e->op == Op::FloorDiv) weight = e->args[1], e = e->args[0];
  axis = e;
  return is_axis(e);
}

// How many values an axis, or a part of one, has.
Expr extent_of(Expr e) {
  if (e->op == Op::Mod) return e->args[1];
  return e->op == Op::FloorDiv ? floor_div(e->args[0]->args[0], e->args[1]) : e->args[0];
}

// The factor and the axis, or the part of one, of a term: 8*i -> (8, i). False for anything else.
bool as_scaled_digit(Expr t, Expr& factor, Expr& digit) {
  ExprPool& pool = *t->pool;
  factor = pool.integer(1);
  digit = {};
  Expr axis, weight;
  for (Expr f : t->op == Op::Mul ? t->args : std::vector<Expr>{t}) {
    if (!part_of_axis(f, axis, weight)) factor = factor * f;
    else if (digit) return false;
    else digit = f;
  }
  return static_cast<bool>(digit);
}

// e = K1*a1 + K2*a2 + ... + an, a mixed radix over distinct axes, or parts of axes, whose value is `target`: each is a digit.
bool solve_radix(Expr e, Expr target, std::vector<std::pair<Expr, Expr>>& out) {
  struct Digit {
    Expr factor, digit;
  };
  std::vector<Digit> digits;
  for (Expr t : e->op == Op::Add ? e->args : std::vector<Expr>{e}) {
    Digit d;
    if (!as_scaled_digit(t, d.factor, d.digit)) return false;
    digits.push_back(d);
  }
  // Order: each factor is the next one's factor times extent.
  std::vector<Digit> ordered;
  Expr want = e->pool->integer(1);
  while (!digits.empty()) {
    auto it = std::find_if(digits.begin(), digits.end(), [&](auto& d) { return d.factor == want; });
    if (it == digits.end()) return false;
    ordered.push_back(*it);
    want = want * extent_of(it->digit);
    digits.erase(it);
  }
  for (size_t k = 0; k < ordered.size(); k++) {
    Expr v = floor_div(target, ordered[k].factor);
    if (k + 1 < ordered.size()) v = mod(v, extent_of(ordered[k].digit));
    out.emplace_back(ordered[k].digit, v);
  }
  return true;
}

} // namespace

void RegionDomain::start_with_value(ValueId value, int64_t slices) {
  Type t = graph_.type(value);
  if (slices > 1) {
    slice_width_ = *const_int(t.sizes.back()) / slices;
    t.sizes.back() = graph_.pool().integer(slice_width_);
  }
  RegionMember m{.node = graph_.value(value).node, .value = value, .compute = {}, .index = {}};
  for (size_t d = 0; d < t.rank(); d++) {
    axes_.push_back(graph_.pool().axis(first_region_axis + static_cast<int64_t>(d), t.sizes[d]));
    m.index.push_back(is_const_int(t.sizes[d], 1) ? graph_.pool().integer(0) : axes_.back());
  }
  members_.push_back(std::move(m));
}

RegionDomain::SliceIndex RegionDomain::slice_of(ValueId value, const std::vector<Expr>& index) const {
  SliceIndex s{index};
  if (slice_width_ == 0 || members_[0].value != value) return s;
  Expr& column = s.index.back();
  int64_t first = const_int(column).value_or(0);
  if (column->op == Op::Add)
    for (Expr term : column->args) first += const_int(term).value_or(0);
  s.slice = first / slice_width_;
  column = column - graph_.pool().integer(s.slice * slice_width_);
  return s;
}

void RegionDomain::start(NodeId node) {
  const Compute& c = inliner_.definition(node);
  Mapping mapping;
  auto add = [&](Expr a) {
    Expr now = graph_.pool().axis(first_region_axis + static_cast<int64_t>(axes_.size()), a->args[0]);
    axes_.push_back(now);
    mapping[a.get()] = now;
    return now;
  };
  for (Expr a : c.axes) add(a);
  for (Expr a : c.reduce_axes) reduced_.push_back(add(a));
  has_reduction_ = c.reduction != Reduction::None;
  members_.push_back(transform(node, c, mapping));
}

bool RegionDomain::solve(const std::vector<Expr>& index, const std::vector<Expr>& target, const std::vector<Expr>& free,
                         Solution& out) const {
  if (index.size() != target.size()) return false;
  for (size_t k = 0; k < index.size(); k++) {
    Expr e = index[k];
    if (e == target[k] || e->is_const() || (is_axis(e) && is_const_int(e->args[0], 1))) continue;
    if (std::none_of(free.begin(), free.end(), [&](Expr f) { return depends_on(e, f); })) return false;
    if (is_axis(e)) {
      bool other_extent = is_axis(target[k]) && target[k]->args[0] != e->args[0];
      if (target[k]->is_const() || other_extent) return false;
    }
    std::vector<std::pair<Expr, Expr>> values{{e, target[k]}};
    Expr axis, weight;
    if (!part_of_axis(e, axis, weight)) {
      values.clear();
      if (!solve_radix(e, target[k], values)) return false;
    }
    for (auto& [digit, value] : values) {
      if (is_axis(digit)) out.whole.emplace(digit.get(), value);
      else if (part_of_axis(digit, axis, weight)) out.parts[axis.get()].emplace(digit.get(), Solution::Digit{weight * value, weight});
    }
  }
  return true;
}

// Where each axis of c lies in the region's axes, from its loads of members.
bool RegionDomain::line_up(const Compute& c, Mapping& mapping, const SharedLoad* shared) const {
  std::vector<Expr> free = c.axes;
  free.insert(free.end(), c.reduce_axes.begin(), c.reduce_axes.end());
  Solution solved;
  bool ok = true;
  visit(c.body, [&](const ExprNode& n) {
    if (n.op != Op::Load || !ok) return;
    ValueId v{static_cast<uint32_t>(n.bits)};
    if (const RegionMember* m = find(v)) ok = solve(slice_of(v, n.args).index, m->index, free, solved);
    else if (shared && shared->load == &n) ok = solve(n.args, *shared->index, free, solved);
  });
  if (!ok || solved.empty()) return false;
  std::map<const ExprNode*, Expr> unknown; // extent of the lowest digit of an axis, where no load tells of it
  for (auto& [axis, digits] : solved.parts) {
    Expr sum = graph_.pool().integer(0), lowest;
    for (auto& [part, digit] : digits) { // in any order
      sum = sum + digit.value;
      if (digits.size() == 1 || is_const_int(digit.weight, 1)) lowest = digit.weight;
    }
    if (!lowest) return false; // several digits, and which of them is the lowest one is not known
    if (solved.whole.emplace(axis, sum).second && !is_const_int(lowest, 1)) unknown[axis] = lowest;
  }
  std::vector<Missing> missing;
  for (Expr a : free) {
    auto it = solved.whole.find(a.get());
    bool known = it != solved.whole.end() && !is_const_int(a->args[0], 1); // an axis of extent 1 is 0
    mapping[a.get()] = known ? it->second : graph_.pool().integer(0);
    if (known && unknown.contains(a.get())) missing.push_back({a, unknown.at(a.get())});
    else if (!known && !is_const_int(a->args[0], 1)) missing.push_back({a, a->args[0]});
  }
  return missing.empty() || match_rest(missing, mapping);
}

// The loads of c that members do as well, each with every index of theirs that covers the whole domain.
std::vector<RegionDomain::SharedLoad> RegionDomain::shared_loads(const Compute& c) const {
  constexpr size_t most = 32;
  std::vector<SharedLoad> found;
  visit(c.body, [&](const ExprNode& load) {
    if (load.op != Op::Load || find(ValueId{static_cast<uint32_t>(load.bits)})) return;
    for (auto& m : members_) {
      if (!m.compute.body) continue;
      visit(m.compute.body, [&](const ExprNode& n) {
        if (n.op != Op::Load || n.bits != load.bits || found.size() == most) return;
        bool covers = std::all_of(axes_.begin(), axes_.end(), [&](Expr a) {
          return is_const_int(a->args[0], 1) || std::find(n.args.begin(), n.args.end(), a) != n.args.end();
        });
        if (covers) found.push_back({&load, &n.args});
      });
    }
  });
  return found;
}

// Axes that no member's load tells of (x - max(x), where only max(x) is a member), and the low digits of those of which a load
// tells only a // K, are the axes of the region that are left, if they have the same extents in the same order.
bool RegionDomain::match_rest(const std::vector<Missing>& missing, Mapping& mapping) const {
  std::vector<Expr> rest;
  for (Expr a : axes_) {
    bool used = is_const_int(a->args[0], 1);
    for (auto& [from, to] : mapping) used |= depends_on(to, a);
    if (!used) rest.push_back(a);
  }
  if (rest.size() != missing.size()) return false;
  for (size_t k = 0; k < rest.size(); k++) {
    if (rest[k]->args[0] != missing[k].extent) return false;
    Expr& to = mapping.at(missing[k].axis.get());
    to = to + rest[k];
  }
  return true;
}

// Every load of a member must be at the member's own index, and c's domain must be the region's, or its kept part.
bool RegionDomain::check(const Compute& c, const Mapping& mapping) const {
  Substitution s;
  for (auto& [from, to] : mapping) s.set(Expr(from), to);
  Expr body = s.apply(c.body);
  bool ok = true;
  visit(body, [&](const ExprNode& n) {
    if (n.op != Op::Load) return;
    const RegionMember* m = find(ValueId{static_cast<uint32_t>(n.bits)});
    if (m) ok &= slice_of(m->value, n.args).index == m->index;
  });
  if (!ok) return false;
  auto all_used = [&](const std::vector<Expr>& axes) {
    return std::all_of(axes.begin(), axes.end(), [&](Expr a) {
      return is_const_int(a->args[0], 1) || std::any_of(mapping.begin(), mapping.end(), [&](auto& m) { return depends_on(m.second, a); });
    });
  };
  auto points = [&](const std::vector<Expr>& axes) {
    Expr p = graph_.pool().integer(1);
    for (Expr a : axes) p = p * a->args[0];
    return p;
  };
  std::vector<Expr> kept;
  for (Expr a : axes_)
    if (!is_reduced(a)) kept.push_back(a);
  std::vector<Expr> own = c.axes;
  own.insert(own.end(), c.reduce_axes.begin(), c.reduce_axes.end());
  Expr n = points(own);
  if (c.reduction == Reduction::None)
    return (n == points(axes_) && all_used(axes_)) || (has_reduction_ && n == points(kept) && all_used(kept));
  if (n != points(axes_) || !all_used(axes_)) return false;
  // The axes it reduces must be whole axes of the region, and the same as those of other reductions.
  std::vector<Expr> reduces;
  for (Expr a : c.reduce_axes) {
    Expr to = mapping.at(a.get());
    if (is_const_int(to, 0)) continue;
    if (!is_axis(to)) return false;
    reduces.push_back(to);
  }
  for (Expr a : c.axes) {
    Expr to = mapping.at(a.get());
    for (Expr r : reduces)
      if (depends_on(to, r)) return false;
  }
  if (!has_reduction_) return true;
  return std::is_permutation(reduces.begin(), reduces.end(), reduced_.begin(), reduced_.end());
}

RegionMember RegionDomain::transform(NodeId node, const Compute& c, const Mapping& mapping) const {
  Substitution s;
  for (auto& [from, to] : mapping) s.set(Expr(from), to);
  RegionMember m{.node = node, .value = graph_.node(node).outputs[0], .compute = {.axes = {}, .reduction = c.reduction}, .index = {}};
  m.compute.body = s.apply(c.body);
  for (Expr a : c.reduce_axes) m.compute.reduce_axes.push_back(mapping.at(a.get()));
  for (Expr a : c.axes) m.index.push_back(mapping.at(a.get()));
  m.compute.axes = m.index;
  // The definition's own axes of size 1 are read at 0.
  for (size_t k = 0; k < m.index.size(); k++)
    if (is_const_int(c.axes[k]->args[0], 1)) m.index[k] = graph_.pool().integer(0);
  bool uses_reduced = false;
  for (Expr i : m.index) uses_reduced |= contains(i, [&](const ExprNode& n) { return n.op == Op::Axis && is_reduced(Expr(&n)); });
  m.full = c.reduction == Reduction::None && (!has_reduction_ || uses_reduced);
  return m;
}

std::optional<RegionMember> RegionDomain::candidate(NodeId node, bool shared) const {
  const Compute& c = inliner_.definition(node);
  Mapping mapping;
  if (!shared) return line_up(c, mapping) && check(c, mapping) ? std::optional(transform(node, c, mapping)) : std::nullopt;
  // Which loads line up must not depend on the order of operands: of several ways the one that keeps the axes' order is taken.
  std::optional<RegionMember> first;
  for (auto& s : shared_loads(c)) {
    mapping.clear();
    if (!line_up(c, mapping, &s) || !check(c, mapping)) continue;
    RegionMember m = transform(node, c, mapping);
    if (std::equal(m.index.begin(), m.index.end(), axes_.begin(), axes_.end())) return m;
    if (!first) first = std::move(m);
  }
  return first;
}

void RegionDomain::join(RegionMember m) {
  if (m.compute.reduction != Reduction::None && !has_reduction_) {
    for (Expr a : m.compute.reduce_axes)
      if (is_axis(a)) reduced_.push_back(a);
    has_reduction_ = true;
  }
  members_.push_back(std::move(m));
}

// The axis by which neighbours in memory are reached, of what lies along more than one; null where none is known.
Expr RegionDomain::lies_along(ValueId value, const std::vector<Expr>& index) const {
  const Type& type = graph_.type(value);
  Expr offset = flat_offset(graph_.pool(), type, index);
  auto used = [&](Expr e) {
    return std::ranges::count_if(axes_, [&](const Expr& a) { return !is_const_int(a->args[0], 1) && depends_on(e, a); });
  };
  if (used(offset) < 2) return {};
  auto a = as_affine(offset, axes_);
  bool looked_up = !a && is_row_major(type) && used(index.back()) == 1;
  for (size_t k = 0; k < axes_.size(); k++)
    if (a ? is_const_int(a->coefficients[k], 1) : looked_up && depends_on(index.back(), axes_[k])) return axes_[k];
  return {};
}

std::vector<Expr> RegionDomain::read_along() const {
  std::vector<Expr> out;
  for (const RegionMember& m : members_)
    visit(m.compute.body, [&](const ExprNode& n) {
      if (ValueId v{static_cast<uint32_t>(n.bits)}; n.op == Op::Load && !find(v))
        if (Expr axis = lies_along(v, n.args); axis && std::ranges::find(out, axis) == out.end()) out.push_back(axis);
    });
  return out;
}

bool RegionDomain::turns(const RegionMember& m) const {
  static constexpr int64_t many = 9; // shorter ones are unrolled
  auto is_long = [](const Expr& axis) { return const_int(axis->args[0]).value_or(int64_t{many}) >= many; };
  bool reduces = m.compute.reduction != Reduction::None;
  if (reduces ? has_reduction_ : !has_reduction_ || !m.full) return false;
  std::vector<Expr> read = read_along();
  if (reduces) {
    for (const RegionMember& before : members_)
      if (Expr axis = lies_along(before.value, before.index); axis && std::ranges::find(read, axis) == read.end()) read.push_back(axis);
    return std::ranges::count_if(read, is_long) > 1;
  }
  Expr written = lies_along(m.value, m.index);
  return written && is_long(written) && !read.empty() && std::ranges::all_of(read, is_long) &&
         std::ranges::find(read, written) == read.end();
}

} // namespace tenon
