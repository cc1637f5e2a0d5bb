// Dicts: entries in order, with an index by key. Erased entries stay until they are half of all.
#include "builtins/dict.h"

namespace tenon {

size_t DictBox::Hash::operator()(const IValue& key) const {
  using Tag = IValue::Tag;
  switch (key.tag()) {
  case Tag::Bool:
  case Tag::Int:
  case Tag::Double: return std::hash<double>()(key.number()); // of equal ints and floats the same
  case Tag::Complex: return std::hash<double>()(key.to_complex().real());
  case Tag::String: return std::hash<std::string>()(key.to_string());
  case Tag::Device: return std::hash<std::string>()(key.to_device());
  case Tag::Tensor: return std::hash<const void*>()(&key.tensor_box());
  case Tag::Tuple: {
    size_t seed = 0;
    for (auto& e : key.to_tuple()) seed = seed * 31 + (*this)(e);
    return seed;
  }
  default: bad_input("a {} is no key of a dict", name_of(key.tag()));
  }
}

// NaN, too, is found again.
bool DictBox::Equal::operator()(const IValue& a, const IValue& b) const { return a.same(b) || equal(a, b); }

IValue* DictBox::find(const IValue& key) {
  auto place = places.find(key);
  return place == places.end() ? nullptr : &entries[place->second].value;
}

void DictBox::set(const IValue& key, IValue value) {
  auto [place, is_new] = places.try_emplace(key, entries.size());
  if (is_new) entries.push_back({key, std::move(value)});
  else entries[place->second].value = std::move(value);
}

bool DictBox::erase(const IValue& key) {
  auto place = places.find(key);
  if (place == places.end()) return false;
  entries[place->second] = {.erased = true};
  places.erase(place);
  while (begin < entries.size() && entries[begin].erased) begin++;
  if (entries.size() > 16 && places.size() < entries.size() / 2) compact();
  return true;
}

void DictBox::compact() {
  std::erase_if(entries, [](const Entry& e) { return e.erased; });
  begin = 0;
  for (size_t i = 0; i < entries.size(); i++) places[entries[i].key] = i;
}

void DictBox::clear() {
  begin = 0;
  places.clear();
  entries.clear();
}

std::pair<IValue, IValue> DictBox::first() const {
  require(size() > 0, "an empty dict has no first pair");
  return {entries[begin].key, entries[begin].value};
}

std::vector<std::pair<IValue, IValue>> DictBox::items() const {
  std::vector<std::pair<IValue, IValue>> list;
  list.reserve(size());
  for (auto& e : entries)
    if (!e.erased) list.emplace_back(e.key, e.value);
  return list;
}

} // namespace tenon
