// Operators of TorchScript that are registered at run time.
#include <doctest/doctest.h>

#include "tenon/tenon.h"
#include "tests/unit/load_samples.h"

namespace tenon::operator_test {

namespace {

Tensor number(float v) {
  Tensor t(DType::F32, {});
  *t.data_as<float>() = v;
  return t;
}
float at(const IValue& v) { return *v.to_tensor().data_as<float>(); }
IValue run(const std::string& body, std::vector<IValue> args, const std::string& params = "x: torch.Tensor") {
  return Script::compile("import torch\nfrom typing import *\ndef f(" + params + "):\n    return " + body + "\n", "f")
      .value()
      .call(std::move(args))
      .value();
}
std::string refusal(const Status& s) {
  REQUIRE_FALSE(s.ok());
  CHECK(s.error().kind == ErrorKind::BadInput);
  return s.error().what();
}

} // namespace

TEST_CASE("operators: a function on the stack, called from source, text and graphs") {
  register_operator("stacked::add(Tensor x, int n=2) -> (Tensor, int)", [](Stack& stack) {
    Tensor x;
    int64_t n = 0;
    pop(stack, x, n);
    push(stack, number(*x.data_as<float>() + static_cast<float>(n)), n + 1);
  }).check();
  IValue r = run("torch.ops.stacked.add(x, 3)", {number(1)});
  CHECK(at(r.to_tuple()[0]) == 4);
  CHECK(r.to_tuple()[1].to_int() == 4);
  CHECK(run("torch.ops.stacked.add(x)[1]", {number(1)}).to_int() == 3);
  CHECK(run("torch.ops.stacked.add(n=5, x=x)[1]", {number(1)}).to_int() == 6);
  Script text = Script::parse(R"(graph(%x : Tensor, %n : int):
  %y : Tensor, %m : int = stacked::add(%x, %n)
  return (%y, %m))")
                    .value();
  CHECK(text(number(1), 7).to_tuple()[1].to_int() == 8);
  Script traced = trace([](Var x) { return Var::calls("stacked::add", x, 4)[0] * 2; }, {ir::Type::tensor(DType::F32, {})});
  CHECK(at(traced(number(1))) == 10);
  auto wrong = Script::compile("import torch\ndef f(x):\n    return torch.ops.stacked.add('a')\n", "f");
  REQUIRE_FALSE(wrong.ok());
  CHECK(has(wrong.error().what(), "Expected a value of type 'Tensor' for argument 'x'"));
  auto unknown = Script::compile("import torch\ndef f(x):\n    return torch.ops.stacked.other(x)\n", "f");
  CHECK_FALSE(unknown.ok());
}

TEST_CASE("operators: attributes of the node make the operation") {
  static int made = 0;
  register_operator("scaled::mul(Tensor x) -> Tensor", [](const ir::Node& node) -> Operation {
    made++;
    double factor = node.hasAttribute("factor") ? node.f("factor") : 1;
    CHECK(node.inputs().size() == 1);
    return [factor](Stack& stack) { push(stack, number(*pop<Tensor>(stack).data_as<float>() * static_cast<float>(factor))); };
  }).check();
  Script f = Script::parse(R"(graph(%x : Tensor):
  %y : Tensor = scaled::mul[factor=2.5](%x)
  %z : Tensor = scaled::mul[factor=4.](%y)
  return (%z))")
                 .value();
  CHECK(made == 2);
  CHECK(at(f(number(1))) == 10);
  CHECK(at(f(number(2))) == 20);
  CHECK(made == 2);
  ir::Graph g("script");
  ir::Node node = g.insert("scaled::mul", {g.addInput(ir::Type::dynamic())}).node();
  node.f_("factor", 3);
  g.registerOutput(node.output());
  CHECK(at(Script::from(g).value()(number(1))) == 3);
}

TEST_CASE("operators: functions of C++ values, overloads, lists, strings, dicts and None") {
  register_operator("typed::join(str[] words, str? between=None) -> str", [](std::vector<std::string> words,
                                                                             std::optional<std::string> between) {
    std::string s;
    for (auto& w : words) s += (s.empty() ? "" : between.value_or("-")) + w;
    return s;
  }).check();
  CHECK(run("torch.ops.typed.join(['a', 'b'])", {}, "").to_string() == "a-b");
  CHECK(run("torch.ops.typed.join(['a', 'b'], '+')", {}, "").to_string() == "a+b");
  register_operator("typed::twice.int(int n) -> int", [](int64_t n) { return 2 * n; }).check();
  register_operator("typed::twice.list(int[] n) -> int[]", [](std::vector<int64_t> n) {
    for (int64_t& e : n) e *= 2;
    return n;
  }).check();
  CHECK(run("torch.ops.typed.twice(4)", {}, "").to_int() == 8);
  CHECK(run("torch.ops.typed.twice([4, 5])[1]", {}, "").to_int() == 10);
  register_operator("typed::count(Dict(str, int) d, str key) -> int?", [](IValue d, std::string key) -> std::optional<int64_t> {
    const IValue* n = d.find(key);
    return n ? std::optional(n->to_int()) : std::nullopt;
  }).check();
  CHECK(run("torch.ops.typed.count({'a': 3}, 'a')", {}, "").to_int() == 3);
  CHECK(run("torch.ops.typed.count({'a': 3}, 'b')", {}, "").is_none());
  static int64_t noted = 0;
  register_operator("typed::note(int n) -> ()", [](int64_t n) { noted += n; }).check();
  Script f = Script::compile("import torch\ndef f(n: int):\n    for i in range(n):\n        torch.ops.typed.note(i)\n", "f").value();
  f(4);
  CHECK(noted == 6);
  register_operator("typed::pair(int n) -> (int, float)", [](int64_t n) { return std::tuple(n, 0.5); }).check();
  CHECK(run("torch.ops.typed.pair(4)[1]", {}, "").to_double() == 0.5);
}

TEST_CASE("operators: what is registered wrongly, and what goes wrong in one") {
  auto nothing = [](Stack&) {};
  CHECK(has(refusal(register_operator("bad::a(Tensor x -> Tensor", nothing)), "line 1"));
  CHECK(has(refusal(register_operator("aten::mine(Tensor x) -> Tensor", nothing)), "namespace of its own"));
  CHECK(has(refusal(register_operator("mine(Tensor x) -> Tensor", nothing)), "namespace of its own"));
  CHECK(has(refusal(register_operator("bad::b(...) -> Tensor", nothing)), "has types"));
  CHECK(has(refusal(register_operator("bad::c(Tensor x) -> Tensor", Operation())), "without a function"));
  CHECK(has(refusal(register_operator("bad::d(Tensor x) -> Tensor", [](Tensor x, int64_t) { return x; })),
            "1 arguments, the function takes 2"));
  CHECK(
      has(refusal(register_operator("bad::e(Tensor x) -> (Tensor, int)", [](Tensor x) { return x; })), "2 results, the function gives 1"));
  register_operator("bad::twice(int n) -> int", nothing).check();
  CHECK(has(refusal(register_operator("bad::twice(int n) -> int", nothing)), "registered already"));
  register_op({.schema = "bad::gate(Tensor x) -> Tensor", .expression = "x*2"}).check();
  CHECK(has(refusal(register_operator("bad::gate(Tensor x) -> Tensor", nothing)), "with another meaning"));
  CHECK(at(run("torch.ops.bad.gate(x)", {number(3)})) == 6); // scripts call those, too

  auto raised = [](const std::string& body) {
    auto r = Script::compile("import torch\ndef f(n: int):\n    return torch.ops." + body + "\n", "f", "op.py").value().call({1});
    REQUIRE_FALSE(r.ok());
    CHECK(r.error().kind == ErrorKind::BadInput);
    CHECK(r.error().where == "op.py:3:11");
    return std::string(r.error().what());
  };
  register_operator("bad::throws(int n) -> int", [](int64_t) -> int64_t { throw std::runtime_error("no such row"); }).check();
  CHECK(has(raised("bad.throws(n)"), "bad::throws.default: no such row"));
  register_operator("bad::many(int n) -> int", [](Stack& s) { push(s, int64_t{1}); }).check();
  CHECK(has(raised("bad.many(n)"), "leaves 2 values on the stack, its schema gives 1"));
  register_operator("bad::kind(int n) -> int", [](Stack& s) { pop<int64_t>(s), push(s, std::string("a")); }).check();
  CHECK(has(raised("bad.kind(n)"), "result 0 of bad::kind.default: expected a value of type 'int' but instead found type 'str'"));
  register_operator("bad::pops(int n) -> int", [](Stack& s) { pop<std::string>(s), push(s, 1); }).check();
  CHECK(has(raised("bad.pops(n)"), "not a String"));
  register_operator("bad::under(int n) -> int", [](Stack& s) { pop<int64_t>(s), pop<int64_t>(s), push(s, 1); }).check();
  CHECK(has(raised("bad.under(n)"), "more values are popped"));
}

TEST_CASE("operators: a shared library has a table of them") {
  const std::string path = TENON_TESTED_OPERATORS;
  load_op_library(path).check();
  load_op_library(path).check(); // the same ones
  CHECK(run("torch.ops.library.repeat(['a', 'b'], 2)", {}, "").to<std::vector<std::string>>() ==
        std::vector<std::string>{"a", "b", "a", "b"});
  Script f = Script::parse("graph(%n : int):\n  %m : int = library::offset[by=40](%n)\n  return (%m)").value();
  CHECK(f(2).to_int() == 42);
  CHECK(has(refusal(load_op_library("/no/such/library.so")), "a library of operators"));
}

} // namespace tenon::operator_test
