// Products of few columns of few terms as pointwise sums, and what weights alone say before it is expanded over a
// batch.
#include <random>

#include "compile/compile.h"
#include "graph_harness.h"

namespace tenon::late_expand_test {
using namespace tenon::test;

namespace {

Tensor random(DType type, std::vector<int64_t> sizes, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal;
  return filled(type, std::move(sizes), [&](int64_t) { return normal(gen); });
}

void compare_all(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls) {
  compare(g, calls, {.threads = 1});
  compare(g, calls, {.threads = 2});
  compare(g, calls, {.threads = 2, .isa = Isa::Avx2});
}

} // namespace

TEST_CASE("products of few columns of few terms, of rows and of planes") {
  for (DType type : {DType::F32, DType::F64})
    for (auto [terms, columns] : {std::pair{1, 1}, {1, 7}, {3, 4}, {8, 1}, {8, 8}, {9, 3}}) {
      CAPTURE(terms);
      CAPTURE(columns);
      TestGraph g;
      Expr s = g.symbol("s0"), t = g.b.integer(terms), six = g.b.integer(6), five = g.b.integer(5);
      V rows = g.input({s, t}, type), planes = g.input({s, t, six, five}, type), w = g.input({columns, terms}, type),
        bias = g.input({columns}, type);
      g.returns(g.b.call1("aten::linear.default", {rows, w, bias}));
      V mixed = g.b.call1("aten::linear.default", {g.b.permute(planes, {0, 2, 3, 1}), w, bias});
      g.returns(g.b.call1("aten::softmax.int", {g.b.permute(mixed, {0, 3, 1, 2}), -1}));
      g.returns(g.b.call1("aten::linear.default", {g.b.permute(planes, {3, 0, 2, 1}), w}));
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {31, 0, 1, 17})
        calls.push_back({random(type, {n, terms}, 1), random(type, {n, terms, 6, 5}, 2), random(type, {columns, terms}, 3),
                         random(type, {columns}, 4)});
      compare_all(g, calls);
    }
}

TEST_CASE("batches of products of few columns of few terms") {
  for (DType type : {DType::F32, DType::F64})
    for (auto [terms, columns] : {std::pair{1, 3}, {3, 3}, {8, 5}}) {
      TestGraph g;
      Expr s = g.symbol("s0"), t = g.b.integer(terms), n = g.symbol("s1");
      V points = g.input({s, n, t}, type), planes = g.input({s, t, n}, type), w = g.input({s, t, g.b.integer(columns)}, type);
      g.returns(g.b.call1("aten::bmm.default", {points, w}));
      g.returns(g.b.call1("aten::relu.default", {g.b.transpose(g.b.call1("aten::bmm.default", {g.b.transpose(planes, 1, 2), w}), 1, 2)}));
      std::vector<std::vector<Tensor>> calls;
      for (auto [batch, rows] : {std::pair<int64_t, int64_t>{3, 65}, {0, 4}, {1, 1}, {2, 0}, {5, 31}})
        calls.push_back(
            {random(type, {batch, rows, terms}, 1), random(type, {batch, terms, rows}, 2), random(type, {batch, terms, columns}, 3)});
      compare_all(g, calls);
    }
}

TEST_CASE("a softmax of weights, expanded over the batch, is computed once") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(4), g.b.integer(53), g.b.integer(53)});
  V positions = g.buffer("positions", random(DType::F32, {1, 53, 53, 3}, 1)), w = g.buffer("w", random(DType::F32, {4, 3}, 2));
  V everywhere = g.b.expand(positions, {s, g.b.integer(53), g.b.integer(53), g.b.integer(3)});
  V scores = g.b.permute(g.b.call1("aten::linear.default", {everywhere, w}), {0, 3, 1, 2});
  V weights = g.b.call1("aten::softmax.int", {scores, -1});
  g.returns(x * Arg(0.25) + weights * Arg(0.75));
  g.returns(g.b.sum(scores, {0}, true)); // over what is repeated
  LoadedProgram lowered = g.p;
  lower(lowered, "backend");
  const Graph& graph = lowered.graph;
  for (NodeId id : graph.block(graph.top()).nodes) {
    bool softmax = false;
    for (BlockId b : graph.node(id).blocks)
      for (NodeId n : graph.block(b).nodes) softmax |= graph.node(n).op == "edge::exp.default";
    CHECK(!softmax);
  }
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {2, 0, 1, 5}) calls.push_back({random(DType::F32, {n, 4, 53, 53}, 3)});
  compare_all(g, calls);
}

} // namespace tenon::late_expand_test
