// What holds of every graph (the specification of Export IR): each graph here breaks it by one thing, and is refused with a message that
// names the node. Graphs come as FX text, as graph text of each dialect, and as the program of an archive.
#include <doctest/doctest.h>

#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "tenon/tenon.h"
#include "tests/unit/changed_program.h"

namespace tenon::contracts_test {

namespace {

/// `old` becomes `now`; the message must hold `names`, which names the node, and `says`.
struct Broken {
  std::string_view old, now, names, says;
};

std::string replaced(std::string_view text, const Broken& b) {
  size_t at = text.find(b.old);
  REQUIRE_MESSAGE(at != text.npos, "the text does not hold ", b.old);
  return std::string(text.substr(0, at)) + std::string(b.now) + std::string(text.substr(at + b.old.size()));
}

/// The error, of a kind that speaks of what was given; "" where there is none.
template <class F> std::string refusal_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

template <class F> void refuses_all(std::string_view whole, std::span<const Broken> table, const F& read) {
  REQUIRE(refusal_of([&] { read(std::string(whole)); }) == "");
  for (const Broken& b : table) {
    std::string text = replaced(whole, b), error = refusal_of([&] { read(text); });
    INFO(text);
    CHECK_MESSAGE(has(error, b.names), error, " does not name ", b.names);
    CHECK_MESSAGE(has(error, b.says), error, " does not say ", b.says);
  }
}

// ---- FX text

constexpr std::string_view fx_graph = R"(graph():
    %w : Float(4, 3) [num_users=1] = placeholder[target=w]
    %x : Float(2, 3) [num_users=1] = placeholder[target=x]
    %scale : Float(4) [num_users=1] = get_attr[target=scale]
    %body : [num_users=1] = get_attr[target=body]
    %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})
    %mul : [num_users=2] = call_function[target=torch.ops.aten.mul.Tensor](args = (%linear, %scale), kwargs = {})
    %total : [num_users=1] = call_function[target=torch.ops.aten.sum.dim_IntList](args = (%mul, [1]), kwargs = {keepdim: True})
    %split : [num_users=1] = call_function[target=torch.ops.aten.split.Tensor](args = (%mul, 2, -1), kwargs = {})
    %half : [num_users=1] = call_function[target=operator.getitem](args = (%split, 0), kwargs = {})
    %rows : [num_users=1] = call_function[target=torch.ops.aten.sym_size.int](args = (%mul, 0), kwargs = {})
    %twice : [num_users=1] = call_function[target=operator.mul](args = (%rows, 2), kwargs = {})
    %wrapped : [num_users=1] = call_function[target=torch.ops.higher_order.wrap_with_set_grad_enabled](args = (False, %body, %half), kwargs = {})
    %inner : [num_users=1] = call_function[target=operator.getitem](args = (%wrapped, 0), kwargs = {})
    return (total, half, inner, twice)

body = graph():
    %a : [num_users=1] = placeholder[target=a]
    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%a,), kwargs = {})
    return (relu,))";

