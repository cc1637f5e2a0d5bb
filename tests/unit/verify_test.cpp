// The verifier refuses what is wrong, and says where.
#include <doctest/doctest.h>

#include "ir/parse.h"
#include "ir/verify.h"
#include "load_samples.h"

namespace tenon::verify_test {

namespace {

std::string refused(const std::string& text, Dialect dialect = Dialect::Any) {
  Graph g = parse_graph(text).graph;
  return error_thrown_by([&] { verify(g, dialect); }, ErrorKind::Internal);
}
bool says(const std::string& message, std::string_view part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("types must be what the row infers") {
  std::string text = "graph(%x : Float(2, 3)):\n  %y : Float(3, 3) = aten::relu.default(%x)  # File \"m.py\", line 7, in f\n  return (%y)";
  CHECK(says(refused(text), "result 0 is Float(3, 3), the row gives Float(2, 3) in `%y : Float(3, 3) = aten::relu.default(%x)`, from File "
                            "\"m.py\", line 7, in f"));
  CHECK(refused("symbol s in [1, 9]\ngraph(%x : Float(2, s)):\n  %y : Float(2, 3) = aten::relu.default(%x)\n  return (%y)") == "");
  CHECK(says(refused("graph(%x : Float(2, 3)):\n  %y : Half(2, 3) = aten::relu.default(%x)\n  return (%y)"), "Half"));
  CHECK(says(refused("graph(%x : Float(2, 3)):\n  %y : Float(2) = aten::mm.default(%x, %x)\n  return (%y)"), "the row"));
}

TEST_CASE("arguments must fit the schema") {
  CHECK(says(refused("graph(%x : Float(2)):\n  %y : Float(2) = aten::sum.dim_IntList(%x, 'no')\n  return (%y)"),
             "argument dim does not fit"));
  CHECK(says(refused("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu.default(None)\n  return (%y)"), "argument self does not fit"));
}

TEST_CASE("values are defined before they are used") {
  Graph g =
      parse_graph("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu.default(%x)\n  %z : Float(2) = aten::neg.default(%y)\n  return (%z)")
          .graph;
  auto& nodes = g.block(g.top()).nodes;
  std::swap(nodes[0], nodes[1]);
  CHECK(says(error_thrown_by([&] { verify(g); }, ErrorKind::Internal), "not defined there"));
  std::swap(nodes[0], nodes[1]);
  nodes.push_back(nodes[0]);
  CHECK(says(error_thrown_by([&] { verify(g); }, ErrorKind::Internal), "defined twice"));
}

TEST_CASE("blocks must fit their node") {
  CHECK(says(refused("graph(%c : Bool(), %x : Float(2)):\n  %y : Float(2) = prim::If(%c)\n    block0():\n      -> (%x)\n  return (%y)"),
             "1 blocks where 2"));
  CHECK(says(refused("graph(%c : Bool(), %x : Float(2)):\n  %y : Float(2) = prim::If(%c)\n    block0():\n      -> (%x)\n    block1():\n    "
                     "  -> (%c)\n  return (%y)"),
             "value 0 is Bool() where Float(2) is needed"));
  CHECK(says(refused("graph(%h : Float(2), %x : Float(5, 3)):\n  %l : Float(2), %s : Float(5, 2) = prim::Scan([%h], [%x])\n    block0(%a : "
                     "Float(2), %b : Float(2)):\n"
                     "      -> (%a, %a)\n  return (%l)"),
             "the scan's parameters: value 1 is Float(2) where Float(3)"));
  CHECK(says(refused("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu.default(%x)\n    block0():\n      -> ()\n  return (%y)"),
             "1 blocks where 0"));
  CHECK(says(refused("graph(%x : Float(2)):\n  %y : Float(2) = tenon::loops()\n    block0():\n      -> ()\n  return (%y)"),
             "the region's results: 0 values where 1"));
}

TEST_CASE("dialects") {
  auto text = [](std::string_view call) {
    return fmt::format("graph(%x : Float(2), %h : Half(2)):\n  %y : Float(2) = {}\n  return (%y)", call);
  };
  CHECK(says(refused(text("edge::relu.default(%x)"), Dialect::Aten), "not an operator of ATen"));
  CHECK(says(refused(text("aten::relu.default(%x)"), Dialect::Edge), "not an operator of Edge"));
  CHECK(says(refused(text("edge::mul.Tensor(%x, 2.0)"), Dialect::Edge), "operand other is a number"));
  CHECK(says(refused(text("edge::mul.Tensor(%x, %h)"), Dialect::Edge), "operand other is f16 among operands of f32"));
  CHECK(says(refused(text("edge::mul.Scalar(%x, 2.0)"), Dialect::Edge), "a composite operator"));
  CHECK(says(refused(text("edge::relu.default(%x)"), Dialect::Backend), "an operator outside of regions"));
  CHECK(refused(text("edge::relu.default(%x)"), Dialect::Edge) == "");
}

} // namespace tenon::verify_test
