// Walks a kernel's constants in the order of its statements; one walk finds what they are, another puts scalars in their place.
#include "loops/share.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "loops/from_region.h"

namespace tenon {

namespace {

constexpr int64_t no_stride = 2147483629; // stands for a stride of 0 until constants are replaced

// Whether an expression holds the row's number, or what stands for no stride; how far loops run is not part of it.
class RowNumbers {
public:
  explicit RowNumbers(const Expr& first) : first_(first) {}
  bool in(const Expr& e) {
    if (!seen_.insert(e.get()).second) return false;
    if (e == first_ || (e->op == Op::Const && e->bits == no_stride)) return true;
    return e->op != Op::Axis && std::ranges::any_of(e->args, [&](const Expr& a) { return in(a); });
  }

private:
  Expr first_;
  std::unordered_set<const ExprNode*> seen_; // without
};

// A tile of the only row there is stores without the row's number; here it does, by a stride of 0, as tiles of many rows do. None: no such
// tile.
std::optional<Kernel> with_row_terms(const Kernel& kernel, ExprPool& pool) {
  Expr first = pool.find_symbol(tile_symbols[1]);
  auto* rows = kernel.body.size() == 1 ? std::get_if<Loop>(&kernel.body[0].v) : nullptr;
  auto* columns = rows && rows->body.size() == 1 ? std::get_if<Loop>(&rows->body[0].v) : nullptr;
  if (!columns || !first || std::ranges::find(kernel.scalars, first) == kernel.scalars.end()) return std::nullopt;
  RowNumbers numbers(first);
  for (const Stmt& s : columns->body) {
    auto* store = std::get_if<Store>(&s.v);
    if (!store || numbers.in(store->offset) || numbers.in(store->value)) return std::nullopt;
  }
  Kernel out = kernel;
  for (Stmt& s : std::get<Loop>(std::get<Loop>(out.body[0].v).body[0].v).body) {
    Expr& to = std::get<Store>(s.v).offset;
    to = to + first * pool.integer(no_stride) + rows->axis * pool.integer(no_stride);
  }
  return out;
}

// Copies a kernel node by node, without simplifying, so that every copy of one shape has the same constants in the same places.
class ConstantRewriter {
public:
  enum class Is { Beginning, NoStride, Other };
  ConstantRewriter(ExprPool& pool, Varying varying, size_t fixed, std::function<Expr(int64_t, Is)> replace)
      : pool_(pool), varying_(varying), is_tile_(fixed > 0), batch_(pool.find_symbol(tile_symbols[0])), replace_(std::move(replace)) {}

  Kernel run(const Kernel& kernel) {
    std::optional<Kernel> row = with_row_terms(kernel, pool_);
    has_no_stride_ = row.has_value();
    Kernel from = row ? std::move(*row) : kernel, k = from;
    buffers_ = from.buffers;
    parallel_ = from.parallel.get();
    for (Expr& scalar : k.scalars) scalar = leaf(scalar);
    k.parallel = copy(from.parallel, false);
    k.body = statements(from.body);
    for (KernelBuffer& b : k.buffers)
      if (b.scratch_offset) b.scratch_offset = copy(b.scratch_offset, false);
    return k;
  }

private:
  static bool divides(Op op) { return op == Op::FloorDiv || op == Op::Mod || op == Op::TruncDiv || op == Op::Fmod; }

  // An extent of 1 is no loop, a factor of -1 a sign.
  bool varies(const ExprNode& parent, const ExprNode& c) const {
    if (varying_.only_beginnings || c.op != Op::Const || c.type != DType::I64) return false;
    int64_t size = parent.op == Op::Mul && c.bits != INT64_MIN ? std::abs(c.bits) : c.bits;
    if (is_stride_of_tile(parent)) return size > 1;
    if (size < varying_.least && (&parent != parallel_ || c.bits < 2)) return false;
    return !(parent.op == Op::Axis && c.bits <= 1) && !(parent.op == Op::Mul && c.bits == -1);
  }

  // The factor of a tile's number, or of a row in it.
  bool is_stride_of_tile(const ExprNode& product) const {
    if (!varying_.general || !is_tile_ || product.op != Op::Mul || product.args.size() != 2) return false;
    return std::ranges::any_of(product.args,
                               [&](Expr a) { return a->op == Op::Symbol || (a->op == Op::Axis && !vectors_.contains(a.get())); });
  }