constexpr Broken broken_fx[] = {
    // Placeholders first, one output, last.
    {"    %half : ", "    %late : Float(2) [num_users=0] = placeholder[target=late]\n    %half : ", "%late", "stands behind another node"},
    {"\n    return (total, half, inner, twice)\n\n", "\n", "body", ""},
    {"    return (relu,)", "", "graph", "without 'return'"},
    {"    return (total, half, inner, twice)\n", "    return (total,)\n    return (half,)\n", "a second output", ""},
    {"    return (total, half, inner, twice)\n",
     "    return (total,)\n    %more : [num_users=0] = call_function[target=torch.ops.aten.relu.default](args = (%half,), kwargs = {})\n",
     "%more", "behind the output"},
    // Names are unique, and defined before they are used.
    {"%total : ", "%mul : ", "%mul", "defined twice"},
    {"(%linear, %scale)", "(%total, %scale)", "%total", "not defined here"},
    {"(%linear, %scale)", "(%mul, %scale)", "%mul", "not defined here"},
    {"(total, half, inner, twice)", "(total, half, inner, third)", "%third", "not defined here"},
    // Kinds of nodes and their targets.
    {"= get_attr[target=scale]", "= attribute[target=scale]", "attribute", "no such kind of node"},
    {"call_function[target=torch.ops.aten.linear.default]", "call_method[target=linear]", "%linear", "a call of a method"},
    {"call_function[target=torch.ops.aten.linear.default]", "call_module[target=linear]", "%linear", "a call of a module"},
    {"torch.ops.aten.relu.default", "torch.ops.aten.nonsense.default", "%relu", "no such operator: aten::nonsense.default"},
    {"torch.ops.aten.mul.Tensor", "torch.ops.aten.mul", "%mul", ""},
    {"torch.ops.aten.mul.Tensor", "torch.ops.mine.mul.Tensor", "%mul", "no such operator: mine::mul.Tensor"},
    {"torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_nothing", "%wrapped", ""},
    {"target=operator.mul]", "target=operator.nonsense]", "%twice", "no such function: operator.nonsense"},
    {"target=operator.mul]", "target=os.system]", "%twice", "no such function: os.system"},
    // get_attr reads graphs, parameters, buffers and constants.
    {"%scale : Float(4) [num_users=1] = get_attr[target=scale]", "%scale : [num_users=1] = get_attr[target=scale]", "%scale",
     "has no type"},
    {"get_attr[target=scale]", "get_attr[target=scale](args = (1,), kwargs = {})", "get_attr", "no arguments"},
    {"(%linear, %scale)", "(%linear, %body)", "%mul", "%body"},
    {"(False, %body, %half)", "(False, %scale, %half)", "%wrapped", "must be a graph"},
    // A val on every node.
    {"%x : Float(2, 3) [num_users=1]", "%x : [num_users=1]", "%x", "has no type"},
    {"%x : Float(2, 3) [num_users=1]", "%x : Float(2, s0*s1) [num_users=1]", "%x", "s0 is used, but nothing gives its value"},
    // Arguments as the schemas say.
    {"(%linear, %scale)", "(%linear, %scale, 1)", "%mul", "too many arguments"},
    {"(%linear, %scale)", "(%linear,)", "%mul", "argument other"},
    {"{keepdim: True}", "{keep: True}", "%total", "no argument keep"},
    {"{keepdim: True}", "{dim: [1]}", "%total", "given twice"},
    {"{keepdim: True}", "{keepdim: nothing}", "%total", "argument keepdim"},
    {"(%x, %w)", "(%x, None)", "%linear", "argument weight"},
    {"(%split, 0)", "(%split, 2)", "%half", "there are 2 results"},
    {"(%split, 0)", "(%split, -1)", "%half", "there are 2 results"},
    {"(%split, 0)", "(%split, %mul)", "%half", "a node and a number"},
    {"(%mul, 0)", "(%split, 0)", "%rows", "2 results are used as one"},
    {"placeholder[target=x]", "placeholder[target=x](args = (1, 2), kwargs = {})", "placeholder", "one default"},
};

// ---- graph text, by dialect

constexpr std::string_view aten_graph = R"(graph(%x : Float(2, 3), %w : Float(4, 3)):
  %y : Float(2, 4) = aten::linear.default(%x, %w)  # File "m.py", line 7, in f, module layers.0
  %z : Float(2, 2), %u : Float(2, 2) = aten::split.Tensor(%y, 2, -1)
  %v : Float(2, 1) = aten::sum.dim_IntList(%z, [1], True)
  return (%v, %u)
)";

