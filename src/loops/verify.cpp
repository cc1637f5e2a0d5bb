// verify(Kernel): the rules of kernel.h, checked where kernels are made rather than found out in wrong code.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "base/numeric.h"
#include "loops/kernel.h"

namespace tenon {

namespace {

class Verifier {
public:
  explicit Verifier(const Kernel& k) : k_(k) {}

  void run() {
    check(k_.parallel && k_.parallel->op == Op::Axis, "the parallel axis is no axis");
    for (Expr s : k_.scalars) {
      check(s && s->op == Op::Symbol, "a scalar is no symbol");
      symbols_.insert(s.get());
    }
    for (const KernelBuffer& b : k_.buffers) {
      check(!b.scratch_offset || b.kind == BufferKind::Scratch, "an offset into scratch memory of a buffer that is none");
      if (b.scratch_offset) index(b.scratch_offset, "an offset into scratch memory");
    }
    if (k_.scratch_bytes) index(k_.scratch_bytes, "the size of scratch memory");
    // The extent of the parallel axis is the caller's affair: the kernel is given its range.
    axes_.insert(k_.parallel.get());
    statements(k_.body);
  }

private:
  template <class... A> void check(bool holds, fmt::format_string<A...> f, A&&... a) {
    if (!holds) internal_error("kernel {}: {}", k_.name, fmt::format(f, std::forward<A>(a)...));
  }

  void statements(const std::vector<Stmt>& body) {
    std::vector<int> closed; // registers end with the enclosing body
    for (const Stmt& s : body) {
      if (auto* l = std::get_if<Loop>(&s.v)) loop(*l);
      else if (auto* st = std::get_if<Store>(&s.v)) store(*st);
      else if (auto* a = std::get_if<Accumulate>(&s.v)) accumulate(*a);
      else if (auto* t = std::get_if<Turn>(&s.v)) turn(*t);
      else {
        auto& r = std::get<ReduceRegion>(s.v);
        region(r);
        for (const Accumulator& acc : r.accumulators) closed.push_back(acc.reg);
      }
    }
    for (int reg : closed) registers_.erase(reg);
  }

  void loop(const Loop& l) {
    check(l.axis && l.axis->op == Op::Axis && l.axis->args.size() == 1, "a loop without an axis");
    index(l.axis->args[0], "an extent");
    check(l.lanes >= 1 && l.lanes <= 128 && std::has_single_bit(static_cast<unsigned>(l.lanes)), "{} lanes", l.lanes);
    if (l.tile > 1) tile(l);
    check(l.lanes == 1 || !vector_, "vector loops are nested: {}", to_string(l.axis));
    check(axes_.insert(l.axis.get()).second, "{} is the axis of two loops, one within the other", to_string(l.axis));
    bool outer = vector_;
    vector_ |= l.lanes > 1;
    statements(l.body);
    vector_ = outer;
    axes_.erase(l.axis.get());
  }

  void tile(const Loop& l) {
    check(l.lanes == 1 && l.tile <= 16 && is_const_int(l.axis->args[0], l.tile), "a tile of {} by {}", l.tile, l.lanes);
    auto* in = l.body.size() == 1 ? std::get_if<Loop>(&l.body[0].v) : nullptr;
    check(in && in->lanes > 1 && in->tile == 1, "a tile around something else than a vector loop");
    bool stores = std::all_of(in->body.begin(), in->body.end(), [](const Stmt& s) { return std::holds_alternative<Store>(s.v); });
    check(stores && !contains(in->axis->args[0], [&](const ExprNode& n) { return &n == l.axis.get(); }), "a tile of more than stores");
  }

  void store(const Store& s) {
    check(s.buffer >= 0 && static_cast<size_t>(s.buffer) < k_.buffers.size(), "no buffer b{}", s.buffer);
    const KernelBuffer& b = k_.buffers[static_cast<size_t>(s.buffer)];
    check(b.kind != BufferKind::Input, "b{} is an input and stored to", s.buffer);
    expression(s.value);
    check(s.value->type == b.dtype, "{} stored to b{} of {}", name_of(s.value->type), s.buffer, name_of(b.dtype));
    index(s.offset, "the offset of a store");
  }

