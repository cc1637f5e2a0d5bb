// What the operators of src/builtins give and raise, beside what torch gives and raises: tests/fixtures/builtins/calls.txt.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "base/numeric.h"
#include "builtins/builtin.h"
#include "builtins/dict.h"
#include "builtins/elements.h"

namespace tenon::builtins_calls_test {

namespace {

// Reads values as the fixture writes them: much as Python does.
class Reader {
public:
  explicit Reader(const std::string& text) : p_(text.c_str()) {}

  bool accept(const char* word) {
    while (*p_ == ' ') p_++;
    if (std::strncmp(p_, word, std::strlen(word)) != 0) return false;
    p_ += std::strlen(word);
    return true;
  }
  bool at_end() { return accept(""), *p_ == 0; }

  IValue value() {
    if (accept("None")) return {};
    if (accept("True")) return true;
    if (accept("False")) return false;
    if (accept("complex(")) return complex();
    if (accept("tensor(")) return tensor();
    if (accept("device(")) return device();
    if (accept("\"")) return string();
    if (accept("[")) return IValue::list(items("]"));
    if (accept("(")) return IValue::tuple(items(")"));
    return accept("{") ? dict() : number();
  }

private:
  std::vector<IValue> items(const char* end) {
    std::vector<IValue> list;
    while (!accept(end)) {
      list.push_back(value());
      accept(",");
    }
    return list;
  }
  IValue number() {
    char *int_end = nullptr, *end = nullptr;
    int64_t i = std::strtoll(p_, &int_end, 10);
    double d = std::strtod(p_, &end);
    REQUIRE_MESSAGE(end > p_, "no value at " << p_);
    p_ = end;
    return int_end == end ? IValue(i) : IValue(d);
  }
  IValue complex() {
    auto parts = items(")");
    return std::complex<double>(parts.at(0).to_double(), parts.at(1).to_double());
  }
  IValue device() {
    accept("\"");
    std::string name = string().to_string();
    accept(")");
    return {name, IValue::Tag::Device};
  }
  IValue string() {
    std::string s;
    for (; *p_ != '"'; p_++) {
      bool escaped = *p_ == '\\'; // always \xHH
      s += escaped ? static_cast<char>(std::stoi(std::string(p_ + 2, 2), nullptr, 16)) : *p_;
      if (escaped) p_ += 3;
    }
    p_++;
    return s;
  }
  IValue dict() {
    IValue d = IValue::dict();
    while (!accept("}")) {
      IValue key = value();
      accept(":");
      d.to_dict().set(key, value());
      accept(",");
    }
    return d;
  }
  IValue tensor() {
    std::string type;
    while (*p_ != ',') type += *p_++;
    accept(",");
    accept("[");
    std::vector<int64_t> sizes;
    for (auto& s : items("]")) sizes.push_back(s.to_int());
    accept(",");
    accept("[");
    auto values = items("]");
    bool grad = accept(", grad");
    accept(")");
    static const std::map<std::string, DType> types = {{"int64", DType::I64},     {"float32", DType::F32},   {"float64", DType::F64},
                                                       {"bool", DType::Bool},     {"uint8", DType::U8},      {"int32", DType::I32},
                                                       {"bfloat16", DType::BF16}, {"complex64", DType::C64}, {"complex128", DType::C128},
                                                       {"int16", DType::I16},     {"float16", DType::F16}};
    Tensor t(types.at(type), sizes);
    for (size_t i = 0; i < values.size(); i++)
      dispatch(t.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const IValue& v = values[i];
        if (v.is(IValue::Tag::Complex)) t.data_as<T>()[i] = convert<T>(C128{v.to_complex().real(), v.to_complex().imag()});
        else if (v.is(IValue::Tag::Int)) t.data_as<T>()[i] = convert<T>(v.to_int());
        else t.data_as<T>()[i] = convert<T>(v.number());
      });
    IValue v(t);
    v.tensor_box().requires_grad = grad;
    return v;
  }

