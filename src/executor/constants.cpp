#include "executor/constants.h"

#include "builtins/elements.h"

namespace tenon::executor {

namespace {

// What torch's enumerations are as numbers.
struct Enumerator {
  std::string_view word;
  int64_t number;
};
constexpr Enumerator enumerators[] = {
    {"contiguous_format", 0},
    {"preserve_format", 1},
    {"channels_last", 2},
    {"channels_last_3d", 3}, // MemoryFormat
    {"strided", 0},
    {"sparse", 1},
    {"none", 0},
    {"None", 0}, // Layout, reductions
    {"mean", 1},
    {"Mean", 1},
    {"sum", 2},
    {"Sum", 2},
};

IValue of_word(const SchemaArg& arg, const std::string& word) {
  if (arg.type == ArgType::String) return word;
  if (arg.type == ArgType::Device) return IValue(word, IValue::Tag::Device);
  if (arg.type == ArgType::DType)
    return builtins::code_of_dtype(word == "long"     ? DType::I64
                                   : word == "float"  ? DType::F32
                                   : word == "double" ? DType::F64
                                                      : DType::Bool);
  for (const Enumerator& e : enumerators)
    if (e.word == word) return e.number;
  internal_error("the default {} of a schema is not known", word);
}

IValue of_arg(const Graph& graph, const Arg& a, const Type& t) {
  if (a.is_none()) return {};
  if (a.is<bool>()) return a.get<bool>();
  if (a.is<int64_t>()) return t.is(TypeKind::Float) ? IValue(static_cast<double>(a.get<int64_t>())) : IValue(a.get<int64_t>());
  if (a.is<double>()) return a.get<double>();
  if (a.is<std::complex<double>>()) return a.get<std::complex<double>>();
  if (a.is<std::string>()) return IValue(a.get<std::string>(), t.is(TypeKind::Device) ? IValue::Tag::Device : IValue::Tag::String);
  if (a.is<TensorId>()) return graph.tensor(a.get<TensorId>());
  if (!a.is<ArgList>()) internal_error("a constant that has no value");
  std::vector<IValue> items;
  const Type inner = t.is(TypeKind::Optional) ? t.element() : t;
  bool is_tuple = inner.is(TypeKind::Tuple);
  for (const Arg& e : a.get<ArgList>()) {
    size_t at = is_tuple ? items.size() : 0;
    items.push_back(of_arg(graph, e, at < inner.elements().size() ? inner.element(at) : Type::simple(TypeKind::Any)));
  }
  return is_tuple ? IValue::tuple(std::move(items)) : IValue::list(std::move(items));
}

} // namespace

IValue constant_of(const Graph& graph, const Node& node) {
  const Arg* value = node.attribute("value");
  return value ? of_arg(graph, *value, graph.type(node.outputs.at(0))) : IValue();
}

IValue default_of(const SchemaArg& arg) {
  const Arg& a = arg.fallback;
  if (a.is<Word>()) return of_word(arg, a.get<Word>().text);
  if (!arg.list || a.is_none() || a.is<ArgList>()) {
    static const Graph no_tensors;
    return of_arg(no_tensors, a, type_of(arg));
  }
  std::vector<IValue> items(static_cast<size_t>(std::max(arg.fixed_length, 1)),
                            a.is<int64_t>() ? IValue(a.get<int64_t>()) : IValue(a.get<bool>()));
  return IValue::list(std::move(items));
}

Arg arg_of(const SchemaArg& schema, const IValue& v, const std::function<Arg(const IValue&)>& tensor) {
  using Tag = IValue::Tag;
  switch (v.tag()) {
  case Tag::None: return {};
  case Tag::Bool: return v.to_bool();
  case Tag::Double: return v.to_double();
  case Tag::Complex: return v.to_complex();
  case Tag::String: return schema.type == ArgType::Device ? Arg(Word{v.to_string()}) : Arg(v.to_string());
  case Tag::Device: return Word{v.to_device()};
  case Tag::Tensor: return tensor(v);
  case Tag::Int:
    if (schema.type == ArgType::DType) return builtins::dtype_of_code(v.to_int());
    if (schema.type == ArgType::MemoryFormat) {
      require_input(v.to_int() >= 0 && v.to_int() < 4, "no such memory format: {}", v.to_int());
      return Word{std::string(enumerators[v.to_int()].word)};
    }
    if (schema.type == ArgType::Layout) return Word{"strided"};
    if (schema.type == ArgType::Float) return static_cast<double>(v.to_int());
    return v.to_int();
  case Tag::List:
  case Tag::Tuple: {
    ArgList list;
    for (const IValue& e : v.is(Tag::List) ? v.to_list() : v.to_tuple()) list.push_back(arg_of(schema, e, tensor));
    return list;
  }
  default: bad_input("a {} is no argument of an operator on tensors", name_of(v.tag()));
  }
}

} // namespace tenon::executor
