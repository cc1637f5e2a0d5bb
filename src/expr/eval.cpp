// Evaluation of expressions over numbers, and the special functions that Op::Call may name.
#include "expr/eval.h"

#include <unordered_map>

#include "expr/special.h"

namespace tenon {

SpecialFunction find_special(std::string_view name) {
  for (auto& f : special_functions)
    if (f.name == name) return f.function;
  return nullptr;
}

namespace {

/// A number as its node's type has it: floats as doubles, all others exactly, as integers of 64 bits.
struct Number {
  double real = 0;
  int64_t whole = 0;

  static Number of(double v) { return {v, 0}; }
  static Number of(int64_t v) { return {0, v}; }
};

class Evaluator {
public:
  using Leaf = std::function<Number(const ExprNode&)>;
  explicit Evaluator(Leaf leaf) : leaf_(std::move(leaf)) {}

  double real(const ExprNode& n) { return is_float(n.type) ? value(n).real : static_cast<double>(value(n).whole); }
  int64_t whole(const ExprNode& n) { return is_float(n.type) ? convert<int64_t>(value(n).real) : value(n).whole; }

private:
  Number value(const ExprNode& n) {
    if (n.op == Op::Const) return is_float(n.type) ? Number::of(n.number()) : Number::of(n.bits);
    if (auto it = done_.find(&n); it != done_.end()) return it->second;
    Number v = is_leaf(n.op) ? leaf_(n) : n.op == Op::Call ? call(n) : apply(n);
    if (n.type == DType::Bool) v.whole = v.whole != 0;
    return done_[&n] = v;
  }

  Number call(const ExprNode& n) {
    auto f = find_special(n.name);
    require(f != nullptr, "cannot evaluate {}", n.name);
    std::vector<double> args;
    for (Expr a : n.args) args.push_back(real(*a));
    return is_float(n.type) ? Number::of(f(args.data())) : Number::of(convert<int64_t>(f(args.data())));
  }

  Number apply(const ExprNode& n) {
    if (n.op == Op::Select) return value(*n.args[whole(*n.args[0]) ? 1 : 2]);
    const ExprNode& first = *n.args.at(0);
    if (n.op == Op::Cast) return cast(n, first);
    bool floats = is_float(first.type);
    if (is_unary(n.op)) {
      if (first.type == DType::Bool) return Number::of(int64_t{!whole(first)});
      return dispatch_op<Op::Neg, Op::Trunc>(
          n.op, [&]<Op O>() { return floats ? Number::of(apply_unary<O>(real(first))) : Number::of(apply_unary<O>(whole(first))); });
    }
    if (is_compare(n.op))
      return dispatch_op<Op::Eq, Op::Le>(n.op, [&]<Op O>() {
        return Number::of(
            int64_t{floats ? apply_compare<O>(real(first), real(*n.args[1])) : apply_compare<O>(whole(first), whole(*n.args[1]))});
      });
    require(is_binary(n.op), "cannot evaluate {}", name_of(n.op));
    return fold(n, floats);
  }

  Number cast(const ExprNode& n, const ExprNode& from) {
    if (n.type == DType::F32) return Number::of(double{convert<float>(real(from))});
    if (is_float(n.type)) return Number::of(real(from));
    if (n.type == DType::Bool) return Number::of(int64_t{real(from) != 0});
    return Number::of(whole(from));
  }

  /// Sums and products in normal form have more than two operands.
  Number fold(const ExprNode& n, bool floats) {
    return dispatch_op<Op::Add, Op::Gcd>(n.op, [&]<Op O>() {
      Number v = value(*n.args[0]);
      for (size_t i = 1; i < n.args.size(); i++)
        if (floats) v.real = apply_binary<O>(v.real, real(*n.args[i]));
        else v.whole = apply_binary<O>(v.whole, whole(*n.args[i]));
      return v;
    });
  }

  Leaf leaf_;
  std::unordered_map<const ExprNode*, Number> done_;
};

} // namespace

double eval_number(Expr e, const std::function<double(const ExprNode&)>& value_of) {
  return Evaluator([&](const ExprNode& n) {
           double v = value_of(n);
           return is_float(n.type) ? Number::of(v) : Number::of(convert<int64_t>(v));
         })
      .real(*e);
}

int64_t eval_int(Expr e, const std::function<int64_t(const ExprNode&)>& value_of) {
  return Evaluator([&](const ExprNode& n) {
           int64_t v = value_of(n);
           return is_float(n.type) ? Number::of(static_cast<double>(v)) : Number::of(v);
         })
      .whole(*e);
}

} // namespace tenon
