// Edge constraints in the language of edge.yaml, and the user's passes.
#include <doctest/doctest.h>

#include "edge/constraints.h"
#include "ir/parse.h"
#include "load_samples.h"
#include "tenon/tenon.h"

using namespace tenon;

TEST_CASE("the constraints of all Edge operators are read as they are written") {
  std::string text = to_yaml(edge_ops());
  CHECK(parse_edge_yaml(text) == edge_ops());
  CHECK(edge_ops().size() > 150);
  for (const EdgeOp& op : edge_ops()) {
    INFO(op.name());
    CHECK(!op.constraints.empty());
  }
}

TEST_CASE("allowed types of an argument") {
  CHECK(allowed_types("edge::exp.default", "self") ==
        std::optional<DTypes>(static_cast<DTypes>(allowed_types("edge::exp.default", "__ret_0").value())));
  CHECK((*allowed_types("edge::exp.default", "self") & int_types) == 0); // integers are cast before
  CHECK((*allowed_types("edge::add.Tensor", "self") & set_of({DType::I64, DType::F32})) == set_of({DType::I64, DType::F32}));
  CHECK(*allowed_types("edge::lt.Tensor", "__ret_0") == bool_type);
  CHECK(*allowed_types("edge::add.Tensor", "alpha") == set_of({DType::F64}));
  CHECK_FALSE(allowed_types("edge::nothing.default", "self").has_value());
}

TEST_CASE("a file of edge.yaml") {
  auto ops = parse_edge_yaml("# written by hand\n- func: add.Tensor\n  namespace: edge\n  inherits: aten::add.Tensor\n  type_alias:\n    "
                             "T0: [Float, Long]\n    T1: []\n"
                             "  type_constraint:\n  - self: T0\n    __ret_0: T0\n  - self: T1\n");
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].name() == "edge::add.Tensor");
  CHECK(*ops[0].alias("T0") == set_of({DType::F32, DType::I64}));
  CHECK(ops[0].constraints.size() == 2);
  auto refused = [](std::string_view text) { return error_of([&] { parse_edge_yaml(text); }); };
  CHECK(refused("namespace: edge").find("line 1: expected `- func") != std::string::npos);
  CHECK(refused("- func: a\n  type_alias:\n    T0: [Floaty]").find("line 3: no such type: Floaty") != std::string::npos);
  CHECK(refused("- func: a\n  type_constraint:\n  - self: T7").find("no such alias") != std::string::npos);
  CHECK(refused("- func: a\n  nothing: 1").find("unknown key") != std::string::npos);
}

TEST_CASE("a node that no constraint allows") {
  auto check = [](std::string_view call) {
    Graph g = parse_graph(fmt::format("graph(%x : Float(2), %i : Long(2)):\n  %y : Float(2) = {}\n  return (%y)", call)).graph;
    return error_of([&] { check_edge_types(g); }, ErrorKind::Internal);
  };
  CHECK(check("edge::exp.default(%x)") == "");
  CHECK(check("edge::exp.default(%i)").find("do not allow") != std::string::npos);
  CHECK(check("edge::mul.Tensor(%x, %i)").find("`%y : Float(2) = edge::mul.Tensor(%x, %i)`") != std::string::npos);
}

TEST_CASE("a user's pass on the Edge graph") {
  Program program = Program::load(std::string(TENON_FIXTURES) + "/programs/mlp.pt2").value();
  std::vector<Tensor> inputs = program.example_inputs().value(), before, same, after;
  program.compile().value().run(inputs, before).check();
  program.transform([](const std::string& text) { return text; }).value().compile().value().run(inputs, same).check();
  REQUIRE(same.size() == before.size());
  for (size_t i = 0; i < same.size(); i++)
    CHECK(std::memcmp(same[i].data(), before[i].data(), static_cast<size_t>(same[i].numel()) * size_of(same[i].dtype())) == 0);
  int calls = 0;
  auto changed = program.transform([&](std::string text) {
    for (size_t at = 0; (at = text.find("edge::gelu.default", at)) != text.npos || (at = text.find("edge::relu.default")) != text.npos;
         calls++)
      text.replace(at, 18, "edge::abs.default");
    return text;
  });
  REQUIRE(calls > 0);
  changed.value().compile().value().run(inputs, after).check();
  CHECK(std::memcmp(after[0].data(), before[0].data(), static_cast<size_t>(before[0].numel()) * size_of(before[0].dtype())) != 0);
  CHECK_FALSE(program.transform([](const std::string&) { return std::string("graph():\n  return ()"); }));
  CHECK_FALSE(program.transform([](const std::string& text) { return text + "!"; }));
}
