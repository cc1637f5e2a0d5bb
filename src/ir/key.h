// Keys of maps over nodes: bytes that are equal where nodes say the same. They hold addresses, so they mean nothing in another process.
#pragma once
#include <functional>

#include "ir/graph.h"

namespace tenon {

class Key {
public:
  /// `number` stands for a value.
  Key(const Graph& graph, std::function<uint32_t(ValueId)> number) : graph_(graph), number_(std::move(number)) {}

  void add(const Arg& arg);
  void add(const Type& type);
  /// Operator, arguments, attributes and types of results; not its blocks.
  void add(const Node& node);
  void add(std::string_view text);
  /// A number, an address or an enumerator, behind a letter that says what it is.
  template <class T> void add_bytes(char what, T v) {
    text_ += what;
    text_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }

  std::string take() { return std::move(text_); }

private:
  void add(const Tensor& stored);

  const Graph& graph_;
  std::function<uint32_t(ValueId)> number_;
  std::string text_;
};

} // namespace tenon
