// Operators on lists that look into elements: equality, search, order, sums. Tensors count by their only element, as bool() of a comparison
// does.
#include <algorithm>

#include "builtins/arithmetic.h"
#include "builtins/elements.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;

/// The elements of two tensors that have one, for bool(a == b) and bool(a < b).
std::pair<IValue, IValue> compared(const Tensor& a, const Tensor& b) {
  int64_t count = 1;
  for (int64_t size : broadcast_sizes(a.sizes(), b.sizes())) count *= size;
  if (count == 0) raise("", "Boolean value of Tensor with no values is ambiguous");
  if (count > 1) raise("", "Boolean value of Tensor with more than one value is ambiguous");
  return {item(a), item(b)};
}

bool same(const IValue& a, const IValue& b) {
  if (!a.is(IValue::Tag::Tensor)) return equal(a, b);
  auto [x, y] = compared(a.to_tensor(), b.to_tensor());
  return equal(x, y);
}

bool less(const IValue& a, const IValue& b);
bool less_tuple(const List& a, const List& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); i++) {
    if (less(a[i], b[i])) return true;
    if (!same(a[i], b[i])) return false;
  }
  return false;
}
bool less(const IValue& a, const IValue& b) {
  using Tag = IValue::Tag;
  Tag kind = b.is(Tag::Complex) ? b.tag() : a.tag(); // which have no order
  switch (kind) {
  case Tag::Bool:
  case Tag::Double: return a.number() < b.number();
  case Tag::Int: return b.is(Tag::Int) ? a.to_int() < b.to_int() : a.number() < b.number();
  case Tag::String: return a.to_string() < b.to_string();
  case Tag::Tuple: return less_tuple(a.to_tuple(), b.to_tuple());
  case Tag::Tensor: {
    auto [x, y] = compared(a.to_tensor(), b.to_tensor());
    return less(x, y);
  }
  default: raise("", fmt::format("IValues of type: {} are not comparable", name_of(kind)));
  }
}

/// A merge sort, for NaN gives no order that std::sort would stand.
void sort(List& list, bool reverse) {
  List sorted = list; // an element that cannot be compared leaves the list as it was
  std::stable_sort(sorted.begin(), sorted.end(), [&](const IValue& a, const IValue& b) { return reverse ? less(b, a) : less(a, b); });
  list = std::move(sorted);
}
List sorted(const List& list) {
  List copy = list;
  sort(copy, false);
  return copy;
}

bool lists_equal(const List& a, const List& b) { return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same); }

auto find(const List& list, const IValue& item) {
  return std::ranges::find_if(list, [&](const IValue& i) { return same(item, i); });
}
/// As a C++ stream writes it.
std::string streamed(const IValue& v) {
  using Tag = IValue::Tag;
  if (v.is(Tag::Double)) return fmt::format("{:g}", v.to_double());
  if (v.is(Tag::Bool)) return v.to_bool() ? "1" : "0";
  return str(v);
}
Int index_of_item(const List& list, const IValue& item) {
  auto place = find(list, item);
  if (place == list.end()) raise("", fmt::format("'{}' is not in list", streamed(item)));
  return place - list.begin();
}
void remove(List& list, const IValue& item) {
  auto place = find(list, item);
  if (place == list.end()) raise("", "list.remove(x): x not in list");
  list.erase(place);
}
Int count_items(const List& list, const IValue& item) {
  return std::ranges::count_if(list, [&](const IValue& i) { return same(item, i); });
}

/// The smallest, or with Max the largest; of equal ones the first.
template <bool Max> IValue extreme(const List& list) {
  if (list.empty()) raise("", fmt::format("{}() arg is an empty sequence", Max ? "max" : "min"));
  IValue best = list[0];
  for (auto& i : list)
    if (Max ? less(best, i) : less(i, best)) best = i;
  return best;
}
/// By the first elements that differ, else by length.
template <bool Max> IValue extreme_list(IValue& l, IValue& r) {
  const List &a = l.to_list(), &b = r.to_list();
  for (size_t i = 0; i < a.size() && i < b.size(); i++)
    if (!equal(a[i], b[i])) return (Max ? less(b[i], a[i]) : less(a[i], b[i])) ? l : r;
  return (Max ? b.size() > a.size() : b.size() < a.size()) ? r : l;
}