constexpr Broken broken_aten[] = {
    {"aten::linear.default", "aten::nonsense.default", "%y", "no such operator"},
    {"aten::linear.default(%x, %w)", "aten::nonsense.default(%x, %w)", "layers.0, File \"m.py\", line 7", "no such operator"},
    {"aten::linear.default", "edge::linear.default", "%y", "not an operator of ATen"},
    {"aten::linear.default(%x, %w)", "tenon::to_layout(%x)", "%y", "not an operator of ATen"},
    {"aten::linear.default(%x, %w)", "prim::Nothing(%x, %w)", "%y", "no such operator"},
    {"%y : Float(2, 4) =", "%y =", "%y", "has no type"},
    {"%y : Float(2, 4)", "%y : Float(2, 5)", "%y", "the row gives Float(2, 4)"},
    {"%y : Float(2, 4)", "%y : Half(2, 4)", "%y", "the row gives Float(2, 4)"},
    {"%v : Float(2, 1) =", "%v : Float(2, 1), %t : Float(2, 1) =", "%v", "2 results, the schema gives 1"},
    {"%y : Float(2, 4) =", "%y : int =", "%y", "result 0 is int"},
    {"%v : Float(2, 1)", "%y : Float(2, 1)", "%y", "defined twice"},
    {"split.Tensor(%y", "split.Tensor(%v", "%v", "not defined here"},
    {"(%v, %u)", "(%v, %t)", "%t", "not defined here"},
    {"return (%v, %u)", "return (%v, %u)\n  %t : Float(2, 2) = aten::relu.default(%u)", "line 6", "more text after the graph"},
    {"return (%v, %u)", "", "return", "without 'return'"},
    {"[1], True)", "[1], 2.5)", "%v", "argument keepdim does not fit"},
    {"linear.default(%x, %w)", "linear.default(%x, %w, keep=1)", "aten::linear.default", "no argument keep"},
    {"linear.default(%x, %w)", "linear.default(%x)", "aten::linear.default", "argument weight is missing"},
    {"%z, [1], True)\n", "%z, [1], True)\n    block0():\n      -> ()\n", "%v", "1 blocks where 0"},
};

constexpr std::string_view edge_graph = R"(graph(%x : Float(2, 3), %c : Bool()):
  %y : Float(2, 3) = edge::mul.Tensor(%x, %x)
  %z : Float(2, 3) = edge::relu.default(%y)  # File "m.py", line 9, in f
  %b : Float(2, 3) = prim::If(%c)
    block0():
      -> (%y)
    block1():
      -> (%z)
  return (%b)
)";

constexpr Broken broken_edge[] = {
    {"edge::relu.default", "edge::nonsense.default", "%z", "no such operator"},
    {"edge::relu.default", "aten::relu.default", "%z", "not an operator of Edge"},
    {"edge::relu.default", "edge::relu_.default", "%z", ""},
    {"edge::relu.default", "mine::relu.default", "line 9", "not an operator of Edge"},
    {"edge::mul.Tensor(%x, %x)", "edge::mul.Tensor(%x, 2.0)", "%y", "operand other is a number"},
    {"edge::mul.Tensor(%x, %x)", "edge::linear.default(%x, %x)", "%y", "a composite operator"},
    {"edge::mul.Tensor(%x, %x)", "edge::mul.Tensor(%x, %c)", "%y", "operand other is bool among operands of f32"},
    {"    block1():\n      -> (%z)\n", "", "%b", "1 blocks where 2"},
    {"-> (%z)", "-> (%z, %z)", "%b", "a branch's results: 2 values where 1"},
    {"-> (%z)", "-> (%c)", "%b", "value 0 is Bool()"},
    {"block1():", "block1(%p : Float(2, 3)):", "%b", "a branch's parameters"},
    {"prim::If(%c)", "prim::If(%d)", "%d", "not defined here"},
    {"%z : Float(2, 3)", "%z : Float(2, 3, strides=[1])", "strides", ""},
};

constexpr std::string_view backend_graph = R"(graph(%x : Float(2, 3), %w : Float(3, 4)):
  %r : Float(2, 3) = tenon::loops()
    block0():
      %a : Float(2, 3) = edge::relu.default(%x)
      -> (%a)
  %m : Float(2, 4) = tenon::matmul()
    block0():
      %p : Float(2, 4) = edge::mm.default(%r, %w)
      -> (%p)
  return (%m)
)";

constexpr Broken broken_backend[] = {
    {"edge::relu.default", "edge::nonsense.default", "%a", "no such operator"},
    {"edge::mm.default", "aten::mm.default", "%p", "not an operator of Edge"},
    {"-> (%a)", "-> ()", "%r", "the region's results: 0 values where 1"},
    {"-> (%a)", "-> (%w)", "%r", "value 0 is Float(3, 4)"},
    {"tenon::loops()\n    block0():\n", "tenon::loops()\n    block0(%q : Float(2)):\n", "%r", "the region's parameters"},
    {"%a : Float(2, 3) = edge::relu.default(%x)\n",
     "%a : Float(2, 3) = tenon::loops()\n        block0():\n          %d : Float(2, 3) = edge::relu.default(%x)\n          -> (%d)\n", "%a",
     "a region inside a region"},
    {"  return (%m)", "  %o : Float(2, 4) = edge::relu.default(%m)\n  return (%o)", "%o", "an operator outside of regions"},
    {"edge::mm.default(%r, %w)", "edge::mm.default(%a, %w)", "%a", "not defined here"},
};

