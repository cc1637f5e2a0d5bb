// Backends: what they take, how delegates run, what files and reports say of them. The backend of these tests interprets pointwise
// operators.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>

#include "tests/unit/graph_harness.h"

namespace tenon::backend_test {
using namespace tenon::test;

namespace {

struct Instruction { // of the pointwise backend: values are numbered, operands first
  enum Op : int32_t { Number, Add, Mul, Relu } op;
  int32_t a, b;
  float number;
};

std::atomic<int> opened = 0, closed = 0, executed = 0;

const char* pointwise_init(const void* bytes, size_t size, void*, void** handle) {
  if (size % sizeof(Instruction)) return "bytes of another make";
  auto* code = static_cast<const Instruction*>(bytes);
  *handle = new std::vector<Instruction>(code, code + size / sizeof(Instruction));
  opened++;
  return nullptr;
}
void pointwise_destroy(void* handle) { delete static_cast<std::vector<Instruction>*>(handle), closed++; }

int64_t elements(const tenon_tensor& t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t.rank; d++) n *= t.sizes[d];
  return n;
}

// Results are the last instructions. Each element is a body of its own for `parallel`.
const char* pointwise_execute(void* handle, const tenon_delegate_call* call) {
  executed++;
  struct Job {
    const std::vector<Instruction>& code;
    const tenon_delegate_call* call;
  } job{*static_cast<std::vector<Instruction>*>(handle), call};
  if (call->threads < 1) return "no threads";
  call->parallel(
      call, elements(call->outputs[0]),
      [](void* data, int64_t i) {
        auto& [code, c] = *static_cast<Job*>(data);
        std::vector<float> values;
        for (size_t k = 0; k < c->num_inputs; k++)
          values.push_back(static_cast<const float*>(c->inputs[k].data)[elements(c->inputs[k]) == 1 ? 0 : i]);
        for (const Instruction& in : code) {
          auto at = [&](int32_t n) { return values[static_cast<size_t>(n)]; };
          values.push_back(in.op == Instruction::Number ? in.number
                           : in.op == Instruction::Add  ? at(in.a) + at(in.b)
                           : in.op == Instruction::Mul  ? at(in.a) * at(in.b)
                                                        : std::max(at(in.a), 0.0F));
        }
        for (size_t k = 0; k < c->num_outputs; k++) static_cast<float*>(c->outputs[k].data)[i] = values[values.size() - c->num_outputs + k];
      },
      &job);
  return nullptr;
}

std::vector<std::byte> pointwise_preprocess(const ir::Graph& graph, const std::vector<std::string>&) {
  std::vector<Instruction> code;
  std::vector<ir::Value> values = graph.inputs();
  auto number_of = [&](const ir::Value& v) { return static_cast<int32_t>(std::find(values.begin(), values.end(), v) - values.begin()); };
  for (ir::Node n : graph.nodes()) {
    if (n.kind() == "edge::full.default") {
      auto fill = n.arg("fill_value");
      code.push_back({Instruction::Number, 0, 0, static_cast<float>(fill.is<double>() ? fill.get<double>() : double(fill.get<int64_t>()))});
    } else if (n.kind() == "edge::add.Tensor" || n.kind() == "edge::mul.Tensor")
      code.push_back(
          {n.kind() == "edge::add.Tensor" ? Instruction::Add : Instruction::Mul, number_of(n.input(0)), number_of(n.input(1)), 0});
    else if (n.kind() == "edge::relu.default") code.push_back({Instruction::Relu, number_of(n.input(0)), 0, 0});
    else throw std::runtime_error(n.kind() + " is none of mine");
    values.push_back(n.output());
  }
  code.push_back({Instruction::Number, 0, 0, 0}); // results once more, in their order
  size_t zero = values.size();
  values.emplace_back();
  for (ir::Value v : graph.outputs()) code.push_back({Instruction::Add, number_of(v), static_cast<int32_t>(zero), 0});
  auto bytes = std::as_bytes(std::span(code));
  return {bytes.begin(), bytes.end()};
}

Backend pointwise(const char* name) {
  return {.runtime = {name, pointwise_init, pointwise_execute, pointwise_destroy, nullptr},
          .partitioner = {.table = {{"aten::add.Tensor", {DType::F32}},
                                    {"aten::mul.Tensor", {DType::F32}},
                                    {"aten::relu.default", {DType::F32}}}},
          .preprocess = pointwise_preprocess};
}

/// (x*x + y) with relu, of any number of rows; twice, around a tanh that nobody takes, whose operand the second part reads too.
TestGraph diamond() {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(3)}), y = g.input({s, g.b.integer(3)});
  V a = g.b.call1("aten::relu.default", {x * x + y});
  V b = g.b.call1("aten::tanh.default", {a});
  g.returns(a * b + Arg(0.5));
  return g;
}

