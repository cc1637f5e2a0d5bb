// FX text: what torch printed comes back unchanged; it becomes a graph that runs; graphs are written as FX.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "compile/compile.h"
#include "fx/from_graph.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "load/load.h"
#include "load_samples.h"
#include "tenon/tenon.h"

namespace tenon::fx_text_test {

namespace {

// As torch.fx prints it.
constexpr std::string_view printed = R"(graph():
    %p_weight : [num_users=1] = placeholder[target=p_weight]
    %x : [num_users=2] = placeholder[target=x](default=None)
    %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_weight), kwargs = {})
    %gelu : [num_users=1] = call_function[target=torch.ops.aten.gelu.default](args = (%linear,), kwargs = {approximate: tanh})
    %to : [num_users=1] = call_function[target=torch.ops.aten.to.dtype](args = (%gelu, torch.float64), kwargs = {})
    %split : [num_users=2] = call_function[target=torch.ops.aten.split.Tensor](args = (%to, 2, -1), kwargs = {})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%split, 0), kwargs = {})
    %getitem_1 : [num_users=1] = call_function[target=operator.getitem](args = (%split, 1), kwargs = {})
    %full : [num_users=1] = call_function[target=torch.ops.aten.full.default](args = ([2, 1], 1e-05), kwargs = {dtype: torch.float32, device: cpu, pin_memory: False})
    %mul : [num_users=0] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, %x), kwargs = {})
    return (getitem, getitem_1, full))";

std::string refused(const std::string& text) {
  return error_thrown_by([&] { parse_fx(text); });
}

} // namespace

TEST_CASE("FX text comes back unchanged") { CHECK(to_string(parse_fx(printed)) == printed); }

TEST_CASE("FX text: a phrase with commas as the only argument comes back") {
  const std::string phrase = "ij,_% of a phrase (a, b) [c,]";
  std::string text(printed);
  text.replace(text.find("(%x, %x)"), 8, "(" + phrase + ",)");
  FxGraph g = parse_fx(text);
  auto mul = std::ranges::find(g.nodes, "mul", &FxNode::name);
  REQUIRE(mul != g.nodes.end());
  CHECK(mul->args == ArgList{phrase});
  CHECK(to_string(parse_fx(to_string(g))) == to_string(g));
}

TEST_CASE("a symbol that only a size such as 4*s + 1 tells is computed of that size") {
  LoadedProgram p = program_of(parse_fx(R"py(class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[4*s69 + 1, 3]"):
        sym_size_int: "Sym(4*s69 + 1)" = torch.ops.aten.sym_size.int(x, 0);  x = None
        floordiv: "Sym(s69)" = sym_size_int // 4;  sym_size_int = None
        arange: "i64[s69]" = torch.ops.aten.arange.default(floordiv);  floordiv = None
        return (arange,)
)py"));
  FxGraph g = fx_of(p.graph);
  CHECK(to_string(parse_fx(to_string(g))) == to_string(g));
  CHECK(to_string(g).find("operator.sub](args = (%sym_size_int, 1)") != std::string::npos);
  CHECK(to_string(g).find("operator.floordiv](args = (%sub, 4)") != std::string::npos);
}

TEST_CASE("FX text with types becomes a graph") {
  std::string text(printed);
  text.replace(text.find("%p_weight : "), 12, "%p_weight : Float(4, 3) ");
  text.replace(text.find("%x : "), 5, "%x : Float(2, 3) ");
  CHECK(to_string(parse_fx(text)) == text);
  LoadedProgram p = program_of(parse_fx(text));
  verify(p.graph, Dialect::Aten);
  auto& returns = p.graph.block(p.graph.top()).returns;
  REQUIRE(returns.size() == 3);
  CHECK(to_string(p.graph.type(returns[1].get<ValueId>())) == "Double(2, 2, strides=[4, 1])");
  CHECK(p.inputs.size() == 2);
  // And back: the same but for what FX does not say.
  std::string again = to_string(fx_of(p.graph));
  CHECK(to_string(parse_fx(again)) == again);
  CHECK(to_string(program_of(parse_fx(again)).graph) == to_string(p.graph));
  CHECK(error_thrown_by([&] { program_of(parse_fx(printed)); }).find("%p_weight has no type") == 0);
}

