// ExprPool: hash-consing of nodes, and the bounds of integer expressions.
#include <algorithm>

#include "expr/expr.h"
#include "expr/rules.h"

namespace tenon {

namespace {

size_t hash_node(const ExprNode& n) {
  size_t h = static_cast<size_t>(n.op) * 31 + static_cast<size_t>(n.type);
  auto mix = [&](size_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  mix(static_cast<size_t>(n.bits));
  for (Expr a : n.args) mix(a->id + 1);
  if (!n.name.empty()) mix(std::hash<std::string>()(n.name));
  return h;
}

bool same(const ExprNode& a, const ExprNode& b) {
  return a.op == b.op && a.type == b.type && a.bits == b.bits && a.args == b.args && a.name == b.name;
}

struct Bounds {
  int64_t lo, hi;
};

// An infinite end stays infinite, whatever is added or multiplied.
bool open(int64_t v) { return v == INT64_MIN || v == INT64_MAX; }
int64_t add_end(int64_t a, int64_t b) {
  if (open(a)) return a;
  if (open(b)) return b;
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}
int64_t mul_end(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t r;
  if (open(a) || open(b) || __builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return r;
}
Bounds mul_bounds(const ExprNode& a, const ExprNode& b) {
  int64_t v[4] = {mul_end(a.lo, b.lo), mul_end(a.lo, b.hi), mul_end(a.hi, b.lo), mul_end(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Bounds bounds_of(const ExprNode& n) {
  auto arg = [&](size_t i) -> const ExprNode& { return *n.args[i]; };
  switch (n.op) {
  case Op::Const: return {n.bits, n.bits};
  case Op::Axis: return {0, std::max<int64_t>(0, arg(0).hi == INT64_MAX ? INT64_MAX : arg(0).hi - 1)};
  case Op::Add: {
    Bounds b{0, 0};
    for (Expr a : n.args) b = {add_end(b.lo, a->lo), add_end(b.hi, a->hi)};
    return b;
  }
  case Op::Mul: {
    ExprNode acc{.op = Op::Const, .type = DType::I64};
    acc.lo = acc.hi = 1;
    for (Expr a : n.args) {
      Bounds b = mul_bounds(acc, *a);
      acc.lo = b.lo, acc.hi = b.hi;
    }
    return {acc.lo, acc.hi};
  }
  case Op::FloorDiv:
    if (arg(1).lo > 0 && arg(0).lo >= 0)
      return {arg(1).hi == INT64_MAX ? 0 : arg(0).lo / arg(1).hi, open(arg(0).hi) ? INT64_MAX : arg(0).hi / arg(1).lo};
    return {INT64_MIN, INT64_MAX};
  case Op::Mod:
    if (arg(1).lo > 0) return {0, std::min(arg(1).hi == INT64_MAX ? INT64_MAX : arg(1).hi - 1, arg(0).lo >= 0 ? arg(0).hi : INT64_MAX)};
    return {INT64_MIN, INT64_MAX};
  case Op::Min: return {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)};
  case Op::Max: return {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)};
  case Op::Abs: return {0, INT64_MAX};
  case Op::Checked:
    if (n.args.size() > 2) return {arg(2).lo, arg(2).hi};
    return {std::max<int64_t>(0, arg(0).lo), arg(1).hi == INT64_MAX ? arg(0).hi : std::min(arg(0).hi, arg(1).hi - 1)};
  case Op::Select: return {std::min(arg(1).lo, arg(2).lo), std::max(arg(1).hi, arg(2).hi)};
  default: return {INT64_MIN, INT64_MAX};
  }
}

} // namespace

Expr ExprPool::intern(ExprNode node) {
  size_t h = hash_node(node);
  auto [begin, end] = table_.equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (same(*it->second, node)) return Expr(it->second);
  require(!frozen_, "an expression is made in a frozen pool");
  node.pool = this;
  node.id = static_cast<uint32_t>(nodes_.size());
  if (node.type == DType::I64 && node.op != Op::Symbol) {
    Bounds b = bounds_of(node);
    node.lo = b.lo, node.hi = b.hi;
  }
  nodes_.push_back(std::move(node));
  table_.emplace(h, &nodes_.back());
  return Expr(&nodes_.back());
}

Expr ExprPool::integer(int64_t v, DType type) {
  if (is_float(type)) return number(static_cast<double>(v), type);
  return intern({.op = Op::Const, .type = type, .bits = v});
}

Expr ExprPool::number(double v, DType type) {
  if (is_float(type)) {
    if (type == DType::F32) v = static_cast<float>(v);
    if (type == DType::F16) v = static_cast<float>(F16(static_cast<float>(v)));
    if (type == DType::BF16) v = static_cast<float>(BF16(static_cast<float>(v)));
    return intern({.op = Op::Const, .type = type, .bits = std::bit_cast<int64_t>(v)});
  }
  if (type == DType::Bool) return integer(v != 0, type);
  if (is_float8(type)) return integer(to_float8(static_cast<float>(v), type), type);
  return rules::wrap(*this, type, v >= 0x1p63 || v < -0x1p63 || std::isnan(v) ? INT64_MIN : static_cast<int64_t>(v));
}

Expr ExprPool::symbol(const std::string& name, DType type, int64_t lo, int64_t hi) {
  if (auto it = symbols_.find(name); it != symbols_.end()) return it->second;
  ExprNode n{.op = Op::Symbol, .type = type, .name = name};
  n.lo = lo, n.hi = hi;
  return symbols_[name] = intern(std::move(n));
}

Expr ExprPool::find_symbol(const std::string& name) const {
  auto it = symbols_.find(name);
  return it == symbols_.end() ? Expr() : it->second;
}

std::string ExprPool::fresh_symbol(const std::string& prefix) const {
  for (size_t i = 0;; i++)
    if (std::string name = prefix + std::to_string(i); !symbols_.contains(name)) return name;
}

Expr ExprPool::axis(int64_t number, Expr extent) { return intern({.op = Op::Axis, .type = DType::I64, .bits = number, .args = {extent}}); }

Expr ExprPool::load(int64_t operand, DType type, std::vector<Expr> indices) {
  return intern({.op = Op::Load, .type = type, .bits = operand, .args = std::move(indices)});
}

Expr ExprPool::reg(int64_t number, DType type) { return intern({.op = Op::Reg, .type = type, .bits = number}); }

Expr ExprPool::call(const std::string& function, DType type, std::vector<Expr> args) {
  if (Expr e = rules::unrolled_polynomial(function, type, args)) return e;
  return intern({.op = Op::Call, .type = type, .args = std::move(args), .name = function});
}

Expr ExprPool::make(Op op, DType type, std::vector<Expr> args) { return rules::simplify(*this, op, type, std::move(args)); }

namespace rules {

bool precedes(Expr a, Expr b) {
  if (a == b) return false;
  if (a->op != b->op) return a->op < b->op;
  if (a->bits != b->bits) return a->bits < b->bits;
  if (a->name != b->name) return a->name.size() != b->name.size() ? a->name.size() < b->name.size() : a->name < b->name;
  if (a->args != b->args) return std::lexicographical_compare(a->args.begin(), a->args.end(), b->args.begin(), b->args.end(), precedes);
  return a->type < b->type;
}

} // namespace rules

} // namespace tenon