  Expr leaf(Expr e) {
    size_t bound = e->name.find("_to_");
    if (!varying_.general || e->op != Op::Symbol || bound == std::string::npos) return e;
    return pool_.symbol(e->name.substr(0, bound), e->type, e->lo, INT64_MAX);
  }

  // What a sum is divided by for its mean, if it is the float of an integer.
  std::optional<int64_t> count(const ExprNode& parent, const Expr& operand) const {
    if (varying_.only_beginnings || parent.op != Op::Div || operand != parent.args.at(1) || operand->op != Op::Const) return {};
    double v = operand->number();
    constexpr double least = 16, most = 1 << 24;
    if (v < least || v > most || v != std::floor(v) || !is_float(operand->type)) return {};
    return static_cast<int64_t>(v);
  }

  // Of the outermost number, which is divided once for many elements.
  bool divides_outer(const ExprNode& n) const {
    if (!varying_.general || (n.op != Op::FloorDiv && n.op != Op::Mod)) return false;
    const ExprNode* by = n.args[1].get();
    bool outer = n.args[0].get() == parallel_ || n.args[0] == batch_ || divides_outer(*n.args[0]);
    return outer && by->op == Op::Const && by->bits > 1;
  }

  // `keep`: what is known of the operands of a division decides how it is computed.
  Expr copy(Expr e, bool keep) {
    if (e->args.empty()) return leaf(e);
    auto key = std::pair(e.get(), keep && e->op != Op::Axis);
    if (auto it = done_.find(key); it != done_.end()) return it->second;
    ExprNode n = *e;
    if (divides_outer(n)) {
      n.args = {copy(n.args[0], false), replace_(n.args[1]->bits, Is::Other)};
      return done_[key] = pool_.intern(std::move(n));
    }
    bool inner = (keep && e->op != Op::Axis) || divides(e->op);
    if (e->op == Op::Load) n.args[0] = offset(n.args[0], inner);
    else
      for (Expr& a : n.args) {
        if (auto whole = count(*e, a)) a = cast(replace_(*whole, Is::Other), a->type);
        else
          a = !inner && varies(*e, *a) ? replace_(a->bits, has_no_stride_ && a->bits == no_stride ? Is::NoStride : Is::Other)
                                       : copy(a, inner);
      }
    return done_[key] = pool_.intern(std::move(n));
  }

  // A whole offset, where an operand begins added last.
  Expr offset(Expr e, bool keep) {
    int64_t at = 0; // a sum has one constant at most
    for (Expr term : e->op == Op::Add ? e->args : std::vector{e})
      if (term->op == Op::Const) at = term->bits;
    Expr begin = replace_(at, Is::Beginning), rest = e - pool_.integer(at);
    if (!is_const_int(rest, 0)) rest = copy(rest, keep);
    return rest + begin;
  }

  // An expression that no other one contains. A constant stays.
  Expr top(Expr e) { return copy(e, false); }

  std::vector<Stmt> statements(const std::vector<Stmt>& body) {
    std::vector<Stmt> out;
    for (const Stmt& s : body) {
      if (auto* l = std::get_if<Loop>(&s.v)) {
        if (l->lanes > 1) vectors_.insert(l->axis.get());
        Expr axis = copy(l->axis, false);
        out.push_back({Loop{axis, l->lanes, statements(l->body), l->tile}});
      } else if (auto* r = std::get_if<ReduceRegion>(&s.v)) out.push_back({ReduceRegion{r->accumulators, statements(r->body)}});
      else if (auto* st = std::get_if<Store>(&s.v)) {
        bool aligned = buffers_[static_cast<size_t>(st->buffer)].streamed; // what is known of the offset decides how it is stored
        Expr to = aligned ? copy(st->offset, false) : offset(st->offset, false);
        out.push_back({Store{st->buffer, to, copy(st->value, false)}});
      } else if (auto* t = std::get_if<Turn>(&s.v)) {
        Turn now = *t;
        for (Expr* e : {&now.to_offset, &now.from_offset}) *e = offset(*e, false);
        for (Expr* e : {&now.to_step, &now.from_step, &now.rows, &now.columns}) *e = top(*e);
        out.push_back({std::move(now)});
      } else {
        auto& a = std::get<Accumulate>(s.v);
        Expr value = copy(a.value, false);
        out.push_back({Accumulate{a.reg, value, a.position ? copy(a.position, false) : Expr()}});
      }
    }
    return out;
  }

