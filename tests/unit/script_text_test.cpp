#include <doctest/doctest.h>

#include "builtins/resolve.h"
#include "script/text.h"

namespace tenon::script_text_test {

using script::parse_script;
using script::Spelling;
using script::to_text;

TEST_CASE("script text: what torch prints today comes back as it was") {
  const char* text = R"(graph(%x.1 : Tensor,
      %h : (Tensor, Dict(str, int[])),
      %n : int?):
  %3 : Function = prim::Constant[name="cell"]()
  %4 : bool = prim::Constant[value=1]() # m.py:3:4
  %5 : int[] = prim::Constant[value=annotate(List[int], [])]()
  %6 : (int, bool, float) = prim::Constant[value=(-7, True, 3.)]()
  %7 : str = prim::Constant[value="a \"b\"\n"]()
  %8 : complex = prim::Constant[value=3.+-2.5j]()
  %9 : Long() = prim::Constant[value={3}]()
  %10 : NoneType = prim::Constant()
  %y : Float(2, *, strides=[3, 1]) = aten::relu(%x.1)
  %z : Tensor = prim::If(%4) # m.py:4:8
    block0():
      %w : Tensor = aten::neg(%y)
      -> (%w)
    block1():
      -> (%y)
  = prim::Print(%7)
  return (%z)
)";
  auto parsed = parse_script(text);
  CHECK(parsed.spelling == Spelling::Today);
  std::string again = to_text(parsed.graph);
  CHECK(to_text(parse_script(again).graph) == again);
  CHECK(again.find(" : int[] = prim::Constant[value=annotate(List[int], [])]()") != again.npos);
  CHECK(again.find("%h : (Tensor, Dict(str, int[]))") != again.npos);
  CHECK(again.find(") # m.py:4:8") != again.npos);
  CHECK(again.find("Float(2, *, strides=[3, 1])") != again.npos);
}

TEST_CASE("script text: the spelling of 2018") {
  const char* text = R"(graph(%a : Dynamic
      %b : Tuple
      %c : Dynamic) {
  %2 : int = prim::Constant[value=1]()
  %5 : Dynamic = prim::If(%c)
    block0() {
      %7 : Dynamic = aten::add(%a, %a, %2)
      -> (%7)
    }
    block1() {
      -> (%a)
    }
  %54 : World = prim::LoadWorld()
  return (%5);
}
)";
  auto parsed = parse_script(text);
  CHECK(parsed.spelling == Spelling::Of2018);
  CHECK(to_text(parsed.graph, Spelling::Of2018).find("%b : Tuple") != std::string::npos);
  std::string again = to_text(parsed.graph, parsed.spelling);
  CHECK(to_text(parse_script(again).graph, Spelling::Of2018) == again);
}

TEST_CASE("script text: errors name line and column") {
  auto message = [](const char* text) -> std::string {
    try {
      parse_script(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message("graph(%a : Tensor):\n  %b : Tensor = aten::neg(%c)\n  return (%b)").find("%c is not defined here") != std::string::npos);
  CHECK(message("graph(%a : Tensor):\n  %a : Tensor = aten::neg(%a)\n  return (%a)").find("defined twice") != std::string::npos);
  CHECK(message("graph(%a : Tensr):\n  return (%a)").find("no such type: Tensr") != std::string::npos);
  CHECK(message("graph(%a : Tensor):\n").find("expected 'return (...)'") != std::string::npos);
  CHECK(message("").find("expected 'graph'") != std::string::npos);
  std::string deep = "graph(%a : " + std::string(5000, '(');
  CHECK(message(deep.c_str()).find("nested too deeply") != std::string::npos);
}

TEST_CASE("overloads: by types, then with conversions") {
  Type tensor = Type::simple(TypeKind::Dynamic), i = Type::simple(TypeKind::Int), none = Type::simple(TypeKind::None);
  auto name = [](std::string_view op, std::vector<Given> args) { return resolve(op, args).signature->name; };
  CHECK(name("aten::add", {{tensor}, {tensor}}) == "aten::add.Tensor");
  CHECK(name("aten::add", {{tensor}, {i}}) == "aten::add.Scalar");
  CHECK(name("aten::add_", {{tensor}, {tensor}, {i, "alpha"}}) == "aten::add_.Tensor");
  CHECK(name("aten::sum", {{tensor}, {Type::list(i)}}) == "aten::sum.dim_IntList");
  CHECK(resolve("aten::view", std::vector<Given>{{tensor}, {i}}).args[1].from == Passed::From::List); // not a dtype
  Resolved view = resolve("aten::view", std::vector<Given>{{tensor}, {i}, {i}});
  CHECK(view.args[1].from == Passed::From::List);
  CHECK(view.args[1].count == 2);
  Resolved pool = resolve("aten::avg_pool2d", std::vector<Given>{{tensor}, {i}});
  CHECK(pool.args[1].from == Passed::From::Repeat);
  CHECK(pool.args[1].count == 2);
  CHECK(resolve("aten::select", std::vector<Given>{{tensor}, {i}, {tensor}}).args[2].convert == "aten::IntImplicit");
  std::string why;
  CHECK(!try_resolve("aten::mm", std::vector<Given>{{tensor}, {none}}, &why));
  CHECK(why.find("Expected a value of type 'Tensor' for argument 'mat2' but instead found type 'NoneType'.") != why.npos);
}

TEST_CASE("types: subtypes and what two have in common") {
  Type i = Type::simple(TypeKind::Int), none = Type::simple(TypeKind::None), s = Type::simple(TypeKind::String);
  CHECK(is_subtype(i, Type::optional(i)));
  CHECK(!is_subtype(Type::list(i), Type::list(Type::optional(i))));
  CHECK(is_subtype(Type::tuple({i, none}), Type::tuple({i, Type::optional(s)})));
  CHECK(is_subtype(i, Type::simple(TypeKind::Number)));
  CHECK(*unify(i, none) == Type::optional(i));
  CHECK(!unify(i, s));
  CHECK(annotation(Type::dict(s, Type::list(i))) == "Dict[str, List[int]]");
}

} // namespace tenon::script_text_test
