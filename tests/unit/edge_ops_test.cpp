// Edge constraints in the language of edge.yaml, and the user's passes.
#include <doctest/doctest.h>

#include "edge/constraints.h"
#include "ir/parse.h"
#include "load_samples.h"
#include "tenon/tenon.h"

namespace tenon::edge_ops_test {

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
  auto types = [](std::string_view op, std::string_view argument) {
    DTypes set = 0;
    for (DType t : allowed_types(op, argument).value()) set |= set_of({t});
    return set;
  };
  // The documents' example.
  CHECK((types("edge::sigmoid.default", "self") & ~u64_type) == (int_types | bool_type | float_types));
  CHECK(types("edge::sigmoid", "__ret_0") == float_types);
  CHECK(types("edge::add.Tensor", "self") == (real_types | bool_type));
  CHECK(types("edge::lt.Tensor", "__ret_0") == bool_type);
  CHECK(types("edge::gather", "index") == set_of({DType::I32, DType::I64}));
  CHECK(types("edge::add.Tensor", "alpha") == set_of({DType::F64}));
  CHECK(std::string(allowed_types("edge::nothing", "self").error().what()).find("no Edge operator edge::nothing") != std::string::npos);
  CHECK_FALSE(allowed_types("edge::sigmoid", "dim"));
  CHECK_FALSE(allowed_types("edge::sigmoid", "__ret_1"));
}

TEST_CASE("which dtypes go together") {
  auto check = [](std::string_view params, std::string_view result, std::string_view call) {
    Graph g = parse_graph(fmt::format("graph({}):\n  %y : {} = {}\n  return (%y)", params, result, call)).graph;
    return error_thrown_by([&] { check_edge_types(g); }, ErrorKind::Internal);
  };
  CHECK(check("%x : Long(2)", "Float(2)", "edge::sigmoid.default(%x)") == "");
  CHECK(check("%x : Double(2)", "Double(2)", "edge::sigmoid.default(%x)") == "");
  CHECK(check("%x : Double(2)", "Float(2)", "edge::sigmoid.default(%x)").find("__ret_0 is Float, where [Double] is allowed in `%y") !=
        std::string::npos);
  CHECK(check("%x : Float(2), %i : Short(2)", "Float(2)", "edge::gather.default(%x, 0, %i, False)")
            .find("index is Short, where [Int, Long] is allowed") != std::string::npos);
  CHECK(check("%x : Float(2)", "Long()", "edge::argmax.default(%x, 0, False)") == "");
  CHECK(check("%x : Float(2)", "Int()", "edge::argmax.default(%x, 0, False)").find("[Long] is allowed") != std::string::npos);
}

TEST_CASE("constraints of a file stand for those of its operators") {
  Program program = Program::load(std::string(TENON_FIXTURES) + "/programs/mlp.pt2").value();
  CHECK(program.check_edge_types().ok());
  CHECK(program.check_edge_types(edge_types_yaml()).ok());
  std::string narrow = "- func: mm.default\n  namespace: edge\n  type_alias:\n    T0: [Double]\n  type_constraint:\n  - self: T0\n";
  CHECK(std::string(program.check_edge_types(narrow).error().what()).find("self is Float, where [Double] is allowed in `") !=
        std::string::npos);
  CHECK(std::string(program.check_edge_types("nonsense").error().what()).find("line 1") != std::string::npos);
  auto refused = [&](const std::string& what, const std::string& name_space = "  namespace: edge\n") {
    std::string text = "- func: mm.default\n" + name_space + "  type_alias:\n    T0: [Float]\n  type_constraint:\n  - " + what + ": T0\n";
    Status done = program.check_edge_types(text);
    return done.ok() ? std::string() : std::string(done.error().what());
  };
  CHECK(refused("mat2") == "");
  CHECK(refused("__ret_x") == "edge.yaml line 6: no such result: __ret_x");
  CHECK(refused("__ret_1") == "edge.yaml line 6: edge::mm.default has no argument or result __ret_1");
  CHECK(refused("mat3") == "edge.yaml line 6: edge::mm.default has no argument or result mat3");
  CHECK(refused("self", "") == "edge.yaml line 5: expected `namespace: NAME` before the constraints of mm.default");
}

TEST_CASE("integers before a function of floats, in a given Edge graph") {
  Program program = Program::parse("graph():\n    %x : [num_users=1] = placeholder[target=x]\n    %y : [num_users=1] = "
                                   "call_function[target=torch.ops.aten.sigmoid.default](args = (%x,), kwargs = {})\n    return (y,)",
                                   std::vector<ArgInfo>{{.name = "x", .dtype = DType::I64, .sizes = {"3"}}})
                        .value();
  Program given = program
                      .transform([](std::string text) {
                        CHECK(text.find("_to_copy") != std::string::npos);
                        return "graph(%x : Long(3)):\n  %y : Float(3) = edge::sigmoid.default(%x)\n  return (%y)\n";
                      })
                      .value();
  Tensor x(DType::I64, {3});
  for (int i = 0; i < 3; i++) x.data_as<int64_t>()[i] = i - 1;
  std::vector<Tensor> want, got;
  program.compile().value().run(std::vector{x}, want).check();
  given.compile().value().run(std::vector{x}, got).check();
  CHECK(std::memcmp(got.at(0).data(), want.at(0).data(), 12) == 0);
  auto refused = program.transform([](const std::string&) {
    return std::string("graph(%x : Long(3)):\n  %1 : Float(3) = edge::argmax.default(%x, 0, False)\n  return (%1)\n");
  });
  CHECK_FALSE(refused);
}

TEST_CASE("a file of edge.yaml") {
  auto ops = parse_edge_yaml("# written by hand\n- func: add.Tensor\n  namespace: edge\n  inherits: aten::add.Tensor\n  type_alias:\n    "
                             "T0: [Float, Long]\n    T1: []\n"
                             "  type_constraint:\n  - self: T0\n    __ret_0: T0\n  - self: T1\n");
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].name() == "edge::add.Tensor");
  CHECK(*ops[0].alias("T0") == set_of({DType::F32, DType::I64}));
  CHECK(ops[0].constraints.size() == 2);
  auto refused = [](std::string_view text) { return error_thrown_by([&] { parse_edge_yaml(text); }); };
  CHECK(refused("namespace: edge").find("line 1: expected `- func") != std::string::npos);
  CHECK(refused("- func: a\n  type_alias:\n    T0: [Floaty]").find("line 3: no such type: Floaty") != std::string::npos);
  CHECK(refused("- func: a\n  type_constraint:\n  - self: T7").find("no such alias") != std::string::npos);
  CHECK(refused("- func: a\n  nothing: 1").find("unknown key") != std::string::npos);
}

TEST_CASE("a node that no constraint allows") {
  auto check = [](std::string_view call) {
    Graph g = parse_graph(fmt::format("graph(%x : Float(2), %i : Long(2)):\n  %y : Float(2) = {}\n  return (%y)", call)).graph;
    return error_thrown_by([&] { check_edge_types(g); }, ErrorKind::Internal);
  };
  CHECK(check("edge::exp.default(%x)") == "");
  CHECK(check("edge::floor.default(%i)").find("__ret_0 is Float, where [Long] is allowed") != std::string::npos);
  CHECK(check("edge::mul.Tensor(%x, %i)").find("other is Long, where [Float] is allowed in `%y : Float(2) = edge::mul.Tensor(%x, %i)`") !=
        std::string::npos);
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

} // namespace tenon::edge_ops_test
