// Graphs of TorchScript by hand: inserted, changed, refused.
#include <doctest/doctest.h>

#include <fstream>

#include "tenon/tenon.h"
#include "tests/fuzz/mutate_text.h"
#include "tests/unit/load_samples.h"

namespace tenon::script_graph_test {

namespace {

// tanh(x * w) + 1, on tensors of which nothing is known.
ir::Graph sample_graph() {
  ir::Graph g("script");
  ir::Value x = g.addInput(ir::Type::dynamic(), "x"), w = g.addInput(ir::Type::dynamic(), "w");
  g.registerOutput(g.insert("aten::add", {g.insert("aten::tanh", {g.insert("aten::mul", {x, w})}), 1}));
  return g;
}

} // namespace

TEST_CASE("script graph: constants become nodes, overloads are found by the types of arguments") {
  ir::Graph g = sample_graph();
  CHECK(g.dialect() == "script");
  CHECK(g.toString() == R"(graph(%x : Tensor,
      %w : Tensor):
  %0 : Tensor = aten::mul(%x, %w)
  %1 : Tensor = aten::tanh(%0)
  %2 : int = prim::Constant[value=1]()
  %3 : int = prim::Constant[value=1]()
  %4 : Tensor = aten::add(%1, %2, %3)
  return (%4)
)");
  CHECK(g.toString2018().starts_with("graph(%x : Dynamic\n      %w : Dynamic) {\n"));
  ir::Node mul = g.nodes()[0], add = g.nodes().back();
  CHECK(mul.kind() == "aten::mul");
  CHECK(mul.schema() == "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor");
  CHECK(add.schema() == "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor");
  CHECK(mul.namedInput("other") == g.inputs()[1]);
  CHECK(add.is_constant("other"));
  CHECK_FALSE(add.is_constant("self"));
  CHECK(add.get<int64_t>("other") == 1);
  CHECK_FALSE(add.get<double>("other").has_value());
  CHECK(add.args().size() == 2); // alpha is the default
  ir::Value n = g.insert("aten::size", {g.inputs()[0], 0});
  CHECK(n.type().kind == ir::Type::Kind::Int);
  CHECK(g.insert("aten::add", {n, 2}).node().schema() == "aten::add.int(int a, int b) -> int");
  CHECK(g.insert("aten::sum", {g.inputs()[0], std::vector<int64_t>{0}}, {{"keepdim", true}}).node().is_constant("keepdim"));
  CHECK(g.insert("aten::to", {g.inputs()[0], DType::F64}).node().get<int64_t>("dtype") == 7);
  CHECK(g.insert("aten::reshape", {g.inputs()[0], ir::Arg::List{}}).node().input(1).type().str() == "int[]");
  g.lint();
}

TEST_CASE("script graph: what does not fit is refused, and leaves nothing") {
  ir::Graph g = sample_graph(), other = sample_graph();
  size_t before = g.nodes().size();
  CHECK(has(error_thrown_by([&] { g.insert("aten::tanh", {"text"}); }),
            "Expected a value of type 'Tensor' for argument 'self' but instead found type 'str'"));
  CHECK(has(error_thrown_by([&] { g.insert("aten::add", {g.inputs()[0]}, {{"beta", 1}}); }), "aten::add.Tensor"));
  CHECK(error_thrown_by([&] { g.insert("aten::no_such", {}); }, ErrorKind::Unsupported) == "aten::no_such");
  CHECK(has(error_thrown_by([&] { g.insert("aten::tanh", {other.inputs()[0]}); }), "another graph"));
  CHECK(has(error_thrown_by([&] { g.insert("aten::tanh", {ir::Value()}); }), "empty Value"));
  CHECK(has(error_thrown_by([&] { g.insert("aten::cat", {ir::Arg::List{1, "a"}}); }), "elements of different types"));
  CHECK(g.nodes().size() == before);
  CHECK(has(error_thrown_by([&] { g.nodes()[0].replaceInput(0, g.nodes()[2].output()); }), "replaceInput: %x is Tensor, %2 int"));
  CHECK(has(error_thrown_by([&] { g.nodes()[0].replaceInput(0, other.inputs()[0]); }), "another graph"));
  CHECK(has(error_thrown_by([&] { g.nodes()[0].replaceInput(7, g.inputs()[0]); }), "there are 2 inputs"));
  CHECK(has(error_thrown_by([&] { g.nodes()[0].addInput(ir::Value()); }), "another graph"));
  CHECK(has(error_thrown_by([&] { g.nodes()[0].addOutput({.kind = ir::Type::Kind::List}); }), "0 elements where 1 are needed"));
  CHECK(g.nodes()[0].outputs().size() == 1);
  CHECK(has(error_thrown_by([&] { g.addInput({.device = "cpu:x"}); }), "no such device"));
  CHECK(has(error_thrown_by([&] { ir::Graph("soup"); }), "no such dialect"));
  CHECK(has(error_thrown_by([&] { ir::Graph().propagateTypes(); }), "aten"));
  CHECK(has(error_thrown_by([&] { ir::Graph().toString2018(); }), "aten"));
  CHECK(has(error_thrown_by([&] { ir::Graph().insertConstant(ir::Arg(2)); }), "exported program"));
  CHECK(has(error_thrown_by(
                [&] { replace({.inputs = 1, .pattern = {}, .replacement = [](auto&, auto&) { return std::vector<ir::Value>(); }}, g); }),
            "patterns are for graphs of exported programs"));
}

