// Steps that call functions of the user. Parameters of a step: the number of what is called, whether memory is channels-last; for each
// argument how many elements it has, -1 for None, with its values behind it among the integers, numbers or texts; then the attributes.
#include <algorithm>

#include "ops/custom_registry.h"

namespace tenon::ops {

namespace {

enum class Holds : int64_t { Nothing, Tensors, Ints, Numbers, Texts };

Holds holds(const SchemaArg& a) {
  switch (a.type) {
  case ArgType::Tensor: return Holds::Tensors;
  case ArgType::Int:
  case ArgType::Bool:
  case ArgType::DType: return Holds::Ints;
  case ArgType::Scalar:
  case ArgType::Float: return Holds::Numbers;
  case ArgType::String:
  case ArgType::Device:
  case ArgType::Layout:
  case ArgType::MemoryFormat: return Holds::Texts;
  default: return Holds::Nothing;
  }
}

// An attribute says by its elements what it holds.
Holds holds(const ArgList& list) {
  auto all = [&](auto test) { return std::ranges::all_of(list, test); };
  auto is_int = [](const Arg& a) {
    return a.is<int64_t>() || a.is<bool>() || a.is<DType>() || (a.is<Expr>() && !is_float(a.get<Expr>()->type));
  };
  if (all(is_int)) return Holds::Ints;
  if (all([&](const Arg& a) { return a.is<double>() || is_int(a); })) return Holds::Numbers;
  return all([](const Arg& a) { return a.is<std::string>() || a.is<Word>(); }) ? Holds::Texts : Holds::Nothing;
}

class StepWriter {
public:
  explicit StepWriter(const Call& c) : c_(c) {
    step.function = call_custom;
    put(custom_of(c).number), put(form_of(c).channels_last);
    for (size_t i = 0; i < c.args.size(); i++) argument(c.def.signature.args[i], c.args[i]);
    put(static_cast<int64_t>(c.attributes.size()));
    for (const Attribute& a : c.attributes) attribute(a);
  }
  LibraryStep step;

private:
  void put(int64_t v) { step.ints.push_back(c_.pool().integer(v)); }

  void argument(const SchemaArg& schema, const Arg& arg) {
    if (arg.is_none()) return put(-1);
    ArgList list = arg.is<ArgList>() ? arg.get<ArgList>() : ArgList{arg};
    // One number stands for a list of a length that the schema gives.
    if (schema.list && list.size() == 1 && schema.fixed_length > 1) list.resize(static_cast<size_t>(schema.fixed_length), list[0]);
    put(static_cast<int64_t>(list.size()));
    for (const Arg& e : list) {
      if (schema.optional_elements) put(!e.is_none());
      if (!e.is_none()) element(holds(schema), e, "argument", schema.name);
    }
  }

  void attribute(const Attribute& a) {
    ArgList list = a.value.is<ArgList>() ? a.value.get<ArgList>() : a.value.is_none() ? ArgList() : ArgList{a.value};
    Holds what = a.value.is_none() ? Holds::Nothing : holds(list);
    if (what == Holds::Nothing && !a.value.is_none()) c_.fail(fmt::format("attribute {} cannot be handed to a function", a.name));
    step.texts.push_back(a.name);
    put(static_cast<int64_t>(what)), put(static_cast<int64_t>(list.size()));
    for (const Arg& e : list) element(what, e, "attribute", a.name);
  }

  void element(Holds what, const Arg& e, std::string_view kind, const std::string& name) {
    if (what == Holds::Tensors) {
      if (!e.is<ValueId>()) c_.fail(fmt::format("{} {} is a number instead of a tensor", kind, name));
      step.inputs.push_back(e.get<ValueId>());
    } else if (what == Holds::Texts) {
      if (!e.is<std::string>() && !e.is<Word>()) c_.fail(fmt::format("{} {} is no text", kind, name));
      step.texts.push_back(e.is<Word>() ? e.get<Word>().text : e.get<std::string>());
    } else if (e.is<DType>()) put(static_cast<int64_t>(e.get<DType>()));
    else if (e == Arg(Word{"long"})) put(static_cast<int64_t>(DType::I64));
    else number(what, e, kind, name);
  }

  void number(Holds what, const Arg& e, std::string_view kind, const std::string& name) {
    Expr value = e.is<ValueId>() ? c_.graph.type(e.get<ValueId>()).value : to_expr(c_.pool(), e);
    if (!value) c_.fail(fmt::format("{} {} is no real number", kind, name));
    if (what == Holds::Ints) step.ints.push_back(cast(value, DType::I64));
    else if (Expr real = cast(value, DType::F64); real->is_const()) step.numbers.push_back(real->number());
    else unsupported("{}: {} {} must be known at compile time, but is {}", c_.def.signature.name, kind, name, to_string(value));
  }

