// Lexer: the cursor of the text parsers.
#include "base/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tenon {

void Lexer::skip() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '#') pos_ = std::min(text_.find('\n', pos_), text_.size());
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') pos_++;
    else return;
  }
}

std::string_view Lexer::word(std::string_view extra) {
  skip();
  size_t begin = pos_;
  while (pos_ < text_.size() && (is_word(text_[pos_]) || extra.find(text_[pos_]) != extra.npos)) pos_++;
  if (begin == pos_) fail("expected a name");
  return text_.substr(begin, pos_ - begin);
}

std::string_view Lexer::take_to(std::string_view end) {
  skip();
  size_t stop = text_.find(end, pos_), begin = pos_;
  if (stop == text_.npos) fail(fmt::format("expected '{}'", end));
  pos_ = stop;
  return text_.substr(begin, stop - begin);
}

std::string_view Lexer::take_argument() {
  skip();
  size_t begin = pos_;
  std::string open; // the brackets that are to be closed
  for (; pos_ < text_.size(); pos_++) {
    char c = text_[pos_];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    else if (open.empty() &&
             (c == ')' || c == ']' || c == '}' || text_.substr(pos_).starts_with(", ") || text_.substr(pos_).starts_with(",)")))
      return text_.substr(begin, pos_ - begin);
    else if (!open.empty() && c == open.back()) open.pop_back();
  }
  fail("an argument without an end");
}

Lexer::Number Lexer::number() {
  if (at("-")) fail("expected a number without sign");
  return signed_number();
}

Lexer::Number Lexer::signed_number() {
  skip();
  const char *begin = text_.data() + pos_, *end = text_.data() + text_.size(), *p = begin;
  if (p < end && *p == '-') p++;
  while (p < end && is_digit(*p)) p++;
  bool is_float = p < end && (*p == '.' || *p == 'e' || *p == 'E');
  Number n{is_float, 0, 0};
  auto [stop, error] = is_float ? std::from_chars(begin, end, n.f) : std::from_chars(begin, end, n.i);
  if (error != std::errc()) fail("a number out of range");
  if (!is_float) n.f = static_cast<double>(n.i);
  pos_ += static_cast<size_t>(stop - begin);
  return n;
}

namespace {

// "101" for 'A'. torch takes the digits of a byte from 128 on of the negative number that it is as a char: "0)+" for -61.
std::optional<char> octal_escape(std::string_view digits) {
  int code = 0;
  for (char c : digits) {
    if (c < '0' - 7 || c > '7') return std::nullopt;
    code = code * 8 + (c - '0');
  }
  if (digits.size() < 3 || code < -128 || code > 255) return std::nullopt;
  return static_cast<char>(code);
}

} // namespace

std::string Lexer::quoted() {
  char quote = peek();
  if (quote != '"' && quote != '\'') fail("expected a string");
  pos_++;
  std::string out;
  while (pos_ < text_.size() && text_[pos_] != quote) {
    char c = text_[pos_++];
    if (c != '\\') {
      out += c;
      continue;
    }
    char e = pos_ < text_.size() ? text_[pos_++] : '\0';
    unsigned code = 0;
    if (e == 'x') {
      auto hex = text_.substr(pos_, 2);
      if (hex.size() < 2 || std::from_chars(hex.data(), hex.data() + 2, code, 16).ptr != hex.data() + 2) fail("a bad \\x escape");
      pos_ += 2;
      out += static_cast<char>(code);
    } else if (auto octal = octal_escape(text_.substr(pos_ - 1, 3))) {
      pos_ += 2;
      out += *octal;
    } else if (auto at = std::string_view("ntrfvab0").find(e); at != std::string_view::npos) out += "\n\t\r\f\v\a\b\0"[at];
    else if (e == '\\' || e == '\'' || e == '"') out += e;
    else fail("an unknown escape in a string");
  }
  if (pos_ == text_.size()) fail("a string without end");
  pos_++;
  return out;
}

std::string_view Lexer::rest_of_line() {
  size_t end = std::min(text_.find('\n', pos_), text_.size());
  auto line = text_.substr(pos_, end - pos_);
  pos_ = end;
  return line;
}

bool Lexer::at_new_line() {
  size_t p = pos_;
  while (p < text_.size() && (text_[p] == ' ' || text_[p] == '\t')) p++;
  return p == text_.size() || text_[p] == '\n' || text_[p] == '#';
}

int Lexer::line() const { return 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(pos_), '\n')); }

void Lexer::fail(const std::string& message) {
  size_t end = std::min({text_.size(), pos_ + 24, text_.find('\n', pos_)});
  bad_input("line {}: {} at '{}'", line(), message, text_.substr(std::min(pos_, text_.size()), end - std::min(pos_, text_.size())));
}

} // namespace tenon