template <size_t N> void refuses_graphs(std::string_view whole, const Broken (&table)[N], Dialect dialect) {
  refuses_all(whole, table, [&](const std::string& text) { verify(parse_graph(text).graph, dialect); });
}

// ---- archives

// A fixture's program changed as the table says; it is told at the latest when it is compiled.
void refuses_programs(const std::string& fixture, std::span<const Broken> table) {
  for (const Broken& b : table) {
    std::string bytes = changed(fixture, b.old, b.now);
    auto program = Program::load(as_byte_span(bytes), "test");
    auto exe = program.ok() ? program.value().compile() : Result<Executable>(program.error());
    std::string error = exe.ok() ? "" : exe.error().what();
    INFO(b.now);
    CHECK_MESSAGE((exe.ok() || exe.error().kind != ErrorKind::Internal), error);
    CHECK_MESSAGE(has(error, b.names), error, " does not name ", b.names);
    CHECK_MESSAGE(has(error, b.says), error, " does not say ", b.says);
  }
}

constexpr Broken broken_mlp[] = {
    {R"({"name": "self", "arg": {"as_tensor": {"name": "linear"}})", R"({"name": "self", "arg": {"as_tensor": {"name": "silu"}})", "%relu",
     "value silu is used before it is defined"},
    {R"({"name": "self", "arg": {"as_tensor": {"name": "linear"}})", R"({"name": "self", "arg": {"as_tensor": {"name": "nothing"}})",
     "%relu", "value nothing is used before it is defined"},
    {R"("outputs": [{"as_tensor": {"name": "relu"}}])", R"("outputs": [{"as_tensor": {"name": "linear"}}])", "%linear",
     "two nodes have this name"},
    {R"("outputs": [{"as_tensor": {"name": "relu"}}])", R"("outputs": [{"as_tensor": {"name": "relu_1"}}])", "%relu_1",
     "key 'relu_1' is missing"},
    {R"("outputs": [{"as_tensor": {"name": "relu"}}])", R"("outputs": [])", "%linear_1", "relu"},
    {R"("outputs": [{"as_tensor": {"name": "relu"}}])", R"("outputs": [{"as_tensor": {"name": "relu"}}, {"as_none": true}])", "relu",
     "2 results, the schema gives 1"},
    {R"("outputs": [{"as_tensor": {"name": "relu"}}])", R"("outputs": [{"as_foo": true}])", "%relu", "output of kind as_foo"},
    {R"("outputs": [{"as_tensor": {"name": "linear_2"}}, )", R"("outputs": [{"as_tensor": {"name": "nothing"}}, )", "the output",
     "value nothing"},
    {R"("outputs": [{"as_tensor": {"name": "linear_2"}}, )", R"("outputs": [)", "output specs", "2 output specs for 1 outputs"},
    {R"("inputs": [{"as_tensor": {"name": "p_layers_0_weight"}}, )", R"("inputs": [{"as_tensor": {"name": "x"}}, )", "%x",
     "two nodes have this name"},
    {R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})", R"({"user_input": {"arg": {"as_tensor": {"name": "y"}}}})", "%x",
     "is called y in the signature"},
    {R"({"parameter": {"arg": {"name": "p_layers_0_bias"})", R"({"parameter": {"arg": {"name": "p_layers_2_bias"})", "%p_layers_0_bias",
     "is called p_layers_2_bias in the signature"},
    {R"({"parameter": {"arg": {"name": "p_layers_0_weight"}, "parameter_name": "layers.0.weight"}}, )", "", "input specs",
     "6 input specs for 7"},
    {R"("target": "torch.ops.aten.relu.default")", R"("target": "torch.ops.aten.nonsense.default")", "aten::nonsense.default", ""},
    {R"("target": "torch.ops.aten.relu.default")", R"("target": "os.system")", "%relu", "no such function: os.system"},
    {R"("target": "torch.ops.aten.relu.default")", R"("target": "torch.ops.relu")", "%relu", "a strange target"},
    {R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_float": 1.5})", "%softmax", "argument dim does not fit"},
    {R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_foo": 1})", "%softmax", "an argument of kind as_foo"},
    {R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_int": 7})", "%softmax", "Dimension out of range"},
    {R"({"name": "dim", "arg": {"as_int": -1}, "kind": 1})", R"({"name": "axis", "arg": {"as_int": -1}, "kind": 2})", "%softmax",
     "no argument axis"},
    {R"(, {"name": "dim", "arg": {"as_int": -1}, "kind": 1})", "", "%softmax", "argument dim of aten::softmax.int is missing"},
    {R"("relu": {"dtype": 7)", R"("relu": {"dtype": 6)", "%relu", "the program records Half"},
    {R"("relu": {"dtype": 7)", R"("relu": {"dtype": 77)", "%relu", "no such dtype"},
    {R"("relu": {"dtype": 7, "sizes": [)", R"("relu": {"dtype": 7, "sizes": [{"as_int": 4}, )", "%relu", "2 strides for 3 sizes"},
    {R"("x": {"dtype": 7)", R"("x": {"type": 7)", "%x", "key 'dtype' is missing"},
};

