// Reductions of many elements to few results, which run in chunks: the interpreter's results at all sizes.
#include "codegen/target.h"
#include "loops/from_region.h"
#include "tests/unit/graph_harness.h"

namespace tenon::chunked_test {
using namespace tenon::test;

namespace {

Tensor waves(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [&](int64_t i) {
    return is_float(t) ? std::sin(0.37 * static_cast<double>(i % 7919)) : static_cast<double>(i * 7919 % 101);
  });
}

V sum(TestGraph& g, V x, const ArgList& dims, bool keep = false) { return g.b.call1("aten::sum.dim_IntList", {x, dims, keep}); }

} // namespace

TEST_CASE("chunked: reductions of everything, of any size") {
  for (DType t : {DType::F32, DType::I32, DType::BF16}) {
    TestGraph g;
    V x = g.input({g.symbol("s0")}, t);
    g.returns(sum(g, x, {0}));
    g.returns(g.b.call1("aten::argmax.default", {x}));
    g.returns(g.b.call1("aten::argmin.default", {x}));
    g.returns(g.b.call1("aten::any.default", {g.b.call1("aten::gt.Scalar", {x, 100})}));
    g.returns(g.b.call1("aten::amax.default", {x, ArgList{0}}));
    std::vector<std::vector<Tensor>> calls;
    for (int64_t n : {1, 2, 63, 16384, 16385, 40000, 100003}) calls.push_back({waves(t, {n})});
    compare(g, calls);
  }
}

TEST_CASE("chunked: streams of what is computed first, in any type") {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I8, DType::U8}) {
    TestGraph g;
    V x = g.input({g.symbol("s0")}, t);
    g.returns(sum(g, g.b.call1("aten::abs.default", {x}), {0}));
    g.returns(g.b.call1("aten::amax.default", {g.b.call1("aten::mul.Scalar", {x, 3}), ArgList{0}}));
    g.returns(g.b.call1("aten::amax.default", {g.b.call1("aten::gt.Scalar", {x, 0}), ArgList{0}}));
    if (is_float(t)) g.returns(g.b.call1("aten::amax.default", {g.b.call1("aten::floor.default", {x}), ArgList{0}}));
    if (is_float(t)) g.returns(g.b.call1("aten::amin.default", {g.b.call1("aten::exp.default", {x}), ArgList{0}}));
    std::vector<std::vector<Tensor>> calls;
    for (int64_t n : {1, 32768, 40001, 100003}) calls.push_back({waves(t, {n})});
    compare(g, calls);
  }
}

TEST_CASE("chunked: the first of equal extremes, and NaN") {
  TestGraph g;
  V x = g.input({50000});
  g.returns(g.b.call1("aten::argmax.default", {x}));
  g.returns(g.b.call1("aten::amax.default", {x, ArgList{0}}));
  auto with = [](std::initializer_list<std::pair<int64_t, double>> values) {
    Tensor t = filled(DType::F32, {50000}, [](int64_t i) { return static_cast<double>(i % 10); });
    for (auto& [i, v] : values) t.data_as<float>()[i] = static_cast<float>(v);
    return t;
  };
  double nan = std::nan("");
  compare(g, {{with({})}, {with({{49999, 11}, {20000, 11}})}, {with({{30000, nan}, {45000, nan}, {10, 20}})}});
}

TEST_CASE("chunked: passes that wait for each other") {
  TestGraph g;
  Expr n = g.symbol("s0", 2);
  V x = g.input({n, g.b.integer(7)});
  g.returns(g.b.call1("aten::var.correction", {x}, {{"correction", 1}}));
  V norm = g.b.call1("aten::sqrt.default", {sum(g, x * x, {0, 1})});
  g.returns(x / norm);
  g.returns(sum(g, x / norm, {1}));
  g.returns(g.b.call1("aten::softmax.int", {g.b.reshape(x, {n * 7.0}), 0}));
  compare(g, {{waves(DType::F32, {2, 7})}, {waves(DType::F32, {5000, 7})}, {waves(DType::F32, {12345, 7})}});
}

TEST_CASE("chunked: columns, rows and axes apart") {
  for (auto sizes : std::vector<std::vector<int64_t>>{
           {40000, 3}, {3, 40000}, {20000, 40}, {2, 20000, 5}, {200, 3, 400}, {1, 70000}, {70000, 1}, {33000, 130}}) {
    TestGraph g;
    V x = g.input([&] {
      std::vector<Expr> e;
      for (int64_t s : sizes) e.push_back(g.b.integer(s));
      return e;
    }());
    g.returns(sum(g, x, {0}));
    g.returns(sum(g, x, {static_cast<int64_t>(sizes.size()) - 1}));
    if (sizes.size() > 2) g.returns(sum(g, x, {0, 2}, true)), g.returns(sum(g, x, {1}));
    g.returns(g.b.call1("aten::argmax.default", {x, 0}));
    compare(g, {{waves(DType::F32, sizes)}});
  }
}

