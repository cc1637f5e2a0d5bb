// A cursor over text for all hand-written parsers: skips blanks and # comments, counts lines, bounds nesting.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"

namespace tenon {

class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) {}

  bool at_end() { return skip(), pos_ == text_.size(); }
  /// The next character, or 0 at the end.
  char peek() { return skip(), pos_ < text_.size() ? text_[pos_] : '\0'; }
  bool at(std::string_view s) { return skip(), text_.substr(pos_).starts_with(s); }
  bool accept(std::string_view s) {
    if (!at(s)) return false;
    pos_ += s.size();
    return true;
  }
  /// Like accept, but only a whole word.
  bool accept_word(std::string_view s) {
    if (!at(s) || (pos_ + s.size() < text_.size() && is_word(text_[pos_ + s.size()]))) return false;
    pos_ += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!accept(s)) fail(fmt::format("expected '{}'", s));
  }
  bool at_word() { return is_word(peek()) && !is_digit(peek()); }
  bool at_number() { return is_digit(peek()); }
  /// Letters, digits, underscores; `extra` gives further characters that belong to it.
  std::string_view word(std::string_view extra = {});
  struct Number {
    bool is_float;
    int64_t i;
    double f;
  };
  /// A number without sign.
  Number number();
  /// A number, with a minus right before it where it is negative.
  Number signed_number();
  /// A string in ' or " quotes with \n \t \r \f \v \a \b \0 \\ \' \" \xHH escapes.
  std::string quoted();
  /// The rest of the current line, the end of line not included; comments count as text.
  std::string_view rest_of_line();
  /// All text from here, blanks first skipped, to where `end` begins.
  std::string_view take_to(std::string_view end);
  /// The same to the ", ", the ",)" or the bracket that ends an element of a list; brackets in between come in pairs.
  std::string_view take_argument();
  /// Whether the very next character is one of these.
  bool next_is(std::string_view any) const { return pos_ < text_.size() && any.find(text_[pos_]) != any.npos; }
  /// To an earlier position().
  void go_back(size_t position) { pos_ = position; }
  bool at_new_line();
  int line() const;
  /// Of the next character that is no blank, from 1 on.
  int column() { return skip(), static_cast<int>(pos_ - (text_.rfind('\n', pos_ == 0 ? 0 : pos_ - 1) + 1)) + 1; }
  size_t position() const { return pos_; }
  std::string_view text() const { return text_; }
  [[noreturn]] void fail(const std::string& message);

  /// Guards recursion: text nested deeper than the limit is an error, not a stack overflow.
  struct Depth {
    explicit Depth(Lexer& lexer) : lexer(lexer) {
      if (++lexer.depth_ > 200) lexer.fail("nested too deeply");
    }
    ~Depth() { lexer.depth_--; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Lexer& lexer;
  };

private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  void skip();

  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
};

} // namespace tenon
