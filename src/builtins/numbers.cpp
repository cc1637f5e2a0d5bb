// Operators on ints, floats, complex numbers and bools: arithmetic, bits, comparison.
#include "builtins/arithmetic.h"

namespace tenon::builtins {

using namespace arithmetic;

namespace {

using Int = int64_t;

template <class F> void of_ints_and_floats(Rows& rows, std::string_view name, F f) {
  binary<Int, Int>(rows, name, f);
  binary<double, double>(rows, name, f);
  binary<Int, double>(rows, name, f);
  binary<double, Int>(rows, name, f);
}

template <class F> void of_all_numbers(Rows& rows, std::string_view name, F f) {
  binary<Int, Int>(rows, name, f);
  binary<Complex, Complex>(rows, name, f);
  binary<double, double>(rows, name, f);
  binary<Int, Complex>(rows, name, f);
  binary<Complex, Int>(rows, name, f);
  binary<double, Complex>(rows, name, f);
  binary<Complex, double>(rows, name, f);
  binary<Int, double>(rows, name, f);
  binary<double, Int>(rows, name, f);
  binary_scalar(rows, name, "Scalar", f);
}

void arithmetic_rows(Rows& rows) {
  of_all_numbers(rows, "aten::add", Add());
  of_all_numbers(rows, "aten::sub", Sub());
  of_all_numbers(rows, "aten::mul", Mul());
  binary<Int, Int>(rows, "aten::div", Div());
  binary<Complex, Complex>(rows, "aten::div", Div());
  binary<double, double>(rows, "aten::div", Div());
  binary_scalar(rows, "aten::div", "float", [](Real auto a, Real auto b) { return Div{}(a, b); });
  of_ints_and_floats(rows, "aten::floordiv", FloorDiv());
  binary_scalar(rows, "aten::floordiv", "Scalar", FloorDiv());
  of_ints_and_floats(rows, "aten::remainder", Remainder());
  binary_scalar(rows, "aten::remainder", "Scalar", Remainder());
  binary<Int, Int>(rows, "aten::pow", Pow());
  binary<Complex, Complex>(rows, "aten::pow", Pow());
  binary<double, double>(rows, "aten::pow", Pow());
  binary<Int, double>(rows, "aten::pow", Pow());
  binary<double, Int>(rows, "aten::pow", Pow());
  binary<double, Complex>(rows, "aten::pow", Pow());
  binary<Complex, double>(rows, "aten::pow", Pow());
  binary_scalar(rows, "aten::pow.Scalar_Scalar", "float", PowOfScalars());
  unary<Int, double, Complex>(rows, "aten::neg", Neg());
  unary_scalar(rows, "aten::neg", Neg());
  rows.push_back({"aten::pow.int_to_int(int a, int b) -> int", op([](Int a, Int b) { return to_int(Pow{}(a, b)); })});
  rows.push_back({"aten::__round_to_zero_floordiv.int(int a, int b) -> int", op([](Int a, Int b) {
                    if (b == 0) raise("ZeroDivisionError", "integer division by zero"); // torch dies of it
                    return b == -1 ? wrapped(0 - bits(a)) : a / b;
                  })});
}

/// In torch the numbers have 32 bits here.
template <class A, class B> std::tuple<double, double> mixed_divmod(A a, B b) {
  if (b == 0) raise("ZeroDivisionError", "float divmod()");
  double quotient = static_cast<double>(whole_int(std::floor(static_cast<float>(a) / static_cast<float>(b))));
  return {quotient, a - quotient * b};
}

Rows divmod_rows() {
  return {
      {"aten::divmod.int(int x, int y) -> (int, int)", op([](Int a, Int b) {
         if (b == 0) raise("ZeroDivisionError", "integer division or modulo by zero");
         return std::tuple(floor_quotient(a, b), floor_remainder(a, b));
       })},
      {"aten::divmod.float(float x, float y) -> (float, float)", op([](double a, double b) {
         if (b == 0) raise("ZeroDivisionError", "float divmod()");
         double rest = std::fmod(a, b);
         if (rest != 0 && (a < 0) != (b < 0)) rest += b;
         return std::tuple((a - rest) / b, rest);
       })},
      {"aten::divmod.int_float(int x, float y) -> (float, float)",
       op([](Int a, double b) { return mixed_divmod(static_cast<int32_t>(a), static_cast<float>(b)); })},
      {"aten::divmod.float_int(float x, int y) -> (float, float)",
       op([](double a, Int b) { return mixed_divmod(static_cast<float>(a), static_cast<int32_t>(b)); })},
  };
}

Rows bit_rows() {
  return {
      {"aten::__not__(bool self) -> bool", op([](bool a) { return !a; })},
      {"aten::__and__.bool(bool a, bool b) -> bool", op([](bool a, bool b) { return a && b; })},
      {"aten::__and__.int(int a, int b) -> int", op([](Int a, Int b) { return a & b; })},
      {"aten::__or__.bool(bool a, bool b) -> bool", op([](bool a, bool b) { return a || b; })},
      {"aten::__or__.int(int a, int b) -> int", op([](Int a, Int b) { return a | b; })},
      {"aten::__xor__.bool(bool a, bool b) -> bool", op([](bool a, bool b) { return a != b; })},
      {"aten::__xor__.int(int a, int b) -> int", op([](Int a, Int b) { return a ^ b; })},
      // By the count's lowest six bits, as the processor shifts.
      {"aten::__lshift__.int(int a, int b) -> int", op([](Int a, Int b) { return wrapped(bits(a) << (bits(b) & 63)); })},
      {"aten::__rshift__.int(int a, int b) -> int", op([](Int a, Int b) { return a >> (bits(b) & 63); })},
  };
}

template <class F> void comparison_rows(Rows& rows, std::string_view name, F f) {
  of_ints_and_floats(rows, name, f);
  binary_scalar(rows, name, "bool", f);
  binary<std::string, std::string>(rows, name, f);
}

template <class F> void equality_rows(Rows& rows, std::string_view name, F f) {
  binary<bool, bool>(rows, name, f);
  binary<Int, Int>(rows, name, f);
  binary<Complex, Complex>(rows, name, f);
  binary<double, double>(rows, name, f);
  binary<Int, double>(rows, name, f);
  binary<double, Int>(rows, name, f);
  binary<double, Complex>(rows, name, f);
  binary<Complex, double>(rows, name, f);
  binary_scalar(rows, name, "bool", f);
  binary<std::string, std::string>(rows, name, f);
}

template <class F> void choice_rows(Rows& rows, std::string_view name, F f) {
  of_ints_and_floats(rows, name, f);
  binary_scalar(rows, name, "Scalar", f);
}

Rows make_number_rows() {
  Rows rows;
  arithmetic_rows(rows);
  add_rows(rows, divmod_rows());
  add_rows(rows, bit_rows());
  equality_rows(rows, "aten::eq", Equal());
  equality_rows(rows, "aten::ne", NotEqual());
  comparison_rows(rows, "aten::lt", Less());
  comparison_rows(rows, "aten::le", LessEqual());
  comparison_rows(rows, "aten::gt", Swapped<Less>());
  comparison_rows(rows, "aten::ge", Swapped<LessEqual>());
  choice_rows(rows, "prim::min", Choose<Less>());
  choice_rows(rows, "prim::max", Choose<Swapped<Less>>());
  return rows;
}

} // namespace

std::span<const BuiltinRow> number_rows() {
  static const Rows rows = make_number_rows();
  return rows;
}

} // namespace tenon::builtins
