// Renames a kernel's leaves on the way through its statements.
#include "loops/canonical.h"

#include <algorithm>
#include <unordered_map>

namespace tenon {

namespace {

class Renamer {
public:
  Renamer(const Kernel& kernel, ExprPool& pool, size_t fixed)
      : from_(kernel), pool_(pool), fixed_(kernel.scalars.end() - static_cast<ptrdiff_t>(fixed), kernel.scalars.end()) {
    rename_.into = &pool;
    for (Expr s : fixed_) rename_.set(s, pool.symbol(s->name, s->type, s->lo, s->hi));
  }

  CanonicalKernel run() {
    Kernel k{.name = from_.name, .buffers = from_.buffers, .scalars = {}, .parallel = axis(from_.parallel), .body = {}};
    k.body = statements(from_.body);
    for (KernelBuffer& b : k.buffers) b.scratch_offset = expr(b.scratch_offset);
    k.scratch_bytes = expr(from_.scratch_bytes);
    k.flushes_denormals = from_.flushes_denormals;
    k.reads_streams = from_.reads_streams;
    for (Expr s : from_.scalars) expr(s); // those that nothing uses keep their place in the call
    for (Expr s : symbols_) k.scalars.push_back(rename_.apply(s));
    for (Expr s : fixed_) k.scalars.push_back(rename_.apply(s)), symbols_.push_back(s);
    return {std::move(k), std::move(symbols_)};
  }

private:
  Expr expr(Expr e) {
    if (!e) return e;
    visit(e, [&](const ExprNode& n) {
      if (n.op == Op::Symbol) symbol(Expr(&n));
      else if (n.op == Op::Reg) rename_.set(Expr(&n), pool_.reg(reg(static_cast<int>(n.bits)), n.type));
    });
    return rename_.apply(e);
  }

  void symbol(Expr s) {
    auto is_known = [&](const std::vector<Expr>& list) { return std::find(list.begin(), list.end(), s) != list.end(); };
    if (is_known(symbols_) || is_known(fixed_)) return;
    std::string name = fmt::format("n{}", symbols_.size());
    int64_t lo = std::min<int64_t>(s->lo, 1); // whether a loop runs at all is what a lower bound tells
    if (s->type != DType::I64) name += fmt::format("_{}", name_of(s->type));
    else if (lo < 0) lo = INT64_MIN, name += "_any";
    else if (lo > 0) name += "_positive";
    if (s->type == DType::I64 && s->hi != INT64_MAX) name += fmt::format("_to_{}", s->hi);
    rename_.set(s, pool_.symbol(name, s->type, lo, s->hi));
    symbols_.push_back(s);
  }

  int reg(int old) { return static_cast<int>(std::find(regs_.begin(), regs_.end(), old) - regs_.begin()); }

  // Several loops may run over one axis, as the passes of a row do.
  Expr axis(Expr a) {
    auto [it, fresh] = axes_.try_emplace(a);
    if (fresh) {
      it->second = pool_.axis(static_cast<int64_t>(axes_.size() - 1), expr(a->args[0]));
      rename_.set(a, it->second);
    }
    return it->second;
  }

  std::vector<Stmt> statements(const std::vector<Stmt>& body) {
    std::vector<Stmt> out;
    for (const Stmt& s : body) out.push_back(statement(s));
    return out;
  }

  Stmt statement(const Stmt& s) {
    if (auto* l = std::get_if<Loop>(&s.v)) {
      Expr a = axis(l->axis);
      return {Loop{a, l->lanes, statements(l->body), l->tile}};
    }
    if (auto* r = std::get_if<ReduceRegion>(&s.v)) {
      ReduceRegion out;
      for (Accumulator a : r->accumulators) {
        regs_.push_back(a.reg);
        a.reg = reg(a.reg);
        out.accumulators.push_back(a);
      }
      out.body = statements(r->body);
      return {std::move(out)};
    }
    if (auto* st = std::get_if<Store>(&s.v)) return {Store{st->buffer, expr(st->offset), expr(st->value)}};
    if (auto* t = std::get_if<Turn>(&s.v))
      return {Turn{t->to, t->from, expr(t->to_offset), expr(t->to_step), expr(t->from_offset), expr(t->from_step), expr(t->rows),
                   expr(t->columns)}};
    auto& a = std::get<Accumulate>(s.v);
    return {Accumulate{reg(a.reg), expr(a.value), expr(a.position)}};
  }

  const Kernel& from_;
  ExprPool& pool_;
  std::vector<Expr> fixed_, symbols_;
  std::vector<int> regs_;
  std::unordered_map<Expr, Expr> axes_;
  Substitution rename_;
};

} // namespace

CanonicalKernel canonical(const Kernel& kernel, ExprPool& pool, size_t fixed) { return Renamer(kernel, pool, fixed).run(); }

} // namespace tenon
