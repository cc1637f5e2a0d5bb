// Weights that are read where they are stored, out x in: the results of weights that are packed, and no memory for them.
#include <doctest/doctest.h>

#include <thread>

#include "compile/build_plan.h"
#include "compile/compile.h"
#include "runtime/executable.h"
#include "tests/unit/graph_harness.h"

namespace tenon::left_weights_test {
using namespace tenon::test;

namespace {

struct Layer {
  int64_t rows, in, out;
};

Tensor noise(std::vector<int64_t> sizes, double seed) {
  return filled(DType::F32, std::move(sizes), [=](int64_t i) { return std::sin(0.37 * static_cast<double>(i) + seed); });
}

/// gelu(x w' + bias) + residual, and the plain product.
TestGraph layer(const Layer& l, bool dynamic = false) {
  TestGraph g;
  Expr rows = dynamic ? g.symbol("s0") : g.b.integer(l.rows);
  V x = g.input({rows, g.b.integer(l.in)}), residual = g.input({rows, g.b.integer(l.out)});
  V w = g.buffer("w", noise({l.out, l.in}, 0.1)), bias = g.buffer("bias", noise({l.out}, 0.7));
  g.returns(g.b.call1("aten::gelu", {g.b.matmul(x, g.b.transpose(w, 0, 1)) + bias}) + residual);
  g.returns(g.b.matmul(x * Arg(0.5), g.b.transpose(g.buffer("v", noise({l.out, l.in}, 0.4)), 0, 1)));
  return g;
}

std::shared_ptr<const LinkedPlan> plan_of(const TestGraph& g, Options options, Keep keep = {}) {
  LoadedProgram backend = g.p;
  lower(backend, "backend");
  return build_plan(std::move(backend), options, keep).plan;
}
/// Of the two weights.
size_t packed_weights(const TestGraph& g, Isa isa) { return plan_of(g, {.isa = isa})->packed.size(); }

} // namespace

TEST_CASE("weights that stay where they are stored give what packed ones give") {
  int left = 0, packed = 0;
  for (const Layer& l : {Layer{64, 192, 256}, Layer{128, 96, 320}, Layer{128, 300, 131}, Layer{65, 192, 256}, Layer{32, 1100, 257},
                         Layer{48, 67, 1000}, Layer{192, 64, 700}, Layer{1, 64, 256}, Layer{17, 33, 500}, Layer{0, 64, 256}}) {
    CAPTURE(l.rows);
    CAPTURE(l.out);
    TestGraph g = layer(l);
    std::vector<std::vector<Tensor>> calls; // from the second on they pack
    for (int i = 0; i < 12; i++) calls.push_back({noise({l.rows, l.in}, i), noise({l.rows, l.out}, i + 0.5)});
    std::vector<Options> options;
    for (Isa isa : {Isa::Avx2, Isa::Auto}) {
      for (int threads : {1, 2}) options.push_back({.threads = threads, .isa = isa});
      (packed_weights(g, isa) == 0 ? left : packed)++;
    }
    compare_each(g, calls, options);
  }
  CHECK(left > 0);
  CHECK(packed > 0);
}

TEST_CASE("weights that are stored otherwise are packed by the calls behind the first") {
  TestGraph g = layer({64, 192, 320});
  auto plan = plan_of(g, {.threads = 2});
  REQUIRE(plan->later);
  REQUIRE(plan->later->size() == 2);
  CHECK(plan->packed.empty());
  PlanRunner runner(plan, Workers(2));
  std::vector<Tensor> in{noise({64, 192}, 1), noise({64, 320}, 2)}, out;
  std::vector<TensorView> views{in[0].view(), in[1].view()};
  auto packed = [&] { return (plan->later->find(0) != nullptr) + (plan->later->find(1) != nullptr); };
  std::vector<int> seen;
  for (int i = 0; i < 4; i++) runner.run(views, out).check(), seen.push_back(packed());
  CHECK(seen == std::vector{0, 1, 2, 2}); // each call takes one: more than an eighth
}

TEST_CASE("weights stay for good where results must not change, and files hold packed ones") {
  TestGraph g = layer({64, 192, 320});
  Options options;
  options.specialization.in_background = false;
  auto plan = plan_of(g, options);
  CHECK(!plan->later);
  CHECK(plan->packed.empty());
  CHECK(plan_of(g, {}, {.objects = true})->packed.size() == 2);
}

TEST_CASE("threads that call while weights are packed get what packed ones give") {
  TestGraph g = layer({64, 192, 512});
  auto plan = plan_of(g, {.threads = 2});
  REQUIRE(plan->later);
  PlanRunner runner(plan, Workers(2));
  std::vector<Tensor> in{noise({64, 192}, 1), noise({64, 512}, 2)}, want;
  std::vector<TensorView> views{in[0].view(), in[1].view()};
  runner.run(views, want).check();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; i++) {
        std::vector<Tensor> out;
        runner.run(views, out).check();
        for (size_t k = 0; k < out.size(); k++) wrong += !difference(out[k], want[k], 1e-5).empty();
      }
    });
  threads.clear();
  CHECK(wrong == 0);
  CHECK(plan->later->find(0));
  CHECK(plan->later->find(1));
}

TEST_CASE(
    "weights are packed behind the first call where rows are few, ahead where they are of no known number or results must not change") {
  TestGraph g = layer({4, 192, 256});
  CHECK(packed_weights(g, Isa::Auto) == 0);
  auto plan = plan_of(g, {});
  REQUIRE(plan->later);
  CHECK(plan->later->size() == 2);
  Options same;
  same.specialization.in_background = false;
  CHECK(plan_of(g, same)->packed.size() == 2);
  CHECK(packed_weights(layer({64, 192, 256}, true), Isa::Auto) == 2);
}

TEST_CASE("weights of few columns stay for dot products") {
  for (const Layer& l : {Layer{500, 512, 3}, Layer{1, 64, 1}, Layer{37, 300, 10}, Layer{64, 33, 7}, Layer{257, 1100, 15}})
    for (bool dynamic : {false, true}) {
      CAPTURE(l.rows);
      CAPTURE(l.out);
      CAPTURE(dynamic);
      TestGraph g = layer(l, dynamic);
      std::vector<std::vector<Tensor>> calls;
      for (int64_t rows : {l.rows, dynamic ? int64_t{2} : l.rows, dynamic ? int64_t{0} : l.rows})
        calls.push_back({noise({rows, l.in}, 0.3), noise({rows, l.out}, 0.8)});
      for (Isa isa : {Isa::Avx2, Isa::Auto}) {
        if (l.out == 3 && !dynamic) CHECK(packed_weights(g, isa) == 0);
        compare_each(g, calls, {{.threads = 2, .isa = isa}});
      }
    }
  CHECK(plan_of(layer({500, 512, 3}), {}, {.objects = true})->packed.empty());
}

} // namespace tenon::left_weights_test
