// Normal form of integer sums and products: Add(terms..., constant), each term Mul(factors..., coefficient), terms and
// factors ordered by what they are, so that the text of an expression does not tell its history. floor_div and mod split off what divides.
#include <algorithm>
#include <map>

#include "expr/eval.h"
#include "expr/rules.h"

namespace tenon::rules {

namespace {

using Monomial = std::vector<Expr>; // factors, ordered
struct ById {
  bool operator()(const Monomial& a, const Monomial& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), rules::precedes);
  }
};
using Polynomial = std::map<Monomial, int64_t, ById>; // the empty monomial is the constant

int64_t wrap_mul(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
int64_t wrap_add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

void add_term(Polynomial& p, const Monomial& m, int64_t c) {
  int64_t& slot = p[m];
  slot = wrap_add(slot, c);
  if (slot == 0) p.erase(m);
}

void add_monomial(Polynomial& p, Expr e, int64_t factor) {
  if (e->op == Op::Const) return add_term(p, {}, wrap_mul(e->bits, factor));
  if (e->op != Op::Mul) return add_term(p, {e}, factor);
  Monomial m;
  for (Expr a : e->args)
    if (a->op == Op::Const) factor = wrap_mul(factor, a->bits);
    else m.push_back(a);
  add_term(p, m, factor);
}

Polynomial to_polynomial(Expr e) {
  Polynomial p;
  if (e->op != Op::Add) add_monomial(p, e, 1);
  else
    for (Expr t : e->args) add_monomial(p, t, 1);
  return p;
}

Expr from_term(ExprPool& pool, const Monomial& m, int64_t c) {
  if (m.empty()) return pool.integer(c);
  if (m.size() == 1 && c == 1) return m[0];
  std::vector<Expr> args = m;
  if (c != 1) args.push_back(pool.integer(c));
  return pool.intern({.op = Op::Mul, .type = DType::I64, .args = std::move(args)});
}

// c*k*(x // k) + c*(x % k) is c*x: the digits of a number, put together again.
bool combine_digits(ExprPool& pool, Polynomial& p) {
  for (auto& [m, c] : p)
    for (Expr f : m) {
      if (f->op != Op::Mod || f->args[1]->lo <= 0) continue;
      Expr x = f->args[0], quotient = rules::floor_div(pool, x, f->args[1]);
      Polynomial divisor = to_polynomial(f->args[1]);
      if (divisor.size() != 1 || quotient->op == Op::Add || quotient->op == Op::Const) continue;
      Monomial rest = m, high;
      rest.erase(std::find(rest.begin(), rest.end(), f));
      high = rest;
      high.push_back(quotient);
      high.insert(high.end(), divisor.begin()->first.begin(), divisor.begin()->first.end());
      std::sort(high.begin(), high.end(), rules::precedes);
      auto it = p.find(high);
      if (it == p.end() || it->second != wrap_mul(c, divisor.begin()->second)) continue;
      int64_t factor = c;
      Monomial low = m;
      p.erase(it);
      p.erase(low);
      for (auto& [xm, xc] : to_polynomial(x)) {
        Monomial product = rest;
        product.insert(product.end(), xm.begin(), xm.end());
        std::sort(product.begin(), product.end(), rules::precedes);
        add_term(p, product, wrap_mul(factor, xc));
      }
      return true;
    }
  return false;
}

Expr from_polynomial(ExprPool& pool, Polynomial p) {
  while (combine_digits(pool, p)) {}
  std::vector<Expr> terms;
  int64_t constant = 0;
  for (auto& [m, c] : p)
    if (m.empty()) constant = c;
    else terms.push_back(from_term(pool, m, c));
  if (terms.empty()) return pool.integer(constant);
  if (constant != 0) terms.push_back(pool.integer(constant));
  if (terms.size() == 1) return terms[0];
  return pool.intern({.op = Op::Add, .type = DType::I64, .args = std::move(terms)});
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  for (auto& [ma, ca] : a)
    for (auto& [mb, cb] : b) {
      Monomial m = ma;
      m.insert(m.end(), mb.begin(), mb.end());
      std::sort(m.begin(), m.end(), rules::precedes);
      add_term(p, m, wrap_mul(ca, cb));
    }
  return p;
}

// The quotient monomial where `divisor` (one term) divides the term exactly.
bool divide_term(const Monomial& m, int64_t c, const Monomial& dm, int64_t dc, Monomial& qm, int64_t& qc) {
  if (dc == 0 || c % dc != 0) return false;
  qm = m;
  for (Expr f : dm) {
    auto it = std::find(qm.begin(), qm.end(), f);
    if (it == qm.end()) return false;
    qm.erase(it);
  }
  qc = c / dc;
  return true;
}

// Splits a = divisor * quotient + rest, taking every term (and every part of a constant) that divides.
bool split(const Polynomial& a, const Polynomial& divisor, Polynomial& quotient, Polynomial& rest) {
  if (divisor.size() != 1) {
    if (a != divisor) return false;
    quotient = {{Monomial{}, 1}};
    return true;
  }
  auto& [dm, dc] = *divisor.begin();
  for (auto& [m, c] : a) {
    Monomial qm;
    int64_t qc;
    if (divide_term(m, c, dm, dc, qm, qc)) add_term(quotient, qm, qc);
    else if (dm.empty() && dc > 0) { // constant divisor: c*x = dc*(c div dc)*x + (c mod dc)*x
      int64_t q = apply_binary_int<Op::FloorDiv>(c, dc);
      if (q != 0 && m.empty()) add_term(quotient, m, q), add_term(rest, m, c - q * dc);
      else add_term(rest, m, c);
    } else add_term(rest, m, c);
  }
  return !quotient.empty();
}

bool within(Expr r, Expr divisor) { return r->lo >= 0 && proves_lt(r, divisor); }

// ---- sums of a few terms without remainders, by merging: nearly all sums there are

struct Term {
  std::span<const Expr> factors; // in the arguments of a node, which stay where they are
  int64_t coefficient = 0;
  Expr whole = {}; // the term as an expression, where it is one
};

class TermList {
public:
  /// False where the general way has to be taken.
  bool add(const Expr& e, int64_t factor) {
    if (e->op != Op::Add) return add_one(e, factor);
    return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& t) { return add_one(t, factor); });
  }

  Expr expr(ExprPool& pool) const {
    std::vector<Expr> args;
    args.reserve(size_ + 1);
    for (const Term& t : std::span(terms_, size_))
      args.push_back(t.whole ? t.whole : from_term(pool, Monomial(t.factors.begin(), t.factors.end()), t.coefficient));
    if (constant_ != 0 || args.empty()) args.push_back(pool.integer(constant_));
    if (args.size() == 1) return args[0];
    return pool.intern({.op = Op::Add, .type = DType::I64, .args = std::move(args)});
  }

