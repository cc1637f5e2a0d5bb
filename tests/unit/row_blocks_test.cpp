// Rows whose length is not known are taken by as many as make a block: the interpreter's results wherever blocks and rows end.
#include "tests/unit/graph_harness.h"

namespace tenon::row_blocks_test {
using namespace tenon::test;

namespace {

Tensor waves(std::vector<int64_t> sizes) {
  return filled(DType::F32, std::move(sizes), [](int64_t i) { return std::sin(0.37 * static_cast<double>(i % 7919)); });
}

// Beside the size of a block, 4096, a third of it, and as short as rows can be.
constexpr int64_t lengths[] = {0, 1, 3, 65, 1365, 4095, 4097};

} // namespace

TEST_CASE("row blocks: a row added to rows, and rows that are rolled") {
  for (bool planes : {false, true}) {
    TestGraph g;
    Expr m = g.symbol("s0"), n = g.symbol("s1");
    V x = planes ? g.input({g.b.integer(3), m, n}) : g.input({m, n}), row = g.input({n});
    g.returns(x + row);
    g.returns(g.b.call1("aten::roll.default", {x, {5}, {planes ? 1 : 0}}));
    std::vector<std::vector<Tensor>> calls;
    for (int64_t rows : {0, 1, 3, 257})
      for (int64_t length : lengths)
        calls.push_back({waves(planes ? std::vector{int64_t{3}, rows, length} : std::vector{rows, length}), waves({length})});
    compare(g, calls);
  }
}

TEST_CASE("row blocks: code depends on how long rows are, not on how many there are") {
  TestGraph g;
  Expr m = g.symbol("s0"), n = g.symbol("s1");
  V x = g.input({m, n}), row = g.input({n});
  g.returns(x + row);
  std::string plan = g.program().dump("plan").value();
  CHECK(plan.find("s0 in 0..1048576,") != std::string::npos);
  CHECK(plan.find("s1 in 0..1048576 (in code)") != std::string::npos);
}

TEST_CASE("row blocks: images padded and enlarged") {
  TestGraph g;
  Expr batch = g.symbol("s0"), h = g.symbol("s1", 4), w = g.symbol("s2", 4);
  V x = g.input({batch, g.b.integer(3), h, w});
  g.returns(g.b.call1("aten::reflection_pad2d.default", {x, {3, 1, 2, 3}}));
  g.returns(g.b.call1("aten::constant_pad_nd.default", {x, {1, 2, 0, 3}, 0.5}));
  g.returns(g.b.call1("aten::im2col.default", {x, {3, 3}, {1, 1}, {1, 1}, {1, 1}}));
  std::vector<std::vector<Tensor>> calls;
  for (auto [b, rows, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{0, 5, 5}, {1, 4, 4}, {2, 97, 61}, {1, 4, 4093}, {1, 31, 4097}, {1, 1031, 4}})
    calls.push_back({waves({b, 3, rows, columns})});
  compare(g, calls);
}

TEST_CASE("row blocks: windows") {
  for (int64_t stride : {1, 2, 3}) {
    TestGraph g;
    Expr batch = g.symbol("s0"), h = g.symbol("s1", 4), w = g.symbol("s2", 4);
    V x = g.input({batch, g.b.integer(5), h, w});
    g.returns(g.b.call1("aten::avg_pool2d.default", {x, {3, 3}, {stride, stride}, {1, 1}}));
    g.returns(g.b.call("aten::max_pool2d_with_indices.default", {x, {3, 2}, {stride, stride}, {1, 1}}).at(0));
    std::vector<std::vector<Tensor>> calls;
    for (auto [b, rows, columns] :
         {std::tuple<int64_t, int64_t, int64_t>{0, 5, 5}, {1, 4, 4}, {2, 15, 63}, {2, 16, 64}, {1, 17, 65}, {1, 33, 131}, {3, 250, 7}})
      calls.push_back({waves({b, 5, rows, columns})});
    compare(g, calls);
  }
}

TEST_CASE("row blocks: adaptive windows, of one element along a dim that keeps its size") {
  TestGraph g;
  Expr batch = g.symbol("s0"), h = g.symbol("s1", 1), w = g.symbol("s2", 1);
  V x = g.input({batch, g.b.integer(5), h, w});
  for (Expr columns : {g.b.integer(6), w}) {
    g.returns(g.b.call1("aten::adaptive_avg_pool2d.default", {x, ArgList{4, columns}}));
    for (V y : g.b.call("aten::adaptive_max_pool2d.default", {x, ArgList{4, columns}})) g.returns(y);
  }
  std::vector<std::vector<Tensor>> calls;
  for (auto [b, rows, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{0, 5, 5}, {1, 1, 1}, {2, 4, 6}, {2, 7, 65}, {1, 97, 3}, {1, 30, 30}})
    calls.push_back({waves({b, 5, rows, columns})});
  compare(g, calls);
  constexpr int64_t rows = 7, columns = 9, out = 4;
  Tensor in = waves({1, 5, rows, columns});
  std::vector<Tensor> got = run(g.program().compile({}).value(), {in});
  auto *x0 = in.data_as<float>(), *mean = got.at(3).data_as<float>(), *most = got.at(4).data_as<float>();
  for (int64_t plane = 0; plane < 5; plane++)
    for (int64_t i = 0; i < out; i++)
      for (int64_t j = 0; j < columns; j++) {
        int64_t begin = i * rows / out, end = ((i + 1) * rows + out - 1) / out;
        float sum = 0, greatest = -1;
        for (int64_t r = begin; r < end; r++) {
          float v = x0[(plane * rows + r) * columns + j];
          sum += v, greatest = std::max(greatest, v);
        }
        int64_t at = (plane * out + i) * columns + j;
        CHECK(mean[at] == doctest::Approx(sum / static_cast<float>(end - begin)));
        CHECK(most[at] == greatest);
      }
}

TEST_CASE("row blocks: every second, third or fourth element of a row") {
  for (DType type : {DType::U8, DType::BF16, DType::F32, DType::F64, DType::C64})
    for (int64_t step : {2, 3, 4}) {
      TestGraph g;
      V x = g.input({g.symbol("s0"), g.symbol("s1", 1)}, type);
      V some = g.b.call1("aten::slice.Tensor", {x, 1, 0, INT64_MAX, step});
      g.returns(some + some);
      std::vector<std::vector<Tensor>> calls;
      for (int64_t length : {1, 2, 3, 31, 33, 47, 48, 49, 95, 96, 97, 193, 500})
        calls.push_back({filled(type, {5, length}, [](int64_t i) { return static_cast<double>(i % 101); })});
      compare(g, calls);
    }
}

} // namespace tenon::row_blocks_test
