// Weights that are read where they are stored, out x in: the results of weights that are packed, and no memory for them.
#include <doctest/doctest.h>

#include "compile/build_plan.h"
#include "compile/compile.h"
#include "tests/unit/graph_harness.h"

using namespace tenon;
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

/// Of the two weights.
size_t packed_weights(const TestGraph& g, Isa isa) {
  LoadedProgram backend = g.p;
  lower(backend, "backend");
  return build_plan(std::move(backend), {.isa = isa}).plan->packed.size();
}

} // namespace

TEST_CASE("weights that stay where they are stored give what packed ones give") {
  int left = 0, packed = 0;
  for (Isa isa : {Isa::Avx2, Isa::Auto})
    for (const Layer& l : {Layer{64, 192, 256}, Layer{128, 96, 320}, Layer{128, 300, 131}, Layer{65, 192, 256}, Layer{32, 1100, 257},
                           Layer{48, 67, 1000}, Layer{192, 64, 700}, Layer{1, 64, 256}, Layer{17, 33, 500}, Layer{0, 64, 256}})
      for (int threads : {1, 2}) {
        CAPTURE(l.rows);
        CAPTURE(l.out);
        TestGraph g = layer(l);
        compare(g, {{noise({l.rows, l.in}, 1), noise({l.rows, l.out}, 2)}}, {.threads = threads, .isa = isa});
        (packed_weights(g, isa) == 0 ? left : packed)++;
      }
  CHECK(left > 0);
  CHECK(packed > 0);
}

TEST_CASE("weights are packed where rows are few, or of no known number") {
  CHECK(packed_weights(layer({4, 192, 256}), Isa::Auto) == 2);
  CHECK(packed_weights(layer({64, 192, 256}, true), Isa::Auto) == 2);
}
