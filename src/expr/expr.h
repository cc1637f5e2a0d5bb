// One expression language for symbolic sizes, guards, strides, loop bounds and scalar bodies. Nodes are immutable and
// hash-consed in an ExprPool: equal expressions are one pointer. Integer sums and products are kept in a normal form, so
// s*2 + 3 - s and s + 3 are equal. What an operator means is defined by eval.h.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/numeric.h"
#include "base/size_range.h"

namespace tenon {

enum class Op : uint8_t {
  // leaves
  Const,  // `bits`: the integer, or the bits of a double
  Symbol, // a run-time size or number, by `name`
  Axis,   // a loop index in [0, extent); `bits` is its number, args[0] its extent
  Load,   // element of operand `bits` at the indices args
  Reg,    // result number `bits` of an earlier loop of the same kernel
  // unary
  Neg,
  Abs,
  Not,
  Sqrt,
  Rsqrt,
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Erfc,
  Sigmoid,
  Floor,
  Ceil,
  Round,
  Trunc,
  Cast,
  Bitcast,
  // binary; And, Or, Xor are bitwise on integers, logical on Bool
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  TruncDiv,
  Fmod,
  Min,
  Max,
  Pow,
  Atan2,
  And,
  Or,
  Xor,
  Shl,
  Shr,
  Gcd, // of integers; not negative, but where it does not fit
  Eq,
  Ne,
  Lt,
  Le,
  // others
  Checked, // args: index, size[, value]. The index, or the value, where the index is in [0, size); elsewhere the step fails
  Select,  // args: condition, then, else. A Load in a branch is only done where the branch is taken
  Call,    // a C function of doubles by `name` (special functions)
};

class ExprPool;
struct ExprNode;

/// A handle to a hash-consed node; compare with ==. The pool must outlive it.
class Expr {
public:
  Expr() = default;
  explicit Expr(const ExprNode* node) : node_(node) {}
  const ExprNode* operator->() const { return node_; }
  const ExprNode& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Expr&) const = default;
  const ExprNode* get() const { return node_; }

private:
  const ExprNode* node_ = nullptr;
};

struct ExprNode {
  Op op;
  DType type;
  uint32_t id = 0; // order of creation in the pool
  int64_t bits = 0;
  std::vector<Expr> args = {};
  std::string name = {};
  ExprPool* pool = nullptr;
  int64_t lo = INT64_MIN, hi = INT64_MAX; // known bounds of an integer expression, both included

  bool is_const() const { return op == Op::Const; }
  double number() const { return is_float(type) ? std::bit_cast<double>(bits) : static_cast<double>(bits); }
};

/// What an integer symbol is accepted as. A range from 2 only says that the export did not specialise on 0 and 1.
SizeRange accepted_range(const ExprNode& symbol);

/// Not for several threads at once, unless frozen: each compile has a pool of its own.
class ExprPool {
public:
  ExprPool() = default;
  ExprPool(const ExprPool&) = delete;
  ExprPool& operator=(const ExprPool&) = delete;

  Expr integer(int64_t v, DType type = DType::I64);
  Expr boolean(bool v) { return integer(v, DType::Bool); }
  /// The constant `v` in any dtype, converted as C does.
  Expr number(double v, DType type);
  /// A symbol; the bounds count only when the name is new.
  Expr symbol(const std::string& name, DType type = DType::I64, int64_t lo = INT64_MIN, int64_t hi = INT64_MAX);
  Expr find_symbol(const std::string& name) const;
  /// A fresh symbol name with this prefix, not used in the pool.
  std::string fresh_symbol(const std::string& prefix) const;
  /// Loop index number `number`, running over [0, extent).
  Expr axis(int64_t number, Expr extent);
  Expr load(int64_t operand, DType type, std::vector<Expr> indices);
  Expr reg(int64_t number, DType type);
  /// Any operator; applies the simplification rules.
  Expr make(Op op, DType type, std::vector<Expr> args);
  Expr call(const std::string& function, DType type, std::vector<Expr> args);
  /// A node as it is, no rule applied.
  Expr intern(ExprNode node);
  size_t size() const { return nodes_.size(); }
  /// From now on the pool only gives what it has, so that threads may share it; a new node is an internal error.
  void freeze() { frozen_ = true; }

private:
  bool frozen_ = false;
  std::deque<ExprNode> nodes_;
  std::unordered_multimap<size_t, const ExprNode*> table_;
  std::unordered_map<std::string, Expr> symbols_;
};