TEST_CASE("a conversion that a strict export left out under autocast is refused") {
  std::string before =
      "graph():\n    %x : Float(2, 2) [num_users=2] = placeholder[target=x]\n    %submod_1 : [num_users=1] = get_attr[target=submod_1]\n"
      "    %y : [num_users=2] = call_function[target=torch.ops.higher_order.wrap_with_autocast](args = (cpu, "
      "torch.bfloat16, True, None, %submod_1, %x), kwargs = {})\n"
      "    %m : [num_users=2] = call_function[target=operator.getitem](args = (%y, 0), kwargs = {})\n";
  std::string after =
      "    %z : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%m,), kwargs = {})\n    return z\n"
      "submod_1 = graph():\n    %a : [num_users=1] = placeholder[target=a]\n"
      "    %mm : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%a, %a), kwargs = {})\n    return (mm,)";
  auto assertion = [](const char* type) {
    return fmt::format(
        "    %t : [num_users=0] = call_function[target=torch.ops.aten._assert_tensor_metadata.default](args = (%m,), kwargs = "
        "{{dtype: torch.{}}})\n",
        type);
  };
  LoadedProgram p = program_of(parse_fx(before + assertion("bfloat16") + after));
  CHECK(to_string(p.graph.type(p.graph.block(p.graph.top()).returns[0].get<ValueId>())) == "BFloat16(2, 2)");
  CHECK(error_thrown_by([&] {
          program_of(parse_fx(before + assertion("float32") + after));
        }).find("%t: %m: the program was exported for f32, autocast makes it bf16") == 0);
}

TEST_CASE("autocast: a loss is computed in f32") {
  LoadedProgram p = program_of(
      parse_fx("graph():\n    %x : BFloat16(4, 1, 3) [num_users=1] = placeholder[target=x]\n"
               "    %t : Long(1, 2) [num_users=1] = placeholder[target=t]\n    %submod_1 : [num_users=1] = get_attr[target=submod_1]\n"
               "    %y : [num_users=1] = call_function[target=torch.ops.higher_order.wrap_with_autocast](args = (cpu, "
               "torch.bfloat16, True, None, %submod_1, %x, %t), kwargs = {})\n"
               "    %m : [num_users=1] = call_function[target=operator.getitem](args = (%y, 0), kwargs = {})\n    return m\n"
               "submod_1 = graph():\n    %a : [num_users=1] = placeholder[target=a]\n    %b : [num_users=1] = placeholder[target=b]\n"
               "    %loss : [num_users=1] = call_function[target=torch.ops.aten.ctc_loss.IntList](args = (%a, %b, [4], [2], 0, 1, "
               "False), kwargs = {})\n    return (loss,)"));
  CHECK(to_string(p.graph.type(p.graph.block(p.graph.top()).returns[0].get<ValueId>())) == "Float()");
}

TEST_CASE("FX text that is wrong is refused with its line") {
  CHECK(refused("graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return y").find("line 3: %y is not defined here") == 0);
  CHECK(refused("graph():\n    %x : [num_users=1] = nothing[target=x]\n    return x").find("no such kind") != std::string::npos);
  CHECK(refused("graph():\n    return " + std::string(100000, '(')).find("nested too deeply") != std::string::npos);
  CHECK(refused("graph():\n    %x : [num_users=1] = placeholder[target=x]\n").find("without 'return'") != std::string::npos);
  CHECK(refused("").find("expected 'graph', 'class' or 'def'") != std::string::npos);
}