  const char* p_;
};

// Functions of the C library may differ in the last places.
bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b ? std::signbit(a) == std::signbit(b) : std::fabs(a - b) <= 1e-14 * std::fabs(b);
}
bool agree(const std::vector<IValue>& a, const std::vector<IValue>& b);
bool agree(const IValue& a, const IValue& b);
bool agree(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  Tensor x = a.contiguous(), y = b.contiguous();
  for (size_t i = 0; i < static_cast<size_t>(a.numel()); i++) {
    size_t at = i * size_of(a.dtype());
    if (!agree(builtins::load_element(x.data_as<char>() + at, a.dtype()), builtins::load_element(y.data_as<char>() + at, a.dtype())))
      return false;
  }
  return true;
}
bool agree(const IValue& a, const IValue& b) {
  using Tag = IValue::Tag;
  if (a.tag() != b.tag()) return false;
  switch (a.tag()) {
  case Tag::Double: return agree(a.to_double(), b.to_double());
  case Tag::Complex: return agree(a.to_complex().real(), b.to_complex().real()) && agree(a.to_complex().imag(), b.to_complex().imag());
  case Tag::Tensor: return a.tensor_box().requires_grad == b.tensor_box().requires_grad && agree(a.to_tensor(), b.to_tensor());
  case Tag::List: return agree(a.to_list(), b.to_list());
  case Tag::Tuple: return agree(a.to_tuple(), b.to_tuple());
  case Tag::Dict: {
    std::vector<IValue> x, y;
    for (auto& [key, value] : a.to_dict().items()) x.push_back(key), x.push_back(value);
    for (auto& [key, value] : b.to_dict().items()) y.push_back(key), y.push_back(value);
    return agree(x, y);
  }
  default: return equal(a, b);
  }
}
bool agree(const std::vector<IValue>& a, const std::vector<IValue>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return agree(x, y); });
}

std::string text_of(const std::vector<IValue>& values) {
  std::string s;
  for (auto& v : values) s += (s.empty() ? "" : " | ") + repr(v);
  return s;
}

// One line; says what is wrong with it, or nothing.
std::string differs(const BuiltinOp& op, const std::string& line) {
  Reader reader(line);
  std::vector<IValue> args, expected, got, results(op.signature.returns.size());
  bool raises = false;
  while (!reader.accept("=>") && !(raises = reader.accept("!!"))) {
    args.push_back(reader.value());
    reader.accept("|");
  }
  while (!reader.at_end()) {
    expected.push_back(reader.value());
    reader.accept("|");
  }
  std::vector<IValue> given = args;
  BuiltinCall call{args, results};
  try {
    op.run(call);
  } catch (const Error& e) {
    std::string message = e.what();
    if (raises && e.kind == ErrorKind::BadInput && message.find(expected.at(0).to_string()) != std::string::npos) return "";
    return "raised " + message;
  }
  for (size_t i = 0; i < op.signature.args.size(); i++)
    if (op.signature.args[i].written) got.push_back(given[i]);
  got.insert(got.end(), results.begin(), results.end());
  return !raises && agree(got, expected) ? "" : "gave " + text_of(got);
}

} // namespace

TEST_CASE("operators of TorchScript give and raise what torch does") {
  std::map<std::string, const BuiltinOp*> ops;
  for (auto* op : all_builtins()) ops[op->schema] = op;
  std::ifstream file(std::string(TENON_FIXTURES) + "/builtins/calls.txt");
  REQUIRE(file);
  const BuiltinOp* op = nullptr;
  size_t calls = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == ':') {
      op = ops[line.substr(1)];
      CHECK_MESSAGE(op, "no row " << line.substr(1));
    } else if (op) {
      std::string wrong = differs(*op, line);
      CHECK_MESSAGE(wrong.empty(), op->schema << "\n  " << line << "\n  " << wrong);
      calls++;
    }
  }
  CHECK(calls > 3000);
}

} // namespace tenon::builtins_calls_test
