// simdjson's DOM with errors of ours: which key is missing or of another kind.
#pragma once
#include <simdjson.h>

#include "base/check.h"

namespace tenon::json {

using Element = simdjson::dom::element;

inline Element get(Element e, std::string_view key) {
  Element out;
  if (e[key].get(out) != simdjson::SUCCESS) bad_input("model.json: key '{}' is missing", key);
  return out;
}
/// The element, or an empty optional where the key is missing or null.
inline std::optional<Element> find(Element e, std::string_view key) {
  Element out;
  if (e[key].get(out) != simdjson::SUCCESS || out.is_null()) return std::nullopt;
  return out;
}
inline std::string_view text(Element e) {
  std::string_view s;
  if (e.get(s) != simdjson::SUCCESS) bad_input("model.json: expected a string");
  return s;
}
inline std::string_view text(Element e, std::string_view key) { return text(get(e, key)); }
inline int64_t integer(Element e) {
  int64_t v;
  if (e.get(v) != simdjson::SUCCESS) bad_input("model.json: expected an integer");
  return v;
}
inline bool boolean(Element e) {
  bool v;
  if (e.get(v) != simdjson::SUCCESS) bad_input("model.json: expected true or false");
  return v;
}
inline simdjson::dom::array array(Element e) {
  simdjson::dom::array a;
  if (e.get(a) != simdjson::SUCCESS) bad_input("model.json: expected a list");
  return a;
}
inline simdjson::dom::object object(Element e) {
  simdjson::dom::object o;
  if (e.get(o) != simdjson::SUCCESS) bad_input("model.json: expected an object");
  return o;
}
/// The one key of a union {"as_tensor": ...} and its value.
inline std::pair<std::string_view, Element> single(Element e) {
  auto o = object(e);
  if (o.size() != 1) bad_input("model.json: a union must have one key, not {}", o.size());
  auto field = *o.begin();
  return {field.key, field.value};
}

} // namespace tenon::json
