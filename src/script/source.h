// Where something stands in a script, and the errors that show it.
#pragma once
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "base/check.h"

namespace tenon::script {

struct Source {
  std::string file, text;
};

/// Bytes [begin, end) of a source.
struct Range {
  const Source* source = nullptr;
  uint32_t begin = 0, end = 0;
};

/// From the begin of one to the end of the other.
inline Range join(Range a, Range b) { return {a.source, a.begin, b.end}; }
size_t line_of(Range at); ///< from 1
size_t column_of(Range at);
/// The lines around it, with the range underlined: `  File "f.py", line 3 ...  ~~~~ <--- HERE`.
std::string show(Range at);

/// Throws Error(BadInput): the message, then where.
[[noreturn]] void fail_text(Range at, const std::string& message);
template <class... A> [[noreturn]] void fail(Range at, fmt::format_string<A...> f, A&&... a) {
  fail_text(at, fmt::format(f, std::forward<A>(a)...));
}

} // namespace tenon::script