TEST_CASE("chunked: nothing to reduce, no results") {
  TestGraph g;
  V x = g.input({g.symbol("s0"), g.b.integer(40000)}), y = g.input({g.symbol("s1")});
  g.returns(sum(g, x, {1}));
  g.returns(sum(g, y, {0}));
  compare(g, {{waves(DType::F32, {0, 40000}), waves(DType::F32, {0})}, {waves(DType::F32, {2, 40000}), waves(DType::F32, {1})}});
}

TEST_CASE("chunked: what is computed from results only is no pass over the elements") {
  TestGraph g;
  V x = g.input({784, 72});
  g.returns(g.b.call1("aten::mean.dim", {x, ArgList{0}, false}));
  compare(g, {{waves(DType::F32, {784, 72})}});
  size_t steps = host_target(Isa::Auto).avx512() ? 2 : 1; // sums of chunks, and what is made of them; narrower vectors go without chunks
  CHECK(g.program().compile({.threads = 1}).value().stats().steps == steps);
}

TEST_CASE("chunked: the same sum with any number of threads") {
  TestGraph g;
  V x = g.input({300000});
  g.returns(sum(g, x, {0}));
  Tensor in = waves(DType::F32, {300000});
  std::vector<double> sums;
  for (int threads : {1, 2, 3}) sums.push_back(numbers(run(g.program().compile({.threads = threads}).value(), {in})[0])[0]);
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == sums[2]);
}

TEST_CASE("inner products are reductions of any type") {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32}) {
    TestGraph g;
    Expr n = g.symbol("s0");
    V x = g.input({n}, t), y = g.input({n}, t);
    g.returns(g.b.call1("aten::dot.default", {x, y}));
    g.returns(g.b.call1("aten::matmul.default", {x, y}));
    compare(g, {{waves(t, {0}), waves(t, {0})}, {waves(t, {1}), waves(t, {1})}, {waves(t, {50001}), waves(t, {50001})}});
  }
}

TEST_CASE("sums of rows that are looked up go along the rows") {
  for (int64_t columns : {1, 7, 16, 64, 100})
    for (DType t : {DType::F32, DType::BF16}) {
      TestGraph g;
      Expr bags = g.symbol("s0");
      V table = g.b.constant(waves(t, {50, columns})), index = g.input({bags, g.b.integer(5)}, DType::I64);
      V rows = g.b.call1("aten::embedding.default", {table, index});
      g.returns(sum(g, rows, {1}));
      g.returns(g.b.call1("aten::amax.default", {rows, ArgList{1}}));
      g.returns(sum(g, rows, {2}));
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {1, 0, 3, 40}) calls.push_back({filled(DType::I64, {n, 5}, [](int64_t i) { return i * 17 % 50; })});
      compare(g, calls);
      compare(g, calls, {.isa = Isa::Avx2});
    }
  TestGraph g;
  V index = g.input({g.symbol("s0"), g.b.integer(10)}, DType::I64);
  g.returns(sum(g, g.b.call1("aten::embedding.default", {g.b.constant(waves(DType::F32, {50, 64})), index}), {1}));
  const char* along = host_target(Isa::Auto).avx512() ? "vector i1 < 64" : "vector i1 < 32";
  CHECK(g.program().dump("loops").value().find(along) != std::string::npos);
}

TEST_CASE("embedding bags of one length, and others") {
  for (int mode : {0, 1, 2})
    for (int64_t length : {1, 3, 10}) {
      TestGraph g;
      Expr bags = g.symbol("s0");
      V index = g.input({bags, g.b.integer(length)}, DType::I64), given = g.input({bags}, DType::I64);
      V flat = g.b.reshape(index, {bags * static_cast<double>(length)});
      V even = g.b.call1("aten::arange.start_step", {0, bags * static_cast<double>(length), length, DType::I64});
      V table = g.b.constant(waves(DType::F32, {50, 33}));
      for (V offsets : {even, given})
        for (int64_t padding : {-1, 4}) {
          Values out = g.b.call("aten::_embedding_bag.default", {table, flat, offsets, false, mode, false, Arg(), false, padding});
          g.returns(out[0]);
          if (padding < 0 && mode == 1) g.returns(out[2]);
        }
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {1, 4, 37})
        calls.push_back({filled(DType::I64, {n, length}, [](int64_t i) { return i * 17 % 50; }),
                         filled(DType::I64, {n}, [&](int64_t i) { return i * length / 2; })});
      compare(g, calls);
    }
}

} // namespace tenon::chunked_test