TEST_CASE("script graph: uses, erasing what is used") {
  ir::Graph g = sample_graph();
  ir::Value x = g.inputs()[0], w = g.inputs()[1];
  ir::Node mul = g.nodes()[0], tanh = g.nodes()[1];
  REQUIRE(w.uses().size() == 1);
  CHECK(w.uses()[0].user == mul);
  CHECK(w.uses()[0].offset == 1);
  CHECK(has(error_thrown_by([&] { g.eraseInput(1); }), "is used"));
  CHECK(has(error_thrown_by([&] { mul.destroy(); }), "is used"));
  CHECK(has(error_thrown_by([&] { mul.eraseOutput(0); }), "is used"));
  w.replaceAllUsesWith(x);
  CHECK_FALSE(w.hasUses());
  REQUIRE(x.uses().size() == 2);
  CHECK(x.uses()[0].offset + x.uses()[1].offset == 1);
  g.eraseInput(1);
  mul.replaceInput(1, x);
  CHECK(x.uses().size() == 2);
  ir::Value constant = g.nodes()[2].output();
  CHECK(constant.uses().size() == 1);
  g.nodes().back().setArg("other", 2.5);
  CHECK(g.nodes().back().get<double>("other") == 2.5);
  CHECK_FALSE(constant.hasUses());
  CHECK(has(error_thrown_by([&] { g.nodes().back().setArg("other", "a"); }), "other : str does not fit the schema aten::add.Scalar("));
  CHECK(g.nodes().back().get<double>("other") == 2.5);
  CHECK(g.eliminateDeadCode());
  CHECK_FALSE(g.eliminateDeadCode());
  g.lint();
  CHECK(tanh.input(0) == mul.output());
  CHECK(g.outputs()[0].uses()[0].user == g.block().return_node());
}

TEST_CASE("script graph: a value that is used ten thousand times") {
  ir::Graph g("script");
  ir::Value x = g.addInput(ir::Type::dynamic(), "x"), y = g.addInput(ir::Type::dynamic(), "y");
  ir::Node list = g.insertNode("prim::ListConstruct", std::vector<ir::Arg>(10000, x));
  CHECK(x.uses().size() == 10000);
  CHECK(x.uses()[9999].offset == 9999);
  x.replaceAllUsesWith(y);
  CHECK(y.uses().size() == 10000);
  list.destroy();
  CHECK_FALSE(y.hasUses());
}

TEST_CASE("script graph: nodes that stand before what they use, and cycles, are found by lint") {
  ir::Graph g = sample_graph();
  ir::Node mul = g.nodes()[0], tanh = g.nodes()[1];
  tanh.moveBefore(mul);
  CHECK(has(error_thrown_by([&] { g.lint(); }), "not defined there"));
  tanh.moveAfter(mul);
  g.lint();
  mul.replaceInput(1, tanh.output());
  CHECK(has(error_thrown_by([&] { g.lint(); }), "not defined there"));
  ir::Node branch = g.insertNode("prim::If", {g.inputs()[0]});
  ir::Block inner = branch.addBlock();
  g.setInsertPoint(inner);
  ir::Node sin = g.insert("aten::sin", {g.inputs()[0]}).node();
  CHECK(has(error_thrown_by([&] { branch.moveBefore(sin); }), "a block of its own"));
  CHECK(has(error_thrown_by([&] { branch.moveAfter(branch.blocks()[0].nodes()[0]); }), "a block of its own"));
}