std::vector<std::vector<std::string>> parts(TestGraph& g, const Partitioner& p) {
  ir::Graph graph = g.program().graph("edge").value();
  std::vector<std::vector<std::string>> out;
  for (auto& part : partition(graph, p)) {
    out.emplace_back();
    for (ir::Node n : part) out.back().push_back(n.kind().substr(6, n.kind().rfind('.') - 6));
  }
  return out;
}

/// Native code with delegates, and the interpreter, against native code without.
void check_delegated(TestGraph& g, const std::string& backend, const std::vector<std::vector<Tensor>>& cases, int delegates) {
  Program plain = g.program(), program = plain.to_backend(backend).value();
  Executable exe = program.compile().value(), was = plain.compile().value(), interpreted = program.compile({.interpret = true}).value();
  CHECK(exe.stats().delegate_steps == delegates);
  for (auto& inputs : cases) {
    auto want = run(was, inputs), got = run(exe, inputs);
    int before = executed;
    auto meant = run(interpreted, inputs);
    CHECK(executed == before);
    for (size_t i = 0; i < want.size(); i++) {
      CHECK(difference(got[i], want[i]) == "");
      CHECK(difference(meant[i], want[i]) == "");
    }
  }
}

template <class R> std::string error_of(const R& result) { return result.ok() ? "" : result.error().what(); }

} // namespace

TEST_CASE("partitions have no path that leaves and comes back") {
  using Parts = std::vector<std::vector<std::string>>;
  TestGraph g = diamond();
  CHECK(parts(g, pointwise("").partitioner) == Parts{{"mul", "add", "relu"}, {"mul", "add"}});
  CHECK(parts(g, {.predicate = [](const ir::Node& n) { return n.kind() != "edge::relu.default"; }}) ==
        Parts{{"mul", "add"}, {"tanh", "mul", "add"}});
  CHECK(parts(g, {.predicate = [](const ir::Node&) { return true; }}) == Parts{{"mul", "add", "relu", "tanh", "mul", "add"}});
  CHECK(parts(g, {.table = {{"aten::mul.Tensor", {DType::F64}}}}).empty());
  ir::Rewrite fma{.inputs = 3, .pattern = [](ir::Graph& p, auto& x) {
                    return std::vector{p.insert("aten::add.Tensor", {p.insert("aten::mul.Tensor", {x[0], x[1]}), x[2]})};
                  }};
  CHECK(parts(g, {.patterns = {fma}, .merge = false}) == Parts{{"mul", "add"}, {"mul", "add"}});
  CHECK(parts(g, {.predicate = [](const ir::Node&) { return true; }, .patterns = {fma}, .merge = false}) ==
        Parts{{"mul", "add"}, {"relu"}, {"tanh"}, {"mul", "add"}});
  // Many short paths around: only every other node is taken, and all of them read the first.
  TestGraph ladder;
  V x = ladder.input({4}), first = x * x, v = first;
  for (int i = 0; i < 40; i++) v = ladder.b.call1("aten::tanh.default", {v * first});
  ladder.returns(v);
  CHECK(parts(ladder, pointwise("").partitioner).size() == 40); // the first product joins the second alone
}

