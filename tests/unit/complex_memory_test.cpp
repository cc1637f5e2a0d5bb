// Complex tensors and their parts in the same memory: inputs, results, state, what loops carry, what library steps make.
#include "base/strided.h"
#include "tests/unit/graph_harness.h"

namespace tenon::complex_memory_test {
using namespace tenon::test;

namespace {

constexpr const char* as_real = "aten::view_as_real.default";
constexpr const char* as_complex = "aten::view_as_complex.default";

Tensor complex_noise(DType t, std::vector<int64_t> sizes, int64_t seed) {
  Tensor x(t, std::move(sizes));
  auto part = [&](int64_t i) { return std::sin(static_cast<double>((i + seed) * (i + 7) % 1009)); };
  auto fill = [&](auto* z) {
    for (int64_t i = 0; i < x.numel(); i++)
      z[i] = {static_cast<decltype(z->re)>(part(2 * i)), static_cast<decltype(z->re)>(part(2 * i + 1))};
  };
  if (t == DType::C64) fill(x.data_as<C64>());
  else fill(x.data_as<C128>());
  return x;
}

// Graphs of two inputs, whose sizes are known, or not.
void over_sizes(const std::function<void(TestGraph&, V x, V y)>& build) {
  for (DType t : {DType::C64, DType::C128})
    for (auto [n, m] : {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {0, 4}, {7, 64}, {2, 257}, {129, 31}})
      for (bool known : {true, false}) {
        std::string name = fmt::format("{} of {} x {}, {}", name_of(t), n, m, known ? "known" : "open");
        CAPTURE(name);
        TestGraph g;
        std::vector<Expr> sizes{known ? g.b.integer(n) : g.symbol("n"), known ? g.b.integer(m) : g.symbol("m")};
        V x = g.input(sizes, t), y = g.input(sizes, t);
        build(g, x, y);
        std::vector<std::vector<Tensor>> calls{{complex_noise(t, {n, m}, 1), complex_noise(t, {n, m}, 2)}};
        if (!known) calls.push_back({complex_noise(t, {n + 1, 2 * m + 1}, 3), complex_noise(t, {n + 1, 2 * m + 1}, 4)});
        compare_each(g, calls, {{.threads = 1}, {.threads = 2}});
      }
}

} // namespace

TEST_CASE("complex arithmetic is one kernel over the program's own memory") {
  for (DType t : {DType::C64, DType::C128}) {
    TestGraph g;
    V x = g.input({33, 100}, t), y = g.input({33, 100}, t);
    g.returns(x * y + x);
    Executable exe = g.program().compile().value();
    CHECK(exe.stats().steps == 1);
    CHECK(exe.memory_formula().value().temporaries == "0");
    compare(g, {{complex_noise(t, {33, 100}, 5), complex_noise(t, {33, 100}, 6)}});
  }
}

TEST_CASE("results that are complex, are parts of such, or both") {
  over_sizes([](TestGraph& g, V x, V y) {
    V product = x * y, real = g.b.call1(as_real, {x});
    g.returns(product);
    g.returns(real);                                   // the input's memory
    g.returns(g.b.call1(as_complex, {real * Arg(2)})); // parts side by side already
    g.returns(g.b.call1(as_real, {product}));
    g.returns(g.b.real(x)), g.returns(g.b.imag(y)), g.returns(x);
    g.returns(g.b.call1("aten::cat.default", {ArgList{x, y, product}, 1}));
    g.returns(g.b.call1("aten::clone.default", {g.b.transpose(x, 0, 1)}));
    g.returns(g.b.sum(x, {1}, false));
  });
}

TEST_CASE("a result is read again as complex numbers and as parts") {
  over_sizes([](TestGraph& g, V x, V y) {
    V parts = g.b.call1("aten::stack.default", {ArgList{g.b.real(x) + g.b.real(y), g.b.imag(x)}, -1});
    V z = g.b.call1(as_complex, {parts});
    g.returns(z), g.returns(parts);
    g.returns(g.b.call1("aten::cumsum.default", {z, 1}));
    g.returns(g.b.sum(parts, {0}, false));
    g.returns(g.b.call1("aten::fft_fft.default", {z, Arg(), 0}) * y);
  });
}

TEST_CASE("library steps read the parts of each call's own tensors") {
  for (DType t : {DType::C64, DType::C128}) {
    TestGraph g;
    V x = g.input({6, 7}, t);
    g.returns(g.b.call1("aten::cumsum.default", {g.b.call1(as_real, {x}), 0}));
    g.returns(g.b.call1("aten::flip.default", {x, {1}}));
    compare(g, {{complex_noise(t, {6, 7}, 1)}, {complex_noise(t, {6, 7}, 2)}, {complex_noise(t, {6, 7}, 3)}});
  }
}

TEST_CASE("branches and loops carry complex numbers") {
  for (DType t : {DType::C64, DType::C128}) {
    TestGraph g;
    V x = g.input({5, 9}, t), count = g.input({}, DType::I64);
    auto out = while_(
        g, {x, count}, [&](const std::vector<V>& in) { return g.b.call1("aten::gt.Scalar", {in[1], 0}); },
        [&](const std::vector<V>& in) { return std::vector{in[0] * x + in[0], in[1] - g.b.full({}, 1, DType::I64)}; });
    g.returns(out[0]), g.returns(g.b.call1(as_real, {out[0]}));
    g.returns(if_(g, g.b.call1("aten::gt.Scalar", {count, 2}), [&] { return x * out[0]; }, [&] { return x; }, x.type()));
    std::vector<std::vector<Tensor>> calls;
    for (int64_t n : {0, 1, 2, 3, 6}) calls.push_back({complex_noise(t, {5, 9}, n), counting(DType::I64, {}, static_cast<double>(n))});
    compare(g, calls);
  }
}

TEST_CASE("complex state: its parts are the old ones until all steps are done") {
  for (DType t : {DType::C64, DType::C128}) {
    TestGraph g;
    V x = g.input({4, 6}, t), s = g.buffer("s", complex_noise(t, {4, 6}, 8));
    V now = s * x + s;
    g.mutates("s", now);
    g.returns(g.b.call1(as_real, {s})), g.returns(g.b.call1(as_real, {now})), g.returns(s + x);
    Tensor in = complex_noise(t, {4, 6}, 9);
    compare(g, {{in}, {in}, {in}});
  }
}

TEST_CASE("strided complex inputs, and results where the caller wants them") {
  for (DType t : {DType::C64, DType::C128}) {
    TestGraph g;
    V x = g.input({6, 8}, t);
    g.returns(x * x), g.returns(g.b.call1(as_real, {x}));
    Tensor wide = complex_noise(t, {8, 13}, 4);
    const int64_t sizes[] = {6, 8}, strides[] = {1, 13};
    TensorView view{t, wide.data(), sizes, strides};
    Executable native = g.program().compile().value(), oracle = g.program().compile({.interpret = true}).value();
    Tensor copy = complex_noise(t, {6, 8}, 0);
    copy_strided(view, copy.data());
    std::vector<Tensor> got, want = run(oracle, {copy});
    std::vector<TensorView> inputs{view};
    native.run(inputs, got).check();
    for (size_t i = 0; i < 2; i++) CHECK(difference(got[i], want[i]) == "");
    Tensor over(t, {6, 8}), parts(part_type(t), {6, 8, 2});
    std::vector<TensorView> outputs{over.view(), parts.view()};
    native.run(inputs, outputs).check();
    CHECK(difference(over, want[0]) == "");
    CHECK(difference(parts, want[1]) == "");
  }
}

} // namespace tenon::complex_memory_test
