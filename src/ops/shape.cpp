// Arithmetic on sizes and indices; see shape.h.
#include "ops/shape.h"

#include <algorithm>
#include <numeric>

namespace tenon::ops {

std::vector<Type> self_with(const Call& c, std::vector<Expr> sizes) { return {Type::tensor(c.type("self").dtype, std::move(sizes))}; }

void expect_rank_of_self(const Call& c, std::string_view name) {
  auto rank = [&](std::string_view x) { return std::max<size_t>(1, c.rank(x)); };
  if (rank(name) != rank("self") && !is_const_int(product(c.pool(), c.type("index").sizes), 0))
    c.fail(fmt::format("{} tensor must have the same number of dimensions as input tensor", name == "index" ? "Index" : name));
}

std::string_view c_name(DType t) {
  switch (t) {
  case DType::F32: return "float";
  case DType::F64: return "double";
  case DType::F16: return "c10::Half";
  case DType::BF16: return "c10::BFloat16";
  case DType::I64: return "long int";
  case DType::I32: return "int";
  case DType::I16: return "short int";
  case DType::I8: return "signed char";
  case DType::U8: return "unsigned char";
  case DType::Bool: return "bool";
  case DType::C64: return "c10::complex<float>";
  case DType::C128: return "c10::complex<double>";
  default: return torch_name(t);
  }
}

namespace {

bool may_be_negative(Expr e) {
  return e->lo < 0 && (e->hi < 0 || contains(e, [](const ExprNode& n) { return n.op == Op::Symbol && n.lo < 0; }));
}

} // namespace

Expr wrap_index(Expr index, Expr size) {
  if (index->hi < 0) return index + size;
  return may_be_negative(index) ? select(lt(index, constant_like(0, index)), index + size, index) : index;
}

Expr windows(Expr size, int64_t kernel, int64_t dilation, int64_t pad, int64_t stride) {
  return floor_div(size + static_cast<double>(2 * pad - dilation * (kernel - 1) - 1), constant_like(static_cast<double>(stride), size)) +
         1.0;
}

Expr data_index(Expr value, Expr size) {
  Expr i = cast(value, DType::I64);
  return checked(select(lt(i, constant_like(0, i)), i + size, i), size);
}

Expr ceil_div(Expr a, Expr b) { return floor_div(a + b - 1.0, b); }

namespace {

// Replaces the factors of sizes that could be 0 by positive symbols, and back. Inside a loop over a tensor all its sizes are
// positive, but the bounds of a symbol start at 0, and then floor_div(i*s + j, s) would not simplify.
class Positive {
public:
  explicit Positive(ExprPool& pool) : pool_(pool) {}
  void add(Expr size) {
    if (size->op == Op::Mul)
      for (Expr f : size->args) add_factor(f);
    else add_factor(size);
  }
  Expr in(Expr e) { return in_.apply(e); }
  Expr out(Expr e) { return out_.apply(e); }

private:
  void add_factor(Expr f) {
    if (f->lo > 0 || f->hi < 1 || f->op == Op::Add || f->op == Op::Const) return;
    Expr p = pool_.symbol(fmt::format("positive{}", f->id), DType::I64, 1, f->hi);
    in_.set(f, p);
    out_.set(p, f);
  }
  ExprPool& pool_;
  Substitution in_, out_;
};

} // namespace

Expr divide_sizes(Expr a, Expr b) {
  Positive positive(*a->pool);
  positive.add(b);
  return positive.out(floor_div(positive.in(a), positive.in(b)));
}

namespace {

// min(e, size), knowing that a part of a size is not greater than it.
Expr at_most(Expr e, Expr size) {
  Expr whole = e;
  while (whole->op == Op::FloorDiv && whole->args[0]->lo >= 0 && whole->args[1]->lo > 0) whole = whole->args[0];
  return proves_le(whole, size) ? e : min(e, size);
}

} // namespace

Range slice_range(ExprPool& pool, Expr size, Expr start, Expr end, int64_t step) {
  Expr zero = pool.integer(0);
  require_input(step > 0, "slice step must be positive");
  bool to_end = !end || const_int(end).value_or(0) == INT64_MAX || end == size;
  Expr s = start ? wrap_index(start, size) : zero, e = to_end ? size : at_most(wrap_index(end, size), size);
  // A negative start can lie before the first element. One beyond the last gives length 0, and needs no clamp.
  if (start && may_be_negative(start)) s = max(s, zero);
  bool last_elements = to_end && start && const_int(start).value_or(0) < 0; // x[-k:]
  Expr length = last_elements ? min(-start, size) : max(e - s, zero);
  if (step != 1) length = ceil_div(length, pool.integer(step));
  return {s, length, step};
}

std::string sizes_text(const std::vector<Expr>& sizes) {
  std::vector<std::string> texts;
  for (Expr e : sizes) texts.push_back(to_string(e));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::vector<Expr> reshape_sizes(const Call& c, const std::vector<Expr>& sizes, std::vector<Expr> want) {
  ExprPool& pool = c.pool();
  auto refuse = [&] {
    c.fail(fmt::format("shape '{}' is invalid for input of size {}", sizes_text(want), to_string(product(pool, sizes))));
  };
  auto is_open = [](Expr e) { return is_const_int(e, -1); };
  auto open = std::find_if(want.begin(), want.end(), is_open);
  if (open == want.end()) {
    auto have = const_int(product(pool, sizes)), asked = const_int(product(pool, want));
    if (have && asked && *have != *asked) refuse();
    return want;
  }
  if (std::count_if(want.begin(), want.end(), is_open) > 1) c.fail("only one dimension can be inferred");
  std::vector<Expr> rest = sizes;
  Expr known = pool.integer(1);
  for (Expr w : want) { // equal sizes cancel
    if (is_open(w)) continue;
    auto same = std::find(rest.begin(), rest.end(), w);
    if (same != rest.end()) rest.erase(same);
    else known = known * w;
  }
  if (is_const_int(known, 0))
    c.fail(fmt::format(
        "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any value and is ambiguous",
        sizes_text(want)));
  Expr total = product(pool, rest);
  if (auto t = const_int(total), k = const_int(known); t && k && *t % *k != 0) refuse();
  *open = divide_sizes(total, known);
  return want;
}

namespace {

// The dims of a shape that are not 1, with the products of those before and after each place.
struct DimProducts {
  std::vector<size_t> dim;
  std::vector<Expr> size, before, after;
  DimProducts(ExprPool& pool, const std::vector<Expr>& sizes) {
    for (size_t d = 0; d < sizes.size(); d++)
      if (!is_const_int(sizes[d], 1)) dim.push_back(d), size.push_back(sizes[d]);
    before.assign(size.size() + 1, pool.integer(1));
    after = before;
    for (size_t k = 0; k < size.size(); k++) before[k + 1] = before[k] * size[k];
    for (size_t k = size.size(); k-- > 0;) after[k] = after[k + 1] * size[k];
  }
  size_t count() const { return dim.size(); }
};

using Cut = std::pair<size_t, size_t>; // a place among the dims of either shape, where both have equal products

// Cuts from the front by products of what is before, then from the back by products of what is after.
std::vector<Cut> find_cuts(const DimProducts& in, const DimProducts& out) {
  std::vector<Cut> cuts{{0, 0}}, tail{{in.count(), out.count()}};
  for (size_t i = 1; i <= in.count(); i++)
    for (size_t j = cuts.back().second + 1; j <= out.count(); j++)
      if (in.before[i] == out.before[j]) {
        cuts.emplace_back(i, j);
        break;
      }
  for (size_t i = in.count(); i-- > cuts.back().first + 1;)
    for (size_t j = tail.back().second; j-- > cuts.back().second + 1;)
      if (in.after[i] == out.after[j]) {
        tail.emplace_back(i, j);
        break;
      }
  if (cuts.back() == tail.front()) tail.erase(tail.begin());
  cuts.insert(cuts.end(), tail.rbegin(), tail.rend());
  return cuts;
}

// Indices of the input dims of a group from the axes of its output dims, both in row-major order. Where an end of the output
// dims has a product that divides what a quotient or remainder is taken by, the axes of that end are split off first.
class Regroup {
public:
  Regroup(ExprPool& pool, std::span<const Expr> axes, std::span<const Expr> sizes) : pool_(pool), axes_(axes), sizes_(sizes) {
    after_.assign(sizes.size() + 1, pool.integer(1));
    for (size_t k = sizes.size(); k-- > 0;) after_[k] = after_[k + 1] * sizes[k];
  }
  // (linear // inner) % size, without the remainder for the `first` dim.
  Expr index(Expr inner, Expr size, bool first) const {
    size_t j = divisor_of(inner);
    Expr step = floor_div(inner, after_[j]);
    if (first) return floor_div(linear(0, j), step);
    Expr outer = inner * size;
    size_t k = divisor_of(outer);
    Expr part = floor_div(after_[k], inner);
    if (k > j || part * inner != after_[k]) return mod(floor_div(linear(0, j), step), size);
    return mod(linear(0, k), floor_div(outer, after_[k])) * part + floor_div(linear(k, j), step);
  }

private:
  // The first place whose end product divides e; 1 always does.
  size_t divisor_of(Expr e) const {
    size_t k = 0;
    while (k + 1 < after_.size() && floor_div(e, after_[k]) * after_[k] != e) k++;
    return k;
  }
  // The row-major number of axes [from, to).
  Expr linear(size_t from, size_t to) const {
    Expr sum = pool_.integer(0), stride = pool_.integer(1);
    for (size_t k = to; k-- > from; stride = stride * sizes_[k]) sum = sum + axes_[k] * stride;
    return sum;
  }
  ExprPool& pool_;
  std::span<const Expr> axes_, sizes_;
  std::vector<Expr> after_; // product of the sizes from each place on
};

} // namespace

std::vector<Expr> reshape_index(ExprPool& pool, const std::vector<Expr>& from, const std::vector<Expr>& to, const std::vector<Expr>& axes) {
  std::vector<Expr> index(from.size(), pool.integer(0)), place;
  auto empty = [](Expr e) { return is_const_int(e, 0); };
  if (std::any_of(from.begin(), from.end(), empty) || std::any_of(to.begin(), to.end(), empty)) return index;
  Positive positive(pool);
  for (auto* sizes : {&from, &to})
    for (Expr s : *sizes) positive.add(s);
  DimProducts in(pool, from), out(pool, to);
  std::vector<Cut> cuts = find_cuts(in, out);
  for (size_t d : out.dim) place.push_back(positive.in(axes[d]));
  for (auto* sizes : {&in.size, &out.size})
    for (Expr& s : *sizes) s = positive.in(s);
  for (size_t c = 1; c < cuts.size(); c++) {
    auto [i0, j0] = cuts[c - 1];
    auto [i1, j1] = cuts[c];
    Regroup group(pool, std::span(place).subspan(j0, j1 - j0), std::span(out.size).subspan(j0, j1 - j0));
    Expr inner = pool.integer(1);
    for (size_t i = i1; i-- > i0; inner = inner * in.size[i]) index[in.dim[i]] = positive.out(group.index(inner, in.size[i], i == i0));
  }
  return index;
}

std::vector<int64_t> iota(size_t rank) {
  std::vector<int64_t> out(rank);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::vector<V> inputs(Builder& b, const Call& c, std::string_view name) {
  std::vector<V> out;
  for (ValueId v : c.values(name)) out.push_back(b.wrap(v));
  return out;
}

Type scattered_part(const Call& c, std::string_view op) {
  ArgList args = c.args;
  args.erase(args.begin() + c.def.signature.find("src"));
  return infer_types(c.graph, *find_op(op), args).at(0);
}

} // namespace tenon::ops
