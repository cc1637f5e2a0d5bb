// Each part begins with a letter, and lists with their length, so that no two parts look like one.
#include "ir/key.h"

namespace tenon {

void Key::add(std::string_view text) {
  add_bytes('"', text.size());
  text_ += text;
}

// Weights that share memory are one.
void Key::add(const Tensor& stored) {
  add_bytes('t', stored.data());
  for (int64_t s : stored.sizes()) add_bytes(',', s);
  for (int64_t s : stored.strides()) add_bytes(';', s);
}

void Key::add(const Arg& arg) {
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, std::monostate>) text_ += 'n';
        else if constexpr (std::is_same_v<T, ValueId>) add_bytes('%', number_(v));
        else if constexpr (std::is_same_v<T, TensorId>) add(graph_.stored(v));
        else if constexpr (std::is_same_v<T, Expr>) add_bytes('e', v.get());
        else if constexpr (std::is_same_v<T, std::string>) add(std::string_view(v));
        else if constexpr (std::is_same_v<T, GraphP>) text_ += 'g', add(std::string_view(to_string(*v)));
        else if constexpr (std::is_same_v<T, Word>) text_ += 'w', add(std::string_view(v.text));
        else if constexpr (std::is_same_v<T, ArgList>) {
          add_bytes('[', v.size());
          for (const Arg& a : v) add(a);
        } else add_bytes(static_cast<char>('0' + arg.v.index()), v); // numbers by their bits: 0.0 is not -0.0
      },
      arg.v);
}

void Key::add(const Type& type) {
  add_bytes(':', type.kind), add_bytes('.', type.dtype);
  for (auto* list : {&type.sizes, &type.strides}) {
    add_bytes('(', list->size());
    for (Expr e : *list) add_bytes(',', e.get());
  }
}

void Key::add(const Node& node) {
  add(std::string_view(node.op));
  add_bytes('[', node.args.size());
  for (const Arg& a : node.args) add(a);
  for (const Attribute& a : node.attributes) add(std::string_view(a.name)), add(a.value);
  for (ValueId v : node.outputs) add(graph_.type(v));
}

} // namespace tenon
