// Python's tokens: names, numbers, strings, operators, and the ends of lines and blocks.
#pragma once
#include <map>
#include <vector>

#include "script/source.h"

namespace tenon::script {

struct Token {
  enum class Kind : uint8_t { Name, Number, String, FString, Op, Newline, Indent, Dedent, End };
  Kind kind = Kind::End;
  Range range;
  std::string text; // of strings what they say; of f-strings what stands between the quotes, escapes not yet read

  Range body = {};  // of a string: between the quotes
  bool raw = false; // an f-string without escapes
};

struct Tokens {
  std::vector<Token> list; // ends with End
  /// By line: where the text after "# type:" is.
  std::map<size_t, Range> type_comments;
};

Tokens lex(const Source& source);
/// The tokens of a part of it, as if within parentheses: without lines and blocks.
Tokens lex_part(Range part);
/// A string's escapes read.
std::string unescape(std::string_view text);

} // namespace tenon::script
