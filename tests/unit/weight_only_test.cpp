// Weights of 4 and 8 bits with scales by group: whatever unpacks and dequantizes them, products read them packed.
#include <cmath>
#include <limits>
#include <random>

#include "runtime/library/weight_only.h"
#include "runtime/library_steps.h"
#include "tests/unit/graph_harness.h"

namespace tenon::weight_only_test {
using namespace tenon::test;

namespace {

struct Form {
  int64_t n, groups, group, bits;
  DType type = DType::F32;
  bool shifted = false, columns_first = false, zero_points = false;
  bool in_bytes = false; // codes of 4 bits, one to a byte
};

Tensor numbers(DType t, std::vector<int64_t> sizes, int64_t factor, int64_t modulo, double scale) {
  return filled(t, std::move(sizes), [=](int64_t i) { return static_cast<double>(i * factor % modulo - modulo / 2) * scale; });
}

ArgList list(std::initializer_list<int64_t> values) { return ArgList(values.begin(), values.end()); }

/// Codes [n, groups, group]: two nibbles in a byte, or bytes.
V codes_of(TestGraph& g, const Form& f) {
  Builder& b = g.b;
  if (f.in_bytes) return b.constant(numbers(DType::I8, {f.n, f.groups, f.group}, 37, 15, 1));
  if (f.bits == 8) return b.constant(numbers(DType::I8, {f.n, f.groups, f.group}, 37, 255, 1));
  V bytes = b.constant(filled(DType::U8, {f.n, f.groups * f.group / 2}, [](int64_t i) { return static_cast<double>(i * 73 % 256); }));
  auto signed_code = [&](V nibble) { return b.call1("aten::sub.Scalar", {b.call1("aten::_to_copy.default", {nibble, DType::I8}), 8}); };
  V low = signed_code(b.call1("aten::bitwise_and.Scalar", {bytes, 15})),
    high = signed_code(b.call1("aten::bitwise_right_shift.Tensor_Scalar", {bytes, 4}));
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
      {33, 2, 32, 4, DType::F32, false, false, false, true},
      {18, 3, 40, 4, DType::F32, true, true, false, true},
  };
  for (const Form& f : forms) {
    CAPTURE(f.n);
    CAPTURE(f.bits);
    TestGraph g;
    Expr rows = g.symbol("s0", 0);
    g.returns(product(g, f, g.input({rows, g.b.integer(f.groups * f.group)})));
    std::string backend = g.program().dump("backend").value();
    CAPTURE(backend);
    CHECK(backend.find("quantized_weight_mm") != std::string::npos);
    CHECK(backend.find(fmt::format(", {}, {}, {},", f.groups, f.group, f.bits)) != std::string::npos);
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
  V w = b.call1("aten::mul.Tensor",
                {b.call1("aten::_to_copy.default", {shifted, DType::F32}), b.constant(numbers(DType::F32, {20, 2, 1}, 11, 17, 1.0 / 64))});
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
    V scale = kind == 1 ? b.constant(numbers(DType::F32, {20, 2, 32}, 11, 17, 1.0 / 64))
                        : b.constant(numbers(DType::F32, {20, 2, 1}, 11, 17, 1.0 / 64));
    w = b.call1("aten::mul.Tensor", {w, scale});
    if (kind == 2) w = b.call1("aten::mul.Tensor", {w, w});
    g.returns(b.call1("aten::mm.default", {x, b.permute(b.call1("aten::view.default", {w, list({20, 64})}), {1, 0})}));
    CHECK(g.program().dump("backend").value().find("quantized_weight_mm") == std::string::npos);
    std::vector<Tensor> call{numbers(DType::F32, {2, 64}, 29, 101, 1.0 / 32)};
    if (kind == 0) call.push_back(numbers(DType::I8, {20, 2, 32}, 7, 15, 1));
    compare(g, {call});
  }
}

namespace {

using library::WeightOnlyKernels, library::WeightOnlyLayout;

enum class Rows { Normal, Outliers, Denormal, Huge, Sparse, Whole, Mixed };

struct Weights {
  WeightOnlyLayout layout;
  int64_t n, low;
  std::vector<float> scale, shift;
  std::vector<uint8_t> codes, packed;

