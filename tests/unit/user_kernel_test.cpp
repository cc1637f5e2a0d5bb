// Kernels of the user: which nodes they take, what they are handed, what is said of the others.
#include <filesystem>

#include "tenon/tenon.h"
#include "tests/unit/graph_harness.h"

namespace tenon::user_kernel_test {
using namespace tenon::test;

namespace {

int calls = 0;

int64_t elements(const tenon_tensor& t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t.rank; d++) n *= t.sizes[d];
  return n;
}
// The element at a row-major position, wherever it lies.
float& at(const tenon_tensor& t, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = t.rank; d-- > 0; i /= t.sizes[d]) offset += i % t.sizes[d] * t.strides[d];
  return static_cast<float*>(t.data)[offset];
}

// Not quite the operators, so that results tell who computed them.
const char* shifted_copy(const tenon_op_call* c) { // the first tensor + 100, in results of its sizes
  calls++;
  for (int64_t i = 0; i < elements(c->outputs[0]); i++) at(c->outputs[0], i) = at(c->args[0].tensors[0], i) + 100;
  return nullptr;
}

const char* linear(const tenon_op_call* c) {
  calls++;
  const tenon_tensor &x = c->args[0].tensors[0], &w = c->args[1].tensors[0], &out = c->outputs[0];
  int64_t rows = elements(x) / x.sizes[x.rank - 1], depth = w.sizes[1], columns = w.sizes[0];
  for (int64_t i = 0; i < rows * columns; i++) {
    float sum = c->args[2].tensors ? at(c->args[2].tensors[0], i % columns) : 0;
    for (int64_t k = 0; k < depth; k++) sum += at(x, i / columns * depth + k) * at(w, i % columns * depth + k);
    at(out, i) = sum;
  }
  return nullptr;
}

const char* layer_norm(const tenon_op_call* c) { // over the last dim, with weight, without bias
  calls++;
  if (c->args[1].count != 1 || c->args[3].tensors || !c->args[4].numbers) return "other arguments than were passed";
  int64_t n = c->args[1].ints[0];
  const tenon_tensor& x = c->args[0].tensors[0];
  for (int64_t row = 0; row < elements(x) / n; row++) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += at(x, row * n + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; i++) square += std::pow(at(x, row * n + i) - mean, 2) / static_cast<double>(n);
    for (int64_t i = 0; i < n; i++)
      at(c->outputs[0], row * n + i) =
          static_cast<float>((at(x, row * n + i) - mean) / std::sqrt(square + c->args[4].numbers[0])) * at(c->args[2].tensors[0], i);
  }
  return nullptr;
}

const char* attention_of_equals(const tenon_op_call* c) { // where all keys are alike: the mean of the values
  calls++;
  const tenon_tensor &v = c->args[2].tensors[0], &out = c->outputs[0];
  int64_t keys = v.sizes[2], d = v.sizes[3];
  for (int64_t i = 0; i < elements(out); i++) {
    float sum = 0;
    for (int64_t k = 0; k < keys; k++) sum += at(v, (i / (out.sizes[2] * d) * keys + k) * d + i % d);
    at(out, i) = sum / static_cast<float>(keys);
  }
  return nullptr;
}

const char* largest(const tenon_op_call* c) { // of the last dim: values and positions
  calls++;
  const tenon_tensor& x = c->args[0].tensors[0];
  int64_t n = x.sizes[x.rank - 1];
  for (int64_t row = 0; row < elements(x) / n; row++) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
      if (at(x, row * n + i) > at(x, row * n + best)) best = i;
    at(c->outputs[0], row) = at(x, row * n + best);
    static_cast<int64_t*>(c->outputs[1].data)[row] = best;
  }
  return nullptr;
}

const char* fails(const tenon_op_call*) { return "it does not like it"; }

