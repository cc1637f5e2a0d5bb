// Expressions as infix text, and back: + - * / // % comparisons, and, or, not, and functions f(a, b).
#include <array>

#include "base/lexer.h"
#include "expr/eval.h"
#include "expr/expr.h"
#include "expr/names.h"

namespace tenon {

namespace {

constexpr std::array op_names = std::to_array<std::string_view>(
    {"const", "symbol", "axis",  "load",  "reg",  "neg",      "abs",   "not",  "sqrt",    "rsqrt",  "exp",   "exp2",    "expm1",
     "log",   "log2",   "log10", "log1p", "sin",  "cos",      "tan",   "asin", "acos",    "atan",   "sinh",  "cosh",    "tanh",
     "asinh", "acosh",  "atanh", "erf",   "erfc", "sigmoid",  "floor", "ceil", "round",   "trunc",  "cast",  "bitcast", "+",
     "-",     "*",      "/",     "//",    "%",    "truncdiv", "fmod",  "min",  "max",     "pow",    "atan2", "and",     "or",
     "xor",   "shl",    "shr",   "gcd",   "==",   "!=",       "<",     "<=",   "checked", "select", "call"});
static_assert(op_names.size() == static_cast<size_t>(Op::Call) + 1);

// Binding strength for printing; 0 for leaves and function notation.
int precedence(Op op) {
  switch (op) {
  case Op::Or: return 1;
  case Op::And: return 2;
  case Op::Eq:
  case Op::Ne:
  case Op::Lt:
  case Op::Le: return 3;
  case Op::Add:
  case Op::Sub: return 4;
  case Op::Mul:
  case Op::Div:
  case Op::FloorDiv:
  case Op::Mod: return 5;
  default: return 0;
  }
}

std::string text_of_constant(const ExprNode& n) {
  if (n.type == DType::Bool) return n.bits ? "true" : "false";
  if (is_float(n.type)) {
    double v = n.number();
    std::string s = std::isnan(v) ? "nan" : std::isinf(v) ? (v < 0 ? "-inf" : "inf") : fmt::format("{:#.17g}", v);
    if (std::isfinite(v))
      if (std::string shorter = fmt::format("{}", v); std::stod(shorter) == v)
        s = shorter.find_first_of(".e") == std::string::npos ? shorter + ".0" : shorter;
    return n.type == DType::F64 ? s : fmt::format("{}({})", name_of(n.type), s);
  }
  return n.type == DType::I64 ? std::to_string(n.bits) : fmt::format("{}({})", name_of(n.type), n.bits);
}

std::string print(const ExprNode& n, int outer);

std::string print_args(const std::vector<Expr>& args) {
  std::string s;
  for (Expr a : args) s += (s.empty() ? "" : ", ") + print(*a, 0);
  return s;
}

// A term that is printed with a minus in front of all of it: x + -y becomes x - y.
bool is_negated(const ExprNode& n) {
  if (n.op == Op::Neg) return true;
  if (n.op == Op::Mul) return n.type == DType::I64 && is_const_int(n.args.back(), -1);
  return n.op == Op::Const && (n.type == DType::I64 || n.type == DType::F64) && (is_float(n.type) ? n.number() < 0 : n.bits < 0);
}

// Operands need parentheses where reading from left to right would group them otherwise.
int operand_precedence(const ExprNode& n, size_t i) {
  int p = precedence(n.op);
  bool compares = p == 3, regroups = is_int(n.type) && n.args[i]->op == n.op && (n.op == Op::Add || n.op == Op::Mul);
  return compares || (i > 0 && !regroups) ? p + 1 : p;
}

std::string print_infix(const ExprNode& n, int outer) {
  int p = precedence(n.op);
  std::string s;
  for (size_t i = 0; i < n.args.size(); i++) {
    Expr a = n.args[i];
    bool minus = i > 0 && n.op == Op::Add && is_negated(*a);
    std::string t = print(*a, operand_precedence(n, i));
    bool tight = n.op == Op::Mul || n.op == Op::FloorDiv || n.op == Op::Div;
    if (i == 0) s = t;
    else if (minus && t[0] == '-') s += " - " + t.substr(1);
    else s += tight ? std::string(name_of(n.op)) + t : " " + std::string(name_of(n.op)) + " " + t;
  }
  return p < outer ? "(" + s + ")" : s;
}

// -(a*b*...), where the factor -1 stands last.
std::string print_negated_product(const ExprNode& n, int outer) {
  ExprNode rest = n;
  rest.args.pop_back();
  if (rest.args.size() == 1) return "-" + print(*rest.args[0], 6);
  std::string s = "-" + print_infix(rest, 0);
  return outer > precedence(Op::Mul) ? "(" + s + ")" : s;
}

std::string print(const ExprNode& n, int outer) {
  switch (n.op) {
  case Op::Const: return text_of_constant(n);
  case Op::Symbol: return n.type == DType::I64 ? n.name : fmt::format("symbol_{}({})", name_of(n.type), n.name);
  case Op::Axis: return fmt::format("i{}", n.bits);
  case Op::Load: return fmt::format("in{}[{}]", n.bits, print_args(n.args));
  case Op::Reg: return fmt::format("r{}", n.bits);
  case Op::Cast: return fmt::format("{}({})", name_of(n.type), print_args(n.args));
  case Op::Bitcast: return fmt::format("bitcast_{}({})", name_of(n.type), print_args(n.args));
  case Op::Call: return fmt::format("{}({})", n.name, print_args(n.args));
  case Op::Neg: return "-" + print(*n.args[0], 6);
  case Op::Not: return outer > precedence(Op::And) ? "(not(" + print_args(n.args) + "))" : "not(" + print_args(n.args) + ")";
  default: break;
  }
  if (n.op == Op::Mul && is_negated(n)) return print_negated_product(n, outer);
  if (precedence(n.op)) return print_infix(n, outer);
  return fmt::format("{}({})", name_of(n.op), print_args(n.args));
}

class Parser {
public:
  Parser(ExprPool& pool, Lexer& lexer, const Names* names = nullptr) : pool_(pool), lex_(lexer), names_(names) {}