TEST_CASE("parts of random graphs depend on each other without cycles, and mean the same") {
  static uint32_t salt;
  auto takes = [](const ir::Node& n) { return (std::hash<std::string>()(n.name()) ^ salt) % 5 < 3; };
  register_backend({.runtime = {"random", [](const void*, size_t, void*, void**) -> const char* { return nullptr; },
                                [](void*, const tenon_delegate_call*) -> const char* { return nullptr; }},
                    .partitioner = {.predicate = takes},
                    .preprocess = [](const ir::Graph& g, const std::vector<std::string>&) { return g.lint(), std::vector<std::byte>(); }})
      .check();
  std::mt19937 random(7);
  for (int round = 0; round < 60; round++) {
    salt = static_cast<uint32_t>(random());
    TestGraph g;
    std::vector<V> values{g.input({2})};
    for (size_t i = 0, n = 4 + random() % 40; i < n; i++) {
      V a = values[values.size() - 1 - random() % std::min<size_t>(values.size(), 6)], b = values[random() % values.size()];
      values.push_back(random() % 3 ? g.b.call1("aten::maximum.default", {a, b}) : g.b.call1("aten::tanh.default", {a}));
    }
    for (int i = 0; i < 3; i++) g.returns(values[values.size() - 1 - random() % 4]);
    ir::Graph graph = g.program().graph("edge").value();
    size_t wanted = 0, taken = 0;
    for (ir::Node n : graph.nodes()) wanted += takes(n);
    for (auto& part : partition(graph, {.predicate = takes})) taken += part.size();
    CHECK(taken == wanted);
    // A cycle would leave nodes before what they read, which the verifier refuses.
    Program delegated = g.program().to_backend("random").value();
    std::vector<Tensor> inputs{counting(DType::F32, {2}, 0.3)};
    auto want = run(g.program().compile({.interpret = true}).value(), inputs),
         got = run(delegated.compile({.interpret = true}).value(), inputs);
    for (size_t i = 0; i < want.size(); i++) CHECK(difference(got[i], want[i]) == "");
  }
}

TEST_CASE("nodes that cannot be delegated stay") {
  TestGraph g;
  V x = g.input({4}), mask = g.b.call1("aten::gt.Scalar", {x, 0});
  V some = g.b.call1("aten::masked_select.default", {x, mask}), random = g.b.call1("aten::rand_like.default", {x});
  g.returns(some + some);
  g.returns(random + x);
  for (auto& part : parts(g, {.predicate = [](const ir::Node&) { return true; }}))
    for (auto& op : part) CHECK((op != "masked_select" && op.find("rand") == op.npos));
}

TEST_CASE("delegates run as steps of any size, and the interpreter knows what they mean") {
  register_backend(pointwise("pointwise")).check();
  for (const char* verify : {"0", "1"}) {
    setenv("TENON_VERIFY", verify, 1);
    TestGraph g = diamond();
    auto rows = [](int64_t n) { return std::vector{counting(DType::F32, {n, 3}, -4), counting(DType::F32, {n, 3}, -9)}; };
    check_delegated(g, "pointwise", {rows(1), rows(5), rows(0), rows(700), rows(5)}, 2);
  }
  unsetenv("TENON_VERIFY");
  TestGraph data; // sizes that are known only while it runs
  V x = data.input({7}), some = data.b.call1("aten::masked_select.default", {x, data.b.call1("aten::gt.Scalar", {x, 2})});
  data.returns(data.b.call1("aten::relu.default", {some + some}));
  check_delegated(data, "pointwise", {{counting(DType::F32, {7})}, {counting(DType::F32, {7}, -9)}}, 1);
  TestGraph g = diamond();
  Program program = g.program();
  Program same = program.to_backend("pointwise").value().transform([](const std::string& text) { return text; }).value();
  CHECK(same.compile().value().stats().delegate_steps == 2); // what is printed reads back
  std::string edge = program.dump("edge", {.backends = {"pointwise"}}).value();
  CHECK(edge.find("prim::Delegate([%x0, %x1], %pointwise_0, [], \"pointwise\", \"mul add relu\")") != edge.npos);
  CHECK(program.dump("plan", {.backends = {"pointwise"}}).value().find("pointwise: mul add relu") != edge.npos);
  Executable exe = program.compile({.profile = true, .backends = {"pointwise"}}).value();
  run(exe, {counting(DType::F32, {2, 3}), counting(DType::F32, {2, 3})});
  std::string text = exe.explain();
  CHECK(text.find("delegate: mul add relu") != text.npos);
  CHECK(text.find("backend pointwise\n") != text.npos);
  CHECK(text.find("72 bytes") != text.npos);
  CHECK(exe.specialize(std::vector{counting(DType::F32, {2, 3}).view(), counting(DType::F32, {2, 3}).view()}).ok());
}

