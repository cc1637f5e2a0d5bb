// Source text to statements. Whatever the bytes, the result is a tree of bounded depth or an Error.
#pragma once
#include "script/ast.h"
#include "script/lexer.h"

namespace tenon::script {

/// Functions and classes that are no valid syntax, by name ("": other statements): it matters where they are used, as a file may hold other
/// Python.
using Broken = std::map<std::string, Error, std::less<>>;
Stmts parse_module(const Source& source, Broken& broken);
/// A part of a source, as an expression: a type comment, the inside of an f-string.
Exp parse_expression(Range part);

class Parser {
public:
  explicit Parser(Tokens tokens) : tokens(std::move(tokens)) {}

  Stmts module(Broken& broken);
  Exp whole_expression();
  /// "(int, Tensor) -> Tensor" of a type comment: a tuple of the parameters' types and the result's.
  std::pair<Exps, Exp> signature_comment();

private:
  static constexpr int deepest = 200; // nested expressions and statements: what the stack bears
  struct Level {
    explicit Level(Parser& p) : p(p) {
      if (++p.level > deepest) fail(p.here().range, "nested too deeply");
    }
    ~Level() { p.level--; }
    Parser& p;
  };

  void skip_statement(size_t begin, const Error& error, Broken& broken);

  // Tokens.
  const Token& here() const { return tokens.list[at]; }
  const Token& ahead() const { return tokens.list[std::min(at + 1, tokens.list.size() - 1)]; }
  const Token& last() const { return tokens.list[at ? at - 1 : 0]; }
  bool is(std::string_view text) const {
    return here().text == text && (here().kind == Token::Kind::Op || here().kind == Token::Kind::Name);
  }
  bool is(Token::Kind kind) const { return here().kind == kind; }
  void advance() { at += at + 1 < tokens.list.size(); }
  bool take(std::string_view text) { return is(text) ? (advance(), true) : false; }
  void expect(std::string_view text);
  std::string name();
  Range from(Range begin) const { return join(begin, last().range); }
  void refuse(Range at, std::string message);
  Exp make(Range range, decltype(Expression::v) v);

  // Expressions, from the loosest to the tightest.
  Exp expression(); // a ternary, a lambda
  Exp tuple();      // expressions with commas between
  Exp star_or_expression();
  Exp logical_or();
  Exp logical_and();
  Exp inversion();
  Exp comparison();
  std::string comparison_op();
  Exp binary(size_t tightness);
  Exp unary();
  Exp power();
  Exp postfix();
  Exp atom();
  Exp number();
  Exp strings();
  void formatted(const Token& t, std::string& text, Exps& values);
  Exp parenthesized();
  Exp list();
  Exp braces();
  Exp lambda();
  Exp comprehension(Range begin, Exp key, Exp element);
  Exp target();
  Exp call(Exp callee);
  Exp subscript(Exp value);
  Exp index();

  // Statements.
  void statement(Stmts& out);
  void simple(Stmts& out);
  bool compound(Stmts& out);
  Stmts block();
  void add(Stmts& out, Range begin, decltype(Statement::v) v);
  void expression_statement(Stmts& out);
  void assignment(Stmts& out, Range begin, Exp first);
  void if_statement(Stmts& out);
  void while_statement(Stmts& out);
  void for_statement(Stmts& out);
  void try_statement();
  bool ends_in_colon() const;
  void match_statement();
  void with_statement(Stmts& out);
  void import(Stmts& out);
  void import_from(Stmts& out);
  void def(Stmts& out, Exps decorators);
  std::vector<Param> params(std::string_view end);
  void comment_types(Def& d, size_t first_line);
  void cls(Stmts& out, Exps decorators);
  void decorated(Stmts& out);
  std::string dotted();

  Tokens tokens;
  size_t at = 0;
  int level = 0;
  std::vector<Def*> defs;
};

} // namespace tenon::script