TEST_CASE("script graph: branches and loops, whose blocks lint compares with their node") {
  ir::Graph g("script");
  ir::Value x = g.addInput(ir::Type::dynamic(), "x"), n = g.addInput(ir::Type::simple(ir::Type::Kind::Int), "n");
  ir::Value positive = g.insert("aten::gt", {n, 0});
  ir::Node branch = g.insertNode("prim::If", {positive});
  for (std::string_view op : {"aten::sin", "aten::cos"}) {
    ir::WithInsertPoint here(branch.addBlock());
    branch.blocks().back().registerOutput(g.insert(op, {x}));
  }
  ir::Value chosen = branch.addOutput(ir::Type::dynamic());
  ir::Node loop = g.insertNode("prim::Loop", {n, true, chosen});
  ir::Block body = loop.addBlock();
  ir::Value i = body.addInput(ir::Type::simple(ir::Type::Kind::Int), "i"), carried = body.addInput(ir::Type::dynamic(), "y");
  {
    ir::WithInsertPoint here(body);
    ir::Value next = g.insert("aten::add", {carried, i});
    body.registerOutput(true);
    body.registerOutput(next);
  }
  g.registerOutput(loop.addOutput(ir::Type::dynamic()));
  g.lint();
  CHECK(g.insertPoint().block == g.block());
  CHECK(loop.blocks()[0].owningNode() == loop);
  Tensor one(DType::F32, {});
  *one.data_as<float>() = 0;
  CHECK(*Script::from(g).value()(one, int64_t{4}).to_tensor().data_as<float>() == 6); // sin(0) + 0 + 1 + 2 + 3
  CHECK(*Script::from(g).value()(one, int64_t{0}).to_tensor().data_as<float>() == 1);

  ir::Graph copy = g;
  copy.nodes()[2].blocks()[1].eraseOutput(0);
  CHECK(has(error_thrown_by([&] { copy.lint(); }), "0 results of a block where 1 are needed"));
  copy = g;
  copy.nodes()[2].blocks()[1].replaceOutput(0, 3);
  CHECK(has(error_thrown_by([&] { copy.lint(); }), "a block's result 0 is int where Tensor is needed"));
  copy = g;
  copy.nodes()[2].eraseBlock(1);
  CHECK(has(error_thrown_by([&] { copy.lint(); }), "1 blocks where 2 are needed"));
  copy = g;
  copy.nodes()[4].blocks()[0].inputs()[1].setType(ir::Type::simple(ir::Type::Kind::Float));
  CHECK(has(error_thrown_by([&] { copy.lint(); }), "where float is needed"));
  CHECK_FALSE(Script::from(copy).ok());
  copy = g;
  copy.nodes()[4].insertInput(0, copy.inputs()[0]);
  CHECK(has(error_thrown_by([&] { copy.lint(); }), "arguments where"));
}