  const Call& c_;
};

// The same read back, as the function sees it.
class CallReader {
public:
  CallReader(const LibraryCall& c, const Schema& schema) : c_(c), channels_last_(c.ints[1] != 0) {
    size_t dims = 0;
    for (const LibraryTensor& t : c.inputs) dims += 2 * t.sizes.size();
    for (const LibraryTensor& t : c.outputs) dims += 2 * t.sizes.size();
    dims_.reserve(dims);                                                  // what is pointed at stays where it is
    tensors_.reserve(c.inputs.size() + c.outputs.size() + c.ints.size()); // a None among tensors has an integer of its own
    texts_.reserve(c.texts.size() + 1);
    for (const SchemaArg& a : schema.args) argument(a);
    auto attributes = static_cast<size_t>(c_.ints[next_int_++]);
    for (size_t i = 0; i < attributes; i++) attribute();
    outputs_ = tensors_.data() + tensors_.size();
    for (const LibraryTensor& t : c.outputs) tensor(t);
  }

  tenon_op_call call(size_t arguments, void* data) const {
    return {values_.data(), values_.data() + arguments, outputs_, arguments, values_.size() - arguments, c_.outputs.size(), data};
  }

private:
  void tensor(const LibraryTensor& t) {
    std::vector<int64_t> sizes(t.sizes.begin(), t.sizes.end()), strides = contiguous_strides(sizes);
    if (channels_last_) sizes = from_channels_last(sizes), strides = from_channels_last(strides);
    const int64_t* begin = dims_.data() + dims_.size();
    dims_.insert(dims_.end(), sizes.begin(), sizes.end());
    dims_.insert(dims_.end(), strides.begin(), strides.end());
    tensors_.push_back({t.data, begin, begin + sizes.size(), static_cast<int32_t>(t.rank()), static_cast<int32_t>(t.dtype)});
  }

  void argument(const SchemaArg& a) {
    int64_t count = c_.ints[next_int_++];
    bool none = count < 0;
    if (holds(a) != Holds::Tensors || none) return value(a.name.c_str(), none ? Holds::Nothing : holds(a), none ? 0 : count);
    const tenon_tensor* begin = tensors_.data() + tensors_.size();
    for (int64_t i = 0; i < count; i++) {
      if (a.optional_elements && c_.ints[next_int_++] == 0) tensors_.push_back({nullptr, nullptr, nullptr, -1, 0});
      else tensor(c_.inputs[next_input_++]);
    }
    values_.push_back({a.name.c_str(), begin, nullptr, nullptr, nullptr, static_cast<size_t>(count)});
  }

  void attribute() {
    const char* name = c_.texts[next_text_++].c_str();
    auto what = static_cast<Holds>(c_.ints[next_int_]);
    int64_t count = c_.ints[next_int_ + 1];
    next_int_ += 2;
    value(name, what, count);
  }

  void value(const char* name, Holds what, int64_t count) {
    tenon_value v{name, nullptr, nullptr, nullptr, nullptr, static_cast<size_t>(count)};
    if (what == Holds::Ints) v.ints = c_.ints.data() + next_int_, next_int_ += v.count;
    static const double no_numbers = 0; // an empty list is not None
    if (what == Holds::Numbers) v.numbers = c_.numbers.empty() ? &no_numbers : c_.numbers.data() + next_number_, next_number_ += v.count;
    if (what == Holds::Texts) {
      v.texts = texts_.data() + texts_.size();
      for (size_t i = 0; i < v.count; i++) texts_.push_back(c_.texts[next_text_++].c_str());
    }
    values_.push_back(v);
  }

  const LibraryCall& c_;
  bool channels_last_;
  size_t next_int_ = 2, next_number_ = 0, next_text_ = 0, next_input_ = 0;
  std::vector<int64_t> dims_;
  std::vector<tenon_tensor> tensors_;
  std::vector<const char*> texts_;
  std::vector<tenon_value> values_;
  const tenon_tensor* outputs_ = nullptr;
};

} // namespace

bool can_be_handed_on(const SchemaArg& a) { return holds(a) != Holds::Nothing; }

LibraryStep step_of_custom(const Call& c) { return StepWriter(c).step; }

const char* call_custom(const LibraryCall& c) {
  try {
    const Custom* known = numbered(c.ints[0]);
    if (!known) return "a custom operator that is not registered";
    const Schema& schema = known->computes ? known->computes->signature : known->forms[0].signature;
    CallReader reader(c, schema);
    tenon_op_call call = reader.call(schema.args.size(), known->data);
    return known->function(&call);
  } catch (const std::exception& e) {
    thread_local std::string message;
    return (message = e.what()).c_str();
  }
}

} // namespace tenon::ops
