// Text as JSON has it.
#pragma once
#include <fmt/core.h>

#include <string>
#include <string_view>

namespace tenon {

/// In quotes; bytes of UTF-8 stay as they are.
inline std::string json_quote(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += {'\\', c};
    else if (static_cast<unsigned char>(c) < 32) s += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else s += c;
  }
  return s + '"';
}

/// "a, b, c" of a list's elements, each as `text` gives it.
template <class List, class F> std::string json_join(const List& list, F text) {
  std::string s;
  for (auto& e : list) s += (s.empty() ? "" : ", ") + text(e);
  return s;
}
template <class List, class F> std::string json_array(const List& list, F text) { return "[" + json_join(list, text) + "]"; }

} // namespace tenon