bool truth(const IValue& v) { return v.is(IValue::Tag::String) ? !v.to_string().empty() : v.number() != 0; }
bool any(const List& list) { return std::ranges::any_of(list, truth); }
bool all(const List& list) { return std::ranges::all_of(list, truth); }
template <class T> T sum(const List& list) {
  T total{};
  for (IValue v : list) total = arithmetic::Add{}(total, static_cast<T>(Reader<T>::read(v)));
  return total;
}

Rows other_ordering_rows() {
  return {
      {"aten::sort.any(t[](a!) self, bool reverse=False) -> ()", of<sort>},
      {"aten::sorted.any(t[](a) self) -> t[]", of<sorted>},
      {"aten::sum.int(int[] self) -> int", op([](List& l) { return Int{static_cast<int32_t>(sum<Int>(l))}; })},
      {"aten::sum.float(float[] self) -> float", of<sum<double>>},
      {"aten::sum.complex(complex[] self) -> complex", of<sum<Complex>>},
      {"aten::sum.bool(bool[] self) -> int", op([](List& l) { return count_items(l, true); })},
  };
}

Rows make_order_rows() {
  Rows rows;
  auto add = [&](const BuiltinRow& pattern, std::string_view kind) { rows.push_back({with_kind(pattern.schema, kind), pattern.run}); };
  BuiltinFn is_equal = op([](List& a, List& b) { return lists_equal(a, b); }),
            differs = op([](List& a, List& b) { return !lists_equal(a, b); });
  for (std::string_view kind : {"int", "float", "bool", "Tensor", "str"}) {
    add({"aten::eq.@_list(@[] a, @[] b) -> bool", is_equal}, kind);
    add({"aten::ne.@_list(@[] a, @[] b) -> bool", differs}, kind);
    add({"aten::index.list_@(@[] self, @ el) -> int", of<index_of_item>}, kind);
    add({"aten::remove.@(@[](a!) self, @ el) -> ()", of<remove>}, kind);
    add({"aten::count.@(@[] self, @ el) -> int", of<count_items>}, kind);
  }
  for (std::string_view kind : {"int", "float", "Tensor", "bool", "str"}) {
    add({"aten::sort.@(@[](a!) self, bool reverse=False) -> ()", of<sort>}, kind);
    add({"aten::sorted.@(@[](a) input) -> @[]", of<sorted>}, kind);
  }
  for (std::string_view kind : {"int", "float", "bool"}) {
    add({"prim::min.@_list(@[] l, @[] r) -> @[]", of<extreme_list<false>>}, kind);
    add({"prim::max.@_list(@[] l, @[] r) -> @[]", of<extreme_list<true>>}, kind);
    add({"prim::min.self_@(@[] self) -> @", of<extreme<false>>}, kind);
    add({"prim::max.self_@(@[] self) -> @", of<extreme<true>>}, kind);
    add({"aten::all.@(@[] self) -> bool", of<all>}, kind);
  }
  for (std::string_view kind : {"str", "int", "float", "bool"}) add({"aten::any.@(@[] self) -> bool", of<any>}, kind);
  for (std::string_view kind : {"int", "str", "float"})
    add({"aten::__contains__.@_list(@[] l, @ item) -> bool", op([](List& l, IValue& item) { return find(l, item) != l.end(); })}, kind);
  add_rows(rows, other_ordering_rows());
  return rows;
}

} // namespace

std::span<const BuiltinRow> order_rows() {
  static const Rows rows = make_order_rows();
  return rows;
}

} // namespace tenon::builtins
