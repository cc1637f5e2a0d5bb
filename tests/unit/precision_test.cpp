// Options::precision: f32 products in fewer bits, where asked for, and the error that comes of it.
#include "tests/unit/graph_harness.h"

namespace tenon::precision_test {
using namespace tenon::test;

namespace {

Tensor wave(std::vector<int64_t> sizes, double step) {
  return filled(DType::F32, std::move(sizes), [&](int64_t i) { return std::sin(step * static_cast<double>(i)); });
}

struct Products {
  Program program;
  std::vector<Tensor> inputs;
};

Products products() {
  TestGraph g;
  V x = g.input({33, 128}), y = g.input({2, 16, 9, 9}), z = g.input({3, 20, 24});
  V linear = g.b.call1("aten::mm.default", {x, g.b.call1("aten::permute.default", {g.b.constant(wave({96, 128}, 0.7)), ArgList{1, 0}})});
  g.returns(g.b.call1("aten::relu.default", {linear}));
  ArgList one{1, 1}, none{0, 0};
  g.returns(g.b.call1("aten::convolution.default", {y, g.b.constant(wave({24, 16, 3, 3}, 0.3)), Arg(), one, one, one, false, none, 1}));
  g.returns(g.b.call1("aten::convolution.default", {y, g.b.constant(wave({16, 1, 3, 3}, 0.3)), Arg(), one, one, one, false, none, 16}));
  g.returns(g.b.call1("aten::bmm.default", {z, g.b.call1("aten::permute.default", {z, ArgList{0, 2, 1}})}));
  return {g.program(), {wave({33, 128}, 0.11), wave({2, 16, 9, 9}, 0.013), wave({3, 20, 24}, 0.17)}};
}

} // namespace

TEST_CASE("precision: results in fewer bits, and how far they are from strict ones") {
  Products p = products();
  std::vector<TensorView> views;
  for (const Tensor& t : p.inputs) views.push_back(t.view());
  CHECK(p.program.error_of({}, views).value() == 0);
  double bf16 = p.program.error_of({.precision = Precision::BF16}, views).value(),
         bytes = p.program.error_of({.precision = Precision::Int8Weights}, views).value();
  CHECK(bf16 > 1e-5);
  CHECK(bf16 < 5e-2);
  CHECK(bytes > 1e-5);
  CHECK(bytes < 8e-2);
  CHECK(!p.program.error_of({.precision = Precision::BF16}, {}).ok());
}

TEST_CASE("precision: what becomes narrow, and what does not") {
  Products p = products();
  auto count = [&](Precision precision, const std::string& what) {
    std::string text = p.program.dump("backend", {.precision = precision}).value();
    int n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++) n++;
    return n;
  };
  CHECK(count(Precision::Strict, "mm.dtype") + count(Precision::Strict, "convolution.dtype") == 0);
  CHECK(count(Precision::BF16, "mm.dtype") == 2);
  CHECK(count(Precision::BF16, "convolution.dtype") == 1); // a depthwise one has kernels of f32 alone
  CHECK(count(Precision::Int8Weights, "mm.dtype") == 1);
  CHECK(count(Precision::Int8Weights, "Char(") >= 1);
  Executable narrow = p.program.compile({.precision = Precision::BF16}).value(), strict = p.program.compile().value();
  auto a = run(narrow, p.inputs), b = run(strict, p.inputs);
  for (size_t i = 0; i < b.size(); i++) CHECK(difference(a[i], b[i], 0.1) == "");
  CHECK(difference(a[2], b[2], 0) == "");
}

TEST_CASE("precision: products in the body of a scan, whose weights are converted ahead of time") {
  TestGraph g;
  V xs = g.input({g.symbol("s0"), g.b.integer(2), g.b.integer(96)}), h = g.input({2, 96});
  V w = g.b.constant(wave({96, 96}, 0.7));
  auto out = g.b.scan({h}, {xs}, false, [&](const std::vector<V>& c, const std::vector<V>& x) {
    V next = g.b.call1("aten::tanh.default",
                       {g.b.call1("aten::mm.default", {c[0], g.b.call1("aten::permute.default", {w, ArgList{1, 0}})}) + x[0]});
    return std::vector{next, next};
  });
  for (V v : out) g.returns(v);
  std::vector<Tensor> inputs{wave({5, 2, 96}, 0.3), wave({2, 96}, 0.2)};
  auto strict = run(g.program().compile({.interpret = true}).value(), inputs);
  for (Precision p : {Precision::BF16, Precision::Int8Weights}) {
    auto narrow = run(g.program().compile({.precision = p}).value(), inputs);
    for (size_t i = 0; i < strict.size(); i++) CHECK(difference(narrow[i], strict[i], 0.2) == "");
  }
}

} // namespace tenon::precision_test
