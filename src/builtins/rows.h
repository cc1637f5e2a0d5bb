// How the rows of operators are written: op() makes a row's function of a lambda that takes and gives plain C++ values.
#pragma once
#include <optional>
#include <tuple>

#include "builtins/builtin.h"
#include "builtins/dict.h"

namespace tenon::builtins {

using List = std::vector<IValue>;
using Complex = std::complex<double>;
using Rows = std::vector<BuiltinRow>;

/// The most elements of a list, and bytes of a string, that one operator makes.
inline constexpr int64_t most_elements = int64_t{1} << 28;

/// The name of a kind in schemas, by the C++ type that holds its values.
template <class T> consteval std::string_view kind_name() {
  if constexpr (std::is_same_v<T, int64_t>) return "int";
  else if constexpr (std::is_same_v<T, double>) return "float";
  else if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, Complex>) return "complex";
  else if constexpr (std::is_same_v<T, std::string>) return "str";
  else if constexpr (std::is_same_v<T, Tensor>) return "Tensor";
  else return "";
}

template <class T> struct Reader;
template <> struct Reader<int64_t> {
  static int64_t read(IValue& v) { return v.to_int(); }
};
template <> struct Reader<double> {
  static double read(IValue& v) { return v.to_double(); }
};
template <> struct Reader<bool> {
  static bool read(IValue& v) { return v.to_bool(); }
};
template <> struct Reader<Complex> {
  static Complex read(IValue& v) { return v.to_complex(); }
};
template <> struct Reader<std::string> {
  static const std::string& read(IValue& v) { return v.to_string(); }
};
template <> struct Reader<Tensor> {
  static Tensor& read(IValue& v) { return v.to_tensor(); }
};
template <> struct Reader<List> {
  static List& read(IValue& v) { return v.to_list(); }
};
template <> struct Reader<DictBox> {
  static DictBox& read(IValue& v) { return v.to_dict(); }
};
template <> struct Reader<IValue> {
  static IValue& read(IValue& v) { return v; }
};
template <class T> struct Reader<std::optional<T>> {
  static std::optional<T> read(IValue& v) { return v.is_none() ? std::nullopt : std::optional<T>(Reader<T>::read(v)); }
};

template <class T> IValue value_of(T v) { return IValue(std::move(v)); }
inline IValue value_of(List v) { return IValue::list(std::move(v)); }
template <class T>
  requires(std::is_same_v<T, std::string> || std::is_same_v<T, int64_t>)
IValue value_of(std::vector<T> v) {
  List items;
  items.reserve(v.size());
  for (auto&& e : v) items.emplace_back(T(std::move(e)));
  IValue list = IValue::list(std::move(items));
  list.list_box().element = std::is_same_v<T, std::string> ? TypeKind::String : TypeKind::Int;
  return list;
}

template <class... R> void put(std::span<IValue> results, std::tuple<R...> values) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((results[I] = value_of(std::get<I>(std::move(values)))), ...);
  }(std::index_sequence_for<R...>());
}
template <class R> void put(std::span<IValue> results, R value) { results[0] = value_of(std::move(value)); }

template <class... A, class F> void call_with(F f, BuiltinCall& c) {
  require(c.args.size() >= sizeof...(A), "an operator of {} arguments got {}", sizeof...(A), c.args.size());
  [&]<size_t... I>(std::index_sequence<I...>) {
    if constexpr (std::is_void_v<decltype(f(Reader<A>::read(c.args[I])...))>) f(Reader<A>::read(c.args[I])...);
    else put(c.results, f(Reader<A>::read(c.args[I])...));
  }(std::index_sequence_for<A...>());
}
template <class R, class... P> void call_deduced(R (*f)(P...), BuiltinCall& c) { call_with<std::remove_cvref_t<P>...>(f, c); }

/// The function of a row: `f` takes what its parameters say, or `A...` where it is generic; a tuple that it returns are several results.
template <class... A, class F> constexpr BuiltinFn op(F) {
  static_assert(std::is_empty_v<F>, "a named function goes into of<>");
  if constexpr (sizeof...(A) > 0) return [](BuiltinCall& c) { call_with<A...>(F{}, c); };
  else return [](BuiltinCall& c) { call_deduced(+F{}, c); };
}

/// The same of a named function.
template <auto F> inline constexpr BuiltinFn of = [](BuiltinCall& c) { call_deduced(F, c); };

inline void add_rows(Rows& rows, const Rows& more) { rows.insert(rows.end(), more.begin(), more.end()); }

/// A pattern's text with each '@' replaced.
inline std::string with_kind(std::string_view pattern, std::string_view kind) {
  std::string text;
  for (char c : pattern) c == '@' ? text.append(kind) : text.append(1, c);
  return text;
}

/// Calls f with the number as int64_t (bools too), double or, where f takes them, Complex.
template <class F> IValue visit_number(const IValue& v, F f) {
  if (v.is(IValue::Tag::Double)) return f(v.to_double());
  if constexpr (std::is_invocable_v<F, Complex>)
    if (v.is(IValue::Tag::Complex)) return f(v.to_complex());
  return f(v.is(IValue::Tag::Bool) ? int64_t{v.to_bool()} : v.to_int());
}

/// "NAME.int(int a) -> R" for each kind; what f returns says R.
template <class... A, class F> void unary(Rows& rows, std::string_view name, F f) {
  (rows.push_back({fmt::format("{}.{}({} a) -> {}", name, kind_name<A>(), kind_name<A>(), kind_name<decltype(f(A{}))>()), op<A>(f)}), ...);
}
/// What overloads of Scalars give goes through 32 bits, as in torch.
inline double narrowed(double v) { return static_cast<float>(v); }
inline int64_t narrowed(int64_t v) { return static_cast<int32_t>(v); }
inline Complex narrowed(Complex v) { return v; }

/// The overload of Scalars.
template <class F> void unary_scalar(Rows& rows, std::string_view name, F) {
  static constexpr auto run = [](auto a) -> IValue
    requires std::is_invocable_v<F, decltype(a)>
  { return narrowed(F{}(a)); };
  rows.push_back({fmt::format("{}.Scalar(Scalar a) -> Scalar", name), [](BuiltinCall& c) { c.results[0] = visit_number(c.args[0], run); }});
}
/// "NAME.int(int a, int b) -> R", "NAME.int_float(int a, float b) -> R".
template <class A, class B, class F> void binary(Rows& rows, std::string_view name, F f) {
  std::string overload(kind_name<A>());
  if (!std::is_same_v<A, B>) overload = fmt::format("{}_{}", overload, kind_name<B>());
  rows.push_back(
      {fmt::format("{}.{}({} a, {} b) -> {}", name, overload, kind_name<A>(), kind_name<B>(), kind_name<decltype(f(A{}, B{}))>()),
       op<A, B>(f)});
}
/// The overload of Scalars, under its whole name.
template <class F> void binary_scalar(Rows& rows, std::string_view name, std::string_view result, F) {
  rows.push_back({fmt::format("{}(Scalar a, Scalar b) -> {}", name, result), [](BuiltinCall& c) {
                    c.results[0] = visit_number(c.args[0], [&](auto a) -> IValue {
                      return visit_number(c.args[1], [&](auto b) -> IValue {
                        if constexpr (std::is_invocable_v<F, decltype(a), decltype(b)>) return value_of(F{}(a, b));
                        else raise("", "complex numbers are no operands here");
                      });
                    });
                  }});
}

} // namespace tenon::builtins
