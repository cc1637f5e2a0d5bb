// Linear layers between quantization and dequantization multiply integers, whatever views stand between.
#include "tests/unit/graph_harness.h"

namespace tenon::integer_products_test {
using namespace tenon::test;

namespace {

constexpr int64_t k = 70;

Tensor mixed(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [](int64_t i) { return static_cast<double>((i * 37 + 11) % 101 - 50) / (i % 3 == 0 ? 16 : 1); });
}

V per_tensor(TestGraph& g, V x, const char* name, DType type) {
  int64_t low = type == DType::I8 ? -128 : 0;
  return g.b.call1(std::string("quantized_decomposed::") + name + "_per_tensor.default", {x, 0.02, low + 100, low, low + 255, type});
}

/// x quantized with a scale, and where `zeros` a zero point, for each row of the last dim, and back.
V per_row(TestGraph& g, V x, bool zeros) {
  Builder& b = g.b;
  V scale = b.call1("aten::amax.default", {b.call1("aten::abs.default", {x}), ArgList{-1}, true}) * b.full({}, 1.0 / 127, DType::F32) +
            b.full({}, 1e-5, DType::F32);
  V q = b.call1("aten::clamp.default", {b.call1("aten::round.default", {x / scale}), -120, 120});
  V zero = b.call1("aten::round.default", {b.call1("aten::amax.default", {x, ArgList{-1}, true})});
  if (zeros) q = q + zero;
  q = b.call1("aten::_to_copy.default", {q, DType::I8});
  V back = b.call1("aten::_to_copy.default", {q, DType::F32});
  return (zeros ? back - zero : back) * scale;
}

V weights(TestGraph& g, int64_t n) {
  V scales = g.b.constant(filled(DType::F32, {n}, [](int64_t i) { return 0.01 * static_cast<double>(i % 3 + 1); }));
  V zeros = g.b.constant(filled(DType::I64, {n}, [](int64_t) { return 0; }));
  return g.b.call1("quantized_decomposed::dequantize_per_channel.default",
                   {g.b.constant(mixed(DType::I8, {n, k})), scales, zeros, 0, -127, 127, DType::I8});
}

/// A linear layer of a sequence, with rows known ahead or not.
void check_sequence(int64_t n, bool dynamic, bool turned, const std::function<V(TestGraph&, V)>& rounded) {
  TestGraph g;
  Expr rows = dynamic ? g.symbol("s0", 0) : g.b.integer(5);
  V x = turned ? g.input({g.b.integer(3), g.b.integer(k), rows}) : g.input({g.b.integer(3), rows, g.b.integer(k)});
  V back = rounded(g, x);
  if (turned) back = g.b.permute(back, {0, 2, 1});
  g.returns(g.b.call1("aten::linear.default", {back, weights(g, n), g.b.constant(mixed(DType::F32, {n}))}));
  CHECK(g.program().dump("backend").value().find("mm.dtype") != std::string::npos);
  std::vector<std::vector<Tensor>> calls;
  for (int64_t m : dynamic ? std::vector<int64_t>{0, 1, 5, 33} : std::vector<int64_t>{5})
    calls.push_back({mixed(DType::F32, turned ? std::vector<int64_t>{3, k, m} : std::vector<int64_t>{3, m, k})});
  compare(g, calls);
}

} // namespace

TEST_CASE("linear layers on sequences with one scale multiply integers") {
  for (DType type : {DType::U8, DType::I8})
    for (bool dynamic : {false, true})
      for (bool turned : {false, true})
        for (int64_t n : {1, 16, 37}) {
          CAPTURE(n);
          CAPTURE(turned);
          check_sequence(n, dynamic, turned,
                         [&](TestGraph& g, V x) { return per_tensor(g, per_tensor(g, x, "quantize", type), "dequantize", type); });
        }
}

TEST_CASE("linear layers on sequences with a scale for each row multiply integers") {
  for (bool zeros : {false, true})
    for (bool dynamic : {false, true})
      for (int64_t n : {1, 16, 37}) check_sequence(n, dynamic, false, [&](TestGraph& g, V x) { return per_row(g, x, zeros); });
}

} // namespace tenon::integer_products_test
