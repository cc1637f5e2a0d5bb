// Operators on dicts. There is an overload for each kind of key; all run the same functions.
#include "builtins/rows.h"

namespace tenon::builtins {

namespace {

IValue list_of(const DictBox& dict, IValue (*part)(std::pair<IValue, IValue>&)) {
  List list;
  for (auto& pair : dict.items()) list.push_back(part(pair));
  return IValue::list(std::move(list));
}
IValue keys(DictBox& dict) {
  return list_of(dict, [](auto& pair) { return pair.first; });
}
IValue values(DictBox& dict) {
  return list_of(dict, [](auto& pair) { return pair.second; });
}
IValue items(DictBox& dict) {
  return list_of(dict, [](auto& pair) { return IValue::tuple({pair.first, pair.second}); });
}

IValue dict_get(DictBox& dict, IValue& key) {
  IValue* value = dict.find(key);
  return value ? *value : IValue();
}
IValue get_or(DictBox& dict, IValue& key, IValue& fallback) {
  IValue* value = dict.find(key);
  return value ? *value : fallback;
}
IValue need(DictBox& dict, const IValue& key) {
  IValue* value = dict.find(key);
  if (!value) raise("KeyError", str(key));
  return *value;
}
void erase(DictBox& dict, IValue& key) {
  need(dict, key);
  dict.erase(key);
}
IValue pop(DictBox& dict, IValue& key) {
  IValue value = need(dict, key);
  dict.erase(key);
  return value;
}
IValue pop_or(DictBox& dict, IValue& key, IValue& fallback) {
  IValue value = get_or(dict, key, fallback);
  dict.erase(key);
  return value;
}
/// The pair that came first, where Python takes the last.
IValue pop_item(DictBox& dict) {
  if (dict.size() == 0) raise("", "popitem(): dictionary is empty");
  auto pair = dict.first();
  dict.erase(pair.first);
  return IValue::tuple({pair.first, pair.second});
}
IValue set_default(DictBox& dict, IValue& key, IValue& fallback) {
  if (IValue* value = dict.find(key)) return *value;
  dict.set(key, fallback);
  return fallback;
}
void update(DictBox& dict, DictBox& from) {
  for (auto& [key, value] : from.items()) dict.set(key, value);
}
IValue copy(DictBox& dict) {
  IValue out = IValue::dict();
  update(out.to_dict(), dict);
  return out;
}
IValue from_pairs(List& pairs) {
  IValue out = IValue::dict();
  for (auto& p : pairs) out.to_dict().set(p.to_tuple().at(0), p.to_tuple().at(1));
  return out;
}

Rows patterns() {
  return {
      {"aten::len.Dict_@(Dict(@, t) self) -> int", op([](DictBox& d) { return static_cast<int64_t>(d.size()); })},
      {"aten::keys.@(Dict(@, t) self) -> @[](*)", of<keys>},
      {"aten::values.@(Dict(@, t) self) -> t[](*)", of<values>},
      {"aten::items.@(Dict(@, t) self) -> ((@, t)[])", of<items>},
      {"aten::__contains__.@(Dict(@, t) dict, @ key) -> bool", op([](DictBox& d, IValue& key) { return d.find(key) != nullptr; })},
      {"aten::__getitem__.Dict_@(Dict(@, t) self, @ key) -> t(*)", of<need>},
      {"aten::get.@(Dict(@, t) self, @ key) -> t(*)?", of<dict_get>},
      {"aten::get.default_@(Dict(@, t) self, @ key, t default_value) -> t(*)", of<get_or>},
      {"aten::setdefault.@(Dict(@, t)(a!) self, @(b -> *) key, t(c -> *) default_value) -> t(*)", of<set_default>},
      {"aten::Delete.Dict_@(Dict(@, t)(a!) self, @ key) -> ()", of<erase>},
      {"aten::pop.Dict_@(Dict(@, t)(a!) self, @ key) -> t(*)", of<pop>},
      {"aten::pop.Dict_default_@(Dict(@, t)(a!) self, @ key, t default_value) -> t(*)", of<pop_or>},
      {"aten::popitem.@(Dict(@, t)(a!) self) -> ((@, t))", of<pop_item>},
      {"aten::clear.@(Dict(@, t)(a!) self) -> ()", op([](DictBox& d) { d.clear(); })},
      {"aten::update.@(Dict(@, t)(a!) self, Dict(@, t)(a!) to_add) -> ()", of<update>},
      {"aten::copy.Dict_@(Dict(@, t)(a) self) -> Dict(@, t)", of<copy>},
      {"aten::_set_item.@(Dict(@, t)(a!) l, @(b -> *) idx, t(c -> *) v) -> ()",
       op([](DictBox& d, IValue& key, IValue& v) { d.set(key, std::move(v)); })},
      {"aten::dict.@((@, tVal)[] inputs) -> Dict(@, tVal)", of<from_pairs>},
      {"aten::dict.Dict_@(Dict(@, t)(a) self) -> Dict(@, t)", of<copy>},
  };
}

Rows make_dict_rows() {
  Rows rows = {{"aten::dict() -> Dict(str, Tensor)", [](BuiltinCall& c) { c.results[0] = IValue::dict(); }}};
  for (std::string_view kind : {"str", "int", "bool", "float", "complex", "Tensor"})
    for (auto& p : patterns()) rows.push_back({with_kind(p.schema, kind), p.run});
  return rows;
}

} // namespace

std::span<const BuiltinRow> dict_rows() {
  static const Rows rows = make_dict_rows();
  return rows;
}

} // namespace tenon::builtins