TEST_CASE("delegates in branches and loops, and of two backends") {
  register_backend(pointwise("pointwise")).check();
  register_backend({.runtime = {"sums", pointwise_init, pointwise_execute, pointwise_destroy, &opened},
                    .partitioner = {.table = {{"aten::add.Tensor"}}},
                    .preprocess = pointwise_preprocess})
      .check();
  TestGraph g;
  V x = g.input({4}), flag = g.b.call1("aten::gt.Scalar", {g.b.sum(x, {0}, false), 3});
  V y = if_(g, flag, [&] { return x * x + x; }, [&] { return x * Arg(3.0); }, x.type());
  g.returns(g.b.call1("aten::tanh.default", {y}));
  check_delegated(g, "pointwise", {{counting(DType::F32, {4})}, {counting(DType::F32, {4}, -9)}}, 2);
  TestGraph d = diamond();
  Program both = d.program().to_backend("sums").value().to_backend("pointwise").value();
  CHECK(both.compile().value().stats().delegate_steps == 5);
  CHECK(difference(run(both.compile().value(), {counting(DType::F32, {2, 3}), counting(DType::F32, {2, 3})})[0],
                   run(d.program().compile().value(), {counting(DType::F32, {2, 3}), counting(DType::F32, {2, 3})})[0]) == "");
}

TEST_CASE("a delegate reads state as an operand, and its new value is a result") {
  register_backend(pointwise("pointwise")).check();
  TestGraph g;
  V x = g.input({3}), total = g.buffer("total", counting(DType::F32, {3}, 1));
  V now = total + x * x;
  g.mutates("total", now);
  g.returns(g.b.call1("aten::relu.default", {now}));
  Executable exe = g.program().compile({.backends = {"pointwise"}}).value(), was = g.program().compile().value();
  CHECK(exe.stats().delegate_steps == 1);
  for (int i = 0; i < 3; i++) CHECK(difference(run(exe, {counting(DType::F32, {3})})[0], run(was, {counting(DType::F32, {3})})[0]) == "");
  CHECK(difference(exe.state()[0].tensor, was.state()[0].tensor) == "");
}

TEST_CASE("sizes that no operand has come with the call") {
  static std::vector<int64_t> seen;
  static std::vector<std::string> names;
  register_backend(
      {.runtime = {"sized", [](const void*, size_t, void*, void**) -> const char* { return nullptr; },
                   [](void*, const tenon_delegate_call* c) -> const char* {
                     seen.assign(c->sizes, c->sizes + c->num_sizes);
                     std::fill_n(static_cast<float*>(c->outputs[0].data), elements(c->outputs[0]), 7.0F);
                     return nullptr;
                   }},
       .partitioner = {.table = {{"aten::expand.default"}, {"aten::neg.default"}}},
       .preprocess = [](const ir::Graph&, const std::vector<std::string>& sizes) { return names = sizes, std::vector<std::byte>(); }})
      .check();
  TestGraph g;
  Expr s = g.symbol("s0"), t = g.symbol("s1");
  V x = g.input({s, g.b.integer(1)}), y = g.input({t});
  g.returns(g.b.call1("aten::neg.default", {g.b.expand(x, {s, t})}));
  g.returns(y + y);
  Executable exe = g.program().compile({.backends = {"sized"}}).value();
  auto out = run(exe, {counting(DType::F32, {2, 1}), counting(DType::F32, {5})});
  CHECK(names == std::vector<std::string>{"s1"});
  CHECK(seen == std::vector<int64_t>{5});
  CHECK(out[0].sizes() == std::vector<int64_t>{2, 5});
  CHECK(numbers(out[0]) == std::vector<double>(10, 7));
}

TEST_CASE("handles of equal bytes are one, for several programs, and are given back") {
  register_backend(pointwise("counted")).check();
  int before = opened, gone = closed;
  {
    TestGraph a = diamond(), b = diamond();
    Executable first = a.program().compile({.backends = {"counted"}}).value();
    CHECK(opened == before + 2);
    Executable second = b.program().compile({.backends = {"counted"}}).value(), third = first.copy();
    CHECK(opened == before + 2);
    CHECK(closed == gone);
  }
  CHECK(closed == gone + 2);
}

