// std::vector<V> made of sizes alone: what a size known only in the call makes is what the number makes.
#include "tests/unit/graph_harness.h"

namespace tenon::factory_test {
using namespace tenon::test;

namespace {

using Make = std::function<std::vector<V>(Builder&, Expr, Expr)>;

/// The tensors for sizes a, b of an input, and for the same as numbers; refused alike.
void check_sizes(const Make& make, int64_t least = 0) {
  TestGraph g;
  Expr a = g.symbol("a"), b = g.symbol("b");
  g.input({a, b});
  for (const V& v : make(g.b, a, b)) g.returns(v);
  Program program = g.program();
  Executable native = program.compile().value(), oracle = program.compile({.interpret = true}).value();
  CHECK(native.stats().fallback_steps == 0);
  for (int64_t m : {0, 1, 2, 3, 4, 7, 16})
    for (int64_t n : {0, 1, 2, 5, 8, 17}) {
      if (m < least || n < least) continue;
      TestGraph fixed;
      fixed.input({m, n});
      for (const V& v : make(fixed.b, fixed.b.integer(m), fixed.b.integer(n))) fixed.returns(v);
      std::vector<Tensor> inputs{Tensor(DType::F32, {m, n})};
      auto want = run(fixed.program().compile({.interpret = true}).value(), inputs), got = run(native, inputs), also = run(oracle, inputs);
      for (size_t k = 0; k < want.size(); k++) {
        CHECK(got[k].sizes() == want[k].sizes());
        CHECK_MESSAGE(difference(got[k], want[k], 1e-6) == "", m, " ", n, ", ", k, ": ", difference(got[k], want[k], 1e-6));
        CHECK_MESSAGE(difference(also[k], want[k], 1e-6) == "", m, " ", n, ", ", k, ": ", difference(also[k], want[k], 1e-6));
      }
    }
}

} // namespace

TEST_CASE("indices of triangles") {
  for (auto op : {"aten::tril_indices.default", "aten::triu_indices.default"}) {
    check_sizes([&](Builder& b, Expr m, Expr n) {
      return std::vector<V>{b.call1(op, {Arg(m), Arg(n), 0}), b.call1(op, {Arg(m), Arg(n), 2}), b.call1(op, {Arg(m), Arg(m), -1}),
                            b.call1(op, {7, 5, Arg(m - 4.0)}), b.call1(op, {Arg(n), 6, Arg(2.0 - m)})};
    });
    TestGraph g;
    CHECK_THROWS_AS(g.b.call(op, {-1, 3, 0}), Error);
  }
  // torch.tril_indices(3, 4, 1), torch.triu_indices(4, 3, -1), torch.triu_indices(2, 3, 5)
  TestGraph g;
  g.input({1});
  g.returns(g.b.call1("aten::tril_indices.default", {3, 4, 1}));
  g.returns(g.b.call1("aten::triu_indices.default", {4, 3, -1}));
  g.returns(g.b.call1("aten::triu_indices.default", {2, 3, 5}));
  auto out = run(g.program().compile().value(), {Tensor(DType::F32, {1})});
  CHECK(numbers(out[0]) == std::vector<double>{0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1, 0, 1, 2, 0, 1, 2, 3});
  CHECK(numbers(out[1]) == std::vector<double>{0, 0, 0, 1, 1, 1, 2, 2, 3, 0, 1, 2, 0, 1, 2, 1, 2, 2});
  CHECK(out[2].sizes() == std::vector<int64_t>{2, 0});
}

TEST_CASE("sequences and windows") {
  check_sizes([](Builder& b, Expr m, Expr n) {
    return std::vector<V>{b.call1("aten::linspace.default", {0.5, 3, Arg(m)}),
                          b.call1("aten::linspace.default", {Arg(m), Arg(n), Arg(n)}),
                          b.call1("aten::linspace.default", {0, Arg(n), Arg(m)}, {{"dtype", DType::I64}}),
                          b.call1("aten::logspace.default", {0.5, 2, Arg(n), 2.0}),
                          b.call1("aten::eye.m", {Arg(m), Arg(n)}),
                          b.call1("aten::arange.start_step", {Arg(m), Arg(n + m), 2}),
                          b.call1("aten::range.step", {0, Arg(m), 1}),
                          b.call1("aten::full.default", {ArgList{Arg(m), 2}, Arg(n)})};
  });
  for (bool periodic : {true, false})
    check_sizes([&](Builder& b, Expr m, Expr) {
      std::vector<V> out;
      for (auto op : {"aten::hann_window.periodic", "aten::hamming_window.periodic", "aten::blackman_window.periodic",
                      "aten::bartlett_window.periodic", "aten::kaiser_window.periodic"})
        out.push_back(b.call1(op, {Arg(m), periodic}));
      return out;
    });
  check_sizes(
      [](Builder& b, Expr m, Expr n) {
        return std::vector<V>{b.call1("aten::fft_fftfreq.default", {Arg(m), 0.5}), b.call1("aten::fft_rfftfreq.default", {Arg(n)})};
      },
      1);
}

} // namespace tenon::factory_test