private:
  static constexpr size_t most = 16;

  bool add_one(const Expr& e, int64_t factor) {
    if (e->op == Op::Const) {
      constant_ = wrap_add(constant_, wrap_mul(e->bits, factor));
      return true;
    }
    Term t{.factors = std::span(&e, 1), .coefficient = factor, .whole = factor == 1 ? e : Expr()};
    if (e->op == Op::Mul) {
      t.factors = e->args;
      if (e->args.back()->op == Op::Const)
        t.factors = t.factors.first(e->args.size() - 1), t.coefficient = wrap_mul(factor, e->args.back()->bits);
    }
    bool plain = std::none_of(t.factors.begin(), t.factors.end(), [](Expr f) { return f->op == Op::Mod || f->op == Op::Const; });
    return plain && !t.factors.empty() && insert(t);
  }

  bool insert(const Term& t) {
    auto less = rules::precedes;
    auto before = [&](const Term& x, const Term& y) {
      return std::lexicographical_compare(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), less);
    };
    Term* end = terms_ + size_;
    Term* at = size_ > 0 && before(end[-1], t) ? end : std::lower_bound(terms_, end, t, before);
    if (at == end || before(t, *at)) {
      if (size_ == most) return false;
      std::move_backward(at, end, end + 1);
      *at = t;
      size_++;
      return true;
    }
    at->coefficient = wrap_add(at->coefficient, t.coefficient);
    at->whole = {};
    if (at->coefficient == 0) std::move(at + 1, end, at), size_--;
    return true;
  }

  Term terms_[most];
  size_t size_ = 0;
  int64_t constant_ = 0;
};

// c * e without a polynomial: a coefficient changes, and no order.
Expr scaled(ExprPool& pool, const Expr& e, int64_t c) {
  if (c == 1) return e;
  TermList terms;
  if (c != 0 && terms.add(e, c)) return terms.expr(pool);
  return {};
}

} // namespace

