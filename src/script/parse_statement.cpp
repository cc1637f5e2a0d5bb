#include "script/parser.h"

namespace tenon::script {

namespace {

constexpr std::string_view variable_arguments =
    "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults";

} // namespace

Stmts parse_module(const Source& source, Broken& broken) { return Parser(lex(source)).module(broken); }

void Parser::expect(std::string_view text) {
  if (!take(text)) fail(here().range, "invalid syntax: expected '{}'", text);
}

std::string Parser::name() {
  if (!is(Token::Kind::Name)) fail(here().range, "invalid syntax: expected a name");
  std::string text = here().text;
  advance();
  return text;
}

void Parser::refuse(Range at, std::string message) {
  if (!defs.empty() && !defs.back()->refusal) defs.back()->refusal = Refusal{at, std::move(message)};
}

void Parser::add(Stmts& out, Range begin, decltype(Statement::v) v) {
  out.push_back(std::make_shared<const Statement>(Statement{from(begin), std::move(v)}));
}

Stmts Parser::module(Broken& broken) {
  Stmts out;
  while (!is(Token::Kind::End)) {
    size_t begin = at;
    try {
      if (is(Token::Kind::Newline)) advance();
      else statement(out);
    } catch (const Error& e) {
      skip_statement(begin, e, broken);
    }
  }
  return out;
}

// On to the next line that is not indented.
void Parser::skip_statement(size_t begin, const Error& error, Broken& broken) {
  std::string name;
  for (size_t k = begin; k + 1 < tokens.list.size() && k <= std::max(at, begin + 1) && name.empty(); k++)
    if ((tokens.list[k].text == "def" || tokens.list[k].text == "class") && tokens.list[k + 1].kind == Token::Kind::Name)
      name = tokens.list[k + 1].text;
  broken.emplace(name, error);
  at = std::max(at, begin + 1);
  defs.clear(); // those that were not ended
  auto starts_line = [&] {
    const Token& t = here();
    bool has_text = t.kind != Token::Kind::Newline && t.kind != Token::Kind::Indent && t.kind != Token::Kind::Dedent;
    return has_text && column_of(t.range) == 0;
  };
  while (!is(Token::Kind::End) && !starts_line()) advance();
}

void Parser::statement(Stmts& out) {
  Level level(*this);
  if (is(Token::Kind::Indent)) fail(here().range, "unexpected indent");
  if (compound(out)) return;
  do {
    if (is(Token::Kind::Newline)) break;
    simple(out);
  } while (take(";"));
  if (!is(Token::Kind::Newline) && !is(Token::Kind::End)) fail(here().range, "invalid syntax");
  advance();
}

bool Parser::compound(Stmts& out) {
  if (is(Token::Kind::Op) && is("@")) return decorated(out), true;
  if (!is(Token::Kind::Name)) return false;
  if (is("async")) {
    refuse(here().range, ahead().text == "for" ? "async for loops aren't supported" : "async function definitions aren't supported");
    advance();
  }
  if (is("if")) if_statement(out);
  else if (is("while")) while_statement(out);
  else if (is("for")) for_statement(out);
  else if (is("def")) def(out, {});
  else if (is("class")) cls(out, {});
  else if (is("try")) try_statement();
  else if (is("with")) with_statement(out);
  else if (is("match") && ends_in_colon()) match_statement();
  else return false;
  return true;
}

Stmts Parser::block() {
  expect(":");
  Stmts out;
  if (!is(Token::Kind::Newline)) {
    statement(out);
    return out;
  }
  advance();
  if (!is(Token::Kind::Indent)) fail(here().range, "expected an indented block");
  advance();
  while (!is(Token::Kind::Dedent) && !is(Token::Kind::End)) statement(out);
  if (is(Token::Kind::Dedent)) advance();
  return out;
}

void Parser::if_statement(Stmts& out) {
  Level level(*this);
  Range begin = here().range;
  advance();
  Exp condition = expression();
  Range head = from(begin);
  Stmts then = block(), otherwise;
  if (is("elif")) if_statement(otherwise);
  else if (take("else")) otherwise = block();
  out.push_back(std::make_shared<const Statement>(Statement{head, If{condition, std::move(then), std::move(otherwise)}}));
}

void Parser::while_statement(Stmts& out) {
  Range begin = here().range;
  advance();
  Exp condition = expression();
  Range head = from(begin);
  Stmts body = block();
  if (is("else")) refuse(here().range, "else branches of while loops aren't supported"), advance(), block();
  out.push_back(std::make_shared<const Statement>(Statement{head, While{condition, std::move(body)}}));
}

void Parser::for_statement(Stmts& out) {
  Range begin = here().range;
  advance();
  Exp to = target();
  expect("in");
  Exp iter = tuple();
  Range head = from(begin);
  Stmts body = block();
  if (is("else")) refuse(here().range, "else branches of for loops aren't supported"), advance(), block();
  out.push_back(std::make_shared<const Statement>(Statement{head, For{to, iter, std::move(body)}}));
}

void Parser::try_statement() {
  refuse(here().range, "try blocks aren't supported");
  advance();
  block();
  while (is("except") || is("else") || is("finally")) {
    while (!is(":") && !is(Token::Kind::Newline) && !is(Token::Kind::End)) advance();
    block();
  }
}

// `match` and `case` are names elsewhere.
bool Parser::ends_in_colon() const {
  size_t end = at + 1;
  while (tokens.list[end].kind != Token::Kind::Newline && tokens.list[end].kind != Token::Kind::End) end++;
  return end > at + 2 && tokens.list[end - 1].text == ":";
}

void Parser::match_statement() {
  refuse(here().range, "Match aren't supported");
  auto skip = [&] {
    while (!is(":") && !is(Token::Kind::Newline) && !is(Token::Kind::End)) advance();
  };
  skip(), expect(":"), advance();
  if (!is(Token::Kind::Indent)) fail(here().range, "expected an indented block");
  advance();
  while (!is(Token::Kind::Dedent) && !is(Token::Kind::End)) skip(), block();
  if (is(Token::Kind::Dedent)) advance();
}

void Parser::with_statement(Stmts& out) {
  Range begin = here().range;
  advance();
  With w;
  do {
    w.contexts.push_back(expression());
    if (take("as")) target();
  } while (take(","));
  Range head = from(begin);
  w.body = block();
  out.push_back(std::make_shared<const Statement>(Statement{head, std::move(w)}));
}

void Parser::simple(Stmts& out) {
  Range begin = here().range;
  auto ends = [&] { return is(Token::Kind::Newline) || is(Token::Kind::End) || is(";"); };
  if (take("pass")) return add(out, begin, Pass{});
  if (take("break")) return add(out, begin, Break{});
  if (take("continue")) return add(out, begin, Continue{});
  if (take("return")) {
    Exp value = ends() ? nullptr : tuple();
    return add(out, begin, Return{value});
  }
  if (take("raise")) {
    Exp value = ends() ? nullptr : expression();
    if (take("from")) expression();
    return add(out, begin, Raise{value});
  }
  if (take("assert")) {
    Assert a{expression(), nullptr};
    if (take(",")) a.message = expression();
    return add(out, begin, std::move(a));
  }
  if (is("del") && ahead().kind == Token::Kind::Name) {
    advance();
    Exp e = tuple();
    auto* many = e->as<TupleLit>();
    return add(out, begin, Delete{many ? many->items : Exps{e}});
  }
  if (is("global") || is("nonlocal")) {
    refuse(begin, is("global") ? "global variables aren't supported" : "nonlocal variables aren't supported");
    while (!ends()) advance();
    return;
  }
  if (is("import")) return import(out);
  if (is("from") && ahead().kind == Token::Kind::Name) return import_from(out);
  expression_statement(out);
}

std::string Parser::dotted() {
  std::string path = name();
  while (take(".")) path += "." + name();
  return path;
}

void Parser::import(Stmts& out) {
  refuse(here().range, "import statements aren't supported");
  Range begin = here().range;
  advance();
  do {
    std::string path = dotted();
    if (take("as")) add(out, begin, Import{path, name()});
    else path = path.substr(0, path.find('.')), add(out, begin, Import{path, path});
  } while (take(","));
}

void Parser::import_from(Stmts& out) {
  refuse(here().range, "import statements aren't supported");
  Range begin = here().range;
  advance();
  std::string path = dotted();
  expect("import");
  if (take("*")) return add(out, begin, Import{path, "*"});
  bool parens = take("(");
  do {
    if (parens && is(")")) break;
    std::string member = name(), as = take("as") ? name() : member;
    add(out, begin, Import{path + "." + member, as});
  } while (take(","));
  if (parens) expect(")");
}

void Parser::expression_statement(Stmts& out) {
  Range begin = here().range;
  Exp first = tuple();
  constexpr std::pair<std::string_view, std::string_view> augmented[] = {
      {"+=", ""}, {"-=", ""},  {"*=", ""},  {"/=", ""},  {"%=", ""},          {"|=", ""},       {"&=", ""},
      {"^=", ""}, {"<<=", ""}, {">>=", ""}, {"**=", ""}, {"//=", "FloorDiv"}, {"@=", "MatMult"}};
  for (auto& [op, refused] : augmented) {
    if (!is(op)) continue;
    if (!refused.empty()) refuse(here().range, fmt::format("unsupported kind of augmented assignment: {}", refused));
    advance();
    Exp value = tuple();
    return add(out, begin, AugAssign{first, std::string(op.substr(0, op.size() - 1)), value});
  }
  if (is("=") || is(":")) return assignment(out, begin, first);
  add(out, begin, ExprStmt{first});
}

void Parser::assignment(Stmts& out, Range begin, Exp first) {
  Assign a{{first}, nullptr, nullptr};
  if (take(":")) {
    a.annotation = expression();
    if (take("=")) a.value = tuple();
    else refuse(from(begin), "AnnAssign without assigned value aren't supported");
    return add(out, begin, std::move(a));
  }
  while (take("=")) {
    if (a.value) a.targets.push_back(a.value);
    a.value = tuple();
  }
  if (auto c = tokens.type_comments.find(line_of(last().range)); c != tokens.type_comments.end())
    a.annotation = parse_expression(c->second);
  add(out, begin, std::move(a));
}

void Parser::decorated(Stmts& out) {
  Exps decorators;
  while (take("@")) {
    decorators.push_back(expression());
    if (!is(Token::Kind::Newline)) fail(here().range, "invalid syntax");
    advance();
  }
  take("async");
  if (is("def")) return def(out, decorators);
  if (is("class")) return cls(out, decorators);
  fail(here().range, "invalid syntax");
}

std::vector<Param> Parser::params(std::string_view end) {
  std::vector<Param> out;
  bool keyword_only = false;
  while (!is(end)) {
    Range begin = here().range;
    if (take("/")) {
    } else if (is("*") && ahead().text == ",") advance(), keyword_only = true;
    else if (take("*") || take("**")) {
      name();
      if (take(":")) expression();
      refuse(from(begin), std::string(variable_arguments));
      keyword_only = true;
    } else {
      Param p{begin, name(), nullptr, nullptr, keyword_only};
      if (end != ":" && take(":")) p.annotation = expression();
      if (take("=")) p.fallback = expression();
      if (p.fallback && keyword_only) refuse(p.fallback->range, std::string(variable_arguments));
      auto comment = tokens.type_comments.find(line_of(last().range));
      if (!p.annotation && comment != tokens.type_comments.end() && end == ")" && (is(",") || is(")"))) {
        Range r = comment->second;
        std::string_view text = std::string_view(r.source->text).substr(r.begin, r.end - r.begin);
        if (text.find("->") == std::string_view::npos) p.annotation = parse_expression(r);
      }
      out.push_back(std::move(p));
    }
    if (!take(",")) break;
  }
  return out;
}

std::pair<Exps, Exp> Parser::signature_comment() {
  expect("(");
  Exps types;
  while (!is(")")) {
    types.push_back(star_or_expression());
    if (!take(",")) break;
  }
  expect(")");
  expect("->");
  return {types, whole_expression()};
}

/// The types of a comment below or beside the head of a function: "# type: (Tensor, int) -> Tensor".
void Parser::comment_types(Def& d, size_t first_line) {
  size_t next = line_of(here().kind == Token::Kind::Newline ? ahead().range : here().range);
  for (auto c = tokens.type_comments.lower_bound(first_line); c != tokens.type_comments.end() && c->first <= next; ++c) {
    Range r = c->second;
    std::string_view text = std::string_view(r.source->text).substr(r.begin, r.end - r.begin);
    if (text.find("->") == std::string_view::npos) continue;
    auto [types, returns] = Parser(lex_part(r)).signature_comment();
    d.returns = returns;
    size_t skip = d.params.size() == types.size() + 1 ? 1 : 0; // self
    if (d.params.size() != types.size() + skip && !(types.size() == 1 && types[0]->as<Ellipsis>()))
      fail(r, "Number of type annotations for function parameters ({}) does not match the number of parameters on the function ({})!",
           types.size(), d.params.size());
    for (size_t i = 0; i < types.size() && !types[i]->as<Ellipsis>(); i++) d.params[i + skip].annotation = types[i];
    return;
  }
}

void Parser::def(Stmts& out, Exps decorators) {
  Range begin = here().range;
  advance();
  auto d = std::make_shared<Def>();
  d->name = name();
  d->decorators = std::move(decorators);
  if (!defs.empty()) refuse(begin, "function definitions aren't supported");
  defs.push_back(d.get());
  expect("(");
  d->params = params(")");
  expect(")");
  if (take("->")) d->returns = expression();
  d->range = from(begin);
  size_t head = line_of(last().range);
  if (is(":")) {
    at++;
    comment_types(*d, head);
    at--;
  }
  d->body = block();
  defs.pop_back();
  add(out, begin, DefStmt{d});
}

void Parser::cls(Stmts& out, Exps decorators) {
  Range begin = here().range;
  advance();
  ClassDef c{begin, name(), {}, std::move(decorators), {}};
  if (!defs.empty()) refuse(begin, "class definitions aren't supported");
  if (take("(")) {
    while (!is(")")) {
      if (is(Token::Kind::Name) && ahead().text == "=") advance(), advance(), expression();
      else c.bases.push_back(expression());
      if (!take(",")) break;
    }
    expect(")");
  }
  c.range = from(begin);
  std::vector<Def*> outer;
  outer.swap(defs);
  c.body = block();
  outer.swap(defs);
  add(out, begin, ClassStmt{std::make_shared<const ClassDef>(std::move(c))});
}

} // namespace tenon::script
