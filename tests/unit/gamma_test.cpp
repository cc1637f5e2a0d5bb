// lgamma, digamma and erfinv of f32 as vector code, against the C functions of doubles.
#include "expr/eval.h"
#include "tests/unit/graph_harness.h"

namespace tenon::gamma_test {
using namespace tenon::test;

namespace {

// Errors in units in the last place of the exact result, over `count` steps of the bits of floats from `from` on.
double worst_error(const char* name, uint32_t from, uint32_t step, int64_t count, Isa isa) {
  TestGraph g;
  V x = g.input({count});
  g.returns(g.b.call1(std::string("aten::") + name + ".default", {x}));
  Tensor in(DType::F32, {count});
  for (int64_t i = 0; i < count; i++) in.data_as<float>()[i] = std::bit_cast<float>(from + step * static_cast<uint32_t>(i));
  Tensor out = run(g.program().compile({.isa = isa}).value(), {in})[0];
  double worst = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = in.data_as<float>()[i], want = find_special(name)(&v), got = out.data_as<float>()[i];
    float rounded = static_cast<float>(want);
    if (std::isnan(rounded) || std::isinf(rounded) || std::isinf(got)) {
      bool same = std::isnan(rounded) ? std::isnan(got) : got == static_cast<double>(rounded);
      if (!same) FAIL_CHECK(name << "(" << v << ") = " << got << " instead of " << want);
      continue;
    }
    double ulp = std::max(std::abs(static_cast<double>(std::nextafterf(rounded, INFINITY)) - static_cast<double>(rounded)), 0x1p-149);
    worst = std::max(worst, std::abs(got - want) / ulp);
  }
  return worst;
}

} // namespace

TEST_CASE("special functions of f32 in vectors") {
  uint32_t one = std::bit_cast<uint32_t>(1.0f), minus = 0x80000000;
  for (Isa isa : {Isa::Auto, Isa::Avx2}) {
    CHECK(worst_error("lgamma", 1, 40009, 53000, isa) < 1.1); // all positive numbers, infinity and NaN
    CHECK(worst_error("lgamma", one, 1, 4000, isa) < 1.1);
    CHECK(worst_error("lgamma", one + (1 << 23) - 2000, 1, 4000, isa) < 1.1);
    CHECK(worst_error("lgamma", minus, 40009, 53000, isa) < 2);
    CHECK(worst_error("digamma", 1, 40009, 53000, isa) < 1.1);
    CHECK(worst_error("digamma", minus, 40009, 53000, isa) < 2);
    CHECK(worst_error("digamma", std::bit_cast<uint32_t>(1.4616321f) - 1000, 1, 2000, isa) < 2);
    CHECK(worst_error("erfinv", 1, 20011, 54000, isa) < 1.1);
    CHECK(worst_error("erfinv", one - 1000, 1, 1100, isa) < 1.1);
    CHECK(worst_error("erfinv", minus, 20011, 54000, isa) < 1.1);
  }
}

TEST_CASE("trigamma in vectors") {
  const double values[] = {1e-30, 1e-3,     0.1, 0.5, 1,    1.5,   2,    3.7, 7.999, 8,      9.5,  30,     1e4,
                           1e30,  INFINITY, NAN, 0,   -0.0, -1e-3, -0.5, -1,  -1.25, -2.999, -7.5, -100.3, -INFINITY};
  constexpr int64_t n = std::size(values);
  for (DType t : {DType::F32, DType::F64})
    for (Isa isa : {Isa::Auto, Isa::Avx2}) {
      TestGraph g;
      V x = g.input({n}, t);
      g.returns(g.b.call1("aten::polygamma.default", {1, x}));
      Tensor in = filled(t, {n}, [&](int64_t i) { return values[i]; }), out = run(g.program().compile({.isa = isa}).value(), {in})[0];
      std::vector<double> from = numbers(in), got = numbers(out);
      for (size_t i = 0; i < from.size(); i++) {
        double want = find_special("trigamma")(&from[i]);
        if (t == DType::F32) want = static_cast<double>(static_cast<float>(want));
        double tolerance = t == DType::F32 ? from[i] < 0 ? 1e-4 : 2.4e-7 : from[i] < 0 ? 1e-11 : 1e-14; // torch reflects in the dtype
        CAPTURE(from[i]);
        CHECK((std::isnan(want) ? std::isnan(got[i]) : got[i] == want || std::abs(got[i] - want) <= tolerance * std::abs(want)));
      }
    }
}

TEST_CASE("lengths of f32, in vectors and of other floats") {
  for (DType t : {DType::F32, DType::BF16, DType::F16, DType::F64})
    for (Isa isa : {Isa::Auto, Isa::Avx2}) {
      TestGraph g;
      V x = g.input({300}, t), y = g.input({300}, t);
      g.returns(g.b.call1("aten::hypot.default", {x, y}));
      const double values[] = {0, -0.0, 1, -3, 4, 3e38, 1e-30, INFINITY, -INFINITY, NAN, 65504, 6e-8};
      auto pick = [&](int64_t step) { return filled(t, {300}, [&, step](int64_t i) { return values[i / step % 12]; }); };
      compare(g, {{pick(1), pick(12)}}, {.isa = isa});
    }
}

TEST_CASE("neighbours of numbers, and lengths that overflow or vanish when squared") {
  const double values[] = {0,     -0.0,    1,     -1,       0.75,   5e-324,   2e-308,    1.7e308, -1.7e308,
                           1e200, -3e-200, 1e-45, -1.2e-38, 3.4e38, INFINITY, -INFINITY, NAN};
  constexpr int64_t n = std::size(values);
  for (const char* name : {"aten::nextafter.default", "aten::hypot.default"})
    for (DType t : {DType::F32, DType::F64})
      for (Isa isa : {Isa::Auto, Isa::Avx2}) {
        TestGraph g;
        V x = g.input({n * n}, t), y = g.input({n * n}, t);
        g.returns(g.b.call1(name, {x, y}));
        auto pick = [&](int64_t step) { return filled(t, {n * n}, [&, step](int64_t i) { return values[i / step % n]; }); };
        compare(g, {{pick(1), pick(n)}}, {.isa = isa});
      }
}

} // namespace tenon::gamma_test