TEST_CASE("Python code that is wrong is refused with its line") {
  auto in_forward = [](std::string_view lines) { return refused("def forward(self, x):\n" + std::string(lines) + "\n    return (x,)"); };
  CHECK(in_forward("    y = torch.ops.aten.relu.default(z)").find("line 2: %z is not defined here") == 0);
  CHECK(in_forward("    y = x\n    z = x").find("line 3: %x is not defined here") == 0);
  CHECK(in_forward("    y = x + 1\n    z = y").find("line 4: expected an operator or a call") == 0);
  CHECK(in_forward("    y = x + 1\n    y = x + 2").find("%y is defined twice") != std::string::npos);
  CHECK(in_forward("    y = x + 1;  z").find("expected '= None'") != std::string::npos);
  CHECK(in_forward("    y = torch.ops.aten.add.Tensor(alpha = 2, x)").find("line 2: a positional argument behind a keyword") == 0);
  CHECK(in_forward("    y = torch.ops.aten.add.Tensor(x").find("expected ',' or ')'") != std::string::npos);
  CHECK(in_forward("    y = x; x = None\n    (").find("expected a name") != std::string::npos);
  CHECK(in_forward("    y = " + std::string(100000, '(')).find("nested too deeply") != std::string::npos);
  CHECK(in_forward("    y: \"f32[\" = self.y").find("line 2: a type that cannot be read") == 0);
  CHECK(in_forward("    y = x + 1\n    x, = fx_pytree.tree_flatten_spec(([x], {}), self._in_spec)").find("behind other nodes") !=
        std::string::npos);
  CHECK(refused("def forward(self, x):\n    y = x + 1").find("a function without 'return'") != std::string::npos);
  CHECK(refused("def forward(self, x: \"f32[2.5]\"):\n    return (x,)").find("line 1: a type that cannot be read") == 0);
  CHECK(refused("class A(object):\n").find("expected 'torch.nn.Module'") != std::string::npos);
  std::string graph = "def forward(self):\n        return (1,)\n    class B(torch.nn.Module):\n      ";
  CHECK(refused("class A(torch.nn.Module):\n    " + graph + graph + "pass").find("expected 'def'") != std::string::npos);
  CHECK(refused("class A(torch.nn.Module):\n    def forward(self):\n        return (1,)\nclass B")
            .find("line 4: more text after the module") == 0);
}

TEST_CASE("all that torch writes in Python code") {
  FxGraph g = parse_fx(R"py(class GraphModule(torch.nn.Module):
    def forward(self, input, n: "Sym(s0)", y: "f32[s0, 8][8, 1]cpu" = None):
        # File: model.py:3 in forward, code: return {"a": x}
        input_1 = input
        weight: "f32[8]" = getattr(self.layers, "0").weight;  unused = None
        neg = -input_1
        floordiv: "Sym((s0//2))" = n // 2;  n = None
        index = operator_abs(floordiv);  floordiv = None
        relu = input_1.relu()
        layer = self.layer(relu, alpha = -inf);  relu = None
        full = torch.ops.aten.full.default([2, index], (1+2j), dtype = torch.float32, device = device(type='cuda', index=1), pin_memory = False)
        return pytree.tree_unflatten([full, layer, neg], self._out_spec))py");
  CHECK(to_string(g) == R"(graph():
    %input_1 : [num_users=2] = placeholder[target=input]
    %n : int{s0} [num_users=1] = placeholder[target=n]
    %y : Float(s0, 8, strides=[8, 1]) [num_users=0] = placeholder[target=y](default=None)
    %weight : Float(8) [num_users=0] = get_attr[target=layers.0.weight]
    %neg : [num_users=1] = call_function[target=operator.neg](args = (%input_1,), kwargs = {})
    %floordiv : [num_users=1] = call_function[target=operator.floordiv](args = (%n, 2), kwargs = {})
    %index : [num_users=1] = call_function[target=operator.abs](args = (%floordiv,), kwargs = {})
    %relu : [num_users=1] = call_method[target=relu](args = (%input_1,), kwargs = {})
    %layer : [num_users=1] = call_module[target=layer](args = (%relu,), kwargs = {alpha: -inf})
    %full : [num_users=1] = call_function[target=torch.ops.aten.full.default](args = ([2, %index], (1+2j)), kwargs = {dtype: torch.float32, device: cuda:1, pin_memory: False})
    return [full, layer, neg])");
}

