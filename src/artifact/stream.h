// Plain data to bytes and back: numbers, texts, lists and variants of them, and structs whose fields `artifact/fields.h` lists.
#pragma once
#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "load/bytes.h"

namespace tenon::artifact {

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
public:
  static constexpr bool reads = false;
  std::string bytes;

  template <class... T> void operator()(const T&... values) { (put(values), ...); }

private:
  template <Number T> void put(T v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(const std::string& s) { put(uint64_t{s.size()}), bytes += s; }
  template <class T> void put(const std::vector<T>& list) {
    put(uint64_t{list.size()});
    for (const T& v : list) put(v);
  }
  template <class T, size_t n> void put(const T (&list)[n]) {
    for (const T& v : list) put(v);
  }
  template <class A, class B> void put(const std::pair<A, B>& p) { put(p.first), put(p.second); }
  template <class... T> void put(const std::variant<T...>& v) {
    put(static_cast<uint8_t>(v.index()));
    std::visit([&](auto& x) { put(x); }, v);
  }
  template <class T>
    requires std::is_class_v<T>
  void put(const T& v) {
    fields(*this, const_cast<T&>(v)); // one list of fields serves both directions
  }
};

/// Every read past the end is a BadInput.
class Reader {
public:
  static constexpr bool reads = true;
  Reader(Bytes bytes, std::string_view what) : in_(bytes, what) {}

  template <class... T> void operator()(T&... values) { (get(values), ...); }
  bool done() const { return in_.left() == 0; }

private:
  template <Number T> void get(T& v) {
    if constexpr (std::is_same_v<T, bool>) v = in_.read<uint8_t>() != 0;
    else v = in_.read<T>();
  }
  void get(std::string& s) { s = in_.text(in_.read<uint64_t>()); }
  template <class T> void get(std::vector<T>& list) {
    auto n = in_.read<uint64_t>();
    require_input(n <= in_.left(), "a list of {} elements in {} bytes", n, in_.left()); // each takes a byte at least
    list.clear();
    for (uint64_t i = 0; i < n; i++) get(list.emplace_back());
  }
  template <class T, size_t n> void get(T (&list)[n]) {
    for (T& v : list) get(v);
  }
  template <class A, class B> void get(std::pair<A, B>& p) { get(p.first), get(p.second); }
  template <class... T> void get(std::variant<T...>& v) {
    auto index = in_.read<uint8_t>();
    require_input(index < sizeof...(T), "there is no alternative {}", index);
    emplace(v, index, std::index_sequence_for<T...>());
  }
  template <class V, size_t... i> void emplace(V& v, size_t index, std::index_sequence<i...>) {
    ((index == i ? get(v.template emplace<i>()) : void()), ...);
  }
  template <class T>
    requires std::is_class_v<T>
  void get(T& v) {
    fields(*this, v);
  }

  ByteReader in_;
};

} // namespace tenon::artifact
