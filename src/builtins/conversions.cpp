// Conversions between numbers, strings and 0-d tensors: int(), float(), complex(), bool(), and those that calls imply.
#include <cerrno>
#include <cstdlib>

#include "builtins/arithmetic.h"
#include "builtins/elements.h"

namespace tenon::builtins {

using arithmetic::to_int;

namespace {

using Int = int64_t;

/// What strtoll and strtod take in front of a number, they take at no other place.
template <class T> T parsed(const std::string& text, T (*parse)(const char*, char**), const char* name, const char* complaint) {
  errno = 0;
  char* end = nullptr;
  T value = parse(text.c_str(), &end);
  if (end == text.c_str() || errno == ERANGE) raise("", name);
  if (end != text.c_str() + text.size()) raise("", fmt::format("{}: '{}'", complaint, text));
  return value;
}
Int int_of(const std::string& text) {
  return parsed<long long>(
      text, [](const char* s, char** end) { return std::strtoll(s, end, 10); }, "stoll", "invalid literal for int() with base 10");
}
double float_of(const std::string& text) { return parsed<double>(text, std::strtod, "stod", "could not convert string to float"); }

/// A tensor given where a number is asked for has no dims, and is of no wider kind.
void check_implicit(const TensorBox& box, bool to_integer) {
  if (box.requires_grad) raise("", "Cannot input a tensor that requires grad as a scalar argument");
  if (box.tensor.rank() != 0) raise("", "Cannot input a tensor of dimension other than 0 as a scalar argument");
  if (to_integer && !is_int(box.tensor.dtype()))
    raise("", fmt::format("Cannot input a tensor of type {} as an integral argument", torch_name(box.tensor.dtype())));
}

double float_of_number(const IValue& v) { return v.is(IValue::Tag::Complex) ? v.to_complex().real() : v.number(); }
Complex complex_of_number(const IValue& v) { return v.is(IValue::Tag::Complex) ? v.to_complex() : Complex(v.number()); }
/// Floats are cut, and held to 32 bits, as in torch.
Int int_of_number(const IValue& v) {
  if (v.is(IValue::Tag::Int)) return v.to_int();
  double d = float_of_number(v);
  if (!(d >= -0x1p31 && d < 0x1p31)) raise("", "value cannot be converted to type int without overflow");
  return to_int(d);
}

/// complex() cuts ints to 32 bits, as torch does.
double part(const IValue& v) { return v.is(IValue::Tag::Int) ? static_cast<double>(static_cast<int32_t>(v.to_int())) : float_of_value(v); }

template <class A, class B> void complex_row(Rows& rows) {
  std::string overload = fmt::format("{}_{}", kind_name<A>(), kind_name<B>());
  rows.push_back({fmt::format("aten::Complex.{}({} x, {} y) -> complex", overload, kind_name<A>(), kind_name<B>()),
                  op([](IValue& a, IValue& b) { return Complex(part(a), part(b)); })});
}

void complex_rows(Rows& rows) {
  rows.push_back({"aten::Complex.Scalar(Scalar a) -> complex", op([](IValue& a) { return complex_of_number(a); })});
  rows.push_back({"aten::Complex.Tensor_Tensor(Tensor a, Tensor b) -> complex",
                  op([](IValue& a, IValue& b) { return Complex(float_of_value(a), float_of_value(b)); })});
  complex_row<Int, bool>(rows);
  complex_row<bool, Int>(rows);
  complex_row<double, bool>(rows);
  complex_row<bool, double>(rows);
  complex_row<double, Int>(rows);
  complex_row<Int, double>(rows);
  complex_row<Int, Int>(rows);
  complex_row<bool, bool>(rows);
  complex_row<double, double>(rows);
  complex_row<Tensor, double>(rows);
  complex_row<double, Tensor>(rows);
  complex_row<Tensor, Int>(rows);
  complex_row<Int, Tensor>(rows);
  complex_row<Tensor, bool>(rows);
  complex_row<bool, Tensor>(rows);
}

Rows make_conversion_rows() {
  Rows rows = {
      {"aten::Float.Tensor(Tensor a) -> float", op([](IValue& a) { return float_of_value(a); })},
      {"aten::Float.Scalar(Scalar a) -> float", op([](IValue& a) { return float_of_number(a); })},
      {"aten::Float.int(int a) -> float", op([](Int a) { return double{static_cast<float>(a)}; })}, // by a float of 32 bits, as in torch
      {"aten::Float.bool(bool a) -> float", op([](bool a) { return a ? 1.0 : 0.0; })},
      {"aten::Float.str(str a) -> float", of<float_of>},
      {"aten::Int.Tensor(Tensor a) -> int", op([](IValue& a) { return int_of_value(a); })},
      {"aten::Int.bool(bool a) -> int", op([](bool a) { return Int{a}; })},
      {"aten::Int.float(float a) -> int", op([](double a) { return to_int(a); })},
      {"aten::Int.Scalar(Scalar a) -> int", op([](IValue& a) { return int_of_number(a); })},
      {"aten::Int.str(str a) -> int", of<int_of>},
      {"aten::Bool.Tensor(Tensor a) -> bool", op([](Tensor& a) { return is_true(a); })},
      {"aten::Bool.int(int a) -> bool", op([](Int a) { return a != 0; })},
      {"aten::Bool.float(float a) -> bool", op([](double a) { return a != 0; })},
      {"aten::ScalarImplicit(Tensor a) -> Scalar", op([](IValue& a) {
         check_implicit(a.tensor_box(), false);
         return item(a.to_tensor());
       })},
      {"aten::FloatImplicit(Tensor a) -> float", op([](IValue& a) {
         check_implicit(a.tensor_box(), false);
         return float_of_value(a);
       })},
      {"aten::ComplexImplicit(Tensor a) -> complex", op([](IValue& a) {
         check_implicit(a.tensor_box(), false);
         return complex_of_number(item(a.to_tensor()));
       })},
      {"aten::IntImplicit(Tensor a) -> int", op([](IValue& a) {
         check_implicit(a.tensor_box(), true);
         return int_of_value(a);
       })},
  };
  complex_rows(rows);
  return rows;
}

} // namespace

std::span<const BuiltinRow> conversion_rows() {
  static const Rows rows = make_conversion_rows();
  return rows;
}

} // namespace tenon::builtins
