// Graphs as text: what is printed reads back to the same text, and what is wrong is refused with its line.
#include <doctest/doctest.h>

#include <filesystem>

#include "compile/compile.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "load/load.h"
#include "load_samples.h"

namespace tenon::graph_text_test {

namespace {

std::vector<std::filesystem::path> fixtures() {
  std::vector<std::filesystem::path> out;
  for (auto& entry : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + "/programs"))
    if (entry.path().extension() == ".pt2") out.push_back(entry.path());
  return out;
}

std::vector<Tensor> tensors_of(const Graph& g) {
  std::vector<Tensor> out;
  for (uint32_t i = 0; i < g.num_tensors(); i++) out.push_back(g.tensor(TensorId{i}));
  return out;
}

std::string again(const std::string& text) { return to_string(parse_graph(text).graph); }
std::string refused(const std::string& text) {
  return error_thrown_by([&] { parse_graph(text); });
}

} // namespace

TEST_CASE("the fixtures' graphs read back after every stage, and are what their dialect asks") {
  setenv("TENON_VERIFY", "1", 1);
  for (auto& path : fixtures()) {
    LoadedProgram loaded = load_pt2(path.string());
    for (auto stage : {"aten", "edge", "backend"}) {
      INFO(path.filename().string() << " " << stage);
      LoadedProgram p = loaded;
      lower(p, stage);
      std::string text = to_string(p.graph);
      ParsedGraph parsed = parse_graph(text, tensors_of(p.graph));
      CHECK(parsed.missing_tensors == 0);
      CHECK(to_string(parsed.graph) == text);
      verify(parsed.graph);
      CHECK(again(text) == text); // without the tensors too
      CHECK(is_aten(p.graph) == (std::string_view(stage) == "aten"));
      CHECK(is_edge(p.graph) == (std::string_view(stage) == "edge"));
    }
  }
  unsetenv("TENON_VERIFY");
}

TEST_CASE("every form of argument and type reads back") {
  std::string text = R"(symbol s0 in [1, 64]
symbol u1 in [-inf, 7]
graph(%x : Float(s0, 8, strides=[8*s0, 1]), %n : int{u1 + 1}, %f : float, %b : bool, %t : str, %none : NoneType, %c : custom):
  %0 : Half(), %y : Bool(s0//2, (s0 + 1) % 3) = my::op.x[k=1, word='cpu'](%x, None, True, -3, 0.5, -inf, nan, inf, complex(1.0, -2.0), "a\"b\n#", 'fmt', dtype<bf16>, {s0*2 - 1}, [1, [%x, None], []])  # File "m.py", line 3, in f
  my::effect()
  %1 : Long(2, 3) = prim::Constant(tensor<i64 [2, 3] 1 -2 3 -9223372036854775808 9223372036854775807 0>)
  %2 : Float(2) = prim::Constant(tensor<f32 [2] 0.1 -inf>)
  %3 : Bool(0) = prim::Constant(tensor<bool [0]>)
  %4 : Half(1) = prim::Constant(tensor<f16 [1] 0.33325195>)
  %5 : Float(1000000, 1000000) = prim::Constant(tensor<f32 [1000000, 1000000] @5>)
  %6 : int{s0 + max(u1, 3)} = my::nested(%y)
    block0(%p : Float()):
      %q : Float() = edge::neg.default(%p)
      -> (%q, {min(s0, 4)})
    block1():
      -> ()
  return (%0, [], -9223372036854775808)
)";
  // Products are printed with their constant last.
  text.replace(text.find("8*s0"), 4, "s0*8");
  CHECK(again(text) == text);
  CHECK(parse_graph(text).missing_tensors == 1);
}

TEST_CASE("values that share a name are told apart") {
  Graph g;
  ValueId a = g.add_param(g.top(), Type::scalar(TypeKind::Int), "x"), b = g.add_param(g.top(), Type::scalar(TypeKind::Int), "x");
  ValueId odd = g.add_param(g.top(), Type::scalar(TypeKind::Int), "7 up");
  g.block(g.top()).returns = {a, b, odd};
  CHECK(to_string(g) == "graph(%x : int, %x.1 : int, %_7_up : int):\n  return (%x, %x.1, %_7_up)\n");
  CHECK(again(to_string(g)) == to_string(g));
}

TEST_CASE("arguments by keyword, and those left out") {
  ParsedGraph p = parse_graph("graph(%x : Float(2)):\n  %y : Float(2) = aten::add.Tensor(%x, alpha=2, other=%x)\n  return (%y)");
  const Node& n = p.graph.node(NodeId{0});
  CHECK(n.args.at(2) == Arg(2));
  verify(p.graph, Dialect::Aten);
}

TEST_CASE("texts that are wrong are refused with their line") {
  CHECK(refused("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu.default(%z)\n  return (%y)")
            .find("%y: line 2: %z is not defined here") == 0);
  CHECK(refused("graph(%x : Float(2), %x : int):\n  return ()").find("%x is defined twice") != std::string::npos);
  CHECK(refused("graph():\n  %y : Float() = aten::add.Tensor(1)\n  return ()").find("argument other is missing") != std::string::npos);
  CHECK(refused("graph():\n  %y : Float() = aten::add.Tensor(1, 2, alhpa=1)\n  return ()").find("no argument alhpa") != std::string::npos);
  CHECK(refused("graph():\n  %y : Float() = a::b()\n    block0():\n      %z : int = a::c()\n      -> ()\n  return (%z)")
            .find("%z is not defined here") != std::string::npos);
  CHECK(refused("graph(%x : Floaty(2)):\n  return ()").find("no such type") != std::string::npos);
  CHECK(refused("symbol s in [3, 2]\ngraph():\n  return ()").find("empty range") != std::string::npos);
  CHECK(refused("graph():\n  return (" + std::string(100000, '[')).find("nested too deeply") != std::string::npos);
  CHECK(refused("graph(%x : int{" + std::string(100000, '(')).find("nested too deeply") != std::string::npos);
  CHECK(refused("graph():\n  %c : Float(9) = prim::Constant(tensor<f32 [99999999999] 1.0>)\n  return ()").find("fewer elements") !=
        std::string::npos);
  CHECK(refused("graph():\n  %c : Float(9) = prim::Constant(tensor<f32 [9999999999, 9999999999] @0>)\n  return ()")
            .find("impossible sizes") != std::string::npos);
  CHECK(refused("graph():\n  return () more").find("more text") != std::string::npos);
  CHECK(refused("graph():\n").find("without 'return'") != std::string::npos);
}

} // namespace tenon::graph_text_test