// Operators. Both sides have one dtype; a C++ number takes the dtype of the other side.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b); // true division, floats only
Expr operator-(Expr a);
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);
Expr floor_div(Expr a, Expr b); // rounds to -infinity
Expr mod(Expr a, Expr b);       // sign of the divisor
Expr min(Expr a, Expr b);       // NaN wins
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
inline Expr gt(Expr a, Expr b) { return lt(b, a); }
inline Expr ge(Expr a, Expr b) { return le(b, a); }
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr condition, Expr then, Expr otherwise);
Expr cast(Expr a, DType type);
/// True if all values of `e`, a float, are floats of `narrow`: it is widened from there, or one of such values or its negative.
bool is_widened(const ExprNode& e, DType narrow);
/// Conversion of an f32 to a float of 8 bits, and back: casts end in these.
Expr float8_of(Expr f, DType type);
Expr value_of_float8(Expr byte);
Expr unary(Op op, Expr a);
Expr binary(Op op, Expr a, Expr b); // result dtype: Bool for comparisons, else that of a
/// `index`, checked when run to lie in [0, size).
Expr checked(Expr index, Expr size);
/// `value`, with every check of an index in `indices` that it does not hold already.
Expr with_checks(Expr value, const std::vector<Expr>& indices);
Expr is_nan(Expr a);
/// A constant of the dtype of `like`.
Expr constant_like(double v, Expr like);

/// The value, where it is an integer constant.
std::optional<int64_t> const_int(Expr e);
inline bool is_const_int(Expr e, int64_t v) { return e && e->op == Op::Const && !is_float(e->type) && e->bits == v; }
/// Whether a < b, a <= b hold for all values of the symbols and loop indices; false means "not known".
bool proves_lt(Expr a, Expr b);
bool proves_le(Expr a, Expr b);
/// Product of sizes.
Expr product(ExprPool& pool, std::span<const Expr> sizes);

/// Replaces nodes by other expressions (leaves, or whole subtrees), rebuilding and simplifying what is above them.
class Substitution {
public:
  void set(Expr from, Expr to) { map_[from.get()] = to; }
  Expr apply(Expr e);
  /// Called for each Load with its operand and already substituted indices; an empty result keeps the Load.
  std::function<Expr(int64_t operand, const ExprNode& load, const std::vector<Expr>& indices)> on_load;
  /// Rebuilds nodes into this pool; null: the pool they are in.
  ExprPool* into = nullptr;

private:
  std::unordered_map<const ExprNode*, Expr> map_;
};

/// Calls f on every node of e once, operands first.
void visit(Expr e, const std::function<void(const ExprNode&)>& f);
/// Whether `test` holds for a node of e; it is not asked for all of them.
bool contains(Expr e, const std::function<bool(const ExprNode&)>& test);

/// Infix text: "s77*2 + 1", "max(s0, 4)". parse_expr reads it back.
std::string to_string(Expr e);
Expr parse_expr(ExprPool& pool, std::string_view text);
Expr parse_expr(ExprPool& pool, class Lexer& lexer);
std::string_view name_of(Op op);

} // namespace tenon

template <> struct std::hash<tenon::Expr> {
  size_t operator()(tenon::Expr e) const noexcept { return std::hash<const void*>()(e.get()); }
};
