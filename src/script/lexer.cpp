#include "script/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon::script {

namespace {

using TokenKind = Token::Kind;

bool name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80; }
bool name_char(char c) { return name_start(c) || std::isdigit(static_cast<unsigned char>(c)); }

constexpr std::array<std::string_view, 24> long_ops{"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==",
                                                    "!=",  "->",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", "@=", ":="};

class ScriptLexer {
public:
  ScriptLexer(const Source& source, size_t begin, size_t end, bool part)
      : source(source), text(std::string_view(source.text).substr(0, end)), at(begin), nesting(part ? 1 : 0), line_start(!part) {}

  Tokens run() {
    while (at < text.size()) {
      if (line_start && nesting == 0) indentation();
      else token();
    }
    if (nesting == 0 && !out.list.empty() && out.list.back().kind != TokenKind::Newline) push(TokenKind::Newline, at, at);
    while (indents.size() > 1) indents.pop_back(), push(TokenKind::Dedent, at, at);
    push(TokenKind::End, at, at);
    return std::move(out);
  }

private:
  const Source& source;
  std::string_view text;
  size_t at;
  int nesting;
  bool line_start;
  size_t line = 1;
  std::vector<size_t> indents{0};
  Tokens out;

  Range range(size_t begin, size_t end) const { return {&source, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}; }
  Token& push(TokenKind kind, size_t begin, size_t end) {
    return out.list.emplace_back(Token{.kind = kind, .range = range(begin, end), .text = std::string(text.substr(begin, end - begin))});
  }
  char peek(size_t n = 0) const { return at + n < text.size() ? text[at + n] : '\0'; }

  void comment() {
    size_t begin = at;
    while (at < text.size() && text[at] != '\n') at++;
    std::string_view body = text.substr(begin, at - begin);
    size_t i = 1;
    while (i < body.size() && body[i] == ' ') i++;
    if (!body.substr(i).starts_with("type:")) return;
    std::string_view rest = body.substr(i + 5);
    if (rest.find_first_not_of(" \t\r") == std::string_view::npos || rest.find("ignore") == rest.find_first_not_of(" ")) return;
    size_t end = std::min(rest.find('#'), rest.size());
    out.type_comments[line] = range(begin + i + 5, begin + i + 5 + end);
  }

  void indentation() {
    size_t begin = at, width = 0;
    for (; at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\f' || text[at] == '\r'); at++)
      width = text[at] == '\t' ? width / 8 * 8 + 8 : width + (text[at] == ' ');
    if (at == text.size()) return;
    if (text[at] == '#') comment();
    if (at == text.size()) return;
    if (text[at] == '\n') {
      at++, line++;
      return;
    }
    line_start = false;
    if (width > indents.back()) {
      if (indents.size() > 100) fail(range(begin, at), "too many levels of indentation");
      indents.push_back(width), push(TokenKind::Indent, begin, at);
    }
    while (width < indents.back()) indents.pop_back(), push(TokenKind::Dedent, at, at);
    if (width != indents.back()) fail(range(begin, at + 1), "unindent does not match any outer indentation level");
  }

  void token() {
    char c = text[at];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') at++;
    else if (c == '#') comment();
    else if (c == '\n') {
      if (nesting == 0) push(TokenKind::Newline, at, at), line_start = true;
      at++, line++;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) at += peek(1) == '\n' ? 2 : 3, line++;
    else if (size_t p = string_prefix(); p != std::string_view::npos) string(p);
    else if (name_start(c)) {
      size_t begin = at;
      while (name_char(peek())) at++;
      push(TokenKind::Name, begin, at);
    } else if (std::isdigit(static_cast<unsigned char>(c)) || (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) number();
    else op();
  }

  /// The length of "r", "f", "rb" ... before a quote; npos where no string begins.
  size_t string_prefix() const {
    size_t n = 0;
    while (n < 3 && std::string_view("rRbBuUfF").find(peek(n)) != std::string_view::npos && peek(n)) n++;
    return peek(n) == '"' || peek(n) == '\'' ? n : std::string_view::npos;
  }

  void string(size_t prefix) {
    size_t begin = at;
    std::string letters(text.substr(at, prefix));
    for (char& l : letters) l = static_cast<char>(std::tolower(static_cast<unsigned char>(l)));
    bool raw = letters.find('r') != std::string::npos, f = letters.find('f') != std::string::npos;
    if (letters.find('b') != std::string::npos) fail(range(begin, begin + prefix), "bytes aren't supported");
    at += prefix;
    char quote = peek();
    bool triple = peek(1) == quote && peek(2) == quote;
    at += triple ? 3 : 1;
    size_t from = at;
    auto closes = [&] { return peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote)); };
    while (at < text.size() && !closes()) {
      if (text[at] == '\n' && !triple) break;
      if (text[at] == '\n') line++;
      if (text[at] == '\\' && at + 1 < text.size()) {
        at++;
        if (text[at] == '\n') line++;
      }
      at++;
    }
    if (at >= text.size() || !closes()) fail(range(begin, from), "unterminated string literal");
    size_t to = at;
    at += triple ? 3 : 1;
    Token& t = push(f ? TokenKind::FString : TokenKind::String, begin, at);
    t.text = text.substr(from, to - from);
    t.body = range(from, to);
    t.raw = raw;
    if (!raw && !f) t.text = unescape(t.text);
  }

  void number() {
    size_t begin = at;
    if (peek() == '0' && std::string_view("xXoObB").find(peek(1)) != std::string_view::npos && peek(1)) {
      at += 2;
      while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') at++;
    } else {
      auto digits = [&] {
        while (std::isdigit(static_cast<unsigned char>(peek())) || peek() == '_') at++;
      };
      digits();
      if (peek() == '.') at++, digits();
      if (peek() == 'e' || peek() == 'E') {
        size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
        if (std::isdigit(static_cast<unsigned char>(peek(sign)))) at += sign, digits();
      }
      if (peek() == 'j' || peek() == 'J') at++;
    }
    Token& t = push(TokenKind::Number, begin, at);
    if (name_start(peek())) fail(range(begin, at + 1), "invalid number");
    std::erase(t.text, '_');
  }

  void op() {
    for (std::string_view o : long_ops)
      if (text.substr(at).starts_with(o)) {
        push(TokenKind::Op, at, at + o.size());
        at += o.size();
        return;
      }
    if (!text[at] || std::string_view("+-*/%@&|^~<>()[]{},:.;=!").find(text[at]) == std::string_view::npos)
      fail(range(at, at + 1), "invalid character");
    char c = text[at];
    if (c == '(' || c == '[' || c == '{') nesting++;
    if ((c == ')' || c == ']' || c == '}') && nesting > 0) nesting--;
    push(TokenKind::Op, at, at + 1);
    at++;
  }
};

void append_utf8(std::string& out, uint32_t c) {
  auto byte = [&](uint32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) byte(c);
  else if (c < 0x800) byte(0xc0 | c >> 6), byte(0x80 | (c & 63));
  else if (c < 0x10000) byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63));
  else byte(0xf0 | (c >> 18 & 7)), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63));
}

