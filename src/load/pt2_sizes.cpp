// Symbolic sizes: sympy's srepr to our expressions.
#include <cmath>

#include "base/lexer.h"
#include "expr/eval.h"
#include "fx/sympy.h"
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
    auto e = sympy_function(head, args);
    if (!e) lex_.fail(fmt::format("{} with {} arguments is not known", head, args.size()));
    return *e;
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
      unify_numbers(value, e);
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

  ExprPool& pool_;
  Lexer lex_;
};

} // namespace

Expr parse_srepr(ExprPool& pool, std::string_view text) { return SreprParser(pool, text).parse(); }

} // namespace tenon
