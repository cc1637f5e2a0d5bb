// Custom operators: what registration refuses, and expressions against the same formula in built-in operators.
#include "tests/unit/graph_harness.h"

using namespace tenon;
using namespace tenon::test;

namespace {

const char* copy_first(const tenon_op_call* c) {
  if (c->num_ints != 5 || c->ints[0] != 0 || c->ints[2] != 2 || c->ints[3] != 7 || c->ints[4] != 9)
    return "the integers are not what was passed";
  if (c->num_inputs != 2 || c->inputs[0].rank != -1 || c->num_numbers != 1 || c->numbers[0] != 0.5)
    return "the operands are not what was passed";
  auto *x = static_cast<const float*>(c->inputs[1].data), *add = static_cast<const float*>(c->data);
  auto* out = static_cast<float*>(c->outputs[0].data);
  for (int64_t i = 0; i < c->outputs[0].sizes[0]; i++) out[i] = x[i] + *add;
  return nullptr;
}

const char* negate(const tenon_op_call* c) {
  auto* x = static_cast<const float*>(c->inputs[0].data);
  auto* out = static_cast<float*>(c->outputs[0].data);
  for (int64_t i = 0; i < c->outputs[0].sizes[0] * c->outputs[0].sizes[1]; i++) out[i] = -x[i];
  return nullptr;
}

std::string refused(const char* schema, const char* results, tenon_op_function function, const char* expression) {
  Status s = register_op({schema, results, function, nullptr, expression});
  if (s.ok()) return "";
  CHECK(s.error().kind == ErrorKind::BadInput);
  return s.error().what();
}

} // namespace

TEST_CASE("registration of custom operators") {
  auto says = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
  CHECK(says(refused("mine::a(Tensor x", "x", copy_first, nullptr), "expected"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", "x", nullptr, nullptr), "either a function or an expression"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, copy_first, "x"), "either a function or an expression"));
  CHECK(says(refused("aten::relu(Tensor x) -> Tensor", "x", copy_first, nullptr), "tenon's own"));
  CHECK(says(refused("relu(Tensor x) -> Tensor", "x", copy_first, nullptr), "namespace"));
  CHECK(says(refused("mine::a(Tensor x, str mode) -> Tensor", "x", copy_first, nullptr), "mode"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "x + y"), "unknown name y"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "gauss(x)"), "unknown function gauss"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "x x"), "more text"));
  CHECK(says(refused("mine::a(Tensor[] x) -> Tensor", nullptr, nullptr, "x"), "tensors and numbers only"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor[]", "x", copy_first, nullptr), "results are new tensors"));
  CHECK(refused("mine::twice(Tensor x) -> Tensor", nullptr, nullptr, "2*x") == "");
  CHECK(refused("mine::twice(Tensor x) -> Tensor", nullptr, nullptr, "2*x") == "");
  CHECK(says(refused("mine::twice(Tensor x) -> Tensor", nullptr, nullptr, "x + x"), "registered already"));
  CHECK(says(load_op_library("/no/such/library.so").error().what(), "/no/such/library.so"));
}

TEST_CASE("a custom expression is the formula, fused") {
  register_op({"mine::swish(Tensor x, Tensor y, float beta=1.0, int k=2) -> Tensor", nullptr, nullptr, nullptr,
               "select(x > 0.25, x*sigmoid(beta*y), -x/k) + 1"})
      .check();
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    TestGraph g;
    Expr s = g.symbol("s0");
    V x = g.input({s, g.b.integer(3)}, t), y = g.input({g.b.integer(3)}, t);
    V z = g.b.call1("mine::swish.default", {x * Arg(0.125), y, 1.5});
    V small = g.b.call1("aten::le.Scalar", {x * Arg(0.125), 0.25}), a = x * Arg(0.125);
    V formula = g.b.call1("aten::where.self", {small, -a / Arg(2), a * g.b.call1("aten::sigmoid.default", {y * Arg(1.5)})}) + Arg(1);
    g.returns(z);
    if (t == DType::F32) g.returns(formula);
    compare(g, {{counting(t, {5, 3}, -8), counting(t, {3}, -1)},
                {counting(t, {0, 3}), counting(t, {3})},
                {counting(t, {17, 3}, -20), counting(t, {3}, -1)}});
    if (t != DType::F32) continue;
    auto out = run(g.program().compile().value(), {counting(t, {17, 3}, -20), counting(t, {3}, -1)});
    for (size_t i = 0; i < 51; i++) CHECK(numbers(out[0])[i] == doctest::Approx(numbers(out[1])[i]).epsilon(1e-6));
    TestGraph chain;
    V v = chain.input({chain.symbol("s0"), chain.b.integer(3)});
    chain.returns(chain.b.call1("aten::tanh.default", {chain.b.call1("mine::swish.default", {v * v, v})}));
    CHECK(chain.program().compile().value().stats().kernels_compiled == 1);
  }
}