TEST_CASE("script graph: attributes of every kind") {
  ir::Graph g("script"), inner = sample_graph();
  ir::Node node = g.insertNode("mine::group", {g.addInput(ir::Type::dynamic(), "x")});
  CHECK(node.outputs().empty());
  node.addOutput(ir::Type::dynamic());
  Tensor t(DType::F32, {});
  *t.data_as<float>() = 2;
  auto graph = std::make_shared<const ir::Graph>(inner);
  node.i_("count", 3).f_("scale", 0.5).s_("mode", "fast").t_("weight", t).g_("body", graph);
  node.is_("dims", {1, 2}).fs_("scales", {0.5, 2}).ss_("names", {"a", "b"}).ts_("weights", {t, t}).gs_("bodies", {graph});
  CHECK(node.i("count") == 3);
  CHECK(node.f("scale") == 0.5);
  CHECK(node.s("mode") == "fast");
  CHECK(*node.t("weight").data_as<float>() == 2);
  CHECK(node.g("body")->toString() == inner.toString());
  CHECK(node.is("dims") == std::vector<int64_t>{1, 2});
  CHECK(node.fs("scales") == std::vector<double>{0.5, 2});
  CHECK(node.ss("names") == std::vector<std::string>{"a", "b"});
  CHECK(node.ts("weights").size() == 2);
  CHECK(node.gs("bodies").at(0)->nodes().size() == inner.nodes().size());
  CHECK(node.attributes().size() == 10);
  CHECK(has(error_thrown_by([&] { node.i("scale"); }), "attribute scale is no int"));
  CHECK(has(error_thrown_by([&] { node.i("none"); }), "no attribute none"));
  CHECK(has(error_thrown_by([&] { node.setAttribute("x", g.inputs()[0]); }), "is no number, text"));
  CHECK(has(error_thrown_by([&] { node.setAttribute("x", ir::Arg::List{1, "a"}); }), "is no number, text"));
  node.removeAttribute("weights");
  CHECK_FALSE(node.hasAttribute("weights"));
  CHECK(has(error_thrown_by([&] { node.removeAttribute("weights"); }), "no attribute weights"));
  std::string text = g.toString();
  CHECK(has(text, "body=graph(%x : Tensor,\n"));
  ir::Graph read = ir::Graph::parse(text);
  CHECK(read.toString() == text);
  CHECK(read.nodes()[0].gs("bodies").at(0)->toString() == inner.toString());
  ir::Graph copy = g;
  CHECK(copy.nodes()[0].g("body")->toString() == inner.toString());
  CHECK(has(error_thrown_by([&] { Script::from(g).value(); }), "mine::group"));
}

TEST_CASE("script graph: types of every kind have a text") {
  for (std::string_view text :
       {"Tensor", "int", "float", "bool", "str", "NoneType", "Device", "int?", "Tensor[]", "Dict(str, int[])", "(int, Tensor?)",
        "Float(1, 3, 224, 224)", "Double(*, 3)", "Long(2, 3, strides=[1, 2])", "World", "Float(2, requires_grad=1, device=cuda:0)"})
    CHECK(ir::Type::parse(text).str() == text);
  CHECK(ir::Type::parse("Dynamic") == ir::Type::dynamic());
  CHECK(ir::Type::parse("Float(*, *)") == ir::Type::partial(DType::F32, 2));
  ir::Type full = ir::Type::parse("Half(2, 3, strides=[3, 1], requires_grad=1, device=cpu)");
  CHECK(full.dtype == DType::F16);
  CHECK(full.sizes == std::vector<ir::Size>{2, 3});
  CHECK(full.strides == std::vector<ir::Size>{3, 1});
  CHECK(full.requires_grad);
  CHECK(full.device == "cpu");
  ir::Type pair = ir::Type::tuple({ir::Type::dynamic(), ir::Type::simple(ir::Type::Kind::Int)}, "Pair", {"first", "second"});
  CHECK(pair.str() == "Pair");
  CHECK(has(error_thrown_by([] { ir::Type::parse("Float(2, "); }), "line 1"));
  CHECK(has(error_thrown_by([] { ir::Type::parse("int int"); }), "more text"));
  auto first = std::make_unique<ir::Graph>(ir::Graph::parse("graph(%t : (Float(2, 3), (Long(*), int))):\n  return (%t)"));
  ir::Graph copy = *first;
  first.reset();
  CHECK(copy.inputs()[0].type().str() == "(Float(2, 3), (Long(*), int))");
  ir::Graph g("script");
  ir::Value v = g.addInput(pair, "p");
  CHECK(v.type() == pair);
  v.setType(full);
  CHECK(v.type() == full);
  CHECK(v.requiresGrad());
  CHECK(has(g.toString(), "%p : Half(2, 3, strides=[3, 1], requires_grad=1, device=cpu)"));
}

