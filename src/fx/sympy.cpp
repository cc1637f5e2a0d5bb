// Functions of sizes, one table for files (srepr) and graphs (Python's functions).
#include "fx/sympy.h"

#include <cmath>

#include "base/check.h"

namespace tenon {

void unify_numbers(Expr& a, Expr& b) {
  if (a->type == b->type) return;
  DType t = is_float(a->type) || is_float(b->type) ? DType::F64 : DType::I64;
  a = cast(a, t), b = cast(b, t);
}

namespace {

Expr as_float(Expr e) { return cast(e, DType::F64); }
// Rounds a float to an integer; integers stay as they are.
Expr to_int(Op op, Expr e) { return is_float(e->type) ? cast(unary(op, e), DType::I64) : cast(e, DType::I64); }

Expr fold(Op op, const std::vector<Expr>& args) {
  Expr e = args[0];
  for (size_t i = 1; i < args.size(); i++) {
    Expr b = args[i];
    unify_numbers(e, b);
    e = binary(op, e, b);
  }
  return e;
}

Expr power(Expr base, Expr exponent) {
  auto n = const_int(exponent);
  if (!n || *n < 0) return binary(Op::Pow, as_float(base), as_float(exponent));
  if (*n > 64) unsupported("a power that large");
  Expr e = constant_like(1, base);
  for (int64_t i = 0; i < *n; i++) e = e * base;
  return e;
}

Expr function(std::string_view name, Expr a) {
  struct Row {
    std::string_view name;
    Op op;
  };
  static constexpr Row rows[] = {{"sqrt", Op::Sqrt}, {"exp", Op::Exp},   {"log", Op::Log},   {"log2", Op::Log2},  {"sin", Op::Sin},
                                 {"cos", Op::Cos},   {"tan", Op::Tan},   {"asin", Op::Asin}, {"acos", Op::Acos},  {"atan", Op::Atan},
                                 {"sinh", Op::Sinh}, {"cosh", Op::Cosh}, {"tanh", Op::Tanh}, {"asinh", Op::Asinh}};
  for (auto& r : rows)
    if (r.name == name) return unary(r.op, a);
  unsupported("a size computed with {}", name);
}

// As Python rounds, to even.
Expr round_decimal(Expr x, Expr digits) {
  if (!const_int(digits) || is_const_int(digits, 0)) return unary(Op::Round, x);
  Expr scale = x->pool->number(std::pow(10.0, static_cast<double>(*const_int(digits))), DType::F64);
  return unary(Op::Round, x * scale) / scale;
}

struct Rule {
  std::string_view head;
  size_t min_args, max_args;
  Op op;
};
constexpr size_t any = 1000;
constexpr Rule rules[] = {{"Add", 1, any, Op::Add},
                          {"Mul", 1, any, Op::Mul},
                          {"Max", 1, any, Op::Max},
                          {"Min", 1, any, Op::Min},
                          {"FloorDiv", 2, 2, Op::FloorDiv},
                          {"CleanDiv", 2, 2, Op::FloorDiv},
                          {"Mod", 2, 2, Op::Mod},
                          {"PythonMod", 2, 2, Op::Mod},
                          {"Equality", 2, 2, Op::Eq},
                          {"Unequality", 2, 2, Op::Ne},
                          {"StrictLessThan", 2, 2, Op::Lt},
                          {"LessThan", 2, 2, Op::Le},
                          {"And", 1, any, Op::And},
                          {"Or", 1, any, Op::Or},
                          {"LShift", 2, 2, Op::Shl},
                          {"RShift", 2, 2, Op::Shr},
                          {"BitwiseFn_bitwise_and", 2, 2, Op::And},
                          {"BitwiseFn_bitwise_or", 2, 2, Op::Or},
                          {"BitwiseFn_bitwise_xor", 2, 2, Op::Xor}};

// Python's functions under the names that sympy_function knows.
struct PythonName {
  std::string_view python, head;
};
constexpr PythonName python_names[] = {{"operator.add", "Add"},
                                       {"operator.mul", "Mul"},
                                       {"operator.floordiv", "FloorDiv"},
                                       {"operator.truediv", "IntTrueDiv"},
                                       {"operator.mod", "PythonMod"},
                                       {"operator.pow", "Pow"},
                                       {"operator.eq", "Equality"},
                                       {"operator.ne", "Unequality"},
                                       {"operator.lt", "StrictLessThan"},
                                       {"operator.le", "LessThan"},
                                       {"operator.gt", "StrictGreaterThan"},
                                       {"operator.ge", "GreaterThan"},
                                       {"operator.and_", "And"},
                                       {"operator.or_", "Or"},
                                       {"operator.xor", "BitwiseFn_bitwise_xor"},
                                       {"operator.lshift", "LShift"},
                                       {"operator.rshift", "RShift"},
                                       {"operator.neg", "Neg"},
                                       {"operator.pos", "Identity"},
                                       {"operator.abs", "Abs"},
                                       {"operator.not_", "Not"},
                                       {"math.trunc", "TruncToInt"},
                                       {"math.floor", "FloorToInt"},
                                       {"math.ceil", "CeilToInt"},
                                       {"math.sqrt", "OpaqueUnaryFn_sqrt"},
                                       {"torch.sym_float", "ToFloat"},
                                       {"torch.sym_int", "TruncToInt"},
                                       {"torch.sym_max", "Max"},
                                       {"torch.sym_min", "Min"},
                                       {"torch.sym_not", "Not"},
                                       {"torch.sym_sum", "Add"},
                                       {"torch.sym_ite", "Where"},
                                       {"builtins.max", "Max"},
                                       {"builtins.min", "Min"},
                                       {"builtins.abs", "Abs"},
                                       {"builtins.int", "TruncToInt"},
                                       {"builtins.float", "ToFloat"}};

// The sympy function that an expression is a call of.
std::string srepr_head(Expr e) {
  bool real = is_float(e->type), rounds = e->op == Op::Cast && !real && is_float(e->args[0]->type);
  if (rounds && e->args[0]->op == Op::Trunc) return "TruncToInt";
  if (rounds && e->args[0]->op == Op::Floor) return "FloorToInt";
  if (rounds && e->args[0]->op == Op::Ceil) return "CeilToInt";
  if (rounds && e->args[0]->op == Op::Round) return "RoundToInt";
  if (real && e->op == Op::Cast && e->args[0]->type == DType::I64) return "ToFloat";
  if (real && e->op == Op::Div) return "FloatTrueDiv";
  if (e->op == Op::Select) return "Where";
  if (e->op == Op::Not) return "Not";
  if (!real || e->op == Op::Add || e->op == Op::Mul || e->op == Op::Min || e->op == Op::Max)
    for (auto& r : rules)
      if (r.op == e->op && e->args.size() >= r.min_args) return std::string(r.head == "Mod" ? "PythonMod" : r.head);
  unsupported("the size {} in torch's form", to_string(e));
}

} // namespace

std::optional<Expr> sympy_function(std::string_view head, std::vector<Expr> args) {
  for (auto& r : rules)
    if (r.head == head && args.size() >= r.min_args && args.size() <= r.max_args) return fold(r.op, args);
  if (args.size() == 2) {
    Expr a = args[0], b = args[1];
    if (head == "GreaterThan") return unify_numbers(a, b), ge(a, b);
    if (head == "StrictGreaterThan") return unify_numbers(a, b), gt(a, b);
    if (head == "Pow" || head == "PowByNatural" || head == "FloatPow") return power(a, b);
    if (head == "FloatTrueDiv" || head == "IntTrueDiv") return as_float(a) / as_float(b);
  }
  if (args.size() == 1) {
    Expr a = args[0];
    if (head == "Not") return logical_not(a);
    if (head == "ToFloat") return as_float(a);
    if (head == "TruncToInt") return to_int(Op::Trunc, a);
    if (head == "CeilToInt" || head == "ceiling") return to_int(Op::Ceil, a);
    if (head == "FloorToInt" || head == "floor") return to_int(Op::Floor, a);
    if (head == "RoundToInt") return to_int(Op::Round, a);
    if (head == "TruncToFloat") return unary(Op::Trunc, as_float(a));
    if (head == "Abs") return unary(Op::Abs, a);
    if (head == "FloatNegation" || head == "Neg") return -a;
    if (head.starts_with("OpaqueUnaryFn_")) return function(head.substr(14), as_float(a));
    if (head == "Identity") return a;
  }
  if (head == "RoundDecimal" && args.size() == 2) return round_decimal(as_float(args[0]), args[1]);
  if (args.size() == 3 && head == "Where") {
    unify_numbers(args[1], args[2]);
    return select(args[0], args[1], args[2]);
  }
  return std::nullopt;
}

std::string srepr(Expr e) {
  if (e->is_const() && e->type == DType::Bool) return e->bits ? "true" : "false";
  if (e->is_const() && !is_float(e->type)) return fmt::format("Integer({})", e->bits);
  if (e->op == Op::Symbol && e->type == DType::I64)
    return fmt::format("Symbol('{}', {}integer=True)", e->name, e->name.starts_with('u') ? "" : "positive=True, ");
  if (e->is_const() && e->type == DType::F64) return fmt::format("Float('{}', precision=53)", e->number());
  std::string head = srepr_head(e), args; // rounding and the cast behind it are one function
  for (Expr a : head.ends_with("ToInt") ? e->args[0]->args : e->args) args += (args.empty() ? "" : ", ") + srepr(a);
  return fmt::format("{}({})", head, args);
}

namespace {

// What sympy calls the Python function; empty where it is not known. A difference has no name of its own there.
std::string head_of(std::string_view target) {
  std::string name(target.starts_with("_operator.") ? target.substr(1) : target);
  if (name == "operator.sub") return "-";
  if (name == "builtins.round" || name == "round") return "RoundDecimal";
  if (name.starts_with("torch._sym_") || name.starts_with("torch.sym_"))
    for (std::string_view f : {"sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"})
      if (name.ends_with("sym_" + std::string(f))) return "OpaqueUnaryFn_" + std::string(f);
  for (const PythonName& p : python_names)
    if (p.python == name) return std::string(p.head);
  return {};
}

} // namespace

bool is_python_function(std::string_view target) { return !head_of(target).empty(); }

std::optional<Expr> python_function(std::string_view target, std::vector<Expr> args) {
  std::string head = head_of(target);
  if (head == "-" && args.size() == 2) {
    unify_numbers(args[0], args[1]);
    return args[0] - args[1];
  }
  return sympy_function(head == "RoundDecimal" && args.size() == 1 ? "RoundToInt" : head, std::move(args));
}

} // namespace tenon