  void turn(const Turn& t) {
    auto known = [&](int b) { return b >= 0 && static_cast<size_t>(b) < k_.buffers.size(); };
    check(!vector_ && known(t.to) && known(t.from), "a transpose of b{} to b{}", t.from, t.to);
    const KernelBuffer &to = k_.buffers[static_cast<size_t>(t.to)], &from = k_.buffers[static_cast<size_t>(t.from)];
    check(to.kind != BufferKind::Input && size_of(to.dtype) == size_of(from.dtype), "a transpose of b{} to b{}", t.from, t.to);
    for (Expr e : exprs_of(t)) index(e, "a place or size of a transpose");
  }

  void region(const ReduceRegion& r) {
    for (const Accumulator& a : r.accumulators) {
      bool logical = a.op == Reduction::Any || a.op == Reduction::All;
      check(a.op != Reduction::None, "r{} has no reduction", a.reg);
      check(!is_reduced_float(a.type), "r{} accumulates in {}", a.reg, name_of(a.type));
      check(!logical || a.type == DType::Bool, "r{} is logical and of {}", a.reg, name_of(a.type));
      check(!registers_.contains(a.reg) && open_.try_emplace(a.reg, a).second, "r{} is defined twice", a.reg);
    }
    statements(r.body);
    for (const Accumulator& a : r.accumulators) {
      bool position = a.op == Reduction::ArgMax || a.op == Reduction::ArgMin;
      open_.erase(a.reg);
      registers_[a.reg] = position ? DType::I64 : a.type;
    }
  }

  void accumulate(const Accumulate& s) {
    auto it = open_.find(s.reg);
    check(it != open_.end(), "r{} is accumulated outside of its region", s.reg);
    const Accumulator& a = it->second;
    expression(s.value);
    check(s.value->type == a.type, "{} added to r{} of {}", name_of(s.value->type), s.reg, name_of(a.type));
    bool position = a.op == Reduction::ArgMax || a.op == Reduction::ArgMin;
    check(position == bool(s.position), "the position of r{}", s.reg);
    if (position) index(s.position, "a position");
  }

  void index(Expr e, std::string_view what) {
    check(bool(e), "{} is missing", what);
    expression(e);
    check(e->type == DType::I64, "{} of {}", what, name_of(e->type));
  }

  void expression(Expr e) {
    check(bool(e), "an expression is missing");
    std::unordered_set<const ExprNode*> seen;
    expression(*e, seen);
  }

  // Not into the extents of axes: those were checked where the loops begin.
  void expression(const ExprNode& n, std::unordered_set<const ExprNode*>& seen) {
    if (!seen.insert(&n).second) return;
    if (n.op == Op::Axis) return check(axes_.contains(&n), "{} is used outside of its loop", to_string(Expr(&n)));
    if (n.op == Op::Symbol) return check(symbols_.contains(&n), "{} is not among the scalars", n.name);
    if (n.op == Op::Reg) {
      auto it = registers_.find(static_cast<int>(n.bits));
      check(it != registers_.end(), "r{} is used where it has no value", n.bits);
      return check(it->second == n.type, "r{} of {} used as {}", n.bits, name_of(it->second), name_of(n.type));
    }
    for (Expr a : n.args) expression(*a, seen);
    if (n.op == Op::Load) {
      check(n.bits >= 0 && static_cast<size_t>(n.bits) < k_.buffers.size(), "no buffer b{}", n.bits);
      check(n.args.size() == 1 && n.args[0]->type == DType::I64, "a load from b{} needs one offset", n.bits);
      DType t = k_.buffers[static_cast<size_t>(n.bits)].dtype;
      check(t == n.type, "{} loaded from b{} of {}", name_of(n.type), n.bits, name_of(t));
      return;
    }
    check(!is_complex(n.type), "{} of {}: complex numbers are pairs by now", name_of(n.op), name_of(n.type));
    bool computes = n.op > Op::Reg && n.op != Op::Cast && n.op != Op::Bitcast && n.op != Op::Select;
    check(!computes || !is_reduced_float(n.type), "{} computes in {}", name_of(n.op), name_of(n.type));
  }

  const Kernel& k_;
  std::unordered_set<const ExprNode*> symbols_, axes_;
  std::unordered_map<int, DType> registers_;
  std::unordered_map<int, Accumulator> open_;
  bool vector_ = false;
};

} // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

} // namespace tenon
