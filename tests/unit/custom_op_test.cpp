// Custom operators: what registration refuses, and expressions against the same formula in built-in operators.
#include "tenon/tenon.h"
#include "tests/unit/graph_harness.h"

namespace tenon::custom_op_test {
using namespace tenon::test;

namespace {

const char* copy_first(const tenon_op_call* c) {
  const tenon_value *mask = c->args, *a = c->args + 2, *list = c->args + 3, *f = c->args + 4;
  if (c->num_args != 5 || list->name != std::string("list") || list->count != 2 || list->ints[0] != 7 || list->ints[1] != 9)
    return "the integers are not what was passed";
  if (mask->tensors || a->ints || f->count != 1 || f->numbers[0] != 0.5) return "the operands are not what was passed";
  auto *x = static_cast<const float*>(c->args[1].tensors[0].data), *add = static_cast<const float*>(c->data);
  auto* out = static_cast<float*>(c->outputs[0].data);
  for (int64_t i = 0; i < c->outputs[0].sizes[0]; i++) out[i] = x[i] + *add;
  return nullptr;
}

const char* negate(const tenon_op_call* c) {
  auto* x = static_cast<const float*>(c->args[0].tensors[0].data);
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
  CHECK(says(refused("mine::a(Tensor x, Any mode) -> Tensor", "x", copy_first, nullptr), "mode"));
  CHECK(says(refused("mine::a(Tensor x, str mode) -> Tensor", nullptr, nullptr, "x"), "tensors and numbers only"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "x + y"), "unknown name y"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "gauss(x)"), "unknown function gauss"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor", nullptr, nullptr, "x x"), "more text"));
  CHECK(says(refused("mine::a(Tensor[] x) -> Tensor", nullptr, nullptr, "x"), "tensors and numbers only"));
  CHECK(says(refused("mine::a(Tensor x) -> (Tensor, Tensor[])", "x", copy_first, nullptr), "results are new tensors"));
  CHECK(says(refused("mine::a(Tensor x) -> Tensor?", "x", copy_first, nullptr), "results are new tensors"));
  CHECK(says(refused("mine::a(Tensor x) -> str", "x", copy_first, nullptr), "results are new tensors"));
  CHECK(says(refused("mine::a(Tensor x) -> int", nullptr, nullptr, "x"), "one result"));
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

namespace {

const char* write_arguments(const tenon_op_call* c) { // how each argument arrived, as numbers
  auto* out = static_cast<double*>(c->outputs[0].data);
  const tenon_value* a = c->args;
  bool right = a[0].count == 2 && a[0].tensors[0].rank == -1 && a[0].tensors[1].rank == 2 && a[0].tensors[1].strides[0] == 3 &&
               a[1].texts[0] == std::string("fast") && a[2].count == 2 && a[2].texts[1] == std::string("b") && !a[3].texts &&
               a[4].ints[0] == static_cast<int64_t>(DType::I16) && a[5].texts[0] == std::string("cpu") &&
               a[6].texts[0] == std::string("channels_last") && a[7].numbers[1] == 2.5 && a[8].ints && a[8].count == 0 && !a[9].ints &&
               a[10].ints[0] == 1 && a[10].ints[1] == 1 && a[10].count == 2;
  for (size_t i = 0; i < c->num_args; i++) right = right && a[i].name;
  if (!right || c->num_args != 11) return "the arguments are not what was passed";
  out[0] = static_cast<double>(a[0].tensors[1].sizes[0]);
  return nullptr;
}

const char* statistics(const tenon_op_call* c) { // x + 1, sum, how many are positive, whether any is
  const tenon_tensor& x = c->args[0].tensors[0];
  double sum = 0;
  int64_t positive = 0;
  for (int64_t i = 0; i < x.sizes[0]; i++) {
    float v = static_cast<const float*>(x.data)[i];
    static_cast<float*>(c->outputs[0].data)[i] = v + 1, sum += v, positive += v > 0;
  }
  *static_cast<double*>(c->outputs[1].data) = sum;
  *static_cast<int64_t*>(c->outputs[2].data) = c->data ? -1 : positive;
  *static_cast<bool*>(c->outputs[3].data) = positive > 0;
  return nullptr;
}

const char* split(const tenon_op_call* c) { // the same elements in each result
  for (size_t k = 0; k < c->num_outputs; k++)
    for (int64_t i = 0; i < c->outputs[k].sizes[0]; i++)
      static_cast<float*>(c->outputs[k].data)[i] = static_cast<const float*>(c->args[0].tensors[0].data)[i] + static_cast<float>(k);
  return nullptr;
}

const char* scaled(const tenon_op_call* c) { // by its attributes
  double by = 1;
  for (size_t i = 0; i < c->num_attributes; i++) {
    const tenon_value& a = c->attributes[i];
    if (a.name == std::string("by")) by = a.numbers ? a.numbers[0] : static_cast<double>(a.ints[0]);
    if (a.name == std::string("mode") && a.texts[0] == std::string("negative")) by = -by;
    if (a.name == std::string("terms"))
      for (size_t k = 0; k < a.count; k++) by += static_cast<double>(a.ints[k]);
  }
  for (int64_t i = 0; i < c->outputs[0].sizes[0]; i++)
    static_cast<float*>(c->outputs[0].data)[i] = static_cast<const float*>(c->args[0].tensors[0].data)[i] * static_cast<float>(by);
  return nullptr;
}

void reg(const tenon_op& op) { register_op(op).check(); }

} // namespace

TEST_CASE("arguments of every type that a schema has reach a custom function") {
  reg({"mine::all(Tensor?[] xs, str mode, str[] names, str? tag, ScalarType dtype, Device device, MemoryFormat format, float[] numbers, "
       "int[]? none, int[]? missing, bool[2] flags) -> Tensor",
       "f64[1]", write_arguments, nullptr, nullptr});
  TestGraph g;
  V x = g.input({g.symbol("s0"), g.b.integer(3)});
  g.returns(g.b.call1("mine::all", {ArgList{Arg(), x}, "fast", ArgList{"a", "b"}, Arg(), DType::I16, Word{"cpu"}, Word{"channels_last"},
                                    ArgList{1.5, 2.5}, ArgList{}, Arg(), true}));
  compare(g, {{counting(DType::F32, {8, 3})}, {counting(DType::F32, {1, 3})}});
  CHECK(numbers(run(g.program().compile().value(), {counting(DType::F32, {8, 3})})[0]) == std::vector<double>{8});
}

TEST_CASE("numbers that a custom function gives are sizes and operands of what follows") {
  reg({"mine::statistics(Tensor x) -> (Tensor, float, SymInt, bool)", "x", statistics, nullptr, nullptr});
  TestGraph g;
  V x = g.input({g.symbol("s0")});
  Builder edge(g.p.graph, g.p.graph.top(), true); // as passes over Edge graphs call it
  g.p.is_edge = true;
  Values all = edge.call("mine::statistics", {edge.wrap(x)});
  REQUIRE(all.size() == 4);
  Expr sum = all[1].type().value, positive = all[2].type().value, any = all[3].type().value;
  g.returns(all[0] * Arg(sum)), g.returns(edge.full({positive}, Arg(any), DType::F32)), g.returns(Arg(positive)), g.returns(Arg(sum));
  compare(g, {{counting(DType::F32, {8}, -3)}, {counting(DType::F32, {3}, 1)}, {counting(DType::F32, {2}, -5)}});
  auto out = run(g.program().compile().value(), {counting(DType::F32, {5}, -2)});
  CHECK(out[1].sizes() == std::vector<int64_t>{2});
  CHECK(numbers(out[2]) == std::vector<double>{2});
  CHECK(numbers(out[3]) == std::vector<double>{0});

  static int negative = 1;
  reg({"mine::negative(Tensor x) -> (Tensor, float, SymInt, bool)", "x", statistics, &negative, nullptr});
  TestGraph n;
  x = n.input({4});
  Builder b(n.p.graph, n.p.graph.top(), true);
  n.p.is_edge = true;
  n.returns(b.full({b.call("mine::negative", {x})[2].type().value}, 1, DType::F32));
  for (bool interpret : {false, true}) {
    std::vector<Tensor> got, in{counting(DType::F32, {4})};
    Status s = n.program().compile({.interpret = interpret}).value().run(in, got);
    REQUIRE(!s.ok());
    CHECK(s.error().kind == ErrorKind::BadInput);
  }
}

TEST_CASE("what a custom function gives must be what the export took for known") {
  reg({"mine::statistics(Tensor x) -> (Tensor, float, SymInt, bool)", "x", statistics, nullptr, nullptr});
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s});
  const OpDef* def = find_op("mine::statistics");
  Expr unknown = g.b.pool().symbol("zuf0", DType::F64), any = g.b.pool().symbol("u7", DType::I64);
  std::vector<Type> recorded{x.type(), Type::scalar(TypeKind::Float, unknown), Type::scalar(TypeKind::Int, s - 1.0),
                             Type::scalar(TypeKind::Bool, eq(any, g.b.integer(1)))};
  NodeId node = g.p.graph.append(g.b.block(), Node{.op = def->signature.name, .def = def, .args = {Arg(x)}}, recorded);
  g.returns(g.b.wrap(g.p.graph.node(node).outputs[0]) * Arg(unknown)), g.returns(g.b.full({s - 1.0}, Arg(any), DType::I64));
  compare(g, {{counting(DType::F32, {8})}, {counting(DType::F32, {2})}}); // all but one are positive
  for (bool interpret : {false, true}) {
    std::vector<Tensor> got, in{counting(DType::F32, {4}, 1)};
    Status all_positive = g.program().compile({.interpret = interpret}).value().run(in, got);
    REQUIRE(!all_positive.ok());
    CHECK(std::string(all_positive.error().what()).find("another number than the program was exported with") != std::string::npos);
  }
}

TEST_CASE("lists that a custom function gives") {
  reg({"mine::split(Tensor x, int n) -> Tensor[]", "x * n; f32[1]", split, nullptr, nullptr});
  reg({"mine::each(Tensor[] xs) -> Tensor[]", "xs", split, nullptr, nullptr});
  TestGraph g;
  V x = g.input({g.symbol("s0", 1)});
  Values parts = g.b.call("mine::split", {x, 2}), each = g.b.call("mine::each", {ArgList{x, x, x}});
  REQUIRE(parts.size() == 3);
  REQUIRE(each.size() == 3);
  for (V v : parts) g.returns(v + Arg(1));
  g.returns(each[2]);
  compare(g, {{counting(DType::F32, {8})}, {counting(DType::F32, {1})}});
  CHECK(numbers(run(g.program().compile().value(), {counting(DType::F32, {2})})[3]) == std::vector<double>{2, 3});
  TestGraph wrong;
  x = wrong.input({4});
  CHECK_THROWS_WITH_AS(wrong.b.call("mine::split", {x, -1}), doctest::Contains("-1 results"), Error);
  CHECK_THROWS_WITH_AS(wrong.b.call("mine::split", {x, wrong.symbol("s1")}), doctest::Contains("known at compile time"), Error);
}

TEST_CASE("attributes of nodes reach a custom function") {
  reg({"mine::scaled(Tensor x) -> Tensor", "x", scaled, nullptr, nullptr});
  for (const char* dialect : {"aten", "edge"}) {
    CAPTURE(std::string(dialect));
    TestGraph g;
    V x = g.input({3});
    V a = g.b.call1("mine::scaled", {x}), b = g.b.call1("mine::scaled", {x});
    g.returns(a), g.returns(b), g.returns(g.b.call1("mine::scaled", {x}));
    ir::PassManager passes(dialect);
    auto set = [](ir::Graph& graph) {
      std::vector<ir::Node> nodes;
      for (ir::Node n : graph.nodes())
        if (n.kind() == "mine::scaled.default") nodes.push_back(n);
      nodes[0].setAttribute("by", 7), nodes[0].setAttribute("by", 2.5), nodes[0].setAttribute("mode", "negative");
      nodes[1].setAttribute("terms", ir::Arg::List{1, true}), nodes[1].setAttribute("nothing", {});
      CHECK_THROWS_WITH_AS(nodes[1].setAttribute("x", ir::Arg::List{1, "a"}), doctest::Contains("setAttribute: x"), Error);
      CHECK(nodes[0].attributes().size() == 2);
      return true;
    };
    passes.add("attributes", set);
    Program changed = g.program().transform(passes).value();
    for (bool interpret : {false, true}) {
      auto out = run(changed.compile({.interpret = interpret}).value(), {counting(DType::F32, {3}, 1)});
      CHECK(numbers(out[0]) == std::vector<double>{-2.5, -5, -7.5});
      CHECK(numbers(out[1]) == std::vector<double>{3, 6, 9});
      CHECK(numbers(out[2]) == std::vector<double>{1, 2, 3});
    }
  }
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

} // namespace tenon::custom_op_test
