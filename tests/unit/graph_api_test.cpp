// The program's graph and signature from outside: read, changed, refused.
#include <doctest/doctest.h>

#include "load/npz.h"
#include "tenon/tenon.h"
#include "tests/fuzz/zip.h"
#include "tests/unit/load_samples.h"

namespace tenon::graph_api_test {

namespace {

std::string fixture(const std::string& name) { return std::string(TENON_FIXTURES) + "/" + name; }
Program load(const std::string& name) { return Program::load(fixture(name + ".pt2")).value(); }

std::vector<Tensor> arrays(const std::string& name) {
  std::vector<Tensor> list;
  for (auto& a : read_npz(fixture(name + ".npz"))) list.push_back(a.tensor);
  return list;
}

void check_close(const Tensor& got, const Tensor& want) {
  REQUIRE(got.sizes() == want.sizes());
  Tensor a = got.contiguous(), b = want.contiguous();
  for (int64_t i = 0; i < a.numel(); i++) CHECK(a.data_as<float>()[i] == doctest::Approx(b.data_as<float>()[i]).epsilon(1e-5));
}

// x * 2 + y over Float(n, 3).
ir::Graph sample_graph() {
  ir::Graph g;
  ir::Value x = g.addInput(ir::Type::tensor(DType::F32, {2, 3}), "x"), y = g.addInput(ir::Type::tensor(DType::F32, {2, 3}), "y");
  ir::Value twice = g.insert("aten::mul", {x, 2});
  g.registerOutput(g.insert("aten::add", {twice, y}));
  return g;
}

} // namespace

TEST_CASE("graph: nodes as TorchScript and as torch.fx tell of them") {
  ir::Graph g = load("programs/mlp").graph().value();
  CHECK(g.dialect() == "aten");
  std::vector<ir::Node> all = g.fxNodes();
  CHECK(all.front().op() == "placeholder");
  CHECK(all.back().op() == "output");
  CHECK(all.size() == g.inputs().size() + g.nodes().size() + 1);
  ir::Node linear = g.nodes().at(0);
  CHECK(linear.kind() == "aten::linear.default");
  CHECK(linear.op() == "call_function");
  CHECK(linear.target() == "torch.ops.aten.linear.default");
  CHECK(linear.schema() == "aten::linear.default(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor");
  CHECK(linear.inputs().size() == 3);
  CHECK(linear.namedInput("weight") == linear.input(1));
  CHECK(linear.args().size() == 3);
  CHECK(linear.meta("nn_module_stack") != "");
  CHECK(linear.meta("torch_fn") != "");
  CHECK(linear.namedInput("weight").requiresGrad());
  CHECK(linear.output().device() == "cpu");
  CHECK(linear.output().dimOrder().empty());
  CHECK(has(linear.sourceFrame(), "in forward"));
  CHECK_FALSE(has(linear.sourceFrame(), "/torch/nn/"));
  ir::Value result = linear.output();
  CHECK(result.node() == linear);
  CHECK(result.type().kind == ir::Type::Kind::Tensor);
  REQUIRE(result.uses().size() == 1);
  CHECK(result.uses()[0].user.input(result.uses()[0].offset) == result);
  CHECK(g.inputs()[0].node().op() == "placeholder");
  CHECK(&result.owningGraph() == &g);
  ir::Graph moved = std::move(g);
  CHECK(&result.owningGraph() == &moved);
}

TEST_CASE("graph: inserted calls choose overloads, fill defaults and infer types") {
  ir::Graph g = sample_graph();
  REQUIRE(g.nodes().size() == 2);
  CHECK(g.nodes()[0].kind() == "aten::mul.Scalar");
  CHECK(g.nodes()[1].kind() == "aten::add.Tensor");
  CHECK(g.nodes()[1].kwargs().empty());
  CHECK(g.nodes()[1].arg("alpha").get<int64_t>() == 1);
  CHECK(g.nodes()[0].is_constant("other"));
  CHECK(g.nodes()[0].get<int64_t>("other") == 2);
  CHECK_FALSE(g.nodes()[0].is_constant("self"));
  CHECK(g.outputs()[0].type() == ir::Type::tensor(DType::F32, {2, 3}));
  g.lint();
  CHECK(error_thrown_by([&] { g.insert("aten::add", {g.inputs()[0]}); }) != "");
  CHECK(error_thrown_by([&] { g.insert("aten::no_such", {g.inputs()[0]}); }, ErrorKind::Unsupported) == "aten::no_such");
  CHECK(has(error_thrown_by([&] { g.insert("aten::add.Tensor", {g.inputs()[0], "text"}); }), "other does not fit"));
  CHECK(has(error_thrown_by([&] { g.insert("aten::add.Tensor", {g.inputs()[0], g.inputs()[1]}, {{"beta", 1}}); }), "no argument beta"));
  CHECK(g.nodes().size() == 2); // refused calls leave nothing
}

TEST_CASE("graph: edits keep uses") {
  ir::Graph g = sample_graph();
  ir::Node mul = g.nodes()[0], add = g.nodes()[1];
  ir::Value x = g.inputs()[0], y = g.inputs()[1];
  g.setInsertPoint(add);
  ir::Value relu = g.insert("aten::relu.default", {mul.output()});
  CHECK(g.nodes()[1] == relu.node());
  CHECK(add.replaceInput(0, relu) == mul.output());
  CHECK(mul.output().uses().size() == 1);
  CHECK(relu.uses()[0].user == add);
  y.replaceAllUsesWith(x);
  CHECK_FALSE(y.hasUses());
  CHECK(x.uses().size() == 2);
  g.eraseInput(1);
  CHECK(g.inputs().size() == 1);
  CHECK(has(error_thrown_by([&] { mul.destroy(); }), "is used"));
  CHECK(has(error_thrown_by([&] { g.eraseInput(0); }), "is used"));
  g.eraseOutput(0);
  CHECK(g.eliminateDeadCode());
  CHECK(g.nodes().empty());
  CHECK(has(error_thrown_by([&] { mul.kind(); }), "destroyed"));
  CHECK_FALSE(g.eliminateDeadCode());
}

TEST_CASE("graph: lists grow, copies are their own, order is checked") {
  ir::Graph g = sample_graph();
  ir::Value x = g.inputs()[0];
  g.setInsertPoint(g.block());
  ir::Node cat = g.insertNode("aten::cat.default", {ir::Arg::List{x, x}});
  cat.addInput(g.nodes()[0].output());
  cat.insertInput(0, g.inputs()[1]);
  CHECK(cat.inputs().size() == 4);
  CHECK(cat.input(0) == g.inputs()[1]);
  CHECK(cat.input(3) == g.nodes()[0].output());
  cat.replaceInputWith(x, g.inputs()[1]);
  CHECK(x.uses().size() == 1);
  ir::Graph copy = g;
  copy.nodes()[2].destroy();
  CHECK(g.nodes().size() == 3);
  CHECK(has(error_thrown_by([&] { copy.nodes()[0].setArg("self", x); }), "another graph"));
  CHECK(has(error_thrown_by([&] { g.lint(); }), "the row gives")); // the list is longer than the result says
  cat.destroy();
  g.lint();
  g.nodes()[1].moveBefore(g.nodes()[0]);
  CHECK(has(error_thrown_by([&] { g.lint(); }), "not defined there"));
}

TEST_CASE("graph: blocks") {
  ir::Graph g;
  ir::Value c = g.addInput(ir::Type::tensor(DType::Bool, {}), "c"), x = g.addInput(ir::Type::tensor(DType::F32, {4}), "x");
  ir::Node branch = g.insertNode("prim::If", {c});
  for (std::string_view op : {"aten::sin.default", "aten::cos.default"}) {
    ir::Block b = branch.addBlock();
    g.setInsertPoint(b);
    b.registerOutput(g.insert(op, {x}));
  }
  ir::Value out = branch.addOutput(ir::Type::tensor(DType::F32, {4}));
  g.setInsertPoint(g.block());
  g.registerOutput(out);
  g.lint();
  CHECK(x.uses().size() == 2);
  CHECK(branch.blocks()[0].owningNode() == branch);
  CHECK(x.uses()[0].user.owningBlock() == branch.blocks()[0]);
  branch.eraseBlock(1);
  CHECK(x.uses().size() == 1);
  CHECK(has(error_thrown_by([&] { g.lint(); }), "blocks"));
}

TEST_CASE("graph: an Edge graph takes ATen calls") {
  ir::Graph g = load("programs/mlp").graph("edge").value();
  CHECK(g.dialect() == "edge");
  g.setInsertPoint(g.block());
  ir::Value out = g.outputs()[0], gelu = g.insert("aten::gelu.default", {out});
  CHECK(gelu.type() == out.type());
  for (ir::Node n : g.nodes()) CHECK_FALSE(n.kind().starts_with("aten::"));
  g.lint();
  CHECK_FALSE(load("programs/mlp").graph("soup").ok());
}

TEST_CASE("signature: kinds, weights, sizes") {
  Program p = load("graphs/joint");
  ir::GraphSignature s = p.signature();
  CHECK(s.parameters() == std::vector<std::string>{"linear.weight", "linear.bias"});
  CHECK(s.buffers() == std::vector<std::string>{"scale", "count"});
  CHECK(s.non_persistent_buffers() == std::vector<std::string>{"scale"});
  CHECK(s.user_inputs() == std::vector<std::string>{"x"});
  CHECK(s.loss_output() == "mean");
  REQUIRE(s.gradients_to_parameters().size() == 2);
  CHECK(s.gradients_to_parameters()[0].second == "linear.weight");
  CHECK(p.state_dict().size() == 3);
  REQUIRE(p.constants().size() == 1);
  CHECK(p.constants()[0].name == "scale");
  CHECK(p.torch_version().starts_with("2.15"));
  REQUIRE(!p.module_call_graph().empty());
  CHECK(p.module_call_graph()[0].fqn == "");
  Program k = load("programs/kwargs_tree");
  int fixed = 0;
  for (auto& in : k.signature().input_specs) fixed += in.fixed.has_value();
  CHECK(fixed == 6);
}

TEST_CASE("joint graphs run: loss and gradients are results") {
  for (bool interpret : {false, true}) {
    Executable e = load("graphs/joint").compile({.interpret = interpret}).value();
    std::vector<Tensor> out, want = arrays("graphs/joint.expected");
    e.run(arrays("graphs/joint.inputs"), out).check();
    REQUIRE(out.size() == 3);
    for (size_t i = 0; i < 3; i++) check_close(out[i], want[i]);
  }
}

TEST_CASE("a parameter that is changed is state") {
  CHECK(load("graphs/step").signature().parameters_to_mutate().at(0).second == "w");
  for (bool interpret : {false, true}) {
    Executable e = load("graphs/step").compile({.interpret = interpret}).value();
    for (const Tensor& want : arrays("graphs/step.expected")) {
      std::vector<Tensor> out;
      e.run(arrays("graphs/step.inputs"), out).check();
      check_close(out.at(0), want);
    }
    REQUIRE(e.state().size() == 1);
    CHECK(e.state()[0].name == "w");
  }
}

TEST_CASE("inputs that are objects load and are shown; compile names them") {
  Archive a = Archive::map(fixture("programs/mlp.pt2"));
  std::string json(as_text(a.read("models/model.json").bytes));
  auto replace = [&](std::string_view old, std::string_view now) {
    size_t at = json.find(old);
    REQUIRE(at != json.npos);
    json.replace(at, old.size(), now);
  };
  std::string spec = R"({"custom_obj": {"arg": {"name": "obj_attr", "class_fqn": "__torch__.C"}, "custom_obj_name": "attr"}}, )";
  replace(R"("inputs": [{"as_tensor")", R"("inputs": [{"as_custom_obj": {"name": "obj_attr", "class_fqn": "__torch__.C"}}, {"as_tensor")");
  replace(R"("input_specs": [)", R"("input_specs": [)" + spec);
  std::string bytes = fuzz::rebuild(a, "models/model.json", json);
  Program p = Program::load(as_byte_span(bytes), "test").value();
  CHECK(p.signature().lifted_custom_objs() == std::vector<std::string>{"attr"});
  CHECK(p.graph().value().inputs()[0].type().kind == ir::Type::Kind::Custom);
  for (bool interpret : {false, true}) {
    auto exe = p.compile({.interpret = interpret});
    REQUIRE_FALSE(exe.ok());
    CHECK(exe.error().kind == ErrorKind::Unsupported);
    CHECK(has(exe.error().what(), "input obj_attr (attr) is an object"));
  }
}

TEST_CASE("methods: several programs of one archive") {
  std::string path = fixture("graphs/methods.pt2");
  CHECK(Program::methods(path).value() == std::vector<std::string>{"encode", "decode"});
  CHECK(Program::methods(fixture("programs/mlp.pt2")).value() == std::vector<std::string>{"model"});
  Program encode = Program::load(path, "encode").value(), decode = Program::load(path, "decode").value();
  CHECK(encode.inputs().size() == 1);
  CHECK(decode.inputs().size() == 2);
  CHECK(decode.example_inputs().value().size() == 2);
  auto none = Program::load(path, "other");
  REQUIRE_FALSE(none.ok());
  CHECK(has(none.error().what(), "encode, decode"));
  auto unnamed = Program::load(path);
  REQUIRE_FALSE(unnamed.ok());
  CHECK(has(unnamed.error().what(), "several models"));
  REQUIRE(decode.range_constraints().size() == 1);
  CHECK(decode.range_constraints()[0].min_val == 2);
  CHECK(decode.range_constraints()[0].max_val == 64);
  REQUIRE(decode.equality_constraints().size() == 1);
  CHECK(decode.equality_constraints()[0] == ir::EqualityConstraint{{"x", 0}, {"y", 0}});
}

TEST_CASE("other weights into a program") {
  Program p = load("graphs/joint");
  Tensor bias(DType::F32, {2});
  bias.data_as<float>()[0] = 3, bias.data_as<float>()[1] = -4;
  NamedTensor named[] = {{"linear.bias", bias}};
  Program q = p.with_state_dict(named).value();
  CHECK(q.state_dict()[1].name == "linear.bias");
  CHECK(q.state_dict()[1].tensor.data() == bias.data());
  std::vector<Tensor> was, now;
  p.compile().value().run(arrays("graphs/joint.inputs"), was).check();
  q.compile().value().run(arrays("graphs/joint.inputs"), now).check();
  CHECK(was[0].data_as<float>()[0] != now[0].data_as<float>()[0]);
  auto refused = [&](std::vector<NamedTensor> list) {
    auto r = p.with_state_dict(list);
    REQUIRE_FALSE(r.ok());
    return std::string(r.error().what());
  };
  CHECK(has(refused({{"linear.gain", bias}}), "linear.gain"));
  CHECK(has(refused({{"linear.weight", bias}}), "linear.weight is Float(2, 3), Float(2) is given"));
  CHECK(has(refused({{"linear.bias", bias}, {"linear.bias", bias}}), "twice"));
  CHECK(has(refused({{"linear.bias", {}}}), "no value"));
}

} // namespace tenon::graph_api_test
