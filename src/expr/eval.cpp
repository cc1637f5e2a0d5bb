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

using Numbers = std::unordered_map<const ExprNode*, double>;

double apply(const ExprNode& n, const double* v) {
  bool as_float = is_float(n.args[0]->type);
  auto integer = [](double x) { return static_cast<int64_t>(x); };
  if (n.op == Op::Cast) {
    if (is_float(n.type)) return n.type == DType::F32 ? static_cast<float>(v[0]) : v[0];
    return n.type == DType::Bool ? v[0] != 0 : static_cast<double>(convert<int64_t>(v[0]));
  }
  if (is_unary(n.op)) {
    if (n.args[0]->type == DType::Bool) return v[0] == 0;
    return dispatch_op<Op::Neg, Op::Trunc>(n.op, [&]<Op O>() {
      return as_float ? apply_unary<O, double>(v[0]) : static_cast<double>(apply_unary<O, int64_t>(integer(v[0])));
    });
  }
  if (is_compare(n.op))
    return dispatch_op<Op::Eq, Op::Le>(n.op, [&]<Op O>() { return static_cast<double>(apply_compare<O, double>(v[0], v[1])); });
  if (is_binary(n.op))
    return dispatch_op<Op::Add, Op::Shr>(n.op, [&]<Op O>() {
      return as_float ? apply_binary<O, double>(v[0], v[1]) : static_cast<double>(apply_binary<O, int64_t>(integer(v[0]), integer(v[1])));
    });
  if (n.op == Op::Select) return v[0] != 0 ? v[1] : v[2];
  if (n.op == Op::Call)
    if (auto f = find_special(n.name)) return f(v);
  internal_error("cannot evaluate {}", name_of(n.op));
}

double evaluate(const ExprNode& n, Numbers& done, const std::function<double(const ExprNode&)>& value_of) {
  if (n.op == Op::Const) return n.number();
  if (auto it = done.find(&n); it != done.end()) return it->second;
  double v;
  if (is_leaf(n.op)) v = value_of(n);
  else {
    std::vector<double> args;
    for (Expr a : n.args) args.push_back(evaluate(*a, done, value_of));
    v = args[0];
    if (args.size() > 2 && is_binary(n.op)) { // sums and products in normal form
      for (size_t i = 1; i < args.size(); i++) v = n.op == Op::Add ? v + args[i] : v * args[i];
    } else v = apply(n, args.data());
  }
  return done[&n] = v;
}

} // namespace

double eval_number(Expr e, const std::function<double(const ExprNode&)>& value_of) {
  Numbers done;
  return evaluate(*e, done, value_of);
}

namespace {

using Integers = std::unordered_map<const ExprNode*, int64_t>;

int64_t evaluate_int(const ExprNode& n, Integers& done, const std::function<int64_t(const ExprNode&)>& value_of) {
  if (n.op == Op::Const) return n.bits;
  if (auto it = done.find(&n); it != done.end()) return it->second;
  int64_t v;
  auto arg = [&](size_t i) { return evaluate_int(*n.args[i], done, value_of); };
  bool floats = n.op != Op::Select && !n.args.empty() && !is_leaf(n.op) && is_float(n.args[0]->type);
  if (is_leaf(n.op)) v = value_of(n);
  else if (floats || is_float(n.type)) {
    v = static_cast<int64_t>(eval_number(Expr(&n), [&](const ExprNode& leaf) { return static_cast<double>(value_of(leaf)); }));
  } else if (n.op == Op::Select) v = arg(0) ? arg(1) : arg(2);
  else if (n.op == Op::Cast) v = n.type == DType::Bool ? arg(0) != 0 : arg(0);
  else if (is_unary(n.op)) {
    int64_t a = arg(0);
    v = n.type == DType::Bool ? !a : dispatch_op<Op::Neg, Op::Trunc>(n.op, [&]<Op O>() { return apply_unary<O, int64_t>(a); });
  } else if (is_binary(n.op)) {
    v = arg(0);
    for (size_t i = 1; i < n.args.size(); i++) {
      int64_t b = arg(i);
      if (is_compare(n.op)) v = dispatch_op<Op::Eq, Op::Le>(n.op, [&]<Op O>() { return int64_t{apply_compare<O, int64_t>(v, b)}; });
      else v = dispatch_op<Op::Add, Op::Shr>(n.op, [&]<Op O>() { return apply_binary<O, int64_t>(v, b); });
    }
  } else internal_error("cannot evaluate {} as an integer", name_of(n.op));
  return done[&n] = v;
}

} // namespace

int64_t eval_int(Expr e, const std::function<int64_t(const ExprNode&)>& value_of) {
  Integers done;
  return evaluate_int(*e, done, value_of);
}

} // namespace tenon