  Expr parse_or() {
    Expr e = parse_and();
    while (lex_.accept_word("or")) e = logical_or(e, parse_and());
    return e;
  }

private:
  Expr parse_and() {
    Expr e = parse_not();
    while (lex_.accept_word("and")) e = logical_and(e, parse_not());
    return e;
  }
  Expr parse_not() {
    Lexer::Depth depth(lex_);
    if (lex_.accept_word("not")) return logical_not(parse_not());
    Expr a = parse_sum();
    if (lex_.accept("==")) return compare(Op::Eq, a, parse_sum());
    if (lex_.accept("!=")) return compare(Op::Ne, a, parse_sum());
    if (lex_.accept("<=")) return compare(Op::Le, a, parse_sum());
    if (lex_.accept(">=")) return compare(Op::Le, parse_sum(), a);
    if (lex_.accept("<")) return compare(Op::Lt, a, parse_sum());
    if (lex_.accept(">")) return compare(Op::Lt, parse_sum(), a);
    return a;
  }
  Expr compare(Op op, Expr a, Expr b) {
    unify(a, b);
    return binary(op, a, b);
  }
  void unify(Expr& a, Expr& b) {
    if (a->type == b->type) return;
    if (names_ && a->op == Op::Const && is_float(b->type)) a = cast(a, b->type);
    else if (is_float(a->type)) b = cast(b, a->type);
    else if (is_float(b->type)) a = cast(a, b->type);
    else lex_.fail("operands of different types");
  }
  Expr arithmetic(Op op, Expr a, Expr b) {
    unify(a, b);
    if (op == Op::Div && !is_float(a->type)) a = cast(a, DType::F64), b = cast(b, DType::F64);
    if (a->type == DType::Bool) lex_.fail("arithmetic on a boolean");
    return binary(op, a, b);
  }
  Expr parse_sum() {
    Expr e = parse_product();
    while (true) {
      if (lex_.accept("+")) e = arithmetic(Op::Add, e, parse_product());
      else if (lex_.accept("-")) e = arithmetic(Op::Sub, e, parse_product());
      else return e;
    }
  }
  Expr parse_product() {
    Expr e = parse_unary();
    while (true) {
      if (lex_.accept("//")) e = arithmetic(Op::FloorDiv, e, parse_unary());
      else if (lex_.accept("*")) e = arithmetic(Op::Mul, e, parse_unary());
      else if (lex_.accept("/")) e = arithmetic(Op::Div, e, parse_unary());
      else if (lex_.accept("%")) e = arithmetic(Op::Mod, e, parse_unary());
      else return e;
    }
  }
  Expr parse_unary() {
    Lexer::Depth depth(lex_);
    if (lex_.at("-") && lex_.position() + 1 < lex_.text().size() &&
        std::isdigit(static_cast<unsigned char>(lex_.text()[lex_.position() + 1]))) {
      auto number = lex_.signed_number();
      return number.is_float ? pool_.number(number.f, DType::F64) : pool_.integer(number.i);
    }
    if (lex_.accept("-")) {
      Expr e = parse_unary();
      return e->type == DType::Bool ? (lex_.fail("minus a boolean"), e) : -e;
    }
    return parse_primary();
  }
  Expr parse_primary() {
    if (lex_.accept("(")) {
      Expr e = parse_or();
      lex_.expect(")");
      return e;
    }
    if (lex_.at_number()) {
      auto number = lex_.number();
      return number.is_float ? pool_.number(number.f, DType::F64) : pool_.integer(number.i);
    }
    std::string name(lex_.word());
    if (name == "true" || name == "True") return pool_.boolean(true);
    if (name == "false" || name == "False") return pool_.boolean(false);
    if (name == "inf") return pool_.number(INFINITY, DType::F64);
    if (name == "nan") return pool_.number(NAN, DType::F64);
    if (names_ && !lex_.at("(")) return named(name);
    if (!lex_.accept("(")) return pool_.symbol(name);
    if (name.starts_with("symbol_")) {
      std::string symbol(lex_.word());
      lex_.expect(")");
      return pool_.symbol(symbol, symbol_type(name.substr(7)));
    }
    return call(name, parse_args());
  }
  Expr named(const std::string& name) {
    Expr e;
    if (!lex_.accept(".")) e = names_->value(name);
    else {
      lex_.expect("size");
      lex_.expect("(");
      auto dim = lex_.signed_number();
      lex_.expect(")");
      if (names_->size && !dim.is_float) e = names_->size(name, dim.i);
    }
    if (!e) lex_.fail("unknown name " + name);
    return e;
  }
  DType symbol_type(std::string_view name) {
    for (int i = 0; i < num_dtypes; i++)
      if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    lex_.fail("no such dtype");
  }
  std::vector<Expr> parse_args() {
    std::vector<Expr> args;
    while (!lex_.accept(")")) {
      if (!args.empty()) lex_.expect(",");
      args.push_back(parse_or());
    }
    return args;
  }
  Expr call(const std::string& name, std::vector<Expr> args) {
    if (args.empty()) lex_.fail("a function without arguments");
    for (int i = 0; i < num_dtypes; i++)
      if (name_of(static_cast<DType>(i)) == name && args.size() == 1 && !is_complex(static_cast<DType>(i)))
        return cast(args[0], static_cast<DType>(i));
    for (Op op : {Op::TruncDiv, Op::Fmod, Op::Min, Op::Max, Op::Pow, Op::Atan2, Op::Xor, Op::Shl, Op::Shr, Op::Gcd})
      if (name_of(op) == name && args.size() == 2) {
        unify(args[0], args[1]);
        if (op == Op::Atan2) args[0] = cast(args[0], DType::F64), args[1] = cast(args[1], DType::F64);
        bool integers = op == Op::Xor || op == Op::Shl || op == Op::Shr || op == Op::Gcd;
        if ((integers && is_float(args[0]->type)) || (args[0]->type == DType::Bool && op != Op::Xor))
          lex_.fail("operands of the wrong type for " + name);
        return binary(op, args[0], args[1]);
      }
    if (name == "select" && args.size() == 3 && args[0]->type == DType::Bool) {
      unify(args[1], args[2]);
      return select(args[0], args[1], args[2]);
    }
    for (int k = static_cast<int>(Op::Abs); k <= static_cast<int>(Op::Trunc); k++) {
      Op op = static_cast<Op>(k);
      if (name_of(op) != name || args.size() != 1 || args[0]->type == DType::Bool) continue;
      bool exact = op == Op::Abs || op == Op::Floor || op == Op::Ceil || op == Op::Round || op == Op::Trunc;
      return unary(op, exact || is_float(args[0]->type) ? args[0] : cast(args[0], DType::F64));
    }
    lex_.fail("unknown function " + name);
  }

  ExprPool& pool_;
  Lexer& lex_;
  const Names* names_;
};

} // namespace

std::string_view name_of(Op op) { return op_names[static_cast<size_t>(op)]; }

std::string to_string(Expr e) { return e ? print(*e, 0) : "?"; }

Expr parse_expr(ExprPool& pool, Lexer& lexer) { return Parser(pool, lexer).parse_or(); }
Expr parse_expr(ExprPool& pool, Lexer& lexer, const Names& names) { return Parser(pool, lexer, &names).parse_or(); }

Expr parse_expr(ExprPool& pool, std::string_view text) {
  Lexer lexer(text);
  Expr e = parse_expr(pool, lexer);
  if (!lexer.at_end()) lexer.fail("more text after the expression");
  return e;
}

} // namespace tenon
