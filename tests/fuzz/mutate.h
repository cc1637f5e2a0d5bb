// Mutations of a .pt2: its program changed token by token, or a file's bytes, in a zip that stays valid, or bytes anywhere.
#pragma once
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/zip.h"

namespace tenon::fuzz {

using Random = std::mt19937;

inline size_t below(Random& r, size_t n) { return r() % n; }

/// Where a JSON value that begins at `at` ends.
inline size_t end_of_value(std::string_view s, size_t at) {
  int depth = 0;
  for (size_t i = at; i < s.size(); i++) {
    if (s[i] == '"') {
      for (i++; i < s.size() && s[i] != '"'; i++)
        if (s[i] == '\\') i++;
    } else if (s[i] == '{' || s[i] == '[') depth++;
    else if (s[i] == '}' || s[i] == ']') depth--;
    if (depth < 0 || (depth == 0 && i + 1 < s.size() && std::string_view(",}]: \n").find(s[i + 1]) != std::string_view::npos))
      return depth < 0 ? i : i + 1;
  }
  return s.size();
}

inline std::string nested(std::string_view open, std::string_view core, std::string_view close, size_t depth) {
  std::string s;
  for (size_t i = 0; i < depth; i++) s += open;
  s += core;
  for (size_t i = 0; i < depth; i++) s += close;
  return s;
}

inline constexpr std::string_view extreme_values[] = {"0",
                                                      "-1",
                                                      "1",
                                                      "2147483648",
                                                      "9223372036854775807",
                                                      "-9223372036854775808",
                                                      "1e308",
                                                      "65",
                                                      "null",
                                                      "[]",
                                                      "{}",
                                                      "true",
                                                      "\"\"",
                                                      "\"Infinity\"",
                                                      "{\"as_int\": -5}",
                                                      "{\"as_none\": true}",
                                                      "{\"as_int\": 4611686018427387904}",
                                                      "[[[[]]]]"};
inline constexpr std::string_view odd_expressions[] = {"\"Symbol('s99', integer=True)\"",
                                                       "\"Integer(-3)\"",
                                                       "\"Mul(Integer(9223372036854775807), Integer(3))\"",
                                                       "\"FloorDiv(Integer(1), Integer(0))\"",
                                                       "\"Mod(Symbol('s0', integer=True), Integer(0))\"",
                                                       "\"Pow(Integer(2), Integer(63))\"",
                                                       "\"Max()\"",
                                                       "\"x\"",
                                                       "\"Float('nan')\""};

/// One value or name of the text replaced: by another of the text, an extreme one, or a deeply nested one.
inline void mutate_json(std::string& json, Random& r) {
  auto starts = [&](size_t from) { // the next value or key
    for (size_t i = from; i < json.size(); i++)
      if (std::string_view("\"{[-0123456789tfn").find(json[i]) != std::string_view::npos && i > 0 &&
          std::string_view(" ,:[{").find(json[i - 1]) != std::string_view::npos)
        return i;
    return json.size();
  };
  size_t at = starts(below(r, json.size()));
  if (at >= json.size()) return;
  size_t end = end_of_value(json, at);
  std::string with;
  switch (below(r, 8)) {
  case 0:
  case 1: with = extreme_values[below(r, std::size(extreme_values))]; break;
  case 2:
  case 3: {
    size_t other = starts(below(r, json.size()));
    with = other < json.size() ? json.substr(other, std::min<size_t>(end_of_value(json, other) - other, 20000)) : "null";
    break;
  }
  case 4: { // another expression or name
    size_t other = json.find("expr_str", below(r, json.size()));
    if (other == json.npos) other = json.find("\"name\"");
    size_t value = other == json.npos ? json.npos : json.find('"', json.find(':', other));
    if (value == json.npos) return;
    at = value, end = end_of_value(json, value);
    with = odd_expressions[below(r, std::size(odd_expressions))];
    break;
  }
  case 5: with = nested("[", "", "]", 1 + below(r, 3000)); break;
  case 6: with = "\"" + nested("Add(Integer(1), ", "Integer(1)", ")", 1 + below(r, 5000)) + "\""; break;
  default: { // without it, and the comma beside it
    if (end < json.size() && json[end] == ',') end++;
    else if (at > 0 && json[at - 1] == ',') at--;
  }
  }
  json.replace(at, end - at, with);
}

/// Bytes changed, cut or repeated.
inline void mutate_bytes(std::string& s, Random& r) {
  if (s.empty()) return;
  switch (below(r, 4)) {
  case 0: s.resize(below(r, s.size() + 1)); break;
  case 1: s.insert(below(r, s.size()), s.substr(below(r, s.size()), below(r, 200))); break;
  default:
    for (size_t n = 1 + below(r, 8); n-- > 0 && !s.empty();) s[below(r, s.size())] = static_cast<char>(r());
  }
}

/// A mutation of the archive in `bytes`.
inline std::string mutated(std::string_view bytes, Random& r) {
  if (below(r, 5) == 0) {
    std::string s(bytes);
    mutate_bytes(s, r);
    return s;
  }
  Archive a = Archive::view(as_byte_span(bytes), "seed");
  if (below(r, 8) == 0) { // weights, their config, anything
    std::string_view name = a.names()[below(r, a.names().size())];
    std::string file(as_text(a.read(name).bytes));
    mutate_bytes(file, r);
    return rebuild(a, name, file, below(r, 4) == 0);
  }
  std::string_view name = program_file(a);
  std::string json(as_text(a.read(name).bytes));
  for (size_t n = 1 + below(r, 3); n-- > 0 && !json.empty();) mutate_json(json, r);
  if (below(r, 30) == 0) mutate_bytes(json, r);
  return rebuild(a, name, json);
}

} // namespace tenon::fuzz
