// Symbolic sizes: sympy's srepr to our expressions.
#include <cmath>

#include "base/lexer.h"
#include "expr/eval.h"
#include "load/load.h"

namespace tenon {

namespace {

class SreprParser {
public:
  SreprParser(ExprPool& pool, std::string_view text) : pool_(pool), lex_(text) {}

  Expr parse() {
    Expr e = parse_node();
    if (!lex_.at_end()) lex_.fail("more text after the expression");
    return e;
  }

private:
  Expr parse_node() {
    Lexer::Depth depth(lex_);
    std::string head(lex_.word());
    if (head == "true" || head == "false") return pool_.boolean(head == "true");
    if (head == "oo" || head == "int_oo") return pool_.integer(INT64_MAX);
    lex_.expect("(");
    if (head == "Symbol") return parse_symbol();
    if (head == "Piecewise") return parse_piecewise();
    if (head == "Integer") return pool_.integer(parse_int(")"));
    if (head == "Float") return parse_float();
    if (head == "Rational") {
      int64_t p = parse_int(","), q = parse_int(")");
      return pool_.number(static_cast<double>(p) / static_cast<double>(q), DType::F64);
    }
    std::vector<Expr> args;
    while (!lex_.accept(")")) {
      if (!args.empty()) lex_.expect(",");
      args.push_back(parse_node());
    }
    return apply(head, std::move(args));
  }

  int64_t parse_int(std::string_view end) {
    bool negative = lex_.accept("-");
    auto n = lex_.number();
    if (n.is_float) lex_.fail("expected an integer");
    lex_.expect(end);
    return negative ? -n.i : n.i;
  }

  Expr parse_symbol() {
    std::string name = lex_.quoted();
    bool is_int = true;
    while (!lex_.accept(")")) {
      lex_.expect(",");
      std::string key(lex_.word());
      lex_.expect("=");
      bool value = lex_.word() == "True";
      if (key == "integer") is_int = value;
    }
    return pool_.symbol(name, is_int && !is_real_symbol(name) ? DType::I64 : DType::F64);
  }

  // Piecewise(ExprCondPair(value, condition), ..., ExprCondPair(value, true)): the first whose condition holds.
  Expr parse_piecewise() {
    std::vector<std::pair<Expr, Expr>> cases;
    while (!lex_.accept(")")) {
      if (!cases.empty()) lex_.expect(",");
      if (lex_.word() != "ExprCondPair") lex_.fail("expected ExprCondPair");
      lex_.expect("(");
      Expr value = parse_node();
      lex_.expect(",");
      cases.emplace_back(value, parse_node());
      lex_.expect(")");
    }
    if (cases.empty()) lex_.fail("Piecewise without cases");
    Expr e = cases.back().first;
    for (size_t i = cases.size() - 1; i-- > 0;) {
      Expr value = cases[i].first;
      unify(value, e);
      e = select(cases[i].second, value, e);
    }
    return e;
  }

  Expr parse_float() {
    Expr e;
    bool quoted = lex_.at("'");
    std::string text = quoted ? lex_.quoted() : std::string();
    if (quoted) {
      char* end = nullptr;
      double v = std::strtod(text.c_str(), &end);
      if (end == text.c_str()) lex_.fail("expected a number");
      e = pool_.number(v, DType::F64);
    } else {
      bool negative = lex_.accept("-");
      double v = lex_.number().f;
      e = pool_.number(negative ? -v : v, DType::F64);
    }
    if (lex_.accept(",")) { // precision=53
      lex_.word();
      lex_.expect("=");
      lex_.number();
    }
    lex_.expect(")");
    return e;
  }

  Expr as_float(Expr e) { return cast(e, DType::F64); }
  // Rounds a float to an integer; integers stay as they are.
  Expr to_int(Op op, Expr e) { return is_float(e->type) ? cast(unary(op, e), DType::I64) : cast(e, DType::I64); }
  void unify(Expr& a, Expr& b) {
    if (a->type == b->type) return;
    DType t = is_float(a->type) || is_float(b->type) ? DType::F64 : DType::I64;
    a = cast(a, t), b = cast(b, t);
  }

  Expr fold(Op op, const std::vector<Expr>& args) {
    Expr e = args[0];
    for (size_t i = 1; i < args.size(); i++) {
      Expr b = args[i];
      unify(e, b);
      e = binary(op, e, b);
    }
    return e;
  }

  Expr power(Expr base, Expr exponent) {
    auto n = const_int(exponent);
    if (!n || *n < 0) return binary(Op::Pow, as_float(base), as_float(exponent));
    if (*n > 64) lex_.fail("a power that large");
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
    Expr scale = pool_.number(std::pow(10.0, static_cast<double>(*const_int(digits))), DType::F64);
    return unary(Op::Round, x * scale) / scale;
  }

  Expr apply(const std::string& head, std::vector<Expr> args) {
    struct Rule {
      std::string_view head;
      size_t min_args, max_args;
      Op op;
    };
    static constexpr size_t any = 1000;
    static constexpr Rule rules[] = {{"Add", 1, any, Op::Add},
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
    for (auto& r : rules)
      if (r.head == head && args.size() >= r.min_args && args.size() <= r.max_args) return fold(r.op, args);
    if (args.size() == 2) {
      Expr a = args[0], b = args[1];
      if (head == "GreaterThan") return unify(a, b), ge(a, b);
      if (head == "StrictGreaterThan") return unify(a, b), gt(a, b);
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
      unify(args[1], args[2]);
      return select(args[0], args[1], args[2]);
    }
    lex_.fail(fmt::format("{} with {} arguments is not known", head, args.size()));
  }

  ExprPool& pool_;
  Lexer lex_;
};

} // namespace

Expr parse_srepr(ExprPool& pool, std::string_view text) { return SreprParser(pool, text).parse(); }

} // namespace tenon