TEST_CASE("a custom function gets its arguments in schema order") {
  static const float add = 10;
  register_op({"mine::pick(Tensor? mask, Tensor x, int? a, int[] list, float f=0.5) -> Tensor", "f32[x.size(0) - list_begin]", copy_first,
               nullptr, nullptr})
      .check();
  TestGraph wrong; // the rule names what is no argument
  V x = wrong.input({wrong.b.integer(4)});
  CHECK_THROWS_WITH_AS(wrong.b.call("mine::pick.default", {Arg(), x, Arg(), ArgList{7, 9}}), doctest::Contains("unknown name list_begin"),
                       Error);
  register_op({"mine::pick.right(Tensor? mask, Tensor x, int? a, int[] list, float f=0.5) -> Tensor", "f32[x.size(-1) // 2]", copy_first,
               const_cast<float*>(&add), nullptr})
      .check();
  TestGraph g;
  Expr s = g.symbol("s0");
  g.returns(g.b.call1("mine::pick.right", {Arg(), g.input({s}), Arg(), ArgList{7, 9}}));
  compare(g, {{counting(DType::F32, {8})}, {counting(DType::F32, {1})}, {counting(DType::F32, {33})}});
  auto out = run(g.program().compile().value(), {counting(DType::F32, {8})});
  CHECK(numbers(out[0]) == std::vector<double>{10, 11, 12, 13});
}

TEST_CASE("a custom operator that a user's pass inserts") {
  register_op({"mine::soften(Tensor x, float by=2.0) -> Tensor", nullptr, nullptr, nullptr, "x / (1 + abs(x)*by)"}).check();
  register_op({"mine::copied(Tensor x) -> Tensor", "x", negate, nullptr, nullptr}).check();
  for (const char* verify : {"0", "1"}) {
    setenv("TENON_VERIFY", verify, 1);
    TestGraph g;
    Expr s = g.symbol("s0");
    V x = g.input({s, g.b.integer(4)});
    g.returns(g.b.call1("aten::abs.default", {x + x}));
    Program program = g.program();
    for (const char* call : {"mine::soften.default(%y, 0.5)", "mine::copied.default(%y)"}) {
      CAPTURE(std::string(call));
      auto changed = program.transform([&](std::string text) {
        size_t at = text.find("edge::abs.default(");
        REQUIRE(at != text.npos);
        std::string operand = text.substr(at + 18, text.find(')', at) - at - 18), to = call;
        to.replace(to.find("%y"), 2, operand);
        return text.replace(at, text.find(')', at) + 1 - at, to);
      });
      REQUIRE_MESSAGE(changed, (changed ? "" : std::string(changed.error().what())));
      auto native = changed.value().compile();
      REQUIRE_MESSAGE(native, (native ? "" : std::string(native.error().what())));
      Tensor in = counting(DType::F32, {3, 4}, -5);
      auto got = run(native.value(), {in}), want = run(changed.value().compile({.interpret = true}).value(), {in});
      CHECK(numbers(got[0]) == numbers(want[0]));
    }
  }
  unsetenv("TENON_VERIFY");
}
