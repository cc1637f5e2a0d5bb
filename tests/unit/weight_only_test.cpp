// Weights of 4 and 8 bits with scales by group: whatever unpacks and dequantizes them, products read them packed.
#include "tests/unit/graph_harness.h"

using namespace tenon;
using namespace tenon::test;

namespace {

struct Form {
  int64_t n, groups, group, bits;
  DType type = DType::F32;
  bool shifted = false, columns_first = false, zero_points = false;
};

Tensor numbers(DType t, std::vector<int64_t> sizes, int64_t factor, int64_t modulo, double scale) {
  return filled(t, std::move(sizes), [=](int64_t i) { return static_cast<double>(i * factor % modulo - modulo / 2) * scale; });
}

ArgList list(std::initializer_list<int64_t> values) { return ArgList(values.begin(), values.end()); }

/// Codes [n, groups, group]: two nibbles in a byte, or bytes.
V codes_of(TestGraph& g, const Form& f) {
  Builder& b = g.b;
  if (f.bits == 8) return b.constant(numbers(DType::I8, {f.n, f.groups, f.group}, 37, 255, 1));
  V bytes = b.constant(filled(DType::U8, {f.n, f.groups * f.group / 2}, [](int64_t i) { return static_cast<double>(i * 73 % 256); }));
  auto signed_code = [&](V nibble) { return b.call1("aten::sub.Scalar", {b.call1("aten::_to_copy.default", {nibble, DType::I8}), 8}); };
  V low = signed_code(b.call1("aten::bitwise_and.Scalar", {bytes, 15})), high = signed_code(b.call1("aten::bitwise_right_shift.Tensor_Scalar", {bytes, 4}));
  V both = b.call1("aten::stack.default", {ArgList{low, high}, -1});
  return b.call1("aten::view.default", {both, list({f.n, f.groups, f.group})});
}

V product(TestGraph& g, const Form& f, V x) {
  Builder& b = g.b;
  V codes = codes_of(g, f);
  std::vector<int64_t> per_group{f.n, f.groups, 1};
  if (f.columns_first) codes = b.call1("aten::clone.default", {b.permute(codes, {1, 2, 0})}), per_group = {f.groups, 1, f.n};
  V w = b.call1("aten::_to_copy.default", {codes, f.type});
  if (f.zero_points) w = b.call1("aten::sub.Tensor", {w, b.constant(numbers(f.type, per_group, 5, 7, 1))});
  w = b.call1("aten::mul.Tensor", {w, b.constant(numbers(f.type, per_group, 11, 17, 1.0 / 64))});
  if (f.shifted) w = b.call1("aten::add.Tensor", {w, b.constant(numbers(f.type, per_group, 3, 13, 1.0 / 16))});
  int64_t k = f.groups * f.group;
  if (f.columns_first) return b.call1("aten::mm.default", {x, b.call1("aten::view.default", {w, list({k, f.n})})});
  return b.call1("aten::mm.default", {x, b.permute(b.call1("aten::view.default", {w, list({f.n, k})}), {1, 0})});
}

} // namespace

TEST_CASE("products with weights quantized by group read them packed") {
  const Form forms[] = {
      {16, 2, 32, 4},
      {17, 3, 32, 4},
      {130, 2, 64, 4, DType::F32, true},
      {5, 4, 16, 4, DType::F32, false, false, true},
      {33, 1, 128, 4, DType::F32, true, true},
      {1, 2, 24, 4},
      {70, 2, 32, 8},
      {19, 3, 40, 8, DType::F32, true, false, true},
      {48, 2, 32, 8, DType::F32, false, true},
  };
  for (const Form& f : forms) {
    CAPTURE(f.n);
    CAPTURE(f.bits);
    TestGraph g;
    Expr rows = g.symbol("s0", 0);
    g.returns(product(g, f, g.input({rows, g.b.integer(f.groups * f.group)})));
    CHECK(g.program().dump("backend").value().find("quantized_weight_mm") != std::string::npos);
    std::vector<std::vector<Tensor>> calls;
    for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 21, 0}) calls.push_back({numbers(DType::F32, {m, f.groups * f.group}, 29, 101, 1.0 / 32)});
    compare(g, calls);
    compare(g, calls, {.threads = 1});
  }
}

TEST_CASE("products of reduced floats with quantized weights round once") {
  Form f{40, 2, 32, 4, DType::BF16};
  TestGraph g, exact;
  g.returns(product(g, f, g.input({3, 64}, DType::BF16)));
  CHECK(g.program().dump("backend").value().find("quantized_weight_mm") != std::string::npos);
  Tensor x = numbers(DType::BF16, {3, 64}, 29, 101, 1.0 / 32);
  Executable native = g.program().compile().value(), oracle = g.program().compile({.interpret = true}).value();
  CHECK(difference(run(native, {x})[0], run(oracle, {x})[0], 0.05) == "");
}

TEST_CASE("codes that wrap when bytes are subtracted are the wrapped ones") {
  Form f{20, 2, 32, 8};
  TestGraph g;
  Builder& b = g.b;
  V shifted = b.call1("aten::sub.Tensor", {codes_of(g, f), b.constant(numbers(DType::I8, {20, 2, 1}, 37, 201, 1))});
  V w = b.call1("aten::mul.Tensor", {b.call1("aten::_to_copy.default", {shifted, DType::F32}), b.constant(numbers(DType::F32, {20, 2, 1}, 11, 17, 1.0 / 64))});
  g.returns(b.call1("aten::mm.default", {g.input({3, 64}), b.permute(b.call1("aten::view.default", {w, list({20, 64})}), {1, 0})}));
  CHECK(g.program().dump("backend").value().find("quantized_weight_mm") != std::string::npos);
  compare(g, {{numbers(DType::F32, {3, 64}, 29, 101, 1.0 / 32)}});
}

TEST_CASE("weights that are no codes by group stay as they are") {
  for (int kind : {0, 1, 2}) {
    TestGraph g;
    Builder& b = g.b;
    V x = g.input({2, 64});
    Form f{20, 2, 32, 4};
    V w = b.call1("aten::_to_copy.default", {kind == 0 ? g.input({20, 2, 32}, DType::I8) : codes_of(g, f), DType::F32});
    V scale = kind == 1 ? b.constant(numbers(DType::F32, {20, 2, 32}, 11, 17, 1.0 / 64)) : b.constant(numbers(DType::F32, {20, 2, 1}, 11, 17, 1.0 / 64));
    w = b.call1("aten::mul.Tensor", {w, scale});
    if (kind == 2) w = b.call1("aten::mul.Tensor", {w, w});
    g.returns(b.call1("aten::mm.default", {x, b.permute(b.call1("aten::view.default", {w, list({20, 64})}), {1, 0})}));
    CHECK(g.program().dump("backend").value().find("quantized_weight_mm") == std::string::npos);
    std::vector<Tensor> call{numbers(DType::F32, {2, 64}, 29, 101, 1.0 / 32)};
    if (kind == 0) call.push_back(numbers(DType::I8, {20, 2, 32}, 7, 15, 1));
    compare(g, {call});
  }
}
