// How often a dump holds a text.
#pragma once
#include <string>
#include <string_view>

namespace tenon::test {

inline size_t occurrences(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) n++;
  return n;
}

} // namespace tenon::test