// Its operands must be in channels-last memory.
const char* pooled(const tenon_op_call* c) {
  calls++;
  const tenon_tensor& x = c->args[0].tensors[0];
  if (x.strides[1] != 1 || x.strides[3] != x.sizes[1] || c->outputs[0].strides[1] != 1) return "memory is not channels-last";
  for (int64_t i = 0; i < elements(c->outputs[0]); i++) at(c->outputs[0], i) = std::max(at(x, i), 0.f);
  return nullptr;
}

// Runs natively with and without the kernels, and in the interpreter; calls says how often the kernel ran.
void check(const TestGraph& g, const std::vector<Tensor>& inputs, const std::string& kernel, int expected_calls) {
  CAPTURE(kernel);
  Program p = g.program();
  auto native = p.compile({.kernels = {kernel}});
  REQUIRE_MESSAGE(native, (native ? "" : std::string(native.error().what())));
  calls = 0;
  auto got = run(native.value(), inputs);
  CHECK(calls == expected_calls);
  auto want = run(p.compile({.kernels = {kernel}, .interpret = true}).value(), inputs), own = run(p.compile().value(), inputs);
  CHECK(calls == expected_calls);
  for (size_t i = 0; i < want.size(); i++) {
    CHECK(difference(got[i], want[i]) == "");
    CHECK(difference(own[i], want[i]) == "");
  }
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string refused(const tenon_kernel& k) {
  Status s = register_kernel(k);
  return s.ok() ? "" : s.error().what();
}

void reg(const tenon_kernel& k) { register_kernel(k).check(); }

} // namespace

TEST_CASE("registration of kernels") {
  CHECK(says(refused({.name = "k::a", .op = "aten::nothing", .function = fails}), "no operator aten::nothing"));
  CHECK(says(refused({.name = "k::a", .op = "aten::relu_", .function = fails}), "there is no operator"));
  CHECK(says(refused({.name = "k::a", .op = "aten::nonzero", .function = fails}), "no kernel can compute aten::nonzero"));
  CHECK(says(refused({.name = "k::a", .op = "prim::If", .function = fails}), "no kernel can compute prim::If"));
  CHECK(says(refused({.name = "a", .op = "aten::relu", .function = fails}), "namespace::name"));
  CHECK(says(refused({.name = "k::a", .op = "aten::relu", .dtypes = "f32 f31", .function = fails}), "f31 is no dtype"));
  CHECK(says(refused({.name = "k::a", .op = "aten::relu", .layout = 3, .function = fails}), "no layout 3"));
  CHECK(says(refused({.name = "k::a", .op = "aten::relu"}), "a function"));
  CHECK(refused({.name = "k::a", .op = "aten::relu", .dtypes = "f32 f16", .function = fails}) == "");
  CHECK(refused({.name = "k::a", .op = "aten::relu", .dtypes = "f32 f16", .function = fails}) == "");
  CHECK(says(refused({.name = "k::a", .op = "aten::relu", .dtypes = "f32", .function = fails}), "registered already"));
  TestGraph g;
  g.returns(g.b.call1("aten::relu.default", {g.input({3})}));
  CHECK(says(g.program().compile({.kernels = {"k::none"}}).error().what(), "no kernel k::none is registered"));
}

