// FX text: what torch printed comes back unchanged; it becomes a graph that runs; graphs are written as FX.
#include <doctest/doctest.h>

#include <filesystem>

#include "compile/compile.h"
#include "fx/from_graph.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "load/load.h"
#include "load_samples.h"

using namespace tenon;

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
  return error_of([&] { parse_fx(text); });
}

} // namespace

TEST_CASE("FX text comes back unchanged") { CHECK(to_string(parse_fx(printed)) == printed); }

TEST_CASE("FX text with types becomes a graph") {
  std::string text(printed);
  text.replace(text.find("%p_weight : "), 12, "%p_weight : Float(4, 3) ");
  text.replace(text.find("%x : "), 5, "%x : Float(2, 3) ");
  CHECK(to_string(parse_fx(text)) == text);
  LoadedProgram p = program_of(parse_fx(text));
  verify(p.graph, Dialect::Aten);
  auto& returns = p.graph.block(p.graph.top()).returns;
  REQUIRE(returns.size() == 3);
  CHECK(to_string(p.graph.type(returns[1].get<ValueId>())) == "Double(2, 2)");
  CHECK(p.inputs.size() == 2);
  // And back: the same but for what FX does not say.
  std::string again = to_string(fx_of(p.graph));
  CHECK(to_string(parse_fx(again)) == again);
  CHECK(to_string(program_of(parse_fx(again)).graph) == to_string(p.graph));
  CHECK(error_of([&] { program_of(parse_fx(printed)); }).find("%p_weight has no type") == 0);
}

TEST_CASE("FX text that is wrong is refused with its line") {
  CHECK(refused("graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return y").find("line 3: %y is not defined here") == 0);
  CHECK(refused("graph():\n    %x : [num_users=1] = nothing[target=x]\n    return x").find("no such kind") != std::string::npos);
  CHECK(refused("graph():\n    return " + std::string(100000, '(')).find("nested too deeply") != std::string::npos);
  CHECK(refused("graph():\n    %x : [num_users=1] = placeholder[target=x]\n").find("without 'return'") != std::string::npos);
  CHECK(refused("").find("expected 'graph'") != std::string::npos);
}