/// Up to `most` digits of a base from `i` on; moves `i` past them.
uint32_t digits(std::string_view text, size_t& i, size_t most, int base) {
  uint32_t v = 0;
  for (size_t n = 0; n < most && i < text.size(); n++, i++) {
    int d = std::isdigit(static_cast<unsigned char>(text[i]))    ? text[i] - '0'
            : std::isxdigit(static_cast<unsigned char>(text[i])) ? (text[i] | 32) - 'a' + 10
                                                                 : 99;
    if (d >= base) break;
    v = v * static_cast<uint32_t>(base) + static_cast<uint32_t>(d);
  }
  return v;
}

} // namespace

std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    char c = text[i + 1];
    constexpr std::string_view from = "abfnrtv\\'\"", to = "\a\b\f\n\r\t\v\\'\"";
    i += 2;
    if (c == '\n') continue;
    if (size_t k = from.find(c); k != std::string_view::npos) out += to[k];
    else if (c == 'x') append_utf8(out, digits(text, i, 2, 16));
    else if (c == 'u') append_utf8(out, digits(text, i, 4, 16));
    else if (c == 'U') append_utf8(out, digits(text, i, 8, 16));
    else if (c >= '0' && c <= '7') append_utf8(out, digits(text, --i, 3, 8));
    else out += '\\', out += c;
  }
  return out;
}

Tokens lex(const Source& source) { return ScriptLexer(source, 0, source.text.size(), false).run(); }
Tokens lex_part(Range part) { return ScriptLexer(*part.source, part.begin, part.end, true).run(); }

} // namespace tenon::script