TEST_CASE("a kernel takes the nodes of its dtypes, tenon the others, and explain tells") {
  reg({.name = "k::shifted", .op = "aten::gelu", .dtypes = "f32", .function = shifted_copy});
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(3)}), d = g.input({s}, DType::F64);
  auto named = [&](V v, const char* name) { return g.p.graph.value(v.id).name = name, v; };
  V first = named(g.b.call1("aten::gelu.default", {x * Arg(2)}), "first");
  V second = named(g.b.call1("aten::gelu.default", {d}), "second");
  g.returns(first + Arg(1)), g.returns(second);
  Program p = g.program();
  Executable exe = p.compile({.kernels = {"k::*"}}).value();
  calls = 0;
  for (int64_t n : {5, 1, 0, 17}) {
    std::vector<Tensor> in{counting(DType::F32, {n, 3}), counting(DType::F64, {n})};
    auto got = run(exe, in), own = run(p.compile().value(), in);
    for (int64_t i = 0; i < 3 * n; i++) CHECK(numbers(got[0])[static_cast<size_t>(i)] == 2 * static_cast<double>(i) + 101);
    CHECK(difference(got[1], own[1]) == "");
  }
  CHECK(calls == 4);
  std::string text = exe.explain();
  CAPTURE(text);
  CHECK(says(text, "aten::gelu.default by k::shifted"));
  CHECK(says(text, "kernel k::shifted of aten::gelu.default takes %first\n  not %second: self is f64\n"));
  CHECK(says(text, "kernel k::a of aten::relu.default takes no node\n"));
  Tensor a = counting(DType::F32, {5, 3}), b = counting(DType::F64, {5});
  std::vector<TensorView> in{a.view(), b.view()};
  CHECK(p.error_of({.kernels = {"k::*"}}, in).value() > 0.5); // beside tenon's own
}

TEST_CASE("kernels of operators that are fused, decomposed, or have several results") {
  reg({.name = "k::linear", .op = "aten::linear", .dtypes = "f32", .function = linear});
  reg({.name = "k::norm", .op = "aten::layer_norm", .dtypes = "f32", .function = layer_norm});
  reg({.name = "k::attention", .op = "aten::scaled_dot_product_attention", .function = attention_of_equals});
  reg({.name = "k::largest", .op = "aten::max.dim", .dtypes = "f32", .layout = TENON_ANY_LAYOUT, .function = largest});
  TestGraph g;
  V x = g.input({g.symbol("s0"), g.b.integer(8)}), w = g.input({4, 8}), bias = g.input({4}), scale = g.input({4});
  V y = g.b.call1("aten::relu.default", {g.b.call1("aten::linear.default", {x, w, bias})});
  V z = g.b.call1("aten::layer_norm.default", {y, ArgList{int64_t{4}}, scale});
  Values most = g.b.call("aten::max.dim", {g.b.transpose(z, 0, 1), 1});
  g.returns(z), g.returns(most[0]), g.returns(most[1]);
  for (int64_t n : {3, 1, 20}) {
    std::vector<Tensor> in{counting(DType::F32, {n, 8}, -4), counting(DType::F32, {4, 8}, -7), counting(DType::F32, {4}),
                           counting(DType::F32, {4}, 1)};
    for (const char* kernel : {"k::linear", "k::norm", "k::largest"}) check(g, in, kernel, 1);
    Program p = g.program();
    calls = 0;
    auto got = run(p.compile({.kernels = {"k::linear", "k::norm", "k::largest"}}).value(), in);
    CHECK(calls == 3);
    CHECK(difference(got[1], run(p.compile().value(), in)[1]) == "");
  }
  TestGraph a;
  V q = a.input({2, 3, 5, 4}), k = a.input({2, 3, 1, 4}), v = a.input({2, 3, 7, 4});
  a.returns(a.b.call1("aten::scaled_dot_product_attention.default", {q, a.b.expand(k, v.sizes()), v}));
  check(a, {counting(DType::F32, {2, 3, 5, 4}), counting(DType::F32, {2, 3, 1, 4}), counting(DType::F32, {2, 3, 7, 4})}, "k::attention", 1);
}

