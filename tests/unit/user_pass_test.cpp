// Passes of the user: PassManager, rewriting by patterns.
#include <doctest/doctest.h>

#include "tenon/tenon.h"
#include "tests/unit/load_samples.h"

namespace tenon::user_pass_test {

namespace {

Program load(const std::string& name) { return Program::load(std::string(TENON_FIXTURES) + "/programs/" + name + ".pt2").value(); }

using Values = std::vector<ir::Value>;

// A graph with inputs of Float(4), whose results `build` inserts.
ir::Graph graph_of(size_t inputs, const std::function<Values(ir::Graph&, const Values&)>& build, const char* dialect = "aten") {
  ir::Graph g(dialect);
  Values in;
  for (size_t i = 0; i < inputs; i++) in.push_back(g.addInput(ir::Type::tensor(DType::F32, {4})));
  for (ir::Value v : build(g, in)) g.registerOutput(v);
  return g;
}

std::vector<std::string> kinds(const ir::Graph& g) {
  std::vector<std::string> list;
  for (ir::Node n : g.nodes()) list.push_back(n.kind());
  return list;
}
using Kinds = std::vector<std::string>;

// sin(x) * y -> cos(x) + y
ir::Rewrite sin_mul(bool commute = false) {
  return {.inputs = 2,
          .pattern = [](ir::Graph& g, auto& x) { return Values{g.insert("aten::mul.Tensor", {g.insert("aten::sin", {x[0]}), x[1]})}; },
          .replacement =
              [](ir::Graph& g, const ir::Match& m) {
                return Values{g.insert("aten::add.Tensor", {g.insert("aten::cos.default", {m.inputs[0]}), m.inputs[1]})};
              },
          .commute = commute};
}

} // namespace

TEST_CASE("rewrite: what is found is replaced, once") {
  ir::Graph g = graph_of(2, [](ir::Graph& g, const Values& x) {
    ir::Value a = g.insert("aten::mul.Tensor", {g.insert("aten::sin", {x[0]}), x[1]});
    return Values{g.insert("aten::mul.Tensor", {g.insert("aten::sin", {a}), a})};
  });
  CHECK(find(sin_mul(), g).size() == 2);
  CHECK(replace(sin_mul(), g) == 2);
  g.lint();
  CHECK(kinds(g) == Kinds{"aten::cos.default", "aten::add.Tensor", "aten::cos.default", "aten::add.Tensor"});
  CHECK(replace(sin_mul(), g) == 0);
}

TEST_CASE("rewrite: operands that commute may be in either order, where asked for") {
  auto build = [](ir::Graph& g, const Values& x) { return Values{g.insert("aten::mul.Tensor", {x[1], g.insert("aten::sin", {x[0]})})}; };
  ir::Graph g = graph_of(2, build);
  CHECK(replace(sin_mul(), g) == 0);
  CHECK(replace(sin_mul(true), g) == 1);
  g.lint();
  // sub does not commute; add does where alpha is 1.
  auto pattern = [](const char* op, ir::Arg alpha) {
    return ir::Rewrite{
        .inputs = 2,
        .pattern = [=](ir::Graph& g,
                       auto& x) { return Values{g.insert(op, {g.insert("aten::sin.default", {x[0]}), x[1]}, {{"alpha", alpha}})}; },
        .commute = true};
  };
  for (auto [op, alpha, found] : {std::tuple("aten::add.Tensor", 1, 1), {"aten::add.Tensor", 2, 0}, {"aten::sub.Tensor", 1, 0}}) {
    CAPTURE(op);
    CAPTURE(alpha);
    ir::Graph h = graph_of(2, [&](ir::Graph& g, const Values& x) {
      return Values{g.insert(op, {x[1], g.insert("aten::sin.default", {x[0]})}, {{"alpha", alpha}})};
    });
    CHECK(find(pattern(op, alpha), h).size() == static_cast<size_t>(found));
  }
}

TEST_CASE("rewrite: inner values that are used elsewhere, filters, constants") {
  ir::Graph g = graph_of(2, [](ir::Graph& g, const Values& x) {
    ir::Value s = g.insert("aten::sin", {x[0]});
    return Values{g.insert("aten::mul.Tensor", {s, x[1]}), s};
  });
  CHECK(find(sin_mul(), g).empty());
  g.eraseOutput(1);
  ir::Rewrite filtered = sin_mul();
  filtered.filter = [](const ir::Match& m) { return m.inputs[1].get<ir::Value>().type().sizes[0].number == 5; };
  CHECK(find(filtered, g).empty());
  CHECK(find(sin_mul(), g).size() == 1);

  ir::Graph h = graph_of(1, [](ir::Graph& g, const Values& x) {
    return Values{g.insert("aten::mul.Scalar", {x[0], 2.0}), g.insert("aten::mul.Scalar", {x[0], 3})};
  });
  auto times = [](ir::Arg number) {
    return ir::Rewrite{.inputs = 1, .pattern = [=](ir::Graph& g, auto& x) { return Values{g.insert("aten::mul.Scalar", {x[0], number})}; }};
  };
  CHECK(find(times(2), h).size() == 1);
  CHECK(find(times(4), h).empty());
  ir::Rewrite any{.inputs = 2, .pattern = [](ir::Graph& g, auto& x) { return Values{g.insert("aten::mul.Scalar", {x[0], x[1]})}; }};
  std::vector<ir::Match> all = find(any, h);
  REQUIRE(all.size() == 2);
  CHECK(all[0].inputs[1].get<double>() == 2);
  CHECK(all[1].inputs[1].get<int64_t>() == 3);
}

TEST_CASE("rewrite: one input twice, several outputs, inner blocks") {
  ir::Rewrite square{
      .inputs = 1,
      .pattern = [](ir::Graph& g, auto& x) { return Values{g.insert("aten::mul.Tensor", {x[0], x[0]})}; },
      .replacement = [](ir::Graph& g, const ir::Match& m) { return Values{g.insert("aten::square.default", {m.inputs[0]})}; }};
  ir::Graph g = graph_of(2, [](ir::Graph& g, const Values& x) {
    return Values{g.insert("aten::mul.Tensor", {x[0], x[1]}), g.insert("aten::mul.Tensor", {x[1], x[1]})};
  });
  CHECK(replace(square, g) == 1);
  CHECK(kinds(g) == Kinds{"aten::mul.Tensor", "aten::square.default"});

  ir::Rewrite both{
      .inputs = 1,
      .pattern = [](ir::Graph& g, auto& x) { return Values{g.insert("aten::sin.default", {x[0]}), g.insert("aten::cos.default", {x[0]})}; },
      .replacement =
          [](ir::Graph& g, const ir::Match& m) {
            return Values{g.insert("aten::tan.default", {m.inputs[0]}), g.insert("aten::exp.default", {m.inputs[0]})};
          }};
  ir::Graph h = graph_of(2, [](ir::Graph& g, const Values& x) {
    ir::Value s = g.insert("aten::sin.default", {x[0]}), late = g.insert("aten::relu.default", {s});
    g.insert("aten::cos.default", {x[1]});
    return Values{late, g.insert("aten::cos.default", {x[0]})};
  });
  CHECK(replace(both, h) == 1);
  h.lint(); // the replacement stands before relu
  CHECK(kinds(h) == Kinds{"aten::tan.default", "aten::exp.default", "aten::relu.default", "aten::cos.default"});
}

TEST_CASE("rewrite: replacements of another type, patterns that are none") {
  auto build = [](ir::Graph& g, const Values& x) { return Values{g.insert("aten::sin.default", {x[0]})}; };
  ir::Graph g = graph_of(1, build);
  ir::Rewrite wrong{.inputs = 1, .pattern = build, .replacement = [](ir::Graph& g, const ir::Match& m) {
                      return Values{g.insert("aten::sum.default", {m.inputs[0]})};
                    }};
  CHECK(has(error_thrown_by([&] { replace(wrong, g); }), "the replacement gives Float() for sin : Float(4)"));
  ir::Rewrite unused{.inputs = 2, .pattern = build};
  CHECK(has(error_thrown_by([&] { find(unused, g); }), "does not use its input 1"));
  ir::Rewrite nothing{.inputs = 1, .pattern = [](ir::Graph&, auto& x) { return x; }};
  CHECK(has(error_thrown_by([&] { find(nothing, g); }), "does not insert"));
}

TEST_CASE("passes: a program is changed and runs") {
  Program p = load("mlp");
  // silu becomes a sigmoid.
  ir::PassManager passes("edge");
  int calls = 0;
  passes.add("to_sigmoid", [&](ir::Graph& g) {
    calls++;
    return replace(
               {.inputs = 1,
                .pattern = [](ir::Graph& g, auto& x) { return Values{g.insert("aten::silu.default", {x[0]})}; },
                .replacement = [](ir::Graph& g, const ir::Match& m) { return Values{g.insert("aten::sigmoid.default", {m.inputs[0]})}; }},
               g) > 0;
  });
  passes.add("scale_result", [](ir::Graph& g) {
    ir::Value out = g.outputs()[0];
    if (out.node().kind() == "edge::mul.Tensor") return false;
    g.block().replaceOutput(0, g.insert("aten::mul.Tensor", {out, 2}));
    return true;
  });
  passes.repeat();
  Program q = p.transform(passes).value();
  CHECK(calls >= 2);
  std::vector<Tensor> was, now;
  std::vector<Tensor> inputs = p.example_inputs().value();
  p.compile().value().run(inputs, was).check();
  q.compile({.interpret = true}).value().run(inputs, now).check();
  std::vector<Tensor> native;
  q.compile().value().run(inputs, native).check();
  CHECK(was[0].data_as<float>()[0] != now[0].data_as<float>()[0]);
  CHECK(native[0].data_as<float>()[0] == doctest::Approx(now[0].data_as<float>()[0]).epsilon(1e-4));
  // The same on the ATen graph.
  ir::PassManager aten("aten");
  aten.add("negate", [](ir::Graph& g) {
    g.block().replaceOutput(0, g.insert("aten::neg.default", {g.outputs()[0]}));
    return true;
  });
  std::vector<Tensor> negative;
  p.transform(aten).value().compile().value().run(inputs, negative).check();
  CHECK(negative[0].data_as<float>()[0] == doctest::Approx(-was[0].data_as<float>()[0]));
  CHECK_FALSE(q.transform(aten).ok()); // its graph is Edge
}

TEST_CASE("passes: in their order, each held to the dialect before the next") {
  ir::Graph g = graph_of(
      1, [](ir::Graph& g, const Values& x) { return Values{g.insert("aten::cos.default", {g.insert("aten::sin.default", {x[0]})})}; });
  std::string ran;
  auto note = [&](const char* name) { return [&ran, name](ir::Graph&) { return ran += name, false; }; };
  ir::PassManager passes("aten");
  passes.add("second", note("b")).add("first", note("a"));
  CHECK_FALSE(passes.run(g));
  CHECK(ran == "ba");
  passes.add("swap", [](ir::Graph& g) { return g.nodes().back().moveBefore(g.nodes().front()), true; }).add("last", note("c"));
  CHECK(has(error_thrown_by([&] { passes.run(g); }), "pass swap: "));
  CHECK(ran == "baba");
}

TEST_CASE("passes: errors name the pass, and end") {
  Program p = load("mlp");
  auto error = [&](const std::function<bool(ir::Graph&)>& run, int rounds = 0) {
    ir::PassManager passes;
    passes.add("mine", run);
    if (rounds) passes.repeat(rounds);
    auto q = p.transform(passes);
    REQUIRE_FALSE(q.ok());
    CHECK(q.error().kind == ErrorKind::BadInput);
    return std::string(q.error().what());
  };
  CHECK(has(error([](ir::Graph&) -> bool { throw std::runtime_error("no way"); }), "pass mine: no way"));
  CHECK(has(error([](ir::Graph& g) { return g.nodes().back().moveBefore(g.nodes().front()), true; }), "pass mine: "));
  CHECK(has(error([](ir::Graph& g) { return g.insertNode("aten::relu.default", {g.outputs()[0]}), g.nodes().back().destroy(), true; }, 3),
            "still change the graph after 3 rounds"));
  CHECK(has(error([](ir::Graph& g) { return g.addInput(ir::Type::tensor(DType::F32, {1})), true; }), "parameters"));
  // In Edge also dtypes that the operator does not allow.
  std::string types = error([](ir::Graph& g) {
    ir::Value matrix = g.insert("aten::full.default", {std::vector<ir::Arg>{2, 2}, 0}, {{"dtype", DType::Bool}});
    return g.insert("aten::mm.default", {matrix, matrix}), true;
  });
  CHECK(has(types, "pass mine: self is Bool, where [Byte, "));
  CHECK(has(types, "edge::mm.default("));
  CHECK(has(error_thrown_by([] { ir::PassManager("soup"); }), "soup"));
}

} // namespace tenon::user_pass_test
