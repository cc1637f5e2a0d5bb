// Operators on lists of whatever elements: they keep, move and count values without looking into them.
#include <algorithm>

#include "builtins/rows.h"
#include "builtins/slices.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;

/// The place that an index means; negative ones count from the end.
size_t place_in(const List& list, Int index, const char* complaint = "list index out of range") {
  Int size = std::ssize(list), place = index < 0 ? index + size : index;
  if (place < 0 || place >= size) raise("", complaint);
  return static_cast<size_t>(place);
}

IValue item_at(List& list, Int index) { return list[place_in(list, index)]; }

IValue append(IValue& list, IValue& item) {
  list.to_list().push_back(std::move(item));
  return list;
}
IValue set(IValue& list, Int index, IValue& item) {
  List& items = list.to_list();
  items[place_in(items, index)] = std::move(item);
  return list;
}
void insert(List& list, Int index, IValue& item) {
  Int size = std::ssize(list), place = std::clamp<Int>(index < 0 ? index + size : index, 0, size);
  list.insert(list.begin() + place, std::move(item));
}
IValue take(List& list, Int index, const char* empty) {
  if (list.empty()) raise("", empty);
  size_t place = place_in(list, index);
  IValue item = std::move(list[place]);
  list.erase(list.begin() + static_cast<Int>(place));
  return item;
}
/// `from` may be the same list.
void extend(List& list, const List& from) {
  size_t count = from.size();
  list.reserve(list.size() + count);
  for (size_t i = 0; i < count; i++) list.push_back(from[i]);
}
List joined_lists(const List& a, const List& b) {
  List out = a;
  extend(out, b);
  return out;
}
List repeated(const List& list, Int count) {
  List out;
  if (list.empty()) return out;
  if (count < 0 || count > most_elements || std::ssize(list) * count > most_elements) raise("", "vector::reserve"); // torch's words
  out.reserve(list.size() * static_cast<size_t>(count));
  for (Int i = 0; i < count; i++) extend(out, list);
  return out;
}
List sliced(const List& list, std::optional<Int> start, std::optional<Int> end, Int step) {
  List out;
  for (Int i : slice_of(std::ssize(list), start, end, step)) out.push_back(list[static_cast<size_t>(i)]);
  return out;
}

std::vector<std::string> characters(const std::string& s) {
  std::vector<std::string> list;
  for (char c : s) list.emplace_back(1, c);
  return list;
}

/// A list of the elements that `list` has.
IValue like(const IValue& list, List items) {
  IValue out = IValue::list(std::move(items));
  out.list_box().element = list.list_box().element;
  return out;
}

/// How many numbers range(low, high, step) has.
Int range_length(Int low, Int high, Int step) {
  if (step == 0) raise("", "range() arg 3 must not be zero");
  if (step > 0 ? low >= high : low <= high) return 0;
  uint64_t span =
      step > 0 ? static_cast<uint64_t>(high) - static_cast<uint64_t>(low) : static_cast<uint64_t>(low) - static_cast<uint64_t>(high);
  uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<Int>((span - 1) / by + 1);
}
Int derive_index(Int index, Int start, Int step) {
  return static_cast<Int>(static_cast<uint64_t>(start) + static_cast<uint64_t>(index) * static_cast<uint64_t>(step));
}
std::vector<Int> range_list(Int n) {
  if (n > most_elements) raise("MemoryError", fmt::format("a list of {} elements", n));
  std::vector<Int> list(static_cast<size_t>(std::max<Int>(n, 0)));
  for (size_t i = 0; i < list.size(); i++) list[i] = static_cast<Int>(i);
  return list;
}

} // namespace

std::span<const BuiltinRow> list_rows() {
  static const Rows rows = {
      {"aten::len.t(t[] a) -> int", op([](List& l) { return std::ssize(l); })},
      {"aten::select.t(t[](a) list, int idx) -> t(*)", of<item_at>},
      {"aten::__getitem__.t(t[](a) list, int idx) -> t(*)", of<item_at>},
      {"aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)", of<set>},
      {"aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)", of<append>},
      {"aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()", of<insert>},
      {"aten::extend.t(t[](a!) self, t[] other) -> ()", of<extend>},
      {"aten::pop.t(t[](a!) self, int idx=-1) -> t(*)", op([](List& l, Int i) { return take(l, i, "pop from empty list"); })},
      {"aten::Delete.t(t[](a!) self, int idx) -> ()", op([](List& l, Int i) { take(l, i, "pop index out of range"); })},
      {"aten::clear.t(t[](a!) self) -> ()", op([](List& l) { l.clear(); })},
      {"aten::reverse.t(t[](a!) self) -> ()", op([](List& l) { std::ranges::reverse(l); })},
      {"aten::copy.t(t[](a) self) -> t[]", op([](IValue& l) { return like(l, l.to_list()); })},
      {"aten::list(str t) -> str[]", of<characters>},
      {"aten::list.t(t[] l) -> t[]", op([](IValue& l) { return like(l, l.to_list()); })},
      {"aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]",
       op([](IValue& l, std::optional<Int> a, std::optional<Int> b, Int step) { return like(l, sliced(l.to_list(), a, b, step)); })},
      {"aten::add.t(t[] a, t[] b) -> t[]", op([](IValue& a, IValue& b) { return like(a, joined_lists(a.to_list(), b.to_list())); })},
      {"aten::add_.t(t[](a!) self, t[] b) -> t[]", op([](IValue& l, List& b) { return extend(l.to_list(), b), l; })},
      {"aten::mul.left_t(t[] l, int n) -> t[]", op([](IValue& l, Int n) { return like(l, repeated(l.to_list(), n)); })},
      {"aten::mul.right_(int n, t[] l) -> t[]", op([](Int n, IValue& l) { return like(l, repeated(l.to_list(), n)); })},
      {"aten::mul_.t(t[](a!) l, int n) -> t[](a!)",
       op([](IValue& l, Int n) { return l.to_list() = repeated(l.to_list(), std::max<Int>(n, 0)), l; })},
      {"aten::__range_length(int lo, int hi, int step) -> int", of<range_length>},
      {"aten::__derive_index(int index, int start, int step) -> int", of<derive_index>},
      {"prim::rangelist(int n) -> int[]", of<range_list>},
      {"aten::Size(int[] sizes) -> int[]", op([](IValue& l) { return l; })},
  };
  return rows;
}

} // namespace tenon::builtins