TEST_CASE("a kernel's layout is that of the first tensor as exported") {
  reg({.name = "k::nhwc", .op = "aten::relu", .layout = TENON_CHANNELS_LAST, .function = pooled});
  reg({.name = "k::any", .op = "aten::relu", .layout = TENON_ANY_LAYOUT, .function = shifted_copy});
  for (bool channels_last : {false, true}) {
    TestGraph g;
    V x = g.input({2, 3, 4, 5});
    if (channels_last) g.p.graph.value(x.id).type.strides = {g.b.integer(60), g.b.integer(1), g.b.integer(15), g.b.integer(3)};
    V y = g.b.call1("aten::relu.default", {x});
    g.p.graph.value(y.id).type.strides = g.p.graph.type(x.id).strides;
    g.returns(y), g.returns(y * y);
    std::vector<Tensor> in{counting(DType::F32, {2, 3, 4, 5}, -50)};
    check(g, in, "k::nhwc", channels_last ? 1 : 0);
    auto got = run(g.program().compile({.kernels = {"k::any"}}).value(), in);
    CHECK(numbers(got[0])[7] == 57);
    std::string nhwc = g.program().compile({.kernels = {"k::nhwc"}}).value().explain();
    CHECK(says(nhwc, "its memory is not channels-last") == !channels_last);
    std::string row_major = g.program().compile({.kernels = {"k::a"}}).value().explain();
    CHECK(says(row_major, "its memory is channels-last") == channels_last);
  }
}

TEST_CASE("a kernel that reports an error, and arguments that no function takes") {
  TestGraph g;
  V x = g.input({3});
  g.returns(g.b.call1("aten::relu.default", {x}));
  std::vector<Tensor> out, in{counting(DType::F32, {3})};
  Status s = g.program().compile({.kernels = {"k::a"}}).value().run(in, out);
  CHECK(s.error().what() == std::string("aten::relu.default by k::a: it does not like it"));
  reg({.name = "k::add", .op = "aten::add.Tensor", .function = shifted_copy});
  TestGraph h;
  h.returns(h.b.call1("aten::add.Tensor", {h.input({3}), 2}));
  Executable exe = h.program().compile({.kernels = {"k::add"}}).value();
  CHECK(says(exe.explain(), "argument other is a number instead of a tensor"));
  CHECK(numbers(run(exe, in)[0]) == std::vector<double>{2, 3, 4});
  reg({.name = "k::nhwc_add", .op = "aten::add.Tensor", .layout = TENON_CHANNELS_LAST, .function = shifted_copy});
  TestGraph c;
  V image = c.input({1, 2, 2, 2});
  c.p.graph.value(image.id).type.strides = {c.b.integer(8), c.b.integer(1), c.b.integer(4), c.b.integer(2)};
  c.returns(c.b.call1("aten::add.Tensor", {image, 2}));
  CHECK(says(c.program().compile({.kernels = {"k::nhwc_add"}}).value().explain(), "argument other is a number instead of a tensor"));
}

TEST_CASE("kernels in compiled files, and in programs whose graph a pass has made") {
  reg({.name = "k::shifted", .op = "aten::gelu", .dtypes = "f32", .function = shifted_copy});
  TestGraph g;
  g.returns(g.b.call1("aten::gelu.default", {g.input({3})}));
  std::vector<Tensor> in{counting(DType::F32, {3})};
  std::string path = std::filesystem::temp_directory_path() / fmt::format("kernels.{}.tenon", getpid());
  g.program().save_compiled(path, {.kernels = {"k::shifted"}}).check();
  Executable read = Executable::load(path).value();
  CHECK(numbers(run(read, in)[0]) == std::vector<double>{100, 101, 102});
  CHECK(says(read.explain(), "kernel k::shifted of aten::gelu.default takes"));
  std::filesystem::remove(path);

  TestGraph h;
  h.returns(h.b.call1("aten::relu.default", {h.input({3})}));
  reg({.name = "k::relu", .op = "aten::relu", .layout = TENON_ANY_LAYOUT, .function = shifted_copy});
  Program edge = h.program().transform([](const std::string& text) { return text; }).value();
  CHECK(numbers(run(edge.compile({.kernels = {"k::relu"}}).value(), in)[0]) == std::vector<double>{100, 101, 102});
}

} // namespace tenon::user_kernel_test