  ExprPool& pool_;
  const Varying varying_;
  std::span<const KernelBuffer> buffers_;
  const ExprNode* parallel_ = nullptr; // its extent is not in the code
  const bool is_tile_;
  std::unordered_set<const ExprNode*> vectors_; // axes of vector loops
  Expr batch_;                                  // which product of several a tile is of
  bool has_no_stride_ = false;                  // no_stride is no number of the kernel's
  std::function<Expr(int64_t, Is)> replace_;
  std::map<std::pair<const ExprNode*, bool>, Expr> done_;
};

using Is = ConstantRewriter::Is;

// The bounds that code generation may use: whether a loop runs, and whether 32 bits will do.
Expr scalar_for(ExprPool& pool, size_t number, Is is, int64_t lo, int64_t hi) {
  if (is == Is::Beginning) lo = INT64_MIN;
  lo = lo >= 1 ? 1 : lo >= 0 ? 0 : INT64_MIN;
  hi = hi <= INT32_MAX ? INT32_MAX : INT64_MAX;
  std::string name = fmt::format("c{}{}{}", number, lo == 1 ? "_positive" : lo == 0 ? "" : "_any", hi == INT64_MAX ? "_long" : "");
  return pool.symbol(name, DType::I64, lo, hi);
}

} // namespace

KernelShape shape_of(const Kernel& kernel, ExprPool& pool, Varying varying, size_t fixed) {
  KernelShape s;
  Kernel k = ConstantRewriter(pool, varying, fixed, [&](int64_t c, Is is) {
               s.constants.push_back(is == Is::NoStride ? 0 : c);
               return scalar_for(pool, s.constants.size() - 1, is, c, c);
             }).run(kernel);
  k.scratch_bytes = {}; // the caller's business
  k.name.clear();
  s.text = fmt::format("{} {} {} {}\n{}", varying.least, varying.only_beginnings, varying.general, fixed, to_string(k));
  return s;
}

Kernel general_kernel(const Kernel& kernel, ExprPool& pool, Varying varying, size_t fixed) {
  std::vector<Expr> added;
  Kernel k = ConstantRewriter(pool, varying, fixed, [&](int64_t c, Is is) {
               return added.emplace_back(scalar_for(pool, added.size(), is, c, c));
             }).run(kernel);
  k.scalars.insert(k.scalars.end() - static_cast<ptrdiff_t>(fixed), added.begin(), added.end());
  return k;
}

SharedKernel share(std::span<const Kernel* const> kernels, std::span<const KernelShape> shapes, ExprPool& pool, Varying varying,
                   size_t fixed) {
  for (const KernelShape& s : shapes) require(s.text == shapes[0].text, "kernels of different shapes are not one");
  SharedKernel out;
  out.scalars.resize(kernels.size());
  std::map<std::pair<Is, std::vector<int64_t>>, Expr> scalars; // by the values in each kernel
  std::vector<Expr> added;
  size_t position = 0;
  out.kernel = ConstantRewriter(pool, varying, fixed, [&](int64_t, Is is) {
                 std::vector<int64_t> values;
                 for (const KernelShape& s : shapes) values.push_back(s.constants.at(position));
                 position++;
                 auto [lo, hi] = std::minmax_element(values.begin(), values.end());
                 if (*lo == *hi) return pool.integer(*lo);
                 if (is == Is::NoStride) is = Is::Other; // the others' strides are among the values
                 auto [it, fresh] = scalars.try_emplace({is, values});
                 if (fresh) {
                   added.push_back(it->second = scalar_for(pool, added.size(), is, *lo, *hi));
                   for (size_t k = 0; k < values.size(); k++) out.scalars[k].push_back(values[k]);
                 }
                 return it->second;
               }).run(*kernels[0]);
  auto& list = out.kernel.scalars;
  list.insert(list.end() - static_cast<ptrdiff_t>(fixed), added.begin(), added.end());
  return out;
}

} // namespace tenon