TEST_CASE("script graph: dead code without effects goes") {
  ir::Graph g = ir::Graph::parse(R"(graph(%x : Tensor, %l : int[]):
  %1 : int = prim::Constant[value=1]()
  %2 : Tensor = aten::sin(%x)
  %3 : Tensor = aten::add_(%x, %x, %1)
  %4 : int[] = aten::append(%l, %1)
   = prim::Print(%1)
  %5 : bool = prim::Constant[value=1]()
  %6 : Tensor = prim::If(%5)
    block0():
      %7 : Tensor = aten::cos(%x)
      -> (%7)
    block1():
      -> (%x)
  %8 : Tensor = prim::If(%5)
    block0():
       = prim::Print(%1)
      -> (%x)
    block1():
      -> (%x)
  return (%x)
)");
  g.lint();
  CHECK(g.eliminateDeadCode());
  std::string text = g.toString();
  for (std::string_view gone : {"aten::sin", "aten::cos"}) CHECK_FALSE(has(text, gone));
  for (std::string_view kept : {"aten::add_", "aten::append", "prim::Print"}) CHECK(has(text, kept));
  CHECK(g.nodes().size() == 6);
  g.lint();
}

TEST_CASE("script graph: passes run on it") {
  ir::Graph g = sample_graph();
  ir::PassManager passes("script");
  passes.add("tanh to sigmoid", [](ir::Graph& graph) {
    for (ir::Node n : graph.nodes())
      if (n.kind() == "aten::tanh") {
        ir::WithInsertPoint here(n);
        n.output().replaceAllUsesWith(graph.insert("aten::sigmoid", {n.input(0)}));
        n.destroy();
        return true;
      }
    return false;
  });
  CHECK(passes.run(g));
  CHECK_FALSE(passes.run(g));
  CHECK(has(g.toString(), "aten::sigmoid"));
  ir::PassManager wrong("script");
  wrong.add("breaks it", [](ir::Graph& graph) {
    graph.nodes()[1].moveBefore(graph.nodes()[0]);
    return true;
  });
  CHECK(has(error_thrown_by([&] { wrong.run(g); }), "pass breaks it"));
  auto program = Program::load(std::string(TENON_FIXTURES) + "/programs/mlp.pt2").value().transform(passes);
  REQUIRE_FALSE(program.ok());
  CHECK(has(program.error().what(), "no TorchScript"));
}

TEST_CASE("script graph: damaged texts are refused, or are graphs that lint, analysis and printing take") {
  auto look = [](ir::Graph g) {
    g.lint();
    g.propagateTypes();
    g.lint();
    for (ir::Node n : g.nodes()) n.schema(), n.arguments(), n.kwargs(), n.attributes();
    g.eliminateDeadCode();
    g.lint();
    std::string text = g.toString();
    CHECK(ir::Graph::parse(text).toString() == text);
  };
  const std::vector<std::string_view> words{"prim::If",
                                            "prim::Loop",
                                            "prim::ListConstruct",
                                            "prim::TupleUnpack",
                                            "prim::ListUnpack",
                                            "prim::TupleIndex",
                                            "aten::cat",
                                            "aten::add_",
                                            "aten::append",
                                            "block0():",
                                            "-> ()",
                                            "Float(2, *)",
                                            "Tensor[]",
                                            "(int, Tensor)",
                                            "Long(3)",
                                            "Tuple",
                                            "Any",
                                            "%x",
                                            "[1, 2]",
                                            "body=graph(%x : int):\n  return (%x)"};
  size_t taken = 0, refused = 0;
  for (const char* name : {"if", "loop", "lstm_cell", "simple_lstm"}) {
    std::ifstream file(std::string(TENON_FIXTURES) + "/scripts/document/" + name + ".ir");
    REQUIRE(file.good());
    std::string text{std::istreambuf_iterator<char>(file), {}};
    for (unsigned seed = 0; seed < 400; seed++) {
      std::string changed = text;
      for (unsigned k = 0; k <= seed % 2; k++) changed = fuzz::TextMutator(changed, seed * 7 + k).run(words);
      try {
        look(ir::Graph::parse(changed));
        taken++;
      } catch (const Error& e) {
        refused++;
        CHECK_MESSAGE(e.kind != ErrorKind::Internal, e.what(), changed);
      }
    }
  }
  CHECK(taken > 40);
  CHECK(refused > 100);
}

} // namespace tenon::script_graph_test