TEST_CASE("methods of one archive have delegates of their own") {
  Backend b = pointwise("methods");
  b.partitioner = {.predicate = [](const ir::Node& n) {
    auto inputs = n.inputs();
    bool constant = std::ranges::any_of(inputs, [](ir::Value v) { return v.node().kind() == "prim::Constant"; });
    return !constant && (n.kind() == "edge::add.Tensor" || n.kind() == "edge::relu.default");
  }};
  register_backend(b).check();
  for (const char* method : {"encode", "decode"}) {
    Program p = Program::load(std::string(TENON_FIXTURES) + "/graphs/methods.pt2", method).value();
    Executable exe = p.compile({.backends = {"methods"}}).value();
    CHECK(exe.stats().delegate_steps == 1);
    auto inputs = p.example_inputs().value();
    CHECK(difference(run(exe, inputs)[0], run(p.compile().value(), inputs)[0]) == "");
  }
}

TEST_CASE("a compiled file has the bytes of its delegates") {
  TestGraph g = diamond();
  std::vector<Tensor> inputs{counting(DType::F32, {2, 3}), counting(DType::F32, {2, 3}, -4)};
  std::string path = (std::filesystem::temp_directory_path() / fmt::format("tenon_backend_{}", getpid())).string();
  pid_t child = fork(); // the backend is known there alone
  if (child == 0)
    _exit(register_backend(pointwise("pointwise_file")).ok() && g.program().save_compiled(path, {.backends = {"pointwise_file"}}).ok() ? 0
                                                                                                                                       : 1);
  int status = 1;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  auto refused = Executable::load(path);
  CHECK(error_of(refused) == "the program has steps for the backend pointwise_file, which is not registered here");
  CHECK((refused.ok() || refused.error().kind == ErrorKind::Unsupported));
  register_backend({.runtime = pointwise("pointwise_file").runtime}).check(); // which is enough to run
  Executable exe = Executable::load(path).value();
  CHECK(exe.stats().delegate_steps == 2);
  CHECK(difference(run(exe, inputs)[0], run(g.program().compile().value(), inputs)[0]) == "");
  CHECK(error_of(g.program().to_backend("pointwise_file")).find("has no preprocess") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("errors of backends name them and their nodes") {
  auto says = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
  TestGraph g = diamond();
  std::vector<Tensor> inputs{counting(DType::F32, {2, 3}), counting(DType::F32, {2, 3})}, outputs;
  CHECK(says(error_of(g.program().to_backend("nobody")), "there is no backend nobody"));
  CHECK(says(error_of(g.program().compile({.backends = {"nobody"}})), "there is no backend nobody"));
  CHECK(says(error_of(register_backend({})), "without a name"));
  CHECK(says(error_of(register_backend({.runtime = {"half", pointwise_init}})), "half: init or execute is missing"));
  CHECK(says(error_of(load_backend_library("/no/such/library.so")), "/no/such/library.so"));
  Backend taken = pointwise("errors");
  register_backend(taken).check();
  taken.runtime.data = &opened;
  CHECK(says(error_of(register_backend(taken)), "errors is registered already"));
  Backend wrong = pointwise("errors");
  wrong.partitioner.table.push_back({"aten::tanh.default"});
  register_backend(wrong).check();
  CHECK(says(error_of(g.program().to_backend("errors")), "backend errors: mul add relu tanh mul add"));
  CHECK(says(error_of(g.program().to_backend("errors")), "edge::tanh.default is none of mine"));
  wrong.partitioner = taken.partitioner, wrong.preprocess = [](auto&, auto&) { return std::vector<std::byte>(3); };
  register_backend(wrong).check();
  CHECK(says(error_of(g.program().compile({.backends = {"errors"}})), "backend errors: mul add relu: bytes of another make"));
  Backend late = pointwise("late");
  late.runtime.execute = [](void*, const tenon_delegate_call*) -> const char* { return "not today"; };
  register_backend(late).check();
  Status s = g.program().compile({.backends = {"late"}}).value().run(inputs, outputs);
  CHECK(says(error_of(s), "backend late: mul add relu: not today"));
  Backend thrown = pointwise("thrown");
  thrown.runtime.execute = [](void*, const tenon_delegate_call*) -> const char* { throw std::runtime_error("a fit"); };
  register_backend(thrown).check();
  CHECK(says(error_of(g.program().compile({.backends = {"thrown"}}).value().run(inputs, outputs)), "backend thrown: mul add relu: a fit"));
}

} // namespace tenon::backend_test