TEST_CASE("ExecuTorch's targets are those of ATen, in either spelling") {
  for (std::string target : {"executorch.exir.dialects.edge._ops.aten.add.Tensor", "executorch_exir_dialects_edge__ops_aten_add_Tensor"}) {
    std::string text = "graph():\n    %x : Float(2) [num_users=1] = placeholder[target=x]\n"
                       "    %aten_add_tensor : [num_users=1] = call_function[target=" +
                       target + "](args = (%x, %x), kwargs = {})\n    return (aten_add_tensor,)";
    CHECK(to_string(parse_fx(text)) == text);
    CHECK(to_string(program_of(parse_fx(text)).graph).find(" = aten::add.Tensor(%x, %x)") != std::string::npos);
  }
  FxGraph code =
      parse_fx("def forward(self, x):\n    a = executorch_exir_dialects_edge__ops_aten__native_batch_norm_legit_no_training_default(x)\n"
               "    b = executorch_exir_dialects_edge__ops_my_unknown_op(x)\n    return (a, b)");
  CHECK(code.nodes[1].target == "executorch.exir.dialects.edge._ops.aten._native_batch_norm_legit_no_training.default");
  CHECK(code.nodes[2].target == "executorch.exir.dialects.edge._ops.my.unknown.op");
}

TEST_CASE("strides of an untyped text are torch's") {
  std::string lines;
  auto node = [&](std::string_view name, std::string_view op, std::string_view args) {
    lines += fmt::format("    %{} : [num_users=1] = call_function[target=torch.ops.aten.{}](args = ({}), kwargs = {{}})\n", name, op, args);
  };
  node("t", "t.default", "%x,");
  node("row", "select.int", "%t, 0, 3");
  node("twice", "mul.Tensor", "%t, 2");
  node("every", "slice.Tensor", "%t, 1, 0, 9, 2");
  node("wide", "expand.default", "%x, [2, -1, -1]");
  node("flat", "reshape.default", "%t, [-1]");
  node("halves", "split.Tensor", "%x, 3, 1");
  node("copied", "contiguous.default", "%y,");
  node("cloned", "clone.default", "%t,");
  node("dense", "contiguous.default", "%wide,");
  lines += "    %last : [num_users=1] = call_function[target=torch.ops.aten.clone.default](args = (%z,), kwargs = {memory_format: "
           "torch.channels_last})\n";
  Graph g = program_of(parse_fx("graph():\n    %x : Float(s0, 6) [num_users=1] = placeholder[target=x]\n"
                                "    %y : Float(2, 3, strides=[1, 2]) [num_users=1] = placeholder[target=y]\n"
                                "    %z : Float(2, 3, 4, 5) [num_users=1] = placeholder[target=z]\n" +
                                lines + "    return (t, row, twice, every, wide, flat, copied, cloned, dense, last)"))
                .graph;
  std::string text = to_string(g);
  for (std::string_view type :
       {"%t : Float(6, s0, strides=[1, 6])", "%row : Float(s0, strides=[6])", "%twice : Float(6, s0, strides=[1, 6])",
        "%wide : Float(2, s0, 6, strides=[0, 6, 1])", "%flat : Float(s0*6) ", ": Float(s0, 3, strides=[6, 1])", "%copied : Float(2, 3) ",
        "%cloned : Float(6, s0, strides=[1, 6])", "%dense : Float(2, s0, 6) ", "%last : Float(2, 3, 4, 5, strides=[60, 1, 15, 3])",
        "strides=[1, 12]"})
    CHECK_MESSAGE(text.find(type) != std::string::npos, std::string(type), " in ", text);
}

TEST_CASE("strides of inputs say what contiguous() copies") {
  auto first_result = [](std::string_view type) {
    std::string text = "graph():\n    %x : " + std::string(type) + R"( [num_users=2] = placeholder[target=x]
    %contiguous : [num_users=1] = call_function[target=torch.ops.aten.contiguous.default](args = (%x,), kwargs = {})
    %add_ : [num_users=1] = call_function[target=torch.ops.aten.add_.Tensor](args = (%contiguous, 1), kwargs = {})
    return (x, add_))";
    Tensor x(DType::F32, {2, 3});
    std::fill_n(x.data_as<float>(), 6, 5.0f);
    std::vector<Tensor> outputs;
    Program::parse(text).value().compile({.interpret = true}).value().run(std::vector{x}, outputs).check();
    return *outputs.at(0).data_as<float>();
  };
  CHECK(first_result("Float(2, 3)") == 6); // it is x itself
  CHECK(first_result("Float(2, 3, strides=[1, 2])") == 5);
}

} // namespace tenon::fx_text_test