constexpr Broken broken_shapes[] = {
    {R"("target": "_operator.neg")", R"("target": "_operator.nonsense")", "%neg", "_operator.nonsense"},
    {R"("target": "_operator.neg")", R"("target": "torch.ops.aten.numbers.default")", "%neg", "torch.ops.aten.numbers.default"},
    {R"({"as_sym_int": {"as_name": "neg"}}, "kind": 1})", R"({"as_sym_int": {"as_name": "nothing"}}, "kind": 1})", "%mod",
     "symbol nothing is not defined"},
    {R"({"as_sym_ints": [{"as_int": 0}, {"as_int": 0}, {"as_int": 0}, {"as_name": "mod"}]})",
     R"({"as_sym_ints": [{"as_int": 0}, {"as_int": 0}, {"as_int": 0}, {"as_name": "none"}]})", "%pad", "symbol none is not defined"},
};

} // namespace

TEST_CASE("contracts of FX text") {
  refuses_all(fx_graph, broken_fx, [](const std::string& text) { program_of(parse_fx(text)); });
  std::string_view solved = "graph():\n    %x : Float(4*s0 + 1) [num_users=1] = placeholder[target=x]\n    return (x,)";
  CHECK(refusal_of([&] { program_of(parse_fx(solved)); }) == "");
}

TEST_CASE("contracts of graph text, by dialect") {
  refuses_graphs(aten_graph, broken_aten, Dialect::Aten);
  refuses_graphs(edge_graph, broken_edge, Dialect::Edge);
  refuses_graphs(backend_graph, broken_backend, Dialect::Backend);
}

TEST_CASE("contracts of archives") {
  for (auto fixture : {"mlp", "shapes"})
    CHECK(Program::load(sample_path("../programs/" + std::string(fixture) + ".pt2")).value().compile());
  refuses_programs("mlp", broken_mlp);
  refuses_programs("shapes", broken_shapes);
}

TEST_CASE("graphs that were changed in memory") {
  auto graph = [] { return parse_graph(aten_graph).graph; };
  auto error = [](const Graph& g) { return error_thrown_by([&] { verify(g, Dialect::Aten); }, ErrorKind::Internal); };
  REQUIRE(error(graph()) == "");
  Graph returns_later = graph();
  returns_later.block(returns_later.top()).nodes.pop_back();
  CHECK(has(error(returns_later), "the output: a block returns a value that is not defined in it"));
  Graph of_result = graph();
  of_result.block(of_result.top()).params.push_back(of_result.node(NodeId{0}).outputs[0]);
  CHECK(has(error(of_result), "%y"));
  Graph same_parameter = graph();
  auto& params = same_parameter.block(same_parameter.top()).params;
  params.push_back(params[0]);
  CHECK(has(error(same_parameter), "%x is a parameter twice"));
}

TEST_CASE("ATen graphs in contiguous format") {
  auto error = [](const std::string& text) { return error_thrown_by([&] { verify_contiguous(parse_graph(text).graph); }); };
  CHECK(error(std::string(aten_graph)) == "");
  std::string text = "graph(%x : Float(2, 3)):\n  %y : Float(3, 2, strides=[1, 3]) = aten::t.default(%x)\n  return (%y)\n";
  CHECK(error(text) == "%y : Float(3, 2, strides=[1, 3]) is not in contiguous format, as 1 values of the graph");
}

} // namespace tenon::contracts_test
