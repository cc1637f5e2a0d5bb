// What is the same along an outer axis is computed once for several of its values: the interpreter's results at all sizes.
#include "tests/unit/graph_harness.h"

namespace tenon::shared_axis_test {
using namespace tenon::test;

namespace {

Tensor waves(std::vector<int64_t> sizes) {
  return filled(DType::F32, std::move(sizes), [](int64_t i) { return std::sin(0.37 * static_cast<double>(i % 7919)); });
}

} // namespace

TEST_CASE("shared axis: neighbours of an image in all channels") {
  for (int64_t channels : {1, 2, 7, 8, 9, 17, 64})
    for (bool dynamic : {false, true}) {
      TestGraph g;
      auto size = [&](const char* name, int64_t n) { return dynamic ? g.symbol(name) : g.b.integer(n); };
      V x = g.input({size("s0", 2), size("s1", channels), g.b.integer(13), g.b.integer(17)}),
        at = g.input({size("s0", 2), g.b.integer(31), g.b.integer(29), g.b.integer(2)});
      g.returns(g.b.call1("aten::grid_sampler_2d.default", {x, at, 0, 0, false}));
      g.returns(g.b.call1("aten::upsample_bilinear2d.default", {x, ArgList{40, 37}, false}));
      compare(g, {{waves({2, channels, 13, 17}), waves({2, 31, 29, 2})}});
    }
}

TEST_CASE("shared axis: a row that all rows take") {
  for (int64_t rows : {1, 3, 8, 33, 257}) {
    TestGraph g;
    Expr n = g.symbol("s0");
    V x = g.input({n, g.b.integer(1001)}), row = g.input({1001});
    V heavy = g.b.call1("aten::tanh.default", {g.b.call1("aten::lgamma.default", {row})});
    g.returns(x * heavy);
    g.returns(g.b.call1("aten::where.self", {g.b.call1("aten::gt.Scalar", {x, 0}), heavy, x}));
    compare(g, {{waves({rows, 1001}), waves({1001})}, {waves({0, 1001}), waves({1001})}});
  }
}

TEST_CASE("sums are stored along an axis of three digits, wherever what is known of these is kept") {
  for (int round = 0; round < 8; round++) {
    TestGraph g;
    Expr n = g.symbol("s0", 1), side = g.b.integer(7);
    V x = g.input({n, side, side, g.b.integer(8), g.b.integer(4)}), row = g.input({392});
    V sums = g.b.call1("aten::sum.dim_IntList", {x, ArgList{4}});
    g.returns(g.b.reshape(g.b.call1("aten::permute.default", {sums, ArgList{0, 3, 1, 2}}), {n, g.b.integer(392)}) * row);
    if (round == 0) compare(g, {{waves({3, 7, 7, 8, 4}), waves({392})}});
    CHECK(g.program().compile({.threads = 1}).value().stats().steps == 1);
  }
}

} // namespace tenon::shared_axis_test