Expr sum(ExprPool& pool, std::span<const Expr> terms) {
  TermList list;
  if (std::all_of(terms.begin(), terms.end(), [&](const Expr& t) { return list.add(t, 1); })) return list.expr(pool);
  Polynomial p;
  for (Expr e : terms)
    for (auto& [m, c] : to_polynomial(e)) add_term(p, m, c);
  return from_polynomial(pool, p);
}

Expr sum(ExprPool& pool, Expr a, Expr b, int64_t b_factor) {
  TermList terms;
  if (terms.add(a, 1) && terms.add(b, b_factor)) return terms.expr(pool);
  Polynomial p = to_polynomial(a);
  for (auto& [m, c] : to_polynomial(b)) add_term(p, m, wrap_mul(c, b_factor));
  return from_polynomial(pool, p);
}

Expr product(ExprPool& pool, Expr a, Expr b) {
  if (auto c = const_int(a))
    if (Expr e = scaled(pool, b, *c)) return e;
  if (auto c = const_int(b))
    if (Expr e = scaled(pool, a, *c)) return e;
  Polynomial pa = to_polynomial(a), pb = to_polynomial(b);
  constexpr size_t max_terms = 32; // larger products stay factored
  if (pa.size() * pb.size() <= max_terms) return from_polynomial(pool, multiply(pa, pb));
  return pool.intern({.op = Op::Mul, .type = DType::I64, .args = precedes(a, b) ? std::vector{a, b} : std::vector{b, a}});
}

Expr floor_div(ExprPool& pool, Expr a, Expr b) {
  if (is_const_int(b, 1)) return a;
  if (is_const_int(a, 0) && b->lo > 0) return a;
  if (b->lo > 0 && within(a, b)) return pool.integer(0);
  if (a == b && b->lo > 0) return pool.integer(1);
  Polynomial q, r;
  if (b->lo > 0 && split(to_polynomial(a), to_polynomial(b), q, r)) {
    Expr rest = from_polynomial(pool, r);
    return from_polynomial(pool, q) + floor_div(pool, rest, b);
  }
  if (a->op == Op::FloorDiv && a->args[1]->lo > 0 && b->lo > 0) return pool.make(Op::FloorDiv, DType::I64, {a->args[0], a->args[1] * b});
  return pool.intern({.op = Op::FloorDiv, .type = DType::I64, .args = {a, b}});
}

Expr mod(ExprPool& pool, Expr a, Expr b) {
  if (is_const_int(b, 1)) return pool.integer(0);
  if (b->lo > 0 && within(a, b)) return a;
  if (a == b) return pool.integer(0);
  Polynomial q, r;
  if (b->lo > 0 && split(to_polynomial(a), to_polynomial(b), q, r)) return mod(pool, from_polynomial(pool, r), b);
  if (a->op == Op::Mod && const_int(a->args[1]) && const_int(b) && b->lo > 0 && a->args[1]->bits % b->bits == 0)
    return pool.make(Op::Mod, DType::I64, {a->args[0], b});
  return pool.intern({.op = Op::Mod, .type = DType::I64, .args = {a, b}});
}

} // namespace tenon::rules

namespace tenon {

namespace {

// An expression that is at least e for all values of the loop indices: each index with a positive factor is replaced by
// its last value, with a negative one by 0. Empty where an index occurs otherwise.
Expr upper_bound(Expr e) {
  std::vector<Expr> terms = e->op == Op::Add ? e->args : std::vector<Expr>{e};
  Expr bound = e->pool->integer(0);
  for (Expr t : terms) {
    std::vector<Expr> factors = t->op == Op::Mul ? t->args : std::vector<Expr>{t};
    bool negative = t->op == Op::Mul && t->args.back()->op == Op::Const && t->args.back()->bits < 0;
    Expr value = e->pool->integer(1);
    bool has_axis = false;
    for (Expr f : factors) {
      if (f->op != Op::Axis && f->lo < 0 && f->op != Op::Const) return {};
      if (f->op == Op::Axis) has_axis = true;
      value = value * (f->op == Op::Axis ? f->args[0] - 1.0 : f);
    }
    if (has_axis && negative) continue;
    bound = bound + (has_axis ? value : t);
  }
  return bound;
}

} // namespace

bool proves_le(Expr a, Expr b) {
  if (a == b || a->hi <= b->lo) return true;
  if ((b - a)->lo >= 0) return true;
  Expr bound = upper_bound(a);
  return bound && bound != a && (bound->hi <= b->lo || (b - bound)->lo >= 0);
}

bool proves_lt(Expr a, Expr b) { return proves_le(a + 1.0, b); }

} // namespace tenon
