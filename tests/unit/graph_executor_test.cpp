// The graph executor: what it compiles gives what the interpreter gives, for sizes it has seen and for others; what it leaves to the
// interpreter, it says.
#include <doctest/doctest.h>

#include "compile/compile.h"
#include "executor/graph_executor.h"
#include "executor/interpreter.h"
#include "ops/names.h"
#include "script/script.h"
#include "tests/fuzz/script_runs.h"

namespace tenon::graph_executor_test {

using executor::GraphExecutor;

namespace {

Graph graph_of(const std::string& body) {
  std::string source = "import torch\nfrom typing import List, Tuple, Optional\n" + body;
  return std::move(script::compile_script(source, "f.py", "f").graph);
}

Tensor sequence(std::vector<int64_t> sizes, float from = -1) {
  Tensor t(DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = from + 0.25f * static_cast<float>((i * 7) % 13);
  return t;
}

struct Function {
  const char* name;
  const char* source;
  std::vector<IValue> (*args)(int64_t n); // for sizes of n
};

const Function functions[] = {
    {"branch on a value",
     "def f(x: torch.Tensor, k: int):\n    if float(x.sum()) > 0.0:\n        y, n = x * 2, k + 1\n    else:\n        y, n = x - 1, k\n"
     "    return y, n\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 3}, n % 2 ? 1.0f : -9.0f), n}; }},
    {"loop over rows",
     "def f(x: torch.Tensor):\n    out: List[torch.Tensor] = []\n    h = torch.zeros_like(x[0])\n    for i in range(x.size(0)):\n"
     "        h = torch.tanh(h + x[i])\n        out.append(h)\n    return torch.stack(out), h\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 4})}; }},
    {"while loop",
     "def f(x: torch.Tensor, limit: float):\n    n = 0\n    while bool(x.abs().max() > limit) and n < 40:\n        x = x * 0.8\n        n "
     "+= 1\n"
     "    return x, n\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n}), 0.1}; }},
    {"early return",
     "def f(x: torch.Tensor, limit: float):\n    for i in range(6):\n        x = x + 1\n        if float(x.sum()) > limit:\n            "
     "return x\n"
     "    return -x\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n}), 3.0 * static_cast<double>(n)}; }},
    {"writes to views in a loop",
     "def f(x: torch.Tensor, n: int):\n    y = torch.zeros_like(x)\n    for i in range(x.size(0)):\n        y[i] = x[i] * i\n        "
     "y[0].add_(x[i])\n"
     "    return y\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 2}), n}; }},
    {"a write to an argument", "def f(x: torch.Tensor):\n    x[0].mul_(2)\n    x.add_(1)\n    return x.sum(0)\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 2})}; }},
    {"writes in branches",
     "def f(x: torch.Tensor):\n    y = x.clone()\n    v = y[0]\n    if bool(x.sum() > 0):\n        v.add_(1)\n    else:\n        "
     "y.mul_(3)\n"
     "    return y + v\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 3}, n % 2 ? 1.0f : -9.0f)}; }},
    {"lists and tuples",
     "def f(xs: List[torch.Tensor], p: Tuple[torch.Tensor, int]):\n    y, k = p\n    for x in xs:\n        y = y + x * k\n    return [y, "
     "xs[0] + y], (y * 2, k)\n",
     [](int64_t n) {
       return std::vector<IValue>{IValue::list({sequence({n}), sequence({n}, 2)}), IValue::tuple({sequence({n}, 3), int64_t{3}})};
     }},
    {"products of rows",
     "def f(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor):\n    for i in range(x.size(0)):\n        h = torch.tanh(torch.mm(x[i], w) "
     "+ h)\n    return h\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 2, 3}), sequence({3, 5}), sequence({2, 5})}; }},
    {"a copy, as it was before a write",
     "def f(x: torch.Tensor):\n    y = x * 2\n    rows = (x * x).contiguous()\n    u = y.t().contiguous().view(3, -1)\n    w = "
     "y.t().reshape(-1)\n    for k in range(2):\n        x = x - y\n    rows[0] = 5\n    return x, u + 0, w + 0, rows\n",
     [](int64_t n) { return std::vector<IValue>{sequence({n, 3})}; }},
};

std::vector<IValue> interpreted(const Graph& g, std::vector<IValue> args) {
  return executor::run(executor::build_code(g), std::move(args));
}

} // namespace

TEST_CASE("graph executor: plans give what the interpreter gives, for sizes that it has seen and for others") {
  for (const Function& f : functions) {
    INFO(std::string(f.name));
    Graph g = graph_of(f.source);
    GraphExecutor executor(Graph(g), {.calls_before_plan = 0, .threads = 1});
    for (int64_t n : {5, 5, 2, 3, 7, 1, 5, 16, 17}) {
      INFO("size ", n);
      std::vector<IValue> ours = f.args(n), theirs = f.args(n);
      std::vector<IValue> got = executor.run(ours), want = interpreted(g, theirs);
      CHECK(fuzz::difference(IValue::list(got), IValue::list(want)) == "");
      // What is written to arguments, too.
      CHECK(fuzz::difference(IValue::list(ours), IValue::list(theirs)) == "");
    }
    for (const std::string& why : executor.why_interpreted()) FAIL_CHECK(why);
    CHECK(executor.num_plans() >= 1);
  }
}

TEST_CASE("graph executor: many sizes share one plan") {
  Graph g = graph_of(functions[1].source);
  GraphExecutor executor(Graph(g), {.calls_before_plan = 0, .threads = 1});
  for (int64_t n = 2; n < 60; n++) executor.run(functions[1].args(n));
  CHECK(executor.num_plans() <= 3);
}

TEST_CASE("graph executor: arguments that overlap are left to the interpreter, where one is written") {
  Graph g = graph_of("def f(x: torch.Tensor, y: torch.Tensor):\n    x.add_(1)\n    x.add_(y)\n    return x + y\n");
  GraphExecutor executor(Graph(g), {.calls_before_plan = 0, .threads = 1});
  Tensor a = sequence({4}), b = sequence({4});
  std::vector<IValue> got = executor.run({a, a}), want = interpreted(g, {b, b});
  CHECK(fuzz::difference(IValue::list(got), IValue::list(want)) == "");
  CHECK(fuzz::difference(IValue(a), IValue(b)) == "");
}

TEST_CASE("graph executor: errors are the interpreter's") {
  Graph g = graph_of("def f(x: torch.Tensor, y: torch.Tensor):\n    if float(x.sum()) > 1000.0:\n        raise ValueError('too large')\n   "
                     " return x + y\n");
  GraphExecutor executor(Graph(g), {.calls_before_plan = 0, .threads = 1});
  auto error = [&](std::vector<IValue> args) -> std::string {
    try {
      executor.run(std::move(args));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error({sequence({3}), sequence({3})}) == "");
  CHECK(error({sequence({3}), sequence({4})}).find("must match the size of tensor b (4)") != std::string::npos);
  CHECK(error({sequence({5}, 500), sequence({5})}).find("too large") != std::string::npos);
  CHECK(executor.num_plans() >= 1);
}

TEST_CASE("graph executor: what has no place in a plan is said") {
  Graph g = graph_of("def f(x: torch.Tensor):\n    return x[0]\n");
  GraphExecutor executor(Graph(g), {.calls_before_plan = 0});
  executor.run({sequence({2, 2})});
  REQUIRE(executor.why_interpreted().size() == 1);
  CHECK(executor.why_interpreted()[0] == "a result that is a view of an argument");
  CHECK(executor.num_plans() == 0);
}

TEST_CASE("graph executor: what may be a view or a copy is not written in a plan") {
  for (const char* copy :
       {"y.t().contiguous()", "y.t().reshape(-1)", "y.t().flatten()", "y.view(-1)[::2].contiguous()", "y[:, 1].contiguous()",
        "y[:, 1].ravel()", "y[:, 1].reshape(-1)", "y[0:1].contiguous()", "y.contiguous()", "(y.t() * 2.0).contiguous().view(-1)"}) {
    Graph g = graph_of(fmt::format("def f(x: torch.Tensor):\n    y = x * 2\n    u = {}\n    y[0] = 7\n    return u + 0\n", copy));
    GraphExecutor e(Graph(g), {.calls_before_plan = 0});
    std::vector<IValue> args{sequence({2, 3})};
    Tensor got = e.run(args)[0].to_tensor(), want = GraphExecutor(std::move(g), {.interpret = true}).run(args)[0].to_tensor();
    REQUIRE(got.numel() == want.numel());
    for (int64_t i = 0; i < want.numel(); i++) CHECK(got.contiguous().data_as<float>()[i] == want.contiguous().data_as<float>()[i]);
  }
}

TEST_CASE("graph executor: expressions that are large as trees and small as graphs") {
  std::string body = "def f(x: torch.Tensor):\n";
  for (int i = 0; i < 60; i++) body += "    x = torch.where(x > 0.5, x - 0.25, x * x + 0.125)\n";
  Graph g = graph_of(body + "    return x\n");
  GraphExecutor e(Graph(g), {.forbid_fallback = true});
  Tensor got = e.run({sequence({7})})[0].to_tensor(), want = interpreted(g, {sequence({7})})[0].to_tensor();
  for (int64_t i = 0; i < want.numel(); i++) CHECK(got.data_as<float>()[i] == doctest::Approx(want.data_as<float>()[i]));
}

TEST_CASE("graph executor: a bad call does not keep good ones from their plan") {
  Graph g = graph_of("def f(x: torch.Tensor, y: torch.Tensor):\n    return x.reshape(-1) + y\n");
  GraphExecutor executor(Graph(g), {.calls_before_plan = 0, .threads = 1});
  executor.run({sequence({2, 3}), sequence({6})});
  CHECK_THROWS_AS(executor.run({sequence({2, 4}), sequence({6})}), Error);
  size_t before = executor.num_plans();
  for (int64_t n : {3, 4, 5, 6}) executor.run({sequence({2, n}), sequence({2 * n})});
  CHECK(executor.num_plans() <= before + 2); // sizes that are equal by chance are a kind of their own
}

TEST_CASE("graph executor: where fallbacks are forbidden, a call without a plan is an error that says why") {
  Graph g = graph_of("def f(x: torch.Tensor, k: int):\n    d = {'a': x}\n    return d['a'] + k\n");
  GraphExecutor executor(Graph(g), {.forbid_fallback = true, .threads = 1});
  CHECK_THROWS_WITH_AS(executor.run({sequence({2}), int64_t{1}}),
                       "the interpreter would run this call: prim::DictConstruct on these arguments", Error);
  GraphExecutor planned(graph_of(functions[1].source), {.forbid_fallback = true, .threads = 1});
  CHECK(planned.run(functions[1].args(3)).size() == 1);
  GraphExecutor numbers(graph_of("def f(n: int):\n    return n + 1\n"), {.forbid_fallback = true});
  CHECK_THROWS_AS(numbers.run({int64_t{1}}), Error);
}

TEST_CASE("split_scans: products that do not depend on the step are made before the scan") {
  Graph g = graph_of(functions[8].source);
  executor::Lifted lifted = executor::lift(g, functions[8].args(150), executor::Sizes::Known);
  lower(lifted.program, "backend");
  const Graph& out = lifted.program.graph;
  size_t inside = 0, scans = 0;
  auto count = [&](auto& self, BlockId block, bool in_scan) -> void {
    for (NodeId id : out.block(block).nodes) {
      const Node& n = out.node(id);
      scans += n.op == prim::Scan;
      inside += in_scan && n.op == own::matmul;
      for (BlockId b : n.blocks) self(self, b, in_scan || n.op == prim::Scan);
    }
  };
  count(count, out.top(), false);
  CHECK(scans == 1);
  CHECK(inside == 0);
}

} // namespace tenon::graph_executor_test