  Weights(std::mt19937& random, WeightOnlyLayout l, int64_t columns, int64_t smallest, bool bytes_with_sign)
      : layout(l), n(columns), low(smallest) {
    auto per_group = static_cast<size_t>(n * l.groups);
    for (size_t i = 0; i < per_group; i++)
      scale.push_back(static_cast<float>(random() % 100 + 1) / 1000), shift.push_back(static_cast<float>(random() % 100) / 500 - 0.1f);
    for (size_t i = 0; i < per_group * static_cast<size_t>(l.group); i++)
      codes.push_back(static_cast<uint8_t>(random() % (1u << l.bits) + static_cast<uint32_t>(low)));
    packed.resize(static_cast<size_t>((n + 15) / 16 * l.bytes()));
    std::array<int64_t, 3> sizes{n, l.groups, l.group};
    std::array<int64_t, 1> bytes{static_cast<int64_t>(packed.size())};
    std::vector<LibraryTensor> in{{codes.data(), bytes_with_sign ? DType::I8 : DType::U8, sizes},
                                  {scale.data(), DType::F32, std::span(sizes).first(2)}};
    if (l.shifted) in.push_back({shift.data(), DType::F32, std::span(sizes).first(2)});
    LibraryTensor out{packed.data(), DType::U8, bytes};
    std::array<int64_t, 2> ints{l.bits, low};
    LibraryCall call{};
    call.inputs = in, call.outputs = {&out, 1}, call.ints = ints;
    CHECK(library::pack_quantized_weight(call) == nullptr);
    if (bytes_with_sign) signed_ = true;
  }
  double at(int64_t column, int64_t k) const {
    auto group = static_cast<size_t>(column * layout.groups + k / layout.group);
    uint8_t code = codes[static_cast<size_t>(column * layout.groups * layout.group + k)];
    return (signed_ ? static_cast<int8_t>(code) : code) * static_cast<double>(scale[group]) +
           (layout.shifted ? static_cast<double>(shift[group]) : 0);
  }

private:
  bool signed_ = false;
};

float element(std::mt19937& random, Rows kind) {
  double x = std::normal_distribution<double>()(random);
  switch (kind) {
  case Rows::Normal: break;
  case Rows::Outliers: x *= random() % 40 == 0 ? 100 : 1; break;
  case Rows::Denormal: x *= 1e-39; break;
  case Rows::Huge: x *= 1e34; break;
  case Rows::Sparse: x = random() % 9 == 0 ? x : 0; break;
  case Rows::Whole: x = std::round(x * 20); break;
  case Rows::Mixed: x *= std::exp2(static_cast<double>(random() % 60) - 30); break;
  }
  return static_cast<float>(x);
}

void check_rows(const WeightOnlyKernels& f, const Weights& w, std::mt19937& random, int64_t m, Rows kind, const Workers* workers) {
  int64_t k = w.layout.groups * w.layout.group;
  std::vector<float> x(static_cast<size_t>(m * k)), y(static_cast<size_t>(m * w.n), -1.f);
  for (float& v : x) v = element(random, kind);
  library::weight_only_product(f, workers, w.layout, w.low, x.data(), m, w.packed.data(), y.data(), w.n);
  for (int64_t r = 0; r < m; r++)
    for (int64_t j = 0; j < w.n; j++) {
      double sum = 0, magnitude = 0, most = 0, all = 0;
      for (int64_t i = 0; i < k; i++) {
        double a = static_cast<double>(x[static_cast<size_t>(r * k + i)]), b = w.at(j, i);
        sum += a * b, magnitude += std::abs(a * b), most = std::max(most, std::abs(b)), all += std::abs(a);
      }
      if (kind == Rows::Mixed || kind == Rows::Outliers) magnitude = all * most; // digits are those of the largest neighbours
      double error = std::abs(static_cast<double>(y[static_cast<size_t>(r * w.n + j)]) - sum);
      REQUIRE_MESSAGE(error <= 4e-7 * magnitude + 2e-45, "row ", r, " column ", j, ": error ", error, " of ", magnitude);
    }
}

} // namespace

TEST_CASE("products with packed weights are those of f64 to the last digits, by the kernels of every instruction set") {
  std::mt19937 random(7);
  Workers two(2);
  for (const WeightOnlyKernels* f : library::weight_only_kernels())
    for (WeightOnlyLayout l : {WeightOnlyLayout{4, 32, 4, false},
                               {3, 64, 4, true},
                               {1, 136, 4, true},
                               {2, 16, 4, false},
                               {2, 256, 4, false},
                               {5, 24, 8, true},
                               {2, 128, 8, false},
                               {1, 264, 8, false},
                               {1, 520, 4, true}})
      for (int64_t n : {1, 15, 17, 31, 64, 65, 131}) {
        bool with_sign = n % 2 == 1;
        Weights w(random, l, n, l.bits == 4 ? (with_sign ? -8 : 3) : with_sign ? -128 : 0, with_sign);
        int kind = static_cast<int>(n % 7);
        for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 13}) {
          CAPTURE(l.group);
          CAPTURE(l.bits);
          CAPTURE(n);
          CAPTURE(m);
          CAPTURE(kind);
          check_rows(*f, w, random, m, static_cast<Rows>(kind), m % 2 ? &two : nullptr);
          kind = (kind + 1) % 7;
        }
      }
}

TEST_CASE("rows with infinities and NaN are multiplied as the definition says, others beside them as ever") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (bool shifted : {false, true})
    for (int64_t bits : {4, 8}) {
      Form f{70, 3, 32, bits, DType::F32, shifted};
      TestGraph g;
      g.returns(product(g, f, g.input({5, 96})));
      for (float odd : {inf, -inf, nan}) {
        Tensor x = numbers(DType::F32, {5, 96}, 29, 101, 1.0 / 32);
        static_cast<float*>(x.data())[96 + 40] = odd;
        if (odd == inf) static_cast<float*>(x.data())[3 * 96] = inf, static_cast<float*>(x.data())[3 * 96 + 95] = inf;
        compare(g, {{x}});
      }
    }
}

} // namespace tenon::weight_only_test
