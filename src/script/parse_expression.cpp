#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "script/parser.h"

namespace tenon::script {

namespace {

int deeper(const Exp& e) { return e ? e->depth : 0; }

int depth_of(const decltype(Expression::v)& v) {
  auto all = [](const auto&... e) { return std::max(std::initializer_list<int>{deeper(e)...}); };
  auto list = [](const Exps& l) {
    int d = 0;
    for (auto& e : l) d = std::max(d, deeper(e));
    return d;
  };
  return std::visit(Overloaded{
                        [](const auto&) { return 0; },
                        [&](const Select& e) { return all(e.value); },
                        [&](const Slice& e) { return all(e.lower, e.upper, e.step); },
                        [&](const Subscript& e) { return std::max(all(e.value), list(e.indices)); },
                        [&](const Call& e) {
                          int d = std::max(all(e.callee), list(e.args));
                          for (auto& k : e.keywords) d = std::max(d, deeper(k.value));
                          return d;
                        },
                        [&](const Star& e) { return all(e.value); },
                        [&](const Unary& e) { return all(e.value); },
                        [&](const Binary& e) { return all(e.left, e.right); },
                        [&](const Logical& e) { return all(e.left, e.right); },
                        [&](const Ternary& e) { return all(e.condition, e.then, e.otherwise); },
                        [&](const TupleLit& e) { return list(e.items); },
                        [&](const ListLit& e) { return list(e.items); },
                        [&](const DictLit& e) { return std::max(list(e.keys), list(e.values)); },
                        [&](const Comprehension& e) { return all(e.key, e.element, e.target, e.iter); },
                    },
                    v);
}

// Loosest first.
const std::vector<std::vector<std::string_view>> binary_ops{{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}};

} // namespace

Exp Parser::make(Range range, decltype(Expression::v) v) {
  int depth = 1 + depth_of(v);
  if (depth > deepest) fail(range, "nested too deeply");
  return std::make_shared<const Expression>(Expression{range, std::move(v), depth});
}

Exp parse_expression(Range part) { return Parser(lex_part(part)).whole_expression(); }

Exp Parser::whole_expression() {
  Exp e = tuple();
  if (!is(Token::Kind::End)) fail(here().range, "invalid syntax");
  return e;
}

Exp Parser::star_or_expression() {
  Range begin = here().range;
  if (!take("*")) return expression();
  Exp value = binary(0);
  return make(from(begin), Star{value});
}

Exp Parser::tuple() {
  Range begin = here().range;
  Exp first = star_or_expression();
  if (!is(",")) return first;
  Exps items{first};
  while (take(",")) {
    if (is(Token::Kind::Newline) || is(Token::Kind::End) || is("=") || is(")") || is("]") || is("}") || is(":") || is(";")) break;
    items.push_back(star_or_expression());
  }
  return make(from(begin), TupleLit{items});
}

Exp Parser::expression() {
  Level level(*this);
  Range begin = here().range;
  if (is("lambda")) return lambda();
  if (is("yield") || is("await")) {
    refuse(begin, is("yield") ? "Yield aren't supported" : "Await aren't supported");
    advance();
    if (is(")") || is(Token::Kind::Newline)) return make(begin, Literal{});
    take("from");
    return tuple();
  }
  Exp value = logical_or();
  if (is(":=")) {
    refuse(begin, "NamedExpr aren't supported");
    advance();
    return expression();
  }
  if (!take("if")) return value;
  Exp condition = logical_or();
  expect("else");
  Exp otherwise = expression();
  return make(from(begin), Ternary{condition, value, otherwise});
}

Exp Parser::lambda() {
  Range begin = here().range;
  advance();
  refuse(begin, "Lambda aren't supported");
  params(":");
  expect(":");
  expression();
  return make(from(begin), Literal{});
}

Exp Parser::logical_or() {
  Range begin = here().range;
  Exp left = logical_and();
  while (take("or")) {
    Exp right = logical_and();
    left = make(from(begin), Logical{false, left, right});
  }
  return left;
}

Exp Parser::logical_and() {
  Range begin = here().range;
  Exp left = inversion();
  while (take("and")) {
    Exp right = inversion();
    left = make(from(begin), Logical{true, left, right});
  }
  return left;
}

Exp Parser::inversion() {
  Level level(*this);
  Range begin = here().range;
  if (!take("not")) return comparison();
  Exp value = inversion();
  return make(from(begin), Unary{"not", value});
}

std::string Parser::comparison_op() {
  for (std::string_view op : {"<", ">", "<=", ">=", "==", "!=", "in"})
    if (take(op)) return std::string(op);
  if (is("not") && ahead().text == "in") return advance(), advance(), "not in";
  if (take("is")) return take("not") ? "is not" : "is";
  return "";
}

Exp Parser::comparison() {
  Range begin = here().range;
  Exp left = binary(0), whole;
  for (std::string op = comparison_op(); !op.empty(); op = comparison_op()) {
    Exp right = binary(0);
    Exp pair = make(join(left->range, last().range), Binary{op, left, right});
    whole = whole ? make(from(begin), Logical{true, whole, pair}) : pair;
    left = right;
  }
  return whole ? whole : left;
}

Exp Parser::binary(size_t tightness) {
  if (tightness == binary_ops.size()) return unary();
  Range begin = here().range;
  Exp left = binary(tightness + 1);
  while (true) {
    std::string_view op;
    for (std::string_view o : binary_ops[tightness])
      if (is(o)) op = o;
    if (op.empty()) return left;
    advance();
    Exp right = binary(tightness + 1);
    left = make(from(begin), Binary{std::string(op), left, right});
  }
}

Exp Parser::unary() {
  Level level(*this);
  Range begin = here().range;
  for (std::string_view op : {"-", "~", "+"}) {
    if (!take(op)) continue;
    if (op == "-" && is(Token::Kind::Number) && here().text == "9223372036854775808") {
      advance();
      return make(from(begin), Literal{INT64_MIN});
    }
    Exp value = unary();
    if (op == "+") refuse(begin, "unsupported unary operator: UAdd");
    if (auto* literal = value->as<Literal>(); literal && op == "-") {
      if (auto* i = std::get_if<int64_t>(&literal->value))
        return make(from(begin), Literal{static_cast<int64_t>(-static_cast<uint64_t>(*i))});
      if (auto* d = std::get_if<double>(&literal->value)) return make(from(begin), Literal{-*d});
      if (auto* c = std::get_if<std::complex<double>>(&literal->value)) return make(from(begin), Literal{-*c});
    }
    return make(from(begin), Unary{std::string(op), value});
  }
  return power();
}

Exp Parser::power() {
  Range begin = here().range;
  if (take("await")) refuse(begin, "Await aren't supported");
  Exp base = postfix();
  if (!take("**")) return base;
  Exp exponent = unary();
  return make(from(begin), Binary{"**", base, exponent});
}

Exp Parser::postfix() {
  Exp value = atom();
  while (true) {
    if (take(".")) {
      std::string attr = name();
      value = make(join(value->range, last().range), Select{value, attr});
    } else if (is("(")) value = call(value);
    else if (is("[")) value = subscript(value);
    else return value;
  }
}

Exp Parser::call(Exp callee) {
  expect("(");
  Call c{callee, {}, {}};
  while (!is(")")) {
    Range begin = here().range;
    if (take("**")) {
      refuse(begin, "keyword-arg expansion is not supported");
      expression();
    } else if (is(Token::Kind::Name) && ahead().text == "=" && ahead().kind == Token::Kind::Op) {
      std::string key = name();
      advance();
      c.keywords.push_back({key, expression()});
    } else {
      Exp arg = star_or_expression();
      if (is("for")) arg = comprehension(begin, nullptr, arg);
      c.args.push_back(arg);
    }
    if (!take(",")) break;
  }
  expect(")");
  return make(join(callee->range, last().range), std::move(c));
}

Exp Parser::index() {
  Range begin = here().range;
  Slice s;
  if (!is(":")) {
    Exp e = star_or_expression();
    if (!is(":")) return e;
    s.lower = e;
  }
  expect(":");
  auto ends = [&] { return is(":") || is(",") || is("]"); };
  if (!ends()) s.upper = expression();
  if (take(":") && !ends()) s.step = expression();
  return make(from(begin), std::move(s));
}

Exp Parser::subscript(Exp value) {
  expect("[");
  Exps indices{index()};
  bool commas = false;
  while (take(",")) {
    commas = true;
    if (is("]")) break;
    indices.push_back(index());
  }
  expect("]");
  if (!commas && indices[0]->as<TupleLit>() && !indices[0]->as<TupleLit>()->items.empty())
    indices = Exps(indices[0]->as<TupleLit>()->items);
  return make(join(value->range, last().range), Subscript{value, indices});
}

Exp Parser::atom() {
  Level level(*this);
  Range begin = here().range;
  switch (here().kind) {
  case Token::Kind::Number: return number();
  case Token::Kind::String:
  case Token::Kind::FString: return strings();
  case Token::Kind::Name: {
    std::string id = here().text;
    if (id == "if" || id == "else" || id == "for" || id == "in" || id == "is" || id == "and" || id == "or" || id == "def" ||
        id == "class" || id == "return" || id == "while")
      fail(begin, "invalid syntax");
    advance();
    if (id == "None") return make(begin, Literal{});
    if (id == "True" || id == "False") return make(begin, Literal{id == "True"});
    return make(begin, Name{id});
  }
  case Token::Kind::Op:
    if (is("(")) return parenthesized();
    if (is("[")) return list();
    if (is("{")) return braces();
    if (take("...")) return make(begin, Ellipsis{});
    break;
  default: break;
  }
  fail(begin, "invalid syntax");
}

Exp Parser::number() {
  Range range = here().range;
  std::string text = here().text;
  advance();
  const char *first = text.data(), *end = first + text.size();
  if (text.back() == 'j' || text.back() == 'J') return make(range, Literal{std::complex<double>(0, std::strtod(first, nullptr))});
  bool prefixed = text.size() > 1 && text[0] == '0' && std::isalpha(static_cast<unsigned char>(text[1])) && (text[1] | 32) != 'e';
  if (!prefixed && text.find_first_of(".eE") != std::string::npos) return make(range, Literal{std::strtod(first, nullptr)});
  int base = !prefixed ? 10 : (text[1] | 32) == 'x' ? 16 : (text[1] | 32) == 'o' ? 8 : 2;
  int64_t value = 0;
  auto [rest, error] = std::from_chars(first + (prefixed ? 2 : 0), end, value, base);
  if (error == std::errc::result_out_of_range)
    fail(range, "Integral constant out of range (must fit in a signed 64 bit integer): {}", text);
  if (error != std::errc() || rest != end) fail(range, "invalid number");
  return make(range, Literal{value});
}

Exp Parser::strings() {
  Range begin = here().range;
  std::string text;
  Exps values;
  bool f = false;
  for (; is(Token::Kind::String) || is(Token::Kind::FString); advance()) {
    if (is(Token::Kind::FString)) f = true, formatted(here(), text, values);
    else text += here().text;
  }
  Exp literal = make(from(begin), Literal{text});
  if (!f) return literal;
  return make(from(begin), Call{make(from(begin), Select{literal, "format"}), values, {}});
}

void Parser::formatted(const Token& t, std::string& text, Exps& values) {
  std::string plain;
  auto flush = [&] { text += t.raw ? plain : unescape(plain), plain.clear(); };
  const std::string& s = t.text;
  for (size_t i = 0; i < s.size(); i++) {
    if ((s[i] == '{' || s[i] == '}') && i + 1 < s.size() && s[i + 1] == s[i]) plain += s[i++];
    else if (s[i] == '}') fail(t.range, "f-string: single '}}' is not allowed");
    else if (s[i] != '{') plain += s[i];
    else {
      flush();
      size_t begin = i + 1;
      int depth = 0;
      char quote = 0;
      for (i++; i < s.size(); i++) {
        if (quote) quote = s[i] == quote ? '\0' : quote;
        else if (s[i] == '\'' || s[i] == '"') quote = s[i];
        else if (s[i] == '(' || s[i] == '[' || s[i] == '{') depth++;
        else if (depth > 0 && (s[i] == ')' || s[i] == ']' || s[i] == '}')) depth--;
        else if (depth == 0 && (s[i] == '}' || s[i] == ':' || (s[i] == '!' && i + 1 < s.size() && s[i + 1] != '='))) break;
      }
      if (i == s.size()) fail(t.range, "f-string: expecting '}}'");
      if (s[i] == '!') refuse(t.range, "Don't support conversion in JoinedStr");
      if (s[i] == ':') refuse(t.range, "Don't support formatting in JoinedStr");
      size_t end = i;
      while (end > begin && s[end - 1] == ' ') end--;
      if (end > begin + 1 && s[end - 1] == '=' && !std::strchr("=!<>", s[end - 2])) {
        refuse(t.range, "Don't support conversion in JoinedStr"); // {x=} means repr
        i = end - 1;
      }
      Range part{t.body.source, static_cast<uint32_t>(t.body.begin + begin), static_cast<uint32_t>(t.body.begin + i)};
      Parser inner(lex_part(part));
      inner.level = level;
      inner.defs = defs;
      values.push_back(inner.whole_expression());
      if (s[i] != '}') i = std::min(s.find('}', i), s.size());
      text += "{}";
    }
  }
  flush();
}

Exp Parser::parenthesized() {
  Range begin = here().range;
  expect("(");
  if (take(")")) return make(from(begin), TupleLit{});
  Exp e = tuple();
  if (is("for")) e = comprehension(begin, nullptr, e);
  expect(")");
  return e;
}

Exp Parser::list() {
  Range begin = here().range;
  expect("[");
  Exps items;
  while (!is("]")) {
    items.push_back(star_or_expression());
    if (items.size() == 1 && is("for")) {
      Exp e = comprehension(begin, nullptr, items[0]);
      expect("]");
      return e;
    }
    if (!take(",")) break;
  }
  expect("]");
  return make(from(begin), ListLit{items});
}

Exp Parser::braces() {
  Range begin = here().range;
  expect("{");
  DictLit dict;
  bool set = false;
  while (!is("}")) {
    if (take("**")) {
      refuse(begin, "Dict expansion (e.g. `{**dict}`) is not supported");
      expression();
    } else {
      Exp key = star_or_expression();
      if (take(":")) dict.keys.push_back(key), dict.values.push_back(expression());
      else set = true;
      if (is("for")) {
        Exp e = set ? comprehension(begin, nullptr, key) : comprehension(begin, key, dict.values.back());
        expect("}");
        if (set) refuse(from(begin), "SetComp aren't supported");
        return e;
      }
    }
    if (!take(",")) break;
  }
  expect("}");
  if (set) refuse(from(begin), "Set aren't supported");
  return make(from(begin), std::move(dict));
}

/// After `for`: names, subscripts and tuples of them, up to `in`.
Exp Parser::target() {
  Range begin = here().range;
  Exps items;
  bool commas = false;
  do {
    if (is("in") || is("=")) break;
    Range at = here().range;
    bool star = take("*");
    Exp e = postfix();
    items.push_back(star ? make(from(at), Star{e}) : e);
  } while (take(",") && (commas = true));
  if (items.empty()) fail(here().range, "invalid syntax");
  return commas ? make(from(begin), TupleLit{items}) : items[0];
}

Exp Parser::comprehension(Range begin, Exp key, Exp element) {
  expect("for");
  Exp to = target();
  expect("in");
  Exp iter = logical_or();
  while (is("if") || is("for") || is("async")) {
    refuse(here().range, is("if") ? "Comprehension ifs are not supported yet" : "Only a single generator is currently supported");
    bool loop = !is("if");
    advance();
    if (loop) target(), expect("in");
    logical_or();
  }
  return make(from(begin), Comprehension{key, element, to, iter});
}

} // namespace tenon::script
